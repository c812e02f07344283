"""Fingerprint keys of values: three residues, one per test vector, of a type-dependent linear form."""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.domains.arrays import Device, namespace, reshaped
from superopt.domains.small_field import PRIME, SmallArray, Wide, exact_matmul, reduced
from superopt.generator.presets.preset import InputType

Keys: TypeAlias = "npt.NDArray[np.int64]"

VECTORS = 3
"""Independent test vectors; each gives 21 bits of a key."""

_HALF = PRIME // 2


class Fingerprints:
    """The linear form of each type; equal values have equal keys, also in another process or on another
    device. Values are on the device, keys are not."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._weights: dict[InputType, Wide] = {}
        self._placed: dict[InputType, Wide] = {}
        self._salts: dict[InputType, int] = {}

    def weights(self, type_: InputType) -> Wide:
        """[test vectors, elements] the linear form of a type."""
        found = self._weights.get(type_)
        if found is None:
            random = np.random.default_rng(_digest(type_))
            elements = int(np.prod(type_.shape, dtype=np.int64))
            drawn = random.integers(1, PRIME, (VECTORS, elements)).astype(np.float64)
            found = self._weights[type_] = reduced(drawn).astype(np.float64)
        return found

    def placed(self, type_: InputType) -> Wide:
        """``weights`` on the device."""
        found = self._placed.get(type_)
        if found is None:
            found = self._placed[type_] = self._device.put(self.weights(type_))
        return found

    def packed(self, type_: InputType, forms: Wide) -> Keys:
        """[n] keys of values of that type, from what the forms of the test vectors [vectors, n] gave."""
        salt = self._salts.get(type_)
        if salt is None:
            salt = self._salts[type_] = _digest(type_) >> 65
        xp = namespace(forms)
        key = xp.astype(forms[0, ...], xp.int64) + _HALF
        for vector in range(1, VECTORS):
            key <<= 21
            key += xp.astype(forms[vector, ...], xp.int64) + _HALF
        return self._device.get(key ^ salt)

    def of(self, type_: InputType, values: SmallArray) -> Keys:
        """[n] keys of values whose stack holds all terms at the first test vector, then at the next ones."""
        return self.packed(type_, projected(values, self.placed(type_)))


def projected(values: SmallArray, weights: Wide) -> Wide:
    """[vectors, n] a linear form [vectors, elements] of each of n values."""
    xp = namespace(values.residue)
    vectors, elements = weights.shape
    stacked = reshaped(values.residue, (vectors, -1, elements))
    return xp.stack(
        [
            exact_matmul(xp.astype(stacked[vector, ...], xp.float64), weights[vector, :, None])[:, 0]
            for vector in range(vectors)
        ]
    )


def applied(forms: Wide, values: Wide) -> Wide:
    """[vectors, n] linear forms [vectors, elements] of values [vectors, n, elements]."""
    return exact_matmul(values, forms[..., None])[..., 0]


def _digest(type_: InputType) -> int:
    return int.from_bytes(hashlib.blake2b(repr(type_).encode(), digest_size=16).digest(), "big")
