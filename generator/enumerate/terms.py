"""Recorded terms as columns: instance, argument classes, own class, size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superopt.generator.enumerate.joins import Indices

MAX_ARITY = 3


@dataclass(frozen=True, slots=True)
class TermTable:
    """[n] terms: instance (-1: input or constant), classes of its arguments (-1: none), class, size."""

    instances: Indices
    arguments: Indices
    classes: Indices
    sizes: npt.NDArray[np.int8]


def joined(blocks: Sequence[TermTable]) -> TermTable:
    """Concatenates tables."""
    return TermTable(
        np.concatenate([block.instances for block in blocks]),
        np.concatenate([block.arguments for block in blocks]),
        np.concatenate([block.classes for block in blocks]),
        np.concatenate([block.sizes for block in blocks]),
    )


def padded(arguments: Indices) -> Indices:
    """[n, MAX_ARITY], -1 where there is no argument."""
    full = np.full((len(arguments), MAX_ARITY), -1, np.int32)
    full[:, : arguments.shape[1]] = arguments
    return full
