"""Gradients of a step, in the parts of a strategy, with those of one group merged into one tensor.

A group is one all-reduce of its gradients laid end to end, as in Horovod's fusion buffer (Sergeev and Del
Balso 2018): it takes ``C x + D`` for their x bytes together in place of one start D for each, and begins when
the last of them is there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from superopt.ir.graph import NodeId, Value
from superopt.optimizer.parallel.search.choices import is_summed
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.strategies.cutting import Cutter
from superopt.optimizer.parallel.strategies.model import Collective, Strategy, Synchronizer
from superopt.optimizer.parallel.strategies.variables import Variable
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a variable's gradient that one synchroniser is for. ``value`` is that part of the
    ``gradient``, summed if it was merged with others."""

    variable: Variable
    synchronizer: Synchronizer
    gradient: Value
    value: Value


@dataclass
class Merging:
    """Cuts the gradients of a step and merges those of one group. ``everywhere`` are added nodes that run on
    all devices after a sum."""

    subject: Subject
    sharded: ShardedStates
    cutter: Cutter
    everywhere: set[NodeId] = field(default_factory=set[NodeId])

    def pieces(self, strategy: Strategy, variables: Sequence[Variable]) -> Mapping[str, list[Piece]]:
        """By variable, the pieces of its gradient; none where that is not one sum over devices."""
        found = [
            piece
            for variable in variables
            if (gradient := self.gradient(variable)) is not None
            for piece in self._cut(strategy, variable, gradient)
        ]
        groups: dict[int, list[int]] = {}
        for place, piece in enumerate(found):
            if isinstance(piece.synchronizer, Collective):
                groups.setdefault(piece.synchronizer.group, []).append(place)
        for members in groups.values():
            if len(members) > 1:
                merged = self._merged([found[place] for place in members])
                for place, value in zip(members, merged, strict=True):
                    found[place] = replace(found[place], value=value)
        by_name: dict[str, list[Piece]] = {}
        for piece in found:
            by_name.setdefault(piece.variable.name, []).append(piece)
        return by_name

    def gradient(self, variable: Variable) -> Value | None:
        """The sum over devices from which the variable is updated, if there is exactly one."""
        found = {
            value
            for node in self.sharded.updates_of.get(variable.name, ())
            for value in self.subject.graph[node].inputs
            if value.node in self.sharded.computed
        }
        if len(found) != 1:
            return None
        (value,) = found
        number = self.subject.numbers[value.node]
        operation, choice = self.subject.operations[number], self.sharded.replicated[number]
        labels = {label for label in choice if label >= 0}
        is_sum = len(labels) == 1 and is_summed(operation, next(iter(labels)), value.port)
        return value if is_sum and self.cutter.shape(value) == variable.shape else None

    def _cut(self, strategy: Strategy, variable: Variable, gradient: Value) -> list[Piece]:
        config = strategy.by_name[variable.name]
        values = [gradient]
        if config.is_partitioned:
            values, _ = self.cutter.parts(gradient, config.partition)
        return [
            Piece(variable, synchronizer, gradient, value)
            for synchronizer, value in zip(config.synchronizers, values, strict=True)
        ]

    def _merged(self, pieces: Sequence[Piece]) -> list[Value]:
        """The summed values of pieces that are reduced as one tensor."""
        cutter = self.cutter
        shapes = [cutter.shape(piece.value) for piece in pieces]
        flat = [
            cutter.reshaped(piece.value, (math.prod(shape),))
            for piece, shape in zip(pieces, shapes, strict=True)
        ]
        joined = cutter.end_to_end(flat)
        values = cutter.cut(joined, 0, [math.prod(shape) for shape in shapes])
        found = [cutter.reshaped(value, shape) for value, shape in zip(values, shapes, strict=True)]
        self.everywhere.update((values[0].node, *(value.node for value in found)))
        return found
