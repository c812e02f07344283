"""Gradients whose terms are summed apart: what is computed early is sent early, what has few rows as rows.

Data parallelism adds all terms of a gradient on each device and reduces their sum once. The gradient of a
tied embedding has a term of the last layer, which is there early, and one of the look-up, the last of all;
reduced apart, the first hides behind the backward pass. A term that is computed of fewer elements than it
has, such as the gradient of a look-up, can be computed on all devices alike, from gathered operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from superopt.ir.graph import NodeId
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.parallel.experts import Assignment
from superopt.optimizer.parallel.search.choices import Licence
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulator
from superopt.optimizer.parallel.simulator.operations import Operation
from superopt.optimizer.parallel.tasks import shape_of
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.training_plans.row_sums import few_row_sums
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
        """What to run alike in addition, so that the terms of a reduced sum are reduced apart, or gathered;
        the largest sum first."""
        operations = problem.simulation.operations.all
        reduced = [one for one, transfer in enumerate(problem.transfers) if transfer.kind is not None]
        for one in sorted(reduced, key=lambda transfer: -problem.bytes[transfer]):
            number, terms = _sum(problem, problem.transfers[one].number)
            if len(terms) < 2:
                continue
            gathered = frozenset(
                operations[term].node for term in terms if _has_few_operands(operations[term])
            )
            if gathered:
                yield frozenset({operations[number].node}) | gathered
            yield frozenset({operations[number].node})


def _sum(problem: Problem, number: int) -> tuple[int, tuple[int, ...]]:
    """The operation that adds the terms of a partial sum, seen through operations of one term such as a
    scaling, and those that compute the terms."""
    terms = _terms(problem, number)
    while len(terms) == 1:
        (number,) = terms
        terms = _terms(problem, number)
    return number, terms


def _terms(problem: Problem, number: int) -> tuple[int, ...]:
    """The operations that compute operands of which each device reads a term."""
    operation = problem.simulation.operations.all[number]
    degrees = problem.simulation.units[number].division.how.degrees
    for dimension, degree in zip(operation.splits.dimensions, degrees, strict=False):
        if degree > 1 and isinstance(dimension, TermDimension):
            sources = (operation.sources[slot] for slot in dimension.slots)
            return tuple(source[0] for source in sources if source is not None)
    return ()


def _has_few_operands(operation: Operation) -> bool:
    """Whether gathering the operands sends less than reducing the result."""
    read, made = (
        sum(math.prod(shape_of(type_)) for type_ in types) for types in (operation.inputs, operation.outputs)
    )
    return read < 2 * made
