"""Gradients whose terms are summed apart: what is computed early is sent early, what has few rows as rows.

Data parallelism adds all terms of a gradient on each device and reduces their sum once. The gradient of a
tied embedding has a term of the last layer, which is there early, and one of the look-up, the last of all;
reduced apart, the first hides behind the backward pass. The same goes for a gradient that is joined from
parts which are computed one by one. A term that is computed from fewer bytes than it has, such as the
gradient of a look-up, can be computed on all devices alike, from gathered operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from superopt.ir.graph import NodeId
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.parallel.experts import Assignment
from superopt.optimizer.parallel.search.choices import Licence
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulator
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.training_plans.row_sums import few_row_sums, gathers_less
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates

Nodes = frozenset[NodeId]


@dataclass(frozen=True)
class GradientSums:
    """The ways to sum the gradients of a step that is divided by samples."""

    subject: Subject
    licence: Licence
    simulator: Simulator

    def problem(self, whole: Nodes = frozenset()) -> Problem:
        """Data parallelism in which some nodes are run by all devices alike, on reduced or gathered operands.
        Raises InvalidOptionError unless all devices do the same."""
        assert self.subject.step is not None, "gradients are those of training steps"
        mesh = Mesh.of(self.simulator.prices.cluster)
        sharded = ShardedStates(
            self.subject, self.subject.step, mesh, self.licence, few_row_sums(self.subject) | whole
        )
        plan = Assignment(mesh, tuple(sharded.replicated), {}).plan(self.subject)
        return Problem.of(self.simulator.simulate(plan))

    def apart(self, problem: Problem) -> Iterator[Nodes]:
        """What to run alike in addition, so that the terms from which a reduced value is added or joined are
        reduced apart, as soon as they are computed, or their operands gathered; the largest value first."""
        operations = problem.simulation.operations.all
        reduced = [one for one, transfer in enumerate(problem.transfers) if transfer.kind is not None]
        for one in sorted(reduced, key=lambda transfer: -problem.bytes[transfer]):
            *_, joining = _passed(problem, problem.transfers[one].number)
            terms = _terms(problem, joining)
            if len(terms) < 2:
                continue
            paths = [_passed(problem, term) for term in terms]
            later = {operations[number].node for *passed, _ in paths for number in passed}
            first = [operations[origin] for *_, origin in paths if not _terms(problem, origin)]
            few = [operation.node for operation in first if gathers_less(operation.inputs, operation.outputs)]
            joined = frozenset({operations[joining].node, *later})
            if few:
                yield joined.union(few)
            yield joined


def _passed(problem: Problem, number: int) -> tuple[int, ...]:
    """The operations from one to the first that does not read exactly one term: scalings, transpositions and
    the like, and what adds several terms or computes one."""
    found = [number]
    while len(terms := _terms(problem, found[-1])) == 1:
        found.extend(terms)
    return tuple(found)


def _terms(problem: Problem, number: int) -> tuple[int, ...]:
    """The operations that compute operands of which each device reads a term."""
    operation = problem.simulation.operations.all[number]
    degrees = problem.simulation.units[number].division.how.degrees
    for dimension, degree in zip(operation.splits.dimensions, degrees, strict=False):
        if degree > 1 and isinstance(dimension, TermDimension):
            sources = (operation.sources[slot] for slot in dimension.slots)
            return tuple(source[0] for source in sources if source is not None)
    return ()
