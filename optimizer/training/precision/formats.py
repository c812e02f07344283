"""Floating-point formats of 16 bits: rounding errors and ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from superopt.domains import Array

LowPrecision: TypeAlias = Literal["bf16", "f16"]


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A binary floating-point format: bits of the significand with the leading one, the largest number, and
    the distance between its smallest numbers."""

    name: LowPrecision
    digits: int
    largest: float
    spacing: float

    @property
    def unit(self) -> float:
        """The unit roundoff: the largest relative error of rounding to nearest."""
        return 2.0**-self.digits

    @property
    def relative_variance(self) -> float:
        """The mean square of the relative error of rounding numbers whose logarithms are spread evenly: the
        error is uniform within unit / m for a significand m from 1 to 2, which gives unit^2 / (8 log 2)."""
        return self.unit**2 / (8 * math.log(2))

    def variances(self, values: Array, scale: float = 1.0) -> Array:
        """The mean square of the error of rounding each number times ``scale``, over ``scale``: relative, but
        absolute below the smallest number with all digits."""
        numbers = values.astype(np.float64)
        normal = numbers * numbers * self.relative_variance
        smallest = self.spacing * 2.0 ** (self.digits - 1) / scale
        tiny = (self.spacing / scale) ** 2 / 12
        return np.where(np.abs(numbers) < smallest, np.where(numbers == 0, 0.0, tiny), normal)


FORMATS: Mapping[LowPrecision, NumberFormat] = {
    "bf16": NumberFormat("bf16", 8, (2 - 2.0**-7) * 2.0**127, 2.0**-133),
    "f16": NumberFormat("f16", 11, 65504.0, 2.0**-24),
}
