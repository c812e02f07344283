"""Machine mapping, the lowest search level: finds the best mapping of a graph on a mesh (Unity, section 5.2).

First each segment of mesh axes in turn is assigned to a single dimension; then the choices that were best
anywhere are pooled and the best combination is found. Both steps use dynamic programming over every placement
of the tensors at the cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from superopt.optimizer.parallel.experts import Assignment, assignments
from superopt.optimizer.parallel.search.branches import Block, blocks, shares_of
from superopt.optimizer.parallel.search.choices import (
    ALONE,
    COPIED,
    Choice,
    Choices,
    Licence,
    choices_on,
    everything,
    licensed_dimensions,
    useful_dimensions,
)
from superopt.optimizer.parallel.search.elimination import Problem, solve
from superopt.optimizer.parallel.search.estimate import Estimator
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.search.tables import Costs
from superopt.optimizer.parallel.terms import TermDimension

_POOL = 40
_MEMORY_STEPS = 12
_FIRST_PRICE = 1e-9
"""Initial price of memory in microseconds per byte."""


@dataclass(frozen=True)
class MachineMapping:
    """A choice for every operation, its estimated cost, and the bytes of the fullest device."""

    name: str
    assignment: Assignment
    estimate: float
    memory: float


@dataclass
class Mapper:
    """Finds mappings of one graph on one mesh."""

    subject: Subject
    estimator: Estimator
    licence: Licence = everything
    expired: Callable[[], bool] = field(default=lambda: False)
    _lists: dict[tuple[object, ...], Choices] = field(default_factory=dict[tuple[object, ...], Choices])

    def __post_init__(self) -> None:
        self._dimensions = useful_dimensions(self.subject, self.licence)
        self._blocks = blocks(self.subject)
        self._branched = frozenset(n for block in self._blocks for branch in block.branches for n in branch)
        self._widths = _widths(self._blocks)
        self._options: dict[int, Choices] = {}
        self._shares: dict[tuple[Choices, int], Costs | None] = {}
        self._experts = [found for _, found in assignments(self.subject, self.estimator.mesh, self.licence)]

    def mappings(self, memory_limit: float) -> list[MachineMapping]:
        """The best mapping, and those that fit into memory if it does not."""
        pool = self._pool()
        found = self._mixed(pool)
        if found.memory <= memory_limit:
            return [found]
        return [*self._within(memory_limit, pool), found]

    def _within(self, limit: float, pool: list[dict[Choice, None]]) -> list[MachineMapping]:
        """Mappings that fit, at the lowest price of memory for which the best one does."""
        price, low = _FIRST_PRICE, 0.0
        fitting: list[MachineMapping] = []
        mapping = self._mixed(pool)
        for _ in range(_MEMORY_STEPS):
            self._pool(price, pool)
            mapping = self._mixed(pool, price)
            if mapping.memory <= limit:
                fitting.append(mapping)
                break
            low, price = price, price * 10
        if not fitting:
            return [mapping]
        high = price
        for _ in range(4):
            middle = (low * high) ** 0.5 if low else high / 10
            mapping = self._mixed(pool, middle)
            if mapping.memory <= limit:
                fitting.append(mapping)
                high = middle
            else:
                low = middle
        return fitting

    def _pool(
        self, memory_price: float = 0.0, pool: list[dict[Choice, None]] | None = None
    ) -> list[dict[Choice, None]]:
        """For every operation the choices that are best with some segment, and those of expert plans."""
        pool = [{} for _ in self.subject.operations] if pool is None else pool
        for assignment in self._experts:
            _collect(pool, assignment.choices)
        totals: list[tuple[float, tuple[int, int]]] = []
        for segment in self.estimator.mesh.segments:
            if self.expired():
                break
            total, chosen = self._solved(self._all_choices((segment,)), memory_price)
            totals.append((total, segment))
            _collect(pool, chosen)
        best = [segment for _, segment in sorted(totals)[:4]]
        for first in best:
            for second in best:
                if first[1] <= second[0] and not self.expired():
                    _collect(pool, self._solved(self._all_choices((first, second)), memory_price)[1])
        return pool

    def _all_choices(self, segments: Sequence[tuple[int, int]]) -> list[Choices]:
        return [self._choices(n, tuple(segments)) for n in range(len(self.subject.operations))]

    def _choices(self, number: int, segments: tuple[tuple[int, int], ...]) -> Choices:
        is_branch = number in self._branched
        key = (self.estimator.kinds[number], self._dimensions[number], segments, is_branch)
        found = self._lists.get(key)
        if found is None:
            mesh = self.estimator.mesh
            labels = (*self._dimensions[number], ALONE) if is_branch else self._dimensions[number]
            made = choices_on(self.subject.operations[number], labels, mesh, segments)
            fitting = tuple(choice for choice in made if _is_share(choice)) or ((COPIED,) * len(mesh.sizes),)
            found = self._lists[key] = self.estimator.known.interned(fitting)
        return found

    def _solved(self, choices: Sequence[Choices], memory_price: float) -> tuple[float, list[Choice]]:
        problem = self._problem(choices, memory_price)
        picked = solve(problem, self.estimator.tables)
        return problem.total(picked), [found.all[i] for found, i in zip(choices, picked, strict=True)]

    def _problem(self, choices: Sequence[Choices], memory_price: float) -> Problem:
        """The estimate, with costs shared by branches that run concurrently."""
        problem = self.estimator.problem(choices, memory_price)
        for number in self._branched:
            shared = self._shared(number, choices[number])
            if shared is not None:
                problem.own[number] = self.estimator.tables.table(problem.own[number].costs / shared)
        return problem

    def _shared(self, number: int, choices: Choices) -> Costs | None:
        """For each operation the number of concurrent branches that share its cost."""
        width = self._widths[number]
        key = (choices, width)
        if key not in self._shares:
            parts = [float(min(_parts(choice, self.estimator.mesh.sizes), width)) for choice in choices.all]
            self._shares[key] = np.array(parts) if max(parts) > 1 else None
        return self._shares[key]

    def _mixed(self, pool: list[dict[Choice, None]], memory_price: float = 0.0) -> MachineMapping:
        choices = [self.estimator.known.interned(tuple(found)[:_POOL]) for found in pool]
        total, chosen = self._solved(choices, memory_price)
        return self.mapping("search", chosen, total)

    def mapping(self, name: str, chosen: Sequence[Choice], estimate: float | None = None) -> MachineMapping:
        """The mapping with those choices."""
        singles = [self.estimator.known.interned((choice,)) for choice in chosen]
        shares = shares_of(self._blocks, chosen, self.estimator.mesh.sizes, self.costs(chosen))
        if estimate is None:
            estimate = self.estimator.problem(singles).total([0] * len(chosen))
        memory = 0.0
        for number, choice in enumerate(chosen):
            count = min(_parts(choice, self.estimator.mesh.sizes), self._widths.get(number, 1))
            memory += float(self.estimator.memory(number, singles[number])[0]) / count
        assignment = Assignment(self.estimator.mesh, tuple(chosen), shares)
        return MachineMapping(name, assignment, estimate, memory)

    def costs(self, chosen: Sequence[Choice]) -> list[float]:
        """Cost of each operation, without moving its operands."""
        known = self.estimator.known
        tables = (self.estimator.own(n, known.interned((c,))) for n, c in enumerate(chosen))
        return [float(table.costs[0]) for table in tables]

    def options(self, number: int) -> Choices:
        """Every choice for an operation that assigns one label to a range of axes, and one to all others."""
        found = self._options.get(number)
        if found is None:
            operation, mesh = self.subject.operations[number], self.estimator.mesh
            useful = self._dimensions[number]
            dimensions = [
                dimension
                for dimension in licensed_dimensions(operation, self.licence)
                if dimension in useful
                or not isinstance(operation.splits.dimensions[dimension], TermDimension)
            ]
            choices = dict.fromkeys(
                choice
                for segment in mesh.segments or ((0, 0),)
                for choice in choices_on(operation, dimensions, mesh, (segment,))
            )
            found = self._options[number] = self.estimator.known.interned(tuple(choices))
        return found


def _collect(pool: list[dict[Choice, None]], chosen: Sequence[Choice]) -> None:
    for found, choice in zip(pool, chosen, strict=True):
        found[choice] = None


def _is_share(choice: Choice) -> bool:
    """Whether the ALONE axes, if any, are the outermost."""
    alone = [axis for axis, label in enumerate(choice) if label == ALONE]
    return alone == list(range(len(alone)))


def _parts(choice: Choice, sizes: Sequence[int]) -> int:
    parts = 1
    for label, size in zip(choice, sizes, strict=True):
        parts *= size if label == ALONE else 1
    return parts


def _widths(found: Sequence[Block]) -> dict[int, int]:
    return {n: len(block.branches) for block in found for branch in block.branches for n in branch}
