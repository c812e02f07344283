"""Inverses and powers of arrays of residues modulo a prime below 2^31.5, so that products fit in 63 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Residues = npt.NDArray[np.int64]

_FEW = 12
"""Number of residues below which Python's integers are faster than arrays."""


def inverse(residues: npt.ArrayLike, modulus: int) -> Residues:
    """The modular inverse of every residue; 0 for 0."""
    values = np.asarray(residues, np.int64)
    flat = values.ravel()
    inverses = _inverses(np.where(flat == 0, 1, flat), modulus)
    return np.where(flat == 0, 0, inverses).reshape(values.shape)


def power(base: npt.ArrayLike, exponent: int, modulus: int) -> Residues:
    """Every residue to the power of one exponent of at least 0, by repeated squaring."""
    square = np.asarray(base, np.int64)
    result = np.ones(square.shape, np.int64)
    while exponent:
        if exponent & 1:
            result = result * square % modulus
        square = square * square % modulus
        exponent >>= 1
    return result


def _inverses(residues: Residues, modulus: int) -> Residues:
    """Inverses of residues other than 0. Those of two factors follow from that of their product, so that one
    inverse is calculated for all, at three products each (Montgomery, Math. Comp. 48, 1987, section 10.3.1).
    """
    half = len(residues) // 2
    if half < _FEW // 2:
        return np.array([pow(value, -1, modulus) for value in residues.tolist()], np.int64)
    first, second, rest = residues[:half], residues[half : 2 * half], residues[2 * half :]
    inverses = _inverses(np.concatenate((first * second % modulus, rest)), modulus)
    of_products = inverses[:half]
    return np.concatenate((of_products * second % modulus, of_products * first % modulus, inverses[half:]))
