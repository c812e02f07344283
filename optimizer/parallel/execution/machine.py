"""The machine interface of plan execution: storing shards, running tasks, moving shards between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from superopt.domains import Array
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.tasks import Task


class Shard(Protocol):
    """An array on one device."""

    @property
    def nbytes(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


A = TypeVar("A", bound=Shard)


class Machine(Protocol[A]):
    """Devices by number, each with a memory of its own."""

    def put(self, array: Array, device: int) -> A:
        """An array of the host on a device."""
        ...

    def get(self, shard: A) -> Array:
        """A shard as an array of the host."""
        ...

    def move(self, shard: A, device: int) -> A:
        """The shard on another device."""
        ...

    def add(self, left: A, right: A) -> A:
        """The sum of two shards of one device."""
        ...

    def part(self, shard: A, region: Region) -> A:
        """A box of a shard, on its device."""
        ...

    def joined(self, pieces: Sequence[tuple[Region, A]], shape: tuple[int, ...]) -> A:
        """Shards of one device as one of that shape; each lies in its box, together they fill it."""
        ...

    def all_reduced(self, shards: Sequence[A]) -> Sequence[A] | None:
        """The sum of shards of one shape on different devices, on each; None where there is no collective."""
        ...

    def run(self, task: Task, shards: Sequence[A], device: int) -> Sequence[A]:
        """What the task makes of shards on its device."""
        ...
