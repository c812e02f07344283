"""Parallel splits: independent branches between two cuts of a graph, run on disjoint device shares."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from superopt.optimizer.parallel.search.carried import tensor_bytes
from superopt.optimizer.parallel.search.choices import ALONE, Choice
from superopt.optimizer.parallel.search.elimination import cuts
from superopt.optimizer.parallel.search.subject import Subject
from superopt.traversal import postorder

_NEGLIGIBLE = 0.01
"""Share of the bytes that the largest branch computes, below which a branch has no share of the machine."""


@dataclass(frozen=True, slots=True)
class Block:
    """The branches between two adjacent cuts: operations by number, each branch in order."""

    branches: tuple[tuple[int, ...], ...]


def blocks(subject: Subject) -> tuple[Block, ...]:
    """The blocks of two or more branches that are not negligible. Inputs and outputs of the graph count as
    cuts."""
    count = len(subject.operations)
    edges = [(edge.source + 1, edge.target + 1) for edge in subject.edges]
    has_input = {edge.target for edge in subject.edges}
    has_user = {edge.source for edge in subject.edges}
    edges += [(0, n + 1) for n in range(count) if n not in has_input]
    edges += [(n + 1, count + 1) for n in range(count) if n not in has_user]
    anchors = cuts(count + 2, edges)
    found: list[Block] = []
    neighbours: list[set[int]] = [set() for _ in range(count + 2)]
    for source, target in edges:
        neighbours[source].add(target)
        neighbours[target].add(source)
    for first, last in itertools.pairwise(anchors):
        components = _components(range(first + 1, last), neighbours)
        branches = _heavy(subject, [tuple(n - 1 for n in component) for component in components])
        if len(branches) > 1:
            found.append(Block(branches))
    return tuple(found)


def _heavy(subject: Subject, branches: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """The branches that are not negligible beside the largest, such as the counter of a training step."""
    sizes = [
        sum(tensor_bytes(type_) for number in branch for type_ in subject.operations[number].outputs)
        for branch in branches
    ]
    most = max(sizes, default=0)
    return tuple(branch for branch, size in zip(branches, sizes, strict=True) if size >= _NEGLIGIBLE * most)


def shares_of(
    found: Sequence[Block], choices: Sequence[Choice], sizes: Sequence[int], work: Sequence[float]
) -> Mapping[int, int]:
    """The device share of every operation that runs on one device along some axes: branches are assigned in
    order of decreasing cost, each to the least loaded share."""
    shares: dict[int, int] = {}
    for block in found:
        loads: dict[int, float] = {}
        for branch in sorted(block.branches, key=lambda b: -sum(work[n] for n in b)):
            alone = {
                tuple(axis for axis, label in enumerate(choices[n]) if label == ALONE)
                for n in branch
                if ALONE in choices[n]
            }
            if not alone:
                continue
            count = 1
            for axis in max(alone, key=len):
                count *= sizes[axis]
            best = min(range(count), key=lambda share: (loads.get(share, 0.0), share))
            loads[best] = loads.get(best, 0.0) + sum(work[n] for n in branch)
            for number in branch:
                own = [axis for axis, label in enumerate(choices[number]) if label == ALONE]
                parts = 1
                for axis in own:
                    parts *= sizes[axis]
                shares[number] = best * parts // count if parts < count else best
    return shares


def _components(nodes: range, neighbours: Sequence[set[int]]) -> list[tuple[int, ...]]:
    left = set(nodes)
    found: list[tuple[int, ...]] = []
    for start in nodes:
        if start in left:
            found.append(tuple(sorted(postorder([start], lambda node: left & neighbours[node]))))
            left.difference_update(found[-1])
    return found
