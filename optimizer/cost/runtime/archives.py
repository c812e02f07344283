"""Archives of arrays by names, as ``numpy.savez`` writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import numpy as np

if TYPE_CHECKING:
    from superopt.optimizer.cost.runtime.session import Array


def write_archive(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays by any names; ``numpy.savez`` takes no array that is called ``file``."""
    with ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


__all__ = ["write_archive"]
