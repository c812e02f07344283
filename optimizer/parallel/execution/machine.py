"""The machine interface of plan execution: storing shards, running tasks, moving shards between devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from superopt.domains import Array
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.tasks import KernelTask, Task


class Shard(Protocol):
    """An array on one device."""

    @property
    def nbytes(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


A = TypeVar("A", bound=Shard)


class Machine(Protocol[A]):
    """Devices by number, each with its own memory."""

    def put(self, array: Array, device: int) -> A:
        """Copies a host array to a device."""
        ...

    def get(self, shard: A) -> Array:
        """Copies a shard to a host array."""
        ...

    def zeros(self, shape: tuple[int, ...], like: A, device: int) -> A:
        """Zeros on a device, of the type of another shard."""
        ...

    def move(self, shard: A, device: int) -> A:
        """Copies the shard to another device."""
        ...

    def add(self, left: A, right: A) -> A:
        """The sum of two shards on one device."""
        ...

    def part(self, shard: A, region: Region) -> A:
        """A box of a shard, on its device."""
        ...

    def joined(self, pieces: Sequence[tuple[Region, A]], shape: tuple[int, ...]) -> A:
        """Assembles shards of one device into an array of that shape; their disjoint boxes cover it."""
        ...

    def copied(self, shard: A) -> A:
        """A copy of the shard, on its device."""
        ...

    def storage(self, shard: A) -> tuple[int, int]:
        """What tells the memory of a shard from that of others, and its bytes."""
        ...

    def all_reduced(self, shards: Sequence[A]) -> Sequence[A] | None:
        """The sum of equally shaped shards on different devices, on each; None where there is no
        collective."""
        ...

    def packed(self, shards: Sequence[A]) -> A:
        """The elements of shards of one device and type, one after the other."""
        ...

    def unpacked(self, flat: A, shapes: Sequence[tuple[int, ...]]) -> Sequence[A]:
        """Shards of those shapes with the elements of a packed one."""
        ...

    def run_kernel(self, kernel: KernelTask, shards: Sequence[A], device: int) -> Sequence[A]:
        """The results of several tasks that run as one kernel, as new arrays on its device."""
        ...

    def run(self, task: Task, shards: Sequence[A], device: int) -> Sequence[A]:
        """The results of the task, on its device."""
        ...
