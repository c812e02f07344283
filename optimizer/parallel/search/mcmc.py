"""FlexFlow's search: Metropolis sampling of plans by simulated time (dissertation, section 3.5)."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from superopt.ir.graph import NodeId
from superopt.ir.plan import Parallelism, Plan
from superopt.optimizer.parallel.search.choices import (
    Choice,
    Licence,
    choices_on,
    everything,
    own_dimensions,
    parallelism,
)
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject

Delta = Callable[[Plan, Sequence[NodeId]], float]
"""Simulated microseconds of a plan that differs from the last one at the given nodes; infinite where it does
not fit into memory."""

_STEEPNESS = 50.0
"""A plan that is 2% slower than the current one is accepted with probability 1/e."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The best plan of a chain, its simulated time, and the number of simulated plans."""

    plan: Plan
    microseconds: float
    proposals: int


@dataclass
class Metropolis:
    """Samples plans of a subject on a mesh by random changes of one operation's division at a time."""

    subject: Subject
    mesh: Mesh
    delta: Delta
    licence: Licence = everything
    seed: int = 0
    expired: Callable[[], bool] = field(default=lambda: False)

    def run(self, starts: Sequence[Plan], seconds: float, proposals: int | None = None) -> Sampled:
        """The best plan found; every start gets an equal share of the processor time, and a chain also ends
        when half of its share brought no improvement. With ``proposals`` each chain ends after that many."""
        source = random.Random(self.seed)
        best: Sampled | None = None
        tried = 0
        for start in starts:
            found = self._chain(start, seconds / len(starts), proposals, source)
            tried += found.proposals
            if best is None or found.microseconds < best.microseconds:
                best = found
        assert best is not None, "a chain begins somewhere"
        return replace(best, proposals=tried)

    def _chain(self, start: Plan, seconds: float, proposals: int | None, source: random.Random) -> Sampled:
        every = tuple(operation.node for operation in self.subject.operations)
        cost = self.delta(start, every)
        current = best = Sampled(start, cost, 0)
        rejected: tuple[NodeId, ...] = ()
        began = better_at = time.process_time()
        tried = 0
        while not self.expired() and (
            (proposals is None and time.process_time() - began < seconds) or tried < (proposals or 0)
        ):
            if proposals is None and time.process_time() - better_at > seconds / 2:
                break
            tried += 1
            operation = source.choice(self.subject.operations)
            plan = self._changed(current.plan, operation, source)
            cost = self.delta(plan, (*rejected, operation.node))
            ratio = cost / current.microseconds - 1
            if ratio <= 0 or source.random() < math.exp(-_STEEPNESS * ratio):
                current, rejected = Sampled(plan, cost, tried), ()
                if cost < best.microseconds:
                    best, better_at = current, time.process_time()
            else:
                rejected = (operation.node,)
        return replace(best, proposals=tried)

    def _changed(self, plan: Plan, operation: Operation, source: random.Random) -> Plan:
        how = parallelism(operation, self._choice(operation, source), self.mesh)
        return with_mapping(plan, operation.node, how)

    def _choice(self, operation: Operation, source: random.Random) -> Choice:
        dimensions = own_dimensions(operation, self.licence)
        segment = source.choice(self.mesh.segments) if self.mesh.segments else None
        found = choices_on(operation, dimensions, self.mesh, () if segment is None else (segment,))
        return source.choice(found)


def with_mapping(plan: Plan, node: NodeId, how: Parallelism) -> Plan:
    """The plan with one node's machine mapping replaced."""
    return replace(plan, parallel=MappingProxyType({**plan.parallel, node: how}))
