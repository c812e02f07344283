"""Keys of values: three residues, one for each test vector, of a linear form that depends on the type."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from generator.preset import InputType
from superopt.domains.small_field import PRIME, SmallArray, Wide, exact_matmul, reduced

Keys: TypeAlias = "npt.NDArray[np.int64]"

VECTORS = 3
"""Independent test vectors; each gives 21 bits of a key."""

_HALF = PRIME // 2


class Fingerprints:
    """The linear form of each type; equal values have equal keys, also in another process."""

    def __init__(self) -> None:
        self._weights: dict[InputType, Wide] = {}
        self._salts: dict[InputType, np.int64] = {}

    def weights(self, type_: InputType) -> Wide:
        """[test vectors, elements] the linear form of a type."""
        found = self._weights.get(type_)
        if found is None:
            random = np.random.default_rng(_digest(type_))
            elements = int(np.prod(type_.shape, dtype=np.int64))
            drawn = random.integers(1, PRIME, (VECTORS, elements)).astype(np.float64)
            found = self._weights[type_] = reduced(drawn).astype(np.float64)
        return found

    def packed(self, type_: InputType, forms: Wide) -> Keys:
        """[n] keys of values of that type, from what the forms of the test vectors [vectors, n] gave."""
        salt = self._salts.get(type_)
        if salt is None:
            salt = self._salts[type_] = np.int64(_digest(type_) >> 65)
        key = np.zeros(forms.shape[1], np.int64)
        for form in forms:
            key <<= 21
            key += form.astype(np.int64) + _HALF
        return key ^ salt

    def of(self, type_: InputType, values: SmallArray) -> Keys:
        """[n] keys of values whose stack holds all terms at the first test vector, then at the next ones."""
        return self.packed(type_, projected(values, self.weights(type_)))


def projected(values: SmallArray, weights: Wide) -> Wide:
    """[vectors, n] a linear form [vectors, elements] of each of n values."""
    stacked = values.residue.reshape(len(weights), -1, weights.shape[1])
    return np.stack(
        [
            exact_matmul(block.astype(np.float64), row[:, np.newaxis])[:, 0]
            for block, row in zip(stacked, weights, strict=True)
        ]
    )


def _digest(type_: InputType) -> int:
    return int.from_bytes(hashlib.blake2b(repr(type_).encode(), digest_size=16).digest(), "big")
