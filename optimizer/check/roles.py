"""Roles of model inputs (images, tokens, masks, lengths, states), and random content for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

Generator: TypeAlias = np.random.Generator

_SCALE = {"small": 0.05, "large": 20.0}


class Role(Protocol):
    """The role of an input."""

    def draw(
        self, random: Generator, shape: tuple[int, ...], scale: str, sizes: Mapping[str, int], /
    ) -> object:
        """Random content of that shape; ``sizes`` are those of the model's open dimensions."""
        ...


@dataclass(frozen=True, slots=True)
class Numbers:
    """Floating point numbers without further knowledge: any sign and scale."""

    def draw(self, random: Generator, shape: tuple[int, ...], scale: str, _: Mapping[str, int]) -> object:
        """Return normally distributed numbers of a given scale, or uniform ones between 0 and 1."""
        if scale == "positive":
            return random.uniform(0.05, 1.0, shape)
        return random.standard_normal(shape) * _SCALE.get(scale, 1.0)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform floating point numbers in an interval, for functions undefined outside it: roots,
    logarithms."""

    low: float
    high: float

    def draw(self, random: Generator, shape: tuple[int, ...], _: str, _sizes: Mapping[str, int]) -> object:
        """Return numbers with the same distribution at every scale."""
        return random.uniform(self.low, self.high, shape)


@dataclass(frozen=True, slots=True)
class Image:
    """Pixels as floating point numbers: normalised, between 0 and 1, or up to 255."""

    def draw(self, random: Generator, shape: tuple[int, ...], scale: str, _: Mapping[str, int]) -> object:
        """Return pixels by scale: normalised as for networks trained on photographs; 0 to 1; small; 0 to
        255."""
        match scale:
            case "positive":
                return random.uniform(0.0, 1.0, shape)
            case "small":
                return random.standard_normal(shape) * _SCALE["small"]
            case "large":
                return random.uniform(0.0, 255.0, shape)
            case _:
                return np.clip(random.standard_normal(shape), -2.2, 2.7)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a recurrent network: small numbers."""

    def draw(self, random: Generator, shape: tuple[int, ...], _: str, _sizes: Mapping[str, int]) -> object:
        """Return numbers with the same distribution at every scale."""
        return random.standard_normal(shape) * 0.1


@dataclass(frozen=True, slots=True)
class Integers:
    """Integers from ``low`` to ``high`` (exclusive): tokens, indices, pixels."""

    low: int
    high: int

    def narrowed(self, other: Integers) -> Integers:
        """Return the intersection of both ranges, or the other range if they are disjoint."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Integers(low, high) if low < high else other

    def draw(self, random: Generator, shape: tuple[int, ...], _: str, _sizes: Mapping[str, int]) -> object:
        """Return uniformly distributed integers."""
        return random.integers(self.low, self.high, shape)


@dataclass(frozen=True, slots=True)
class Mask:
    """Ones followed by zeros for padding, along the last axis; integers or booleans."""

    def draw(self, random: Generator, shape: tuple[int, ...], _: str, _sizes: Mapping[str, int]) -> object:
        """Return rows in which at least the first position and about half of all are ones."""
        if not shape:
            return np.ones(())
        length = shape[-1]
        kept = random.integers((length + 1) // 2, length + 1, shape[:-1])
        return np.arange(length) < np.asarray(np.maximum(kept, min(length, 1)))[..., np.newaxis]


@dataclass(frozen=True, slots=True)
class Positions:
    """0, 1, 2, … along the last axis, below ``high``."""

    high: int

    def draw(self, _: Generator, shape: tuple[int, ...], _scale: str, _sizes: Mapping[str, int]) -> object:
        """Return the positions; not random."""
        row = np.arange(shape[-1]) % self.high if shape else np.zeros(())
        return np.broadcast_to(row, shape)


@dataclass(frozen=True, slots=True)
class Lengths:
    """Sequence lengths: at least 1, at most ``longest``, which is a size or a dimension."""

    longest: int | str

    def draw(self, random: Generator, shape: tuple[int, ...], _: str, sizes: Mapping[str, int]) -> object:
        """Return lengths: the maximum for the first sequence, at least half of it for the others."""
        longest = self.longest if isinstance(self.longest, int) else sizes.get(self.longest, 1)
        drawn = np.asarray(random.integers((longest + 1) // 2, longest + 1, shape))
        drawn.reshape(-1)[:1] = longest
        return drawn


@dataclass(frozen=True, slots=True)
class Choice:
    """One of few values: those that the model compares its input with (a sampling rate, a category), or both
    truth values. ``others`` are values that lead a comparison elsewhere, and that the model may refuse."""

    values: tuple[int | float | str, ...]
    others: tuple[int, ...] = ()

    def alternatives(self) -> tuple[Choice, ...]:
        """Each value as the only one, the others last."""
        return tuple(Choice((value,)) for value in (*self.values, *self.others))

    def draw(self, random: Generator, shape: tuple[int, ...], _: str, _sizes: Mapping[str, int]) -> object:
        """Return uniformly distributed values."""
        return np.asarray(self.values, object)[random.integers(0, len(self.values), shape)]


@dataclass(frozen=True, slots=True)
class Fixed:
    """Numbers that an operator uses as sizes, axes or factors; truncated where fewer are read."""

    numbers: tuple[int | float, ...]

    def draw(self, _: Generator, shape: tuple[int, ...], _scale: str, _sizes: Mapping[str, int]) -> object:
        """Return the fixed numbers; not random."""
        return np.resize(np.asarray(self.numbers), shape)


def role_of_type(dtype: str, rank: int) -> Role:
    """The default role of an input of which only the type is known."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return Mask() if rank > 1 else Integers(0, 2)
    if dtype == "uint8" and rank >= 3:
        return Integers(0, 256)
    if kind in "iu":
        return Integers(0, 4)
    return Choice(("a",)) if kind == "O" else Numbers()
