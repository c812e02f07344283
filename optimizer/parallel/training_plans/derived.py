"""Plans of a training step, derived from the division of its samples, or of some of its operators.

Every node is divided as its operands are (``tasks`` types divided tensors): an operand that is divided along
an axis divides the node along the task dimension that follows the axis, and a sum over samples is a partial
sum. A partial sum stays one as long as everything that reads it is linear in it, and is reduced where it is
read otherwise; so each gradient is reduced once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from superopt.ir.graph import NodeId, Value
from superopt.ops.sharded.splits import SplitKind
from superopt.optimizer.parallel.search.choices import COPIED, Choice, Licence, is_divisible, is_summed
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject
from superopt.optimizer.parallel.terms import TermDimension

Axes = dict[Value, int]
"""The axis along which tensors are divided."""


@dataclass
class Derivation:
    """Derives the choices of all operations from what is divided along some mesh axes."""

    subject: Subject
    mesh: Mesh
    licence: Licence
    axes: Sequence[int]

    def choices(self) -> list[Choice]:
        """The choice of every operation."""
        kept = {
            Value(operation.node, port)
            for operation in self.subject.operations
            for port in range(len(operation.outputs))
        }
        kept |= self._held
        while True:
            labels, sums = self._labels(kept)
            remaining = (kept & sums) - self._read_whole(labels)
            if remaining == kept:
                return [self._choice(label) for label in labels]
            kept = remaining

    def _labels(self, kept: set[Value]) -> tuple[list[int], set[Value]]:
        """The task dimension along which each operation is divided, or COPIED, if readers take the partial
        sums among ``kept`` as they are; and all values that are partial sums then."""
        divided = self._given()
        sums = set(self._held)
        labels: list[int] = []
        for operation in self.subject.operations:
            label = self._label(operation, divided, sums & kept)
            labels.append(label)
            if label == COPIED:
                continue
            self._read(operation, label, divided)
            for port, followed in enumerate(operation.splits.outputs):
                value = Value(operation.node, port)
                if label in followed:
                    divided[value] = followed.index(label)
                elif is_summed(operation, label, port):
                    sums.add(value)
        return labels, sums

    @cached_property
    def _held(self) -> frozenset[Value]:
        """The states of which devices may hold terms."""
        states = () if self.subject.step is None else self.subject.step.states
        return frozenset(Value(state.input, 0) for state in states if state.role.is_sum)

    def _given(self) -> Axes:
        """The inputs that are divided."""
        return {}

    def _read(self, operation: Operation, label: int, divided: Axes) -> None:
        """Notes which inputs an operation reads in parts."""

    def _chosen(self, operation: Operation) -> int | None:
        """The task dimension along which an operation is divided in any case."""
        del operation
        return None

    def _label(self, operation: Operation, divided: Axes, sums: set[Value]) -> int:
        label = self._wanted(operation, divided, sums)
        if label is None or not self.licence(operation, label):
            return COPIED
        return label if is_divisible(operation, self._choice(label), self.mesh) else COPIED

    def _wanted(self, operation: Operation, divided: Axes, sums: set[Value]) -> int | None:
        chosen = self._chosen(operation)
        if chosen is not None:
            return chosen
        operands = self.subject.graph[operation.node].inputs
        wanted = {
            operation.splits.inputs[slot][divided[value]]
            for slot, value in enumerate(operands)
            if value in divided
        }
        if not wanted:
            terms = frozenset(slot for slot, value in enumerate(operands) if value in sums)
            wanted = {
                number
                for number, dimension in enumerate(operation.splits.dimensions)
                if isinstance(dimension, TermDimension) and terms and frozenset(dimension.slots) == terms
            }
        return wanted.pop() if len(wanted) == 1 else None

    def _read_whole(self, labels: Sequence[int]) -> set[Value]:
        """The values that some operation does not read as terms."""
        found: set[Value] = set()
        for operation, label in zip(self.subject.operations, labels, strict=True):
            dimension = None if label == COPIED else operation.splits.dimensions[label]
            slots = dimension.slots if isinstance(dimension, TermDimension) else ()
            operands = self.subject.graph[operation.node].inputs
            found.update(value for slot, value in enumerate(operands) if slot not in slots)
        return found

    def _choice(self, label: int) -> Choice:
        return tuple(label if axis in self.axes else COPIED for axis in range(len(self.mesh.sizes)))


@dataclass
class SampleDivision(Derivation):
    """Data parallelism. ``parts`` are operations whose results are divided along an axis in any case,
    ``whole`` those that all devices run alike."""

    parts: Mapping[NodeId, int] = field(default_factory=dict[NodeId, int])
    whole: frozenset[NodeId] = frozenset()

    def _given(self) -> Axes:
        data = frozenset[NodeId]() if self.subject.step is None else self.subject.step.data
        return {Value(node, 0): 0 for node in data}

    def _chosen(self, operation: Operation) -> int | None:
        if operation.node in self.whole:
            return COPIED
        axis = self.parts.get(operation.node)
        return None if axis is None else operation.splits.outputs[0][axis]


@dataclass
class LayerDivision(Derivation):
    """Operator parallelism. ``labels`` are the task dimensions along which some operations are divided in any
    case, or COPIED; ``columns`` those along which others are where no layer before them divides what they
    read, which then divides them. What a divided operation reads of the inputs is divided wherever it is
    read, so that the backward pass and the updates have the division of the forward pass. ``given`` are
    inputs that are divided otherwise, by samples: layers go first."""

    labels: Mapping[NodeId, int] = field(default_factory=dict[NodeId, int])
    columns: Mapping[NodeId, int] = field(default_factory=dict[NodeId, int])
    given: Axes = field(default_factory=Axes)
    _inputs: Axes = field(default_factory=Axes)
    _layered: set[Value] = field(default_factory=set[Value])

    def choices(self) -> list[Choice]:
        """Derived anew until no more inputs are found to be divided."""
        while True:
            known = len(self._inputs)
            found = super().choices()
            if len(self._inputs) == known:
                return found

    def divides_layers(self, choices: Sequence[Choice]) -> bool:
        """Whether some of the ``columns`` are divided by columns, or by rows."""
        for node, label in self.columns.items():
            number = self.subject.numbers[node]
            kinds = self.subject.operations[number].splits.dimensions
            rows = {n for n, dimension in enumerate(kinds) if dimension.kind is SplitKind.REDUCTION}
            if not {label, *rows}.isdisjoint(choices[number]):
                return True
        return False

    def _given(self) -> Axes:
        self._layered = set(self._inputs)
        return {**self.given, **self._inputs}

    def _read(self, operation: Operation, label: int, divided: Axes) -> None:
        operands = self.subject.graph[operation.node].inputs
        is_layer = operation.node in self.labels or operation.node in self.columns
        if not is_layer and not any(
            value in self._layered & divided.keys() and operation.splits.inputs[slot][divided[value]] == label
            for slot, value in enumerate(operands)
        ):
            return
        self._layered.update(Value(operation.node, port) for port in range(len(operation.outputs)))
        for slot, value in enumerate(operands):
            followed = operation.splits.inputs[slot]
            if value.node not in self.subject.numbers and label in followed and value not in self.given:
                self._inputs.setdefault(value, followed.index(label))
                divided.setdefault(value, followed.index(label))
                self._layered.add(value)

    def _wanted(self, operation: Operation, divided: Axes, sums: set[Value]) -> int | None:
        if operation.node in self.labels:
            return self.labels[operation.node]
        by_layers = {value: axis for value, axis in divided.items() if value in self._layered}
        operands = self.subject.graph[operation.node].inputs
        wanted = {
            operation.splits.inputs[slot][by_layers[value]]
            for slot, value in enumerate(operands)
            if value in by_layers
        }
        if len(wanted) == 1:
            return wanted.pop()
        if operation.node in self.columns:
            return self.columns[operation.node]
        return super()._wanted(operation, divided, sums)
