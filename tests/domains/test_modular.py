"""Inverses and powers modulo a prime, against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.domains.modular import inverse, power
from superopt.domains.prime_field import BASE, EXPONENT_PRIME, MODULUS, PrimeFieldDomain

PRIMES = (7, EXPONENT_PRIME, MODULUS)


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("count", [0, 1, 2, 11, 12, 13, 24, 25, 100, 1000])
def test_inverses(prime: int, count: int) -> None:
    residues = np.random.default_rng(count).integers(0, prime, count)
    residues[: count // 3 : 2] = 0
    expected = [pow(value, -1, prime) if value else 0 for value in residues.tolist()]
    assert inverse(residues, prime).tolist() == expected


def test_inverses_keep_the_shape() -> None:
    residues = np.arange(60).reshape(3, 1, 20)
    assert inverse(residues, MODULUS).shape == (3, 1, 20)
    assert inverse(residues[:, :, ::2], MODULUS).tolist() == inverse(residues, MODULUS)[:, :, ::2].tolist()
    assert inverse(np.int64(2), MODULUS).tolist() == (MODULUS + 1) // 2


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 1 << 20, (MODULUS + 1) // 4])
def test_powers(prime: int, exponent: int) -> None:
    residues = np.random.default_rng(exponent).integers(0, prime, (4, 5))
    expected = [[pow(value, exponent, prime) for value in row] for row in residues.tolist()]
    assert power(residues, exponent, prime).tolist() == expected


def test_exponentials_are_powers_of_the_base() -> None:
    domain = PrimeFieldDomain()
    array = domain.random(np.random.default_rng(5), 3, (40,))
    for exponent, value in ((0, 0), (1, 1), (2, EXPONENT_PRIME - 1), (3, 1 << 10), (4, (1 << 20) - 1)):
        array.exponent[0, exponent] = value
    expected = [[pow(BASE, value, MODULUS) for value in row] for row in array.exponent.tolist()]
    assert domain.exp(array).residue.tolist() == expected
