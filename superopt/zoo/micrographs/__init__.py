"""Small graphs as exporters produce them, each with a hand-optimised version.

Graphs of the first table can be made faster on a CPU than ONNX Runtime's full optimisation makes them; those
of the second have rewrites that pay on other devices and lose here.
"""

from __future__ import annotations

from collections.abc import Mapping

from superopt.zoo.micrographs import images, moves, products
from superopt.zoo.micrographs.sketch import Micrograph

WITH_HEADROOM: Mapping[str, Micrograph] = {
    **products.WITH_HEADROOM,
    **images.WITH_HEADROOM,
    **moves.WITH_HEADROOM,
}
WITHOUT_HEADROOM: Mapping[str, Micrograph] = {**products.WITHOUT_HEADROOM, **images.WITHOUT_HEADROOM}
