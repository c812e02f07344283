"""A sample of the equations that pruning drops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from superopt.ir.terms import Equation


@dataclass(frozen=True, slots=True)
class Dropped:
    """A dropped equation, and the reason."""

    equation: Equation
    reason: str


class Audit:
    """A seeded sample of at most ``most`` dropped equations, each as likely to be in it as any other."""

    def __init__(self, most: int, seed: int = 0) -> None:
        self._most = most
        self._random = np.random.default_rng(seed)
        self._seen = 0
        self._sample: list[Dropped] = []

    @property
    def sample(self) -> tuple[Dropped, ...]:
        """The equations chosen so far."""
        return tuple(self._sample)

    def place(self) -> int | None:
        """The index of the next equation in the sample, None to skip it (Vitter's algorithm R)."""
        self._seen += 1
        if len(self._sample) < self._most:
            return len(self._sample)
        chosen = int(self._random.integers(self._seen))
        return chosen if chosen < self._most else None

    def put(self, place: int, dropped: Dropped) -> None:
        """Stores an equation at an index of the sample."""
        self._sample[place : place + 1] = [dropped]
