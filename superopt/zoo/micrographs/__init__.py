"""Small graphs as exporters leave them, each with the version that a person would write by hand beside it.

Graphs of the first table leave head-room over ONNX Runtime's full optimisation of them on a CPU; those of the
second are rewritten by hand in ways that pay on other devices and lose here.
"""

from __future__ import annotations

from collections.abc import Mapping

from superopt.zoo.micrographs import images, products
from superopt.zoo.micrographs.sketch import Micrograph

WITH_HEADROOM: Mapping[str, Micrograph] = {**products.WITH_HEADROOM, **images.WITH_HEADROOM}
WITHOUT_HEADROOM: Mapping[str, Micrograph] = {**products.WITHOUT_HEADROOM, **images.WITHOUT_HEADROOM}
