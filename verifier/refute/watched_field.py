"""Residues modulo a prime, and what of their evaluation does not hold for real numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from superopt.domains import FieldArray, PrimeFieldDomain
from superopt.domains.prime_field import MODULUS


class WatchedField(PrimeFieldDomain):
    """Domain that records whether a function was evaluated that is partial or not a ring operation, whether
    one was arbitrary, and which elements depend on a division by 0, or on the root of a non-square or of a
    negative shadow. The shadow of such elements is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ring = True
        self.has_arbitrary_functions = False
        self.met_undefined = False

    def reciprocal(self, array: FieldArray) -> FieldArray:
        self.is_ring = False
        return self._marked(super().reciprocal(array), array.residue == 0)

    def sqrt(self, array: FieldArray) -> FieldArray:
        self.is_ring = False
        self.has_arbitrary_functions = True
        root = super().sqrt(array)
        no_square = root.residue * root.residue % MODULUS != array.residue
        return self._marked(root, no_square | (array.shadow < 0))

    def decided(self, array: FieldArray) -> npt.NDArray[np.bool_]:
        """Return the elements that the field decides."""
        shadow = array.shadow
        return ~np.isnan(shadow) if self.met_undefined else np.ones(shadow.shape, np.bool_)

    def _marked(self, array: FieldArray, undefined: npt.NDArray[np.bool_]) -> FieldArray:
        if not undefined.any():
            return array
        self.met_undefined = True
        return FieldArray(array.residue, array.exponent, np.where(undefined, np.nan, array.shadow))

    def exp(self, array: FieldArray) -> FieldArray:
        self.is_ring = False
        return super().exp(array)

    def apply(self, function: str, array: FieldArray, parameters: tuple[Fraction, ...] = ()) -> FieldArray:
        self.is_ring = False
        self.has_arbitrary_functions = True
        return super().apply(function, array, parameters)
