"""Plan refinement by delta simulation: descent over kinds and single operations, then Metropolis sampling.

Moves are FlexFlow's (any choice for any operation) and *chains*: an operation is changed and its neighbours
follow the estimate. The estimate also screens moves, as the first stage of a two-stage acceptance (Christen
and Fox 2005), so that the simulator only evaluates promising ones.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from superopt.ir.plan import Parallelism
from superopt.optimizer.parallel.experts import Assignment
from superopt.optimizer.parallel.search.choices import ALONE, Choice, parallelism
from superopt.optimizer.parallel.search.mapping import Mapper
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation, Simulator

_KINDS_TRIED = 60
"""Simulations in which all operations of one kind are changed."""

_ALTERNATIVES = 4
"""Number of choices that descent tries for each kind of operation, and for each operation."""

_HOPELESS = 0.02
"""Descent does not simulate moves whose estimated cost is higher by this share of the plan's time."""

_STEEPNESS = 50.0
"""A plan that is 2% slower than the current one is accepted with probability 1/e."""

_SCREENS = (10.0, 3.0, 1.0)
"""The same for the estimate, which counts communication that the simulator may overlap; one value per chain,
in turn."""

_CHAIN = 8
"""Maximum number of operations changed along with another."""

_STEPS = 160
"""Number of exchange steps whose pricing takes as long as simulating a plan."""

_DRAWS = 20
"""Moves drawn per move that may be simulated."""


@dataclass(frozen=True, slots=True)
class Refined:
    """Choices for all operations, and their simulation."""

    assignment: Assignment
    simulation: Simulation


@dataclass
class Refinement:
    """Improves plans of one graph on one mesh. ``simulations`` is the limit per phase, lower where much has
    to be priced; ``fits`` tells whether a simulation exceeds no device's memory."""

    subject: Subject
    mapper: Mapper
    simulator: Simulator
    fits: Callable[[Simulation], bool]
    simulations: int
    expired: Callable[[], bool]
    seed: int = 0
    _simulations: int = 0
    _nears: dict[tuple[int, tuple[Choice, ...]], np.typing.NDArray[np.float64]] = field(
        default_factory=dict[tuple[int, tuple[Choice, ...]], np.typing.NDArray[np.float64]]
    )

    def descended(self, start: Refined) -> Refined:
        """Descent: all operations of a kind at once, then one operation at a time until nothing improves."""
        return self._by_operation(self._by_kind(start))

    def sampled(self, start: Refined) -> Refined:
        """The best of several Metropolis chains, each starting from the best so far; first tries every other
        choice for every operation, within the limit."""
        best = start
        for number, screen in enumerate(_SCREENS):
            best = self._by_estimate(self._chain(best, screen, random.Random(self.seed + number)))
        return best

    def _chain(self, start: Refined, screen: float, source: random.Random) -> Refined:
        current = best = start
        end = self._work + self.simulations
        for _ in range(_DRAWS * self.simulations):
            if self._is_over(end):
                break
            number = source.randrange(len(self.subject.operations))
            changed, more = self._move(current.assignment.choices, number, source)
            ratio = more / current.simulation.microseconds
            if not changed or (ratio > 0 and source.random() >= math.exp(-screen * ratio)):
                continue
            tried = self._tried(current, changed)
            ratio = tried.simulation.microseconds / current.simulation.microseconds - 1
            if ratio > 0 and source.random() >= math.exp(-_STEEPNESS * ratio):
                continue
            if self.fits(tried.simulation):
                current = tried
                if current.simulation.microseconds < best.simulation.microseconds:
                    best = current
        return best

    def _by_kind(self, start: Refined) -> Refined:
        best, end = start, self._work + min(_KINDS_TRIED, self.simulations)
        for group in self._kinds(start.assignment):
            for choice, _ in self._few(group[0], best.assignment.choices):
                if self._is_over(end):
                    return best
                best = self._better(best, self._tried(best, dict.fromkeys(group, choice)))
        return best

    def _by_operation(self, start: Refined) -> Refined:
        best, end, helped = start, self._work + self.simulations, True
        operations = self.subject.operations
        order = sorted(range(len(operations)), key=lambda n: -operations[n].tensor_elements)
        while helped:
            helped = False
            for number in order:
                most = _HOPELESS * best.simulation.microseconds
                for choice, more in self._few(number, best.assignment.choices):
                    if self._is_over(end):
                        return best
                    if more > most:
                        break
                    tried = self._better(best, self._tried(best, {number: choice}))
                    helped = helped or tried is not best
                    best = tried
        return best

    def _by_estimate(self, start: Refined) -> Refined:
        """Tries every choice for every operation in order of estimated cost, until nothing improves."""
        best, end, helped = start, self._work + self.simulations, True
        while helped:
            helped = False
            moves = [
                (more, number, choice)
                for number in range(len(self.subject.operations))
                for choice, more in self._alternatives(number, best.assignment.choices)
            ]
            for _, number, choice in sorted(moves):
                if self._is_over(end):
                    return best
                tried = self._better(best, self._tried(best, {number: choice}))
                helped = helped or tried is not best
                best = tried
        return best

    @property
    def _work(self) -> float:
        """Work done so far, in units of simulations."""
        return self._simulations + self.simulator.prices.steps / _STEPS

    def _is_over(self, end: float) -> bool:
        return self._work >= end or self.expired()

    def _better(self, best: Refined, tried: Refined) -> Refined:
        faster = tried.simulation.microseconds < best.simulation.microseconds
        if faster and (self.fits(tried.simulation) or not self.fits(best.simulation)):
            return tried
        return best

    def _tried(self, base: Refined, changed: dict[int, Choice]) -> Refined:
        choices = list(base.assignment.choices)
        how: dict[int, Parallelism] = {}
        for number, choice in changed.items():
            choices[number] = choice
            how[number] = parallelism(self.subject.operations[number], choice, base.assignment.mesh)
        nodes = {self.subject.operations[number].node: found for number, found in how.items()}
        before = base.simulation.plan
        plan = replace(before, parallel=MappingProxyType({**before.parallel, **nodes}))
        assignment = replace(base.assignment, choices=tuple(choices))
        self._simulations += 1
        return Refined(assignment, self.simulator.delta(plan, nodes, base.simulation))

    def _move(
        self, chosen: Sequence[Choice], number: int, source: random.Random
    ) -> tuple[dict[int, Choice], float]:
        """A random change of an operation with its followers, and its estimated cost difference."""
        options = self.mapper.options(number)
        choice = options.all[source.randrange(len(options))]
        if choice == chosen[number]:
            return {}, 0.0
        length = source.choice((0, 0, 1, 2, 4, _CHAIN))
        now = list(chosen)
        more = self._set(now, number, choice)
        waiting = deque(self._neighbours(number))
        changed = {number: choice}
        while waiting and len(changed) <= length:
            other = waiting.popleft()
            if other in changed or ALONE in now[other]:
                continue
            costs = self._near(other, now)
            best = self.mapper.options(other).all[int(costs.argmin())]
            if best != now[other] and float(costs.min()) < self._cost(other, now):
                changed[other] = best
                more += self._set(now, other, best)
                waiting.extend(self._neighbours(other))
        return changed, more

    def _set(self, chosen: list[Choice], number: int, choice: Choice) -> float:
        """Sets the choice; returns the estimated cost difference."""
        before = self._cost(number, chosen)
        chosen[number] = choice
        return self._cost(number, chosen) - before

    def _alternatives(self, number: int, chosen: Sequence[Choice]) -> Iterator[tuple[Choice, float]]:
        """Other choices for an operation by increasing estimated cost with fixed neighbours, and the cost
        difference."""
        costs, own = self._near(number, chosen), self._cost(number, chosen)
        options = self.mapper.options(number).all
        for place in np.argsort(costs, kind="stable").tolist():
            if options[place] != chosen[number]:
                yield options[place], float(costs[place]) - own

    def _few(self, number: int, chosen: Sequence[Choice]) -> list[tuple[Choice, float]]:
        return list(itertools.islice(self._alternatives(number, chosen), _ALTERNATIVES))

    def _near(self, number: int, chosen: Sequence[Choice]) -> np.typing.NDArray[np.float64]:
        """Estimated cost of each option of an operation with the current choices of its neighbours."""
        key = (number, tuple(chosen[other] for other in self._neighbours(number)))
        found = self._nears.get(key)
        if found is None:
            found = self._nears[key] = self.mapper.estimator.around(
                number, self.mapper.options(number), chosen
            )
        return found

    def _cost(self, number: int, chosen: Sequence[Choice]) -> float:
        known = self.mapper.estimator.known
        return float(self.mapper.estimator.around(number, known.interned((chosen[number],)), chosen)[0])

    def _neighbours(self, number: int) -> tuple[int, ...]:
        return self.subject.neighbours[number]

    def _kinds(self, assignment: Assignment) -> Iterator[list[int]]:
        """Operations of equal kind and choice, the costliest kinds first."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, operation in enumerate(self.subject.operations):
            key = (operation.operator, operation.inputs, operation.splits, assignment.choices[number])
            groups.setdefault(key, []).append(number)
        yield from sorted(
            groups.values(), key=lambda group: -len(group) * self.subject.operations[group[0]].tensor_elements
        )
