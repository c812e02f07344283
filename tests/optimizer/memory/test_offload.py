"""Cached tensors: the dynamic programme is the brute force, and never above the baselines."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from superopt.errors import UnsupportedError
from superopt.optimizer.memory.liveness import Operation, Program
from superopt.optimizer.memory.offload import Offloading


def random_graph(seed: int) -> Program:
    """Four operations on two given tensors and their own results."""
    source = random.Random(seed)
    operations = tuple(
        Operation(f"o{index}", tuple(source.sample(range(index + 2), 2)), (index + 2,)) for index in range(4)
    )
    return Program(operations, tuple(source.randint(1, 9) for _ in range(6)), frozenset())


def least_capacity(program: Program) -> int:
    return max(sum(program.sizes[one] for one in {*op.reads, *op.writes}) for op in program.operations)


def brute_force(program: Program, capacity: int) -> int:
    """Over all orders, and after each operation over all subsets of what is on the device."""

    def size(tensors: frozenset[int]) -> int:
        return sum(program.sizes[tensor] for tensor in tensors)

    def rest(done: frozenset[int], cached: frozenset[int]) -> float:
        if len(done) == len(program.operations):
            return 0
        best = float("inf")
        for at, operation in enumerate(program.operations):
            if at in done or not done.issuperset(program.sources[at]):
                continue
            reads, writes = frozenset(operation.reads), frozenset(operation.writes)
            if size(cached | reads | writes) > capacity:
                continue
            for kept in subsets(sorted(cached | reads | writes)):
                best = min(best, size(reads - cached) + rest(done | {at}, kept))
        return best

    return int(rest(frozenset(), frozenset()))


def subsets(tensors: Sequence[int]) -> Iterator[frozenset[int]]:
    for count in range(len(tensors) + 1):
        yield from map(frozenset, combinations(tensors, count))


@pytest.mark.parametrize("seed", range(8))
def test_the_least_is_that_of_all_schedules_and_sets(seed: int) -> None:
    program = random_graph(seed)
    smallest = least_capacity(program)
    for capacity in (smallest, smallest + 5, sum(program.sizes)):
        offloading = Offloading(program, capacity)
        least = offloading.least()
        assert least == brute_force(program, capacity)
        assert least <= offloading.least_recently_used() <= offloading.streaming()


def test_an_operation_that_does_not_fit_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"needs [0-9]+ bytes on the device, which has 1"):
        Offloading(random_graph(0), 1)
