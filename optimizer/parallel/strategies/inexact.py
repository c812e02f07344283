"""Strategies that train something else than one device: gradients that are delayed, or compressed.

They are planned on a step that has these delays and conversions as states and nodes
(``optimizer.training.synchronisation``), and only there. A plan of that step then rounds each device's
gradient before these are added, which no axiom claims to be equal: half the bytes are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph, NodeId, Value
from superopt.optimizer.parallel.search.choices import Licence
from superopt.optimizer.parallel.search.subject import Operation, Subject
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Compressor,
    Server,
    Strategy,
    Synchronizer,
    VariableSync,
)
from superopt.optimizer.parallel.strategies.variables import Variable
from superopt.optimizer.parallel.tasks import shape_of, tensor_of
from superopt.optimizer.parallel.terms import TermDimension
from superopt.optimizer.parallel.training_plans.states import StateTensor
from superopt.optimizer.training.description import Role
from superopt.optimizer.training.synchronisation import COMPRESSED


@dataclass(frozen=True, slots=True)
class Inexactness:
    """How the gradient of a variable differs from that of one device: applied so many steps later, or
    rounded, with feedback or without."""

    delay: int = 0
    compressor: Compressor = Compressor.NONE

    @staticmethod
    def asked_by(config: VariableSync) -> Inexactness:
        """What a strategy asks for. Raises InvalidOptionError where parts of a variable differ, and where
        nobody waits for the others."""
        found = dict.fromkeys(_asked_by_part(config))
        if len(found) > 1:
            raise InvalidOptionError(
                f"strategy: variable {config.name!r}: expected one staleness and compressor for all "
                f"parts, got {' and '.join(map(str, found))}"
            )
        return next(iter(found), Inexactness())

    @staticmethod
    def of_step(variable: Variable, subject: Subject, compressed: tuple[str, ...]) -> Inexactness:
        """What a step has for a variable."""
        delayed, residual = (_state(subject, variable.name, role) for role in (Role.DELAYED, Role.RESIDUAL))
        delay = 0 if delayed is None else shape_of(tensor_of(subject.graph, Value(delayed.input)))[0]
        if variable.name not in compressed:
            return Inexactness(delay)
        return Inexactness(delay, Compressor.CAST if residual is None else Compressor.CAST_WITH_FEEDBACK)

    def __str__(self) -> str:
        compressor = [f"compressor {self.compressor.value}"] if self.compressor is not Compressor.NONE else []
        staleness = [f"staleness {self.delay}"] if self.delay or not compressor else []
        return " and ".join([*staleness, *compressor])


def require_applied(
    strategy: Strategy, variables: Sequence[Variable], subject: Subject, compressed: tuple[str, ...]
) -> None:
    """Raises InvalidOptionError for a strategy that delays or compresses gradients otherwise than the step,
    whose ``compressed`` gradients are those of these parameters."""
    for variable in variables:
        asked = Inexactness.asked_by(strategy.by_name[variable.name])
        present = Inexactness.of_step(variable, subject, compressed)
        if asked not in (Inexactness(), present):
            raise InvalidOptionError(
                f"strategy: variable {variable.name!r}: {asked} changes what is trained: write the step that "
                "is trained so with `superopt strategy apply`, and plan that"
            )


def exact(strategy: Strategy) -> Strategy:
    """The strategy without delays and compression."""
    variables = (_each(one, lambda part: _changed(part, Inexactness())) for one in strategy.variables)
    return replace(strategy, variables=tuple(variables))


def inexact(strategy: Strategy, asked: Inexactness, names: Collection[str]) -> Strategy:
    """The strategy with a delay on the servers of these variables, or with their all-reduces compressed;
    all-reduces of other variables are in groups of their own then."""
    parts = [part for config in strategy.variables for part in config.synchronizers]
    groups = 1 + max((part.group for part in parts if isinstance(part, Collective)), default=0)

    def other(part: Synchronizer) -> Synchronizer:
        if isinstance(part, Server) or asked.compressor is Compressor.NONE:
            return part
        return replace(part, group=part.group + groups)

    variables = (
        _each(one, (lambda part: _changed(part, asked)) if one.name in names else other)
        for one in strategy.variables
    )
    return replace(strategy, variables=tuple(variables))


def compressed_by(strategy: Strategy) -> tuple[str, ...]:
    """The variables whose gradients a strategy compresses."""
    return tuple(
        config.name
        for config in strategy.variables
        if Inexactness.asked_by(config).compressor is not Compressor.NONE
    )


@dataclass(frozen=True)
class RoundedGradients:
    """A graph with conversions of gradients that devices may do to their terms, as ``licence`` says; the
    nodes ``whole`` convert the sums back, on all devices."""

    graph: Graph
    licence: Licence
    whole: frozenset[NodeId]

    @staticmethod
    def of(subject: Subject, licence: Licence, names: Sequence[str]) -> RoundedGradients:
        """The graph of a step that compresses the gradients of these parameters. What rounding leaves out is
        computed on each device, from conversions of its own: a sum is reduced for all its readers or none."""
        graph = subject.graph
        editor = graph.edit()
        rounding: set[NodeId] = set()
        whole: set[NodeId] = set()
        for name in names:
            restored = _restored(subject, name)
            (low,) = graph[restored].inputs
            whole.add(restored)
            rounding.add(low.node)
            residual = _state(subject, name, Role.RESIDUAL)
            if residual is not None:
                own_low = editor.add(graph[low.node].operator, graph[low.node].inputs)
                own = editor.add(graph[restored].operator, (own_low.value,))
                editor.redirect({graph[restored].value: own.value}, [residual.next.node])
                rounding.update((own_low.id, own.id))
        return RoundedGradients(editor.build(), _rounding(licence, frozenset(rounding)), frozenset(whole))


def _asked_by_part(config: VariableSync) -> Iterator[Inexactness]:
    for one in config.synchronizers:
        if isinstance(one, Collective):
            yield Inexactness(0, one.compressor)
        elif one.sync:
            yield Inexactness(one.staleness)
        else:
            raise InvalidOptionError(
                f"strategy: variable {config.name!r}: sync is false, so that nothing bounds how late a "
                "gradient is applied: expected sync with a staleness"
            )


def _each(config: VariableSync, changed: Callable[[Synchronizer], Synchronizer]) -> VariableSync:
    whole = None if config.synchronizer is None else changed(config.synchronizer)
    parts = tuple(replace(part, synchronizer=changed(part.synchronizer)) for part in config.parts)
    return replace(config, synchronizer=whole, parts=parts)


def _changed(one: Synchronizer, asked: Inexactness) -> Synchronizer:
    if isinstance(one, Server):
        return replace(one, sync=True, staleness=asked.delay)
    return replace(one, compressor=asked.compressor)


def _state(subject: Subject, variable: str, role: Role) -> StateTensor | None:
    assert subject.step is not None, "strategies are for training steps"
    return next((state for state in subject.step.states if state.of == variable and state.role is role), None)


def _rounding(licence: Licence, nodes: frozenset[NodeId]) -> Licence:
    """The licence, and that to round terms in some nodes."""

    def allow(operation: Operation, dimension: int) -> bool:
        own = operation.splits.dimensions[dimension]
        is_own = operation.node in nodes and isinstance(own, TermDimension) and own.rounds
        return is_own or licence(operation, dimension)

    return allow


def _restored(subject: Subject, name: str) -> NodeId:
    """The conversion from half precision that is next to the update of a parameter."""
    assert subject.step is not None, "strategies are for training steps"
    waiting = [
        state.next
        for state in subject.step.states
        if name in (state.name, state.of) and not state.role.is_sum
    ]
    seen: set[Value] = set()
    for value in waiting:
        if value in seen or value.node not in subject.numbers:
            continue
        seen.add(value)
        operands = subject.graph[value.node].inputs
        if len(operands) == 1 and tensor_of(subject.graph, operands[0]).element is COMPRESSED:
            return value.node
        waiting.extend(operands)
    raise InvalidOptionError(
        f"strategy: variable {name!r}: expected a gradient in half precision, as `superopt strategy apply` "
        "writes it"
    )


__all__ = ["Inexactness", "RoundedGradients", "compressed_by", "exact", "inexact", "require_applied"]
