"""Expert plans of a training step that divide layers rather than samples alone.

Megatron-LM's column and row parallelism with attention heads (Shoeybi et al. 2019), with the samples divided
along the other axes of the machine; one weird trick (Krizhevsky 2014: convolutions by samples, dense layers
by parameters); DLRM's hybrid (Naumov et al. 2019: whole embedding tables on different devices, the rest by
samples). Dense layers are chosen in the forward pass; the backward pass and the updates follow
(``LayerDivision``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.graph import NodeId, Value
from superopt.ops.roles import Product
from superopt.ops.sharded.splits import SplitKind
from superopt.ops.traits import traits
from superopt.optimizer.parallel.search.choices import ALONE, COPIED, Choice, Licence, is_divisible
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject
from superopt.optimizer.parallel.tasks import shape_of, tensor_of
from superopt.optimizer.parallel.training_plans.derived import LayerDivision, SampleDivision
from superopt.optimizer.parallel.training_plans.row_sums import before_moves, takes_rows
from superopt.optimizer.parallel.training_plans.sharded_states import ShardedStates, Sharding
from superopt.optimizer.parallel.training_plans.states import StateTensor
from superopt.traversal import postorder

WEIRD_TRICK, HYBRID = "one weird trick", "DLRM hybrid"


def model_axes(mesh: Mesh) -> Iterator[tuple[int, ...]]:
    """Adjacent axes that may hold the parts of a layer: those within a node, and all devices."""
    count, border = len(mesh.sizes), len(mesh.sizes) - mesh.inner
    found = {
        tuple(range(start, stop)): None
        for start in range(count)
        for stop in range(start + 1, count + 1)
        if start >= border or (start, stop) == (0, count)
    }
    yield from found


def megatron(mesh: Mesh, axes: Sequence[int]) -> str:
    """The name of the plan whose layers are divided along those axes, which are named where others have as
    many parts."""
    parts = mesh.parts(axes)
    alike = sum(mesh.parts(others) == parts for others in model_axes(mesh))
    which = f", {'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, axes))}" if alike > 1 else ""
    return f"Megatron {parts}-way{which}"


@dataclass(frozen=True)
class DividedLayers:
    """The plans of one step on one machine, beside those that divide it by samples."""

    sharded: ShardedStates

    def plans(self) -> Iterator[Sharding]:
        """Those that divide something; none on one device."""
        if len(self.mesh.devices) == 1:
            return
        if self._columns:
            for axes in model_axes(self.mesh):
                found = self._by_columns_and_rows(axes)
                if found is not None:
                    yield Sharding(megatron(self.mesh, axes), found, {})
            if any(_product(operation) is Product.CONVOLUTION for operation in self.subject.operations):
                found = self._dense_by_parameters()
                if found is not None:
                    yield Sharding(WEIRD_TRICK, found, {})
        if len(self._tables) > 1:
            yield self._tables_apart()

    def _by_columns_and_rows(self, axes: Sequence[int]) -> tuple[Choice, ...] | None:
        """Dense layers by columns where their input is whole along the axes, by rows where it is divided.
        None where no dense layer can be divided this way."""
        others = self.sharded.sample_axes([axis for axis in range(len(self.mesh.sizes)) if axis not in axes])
        samples = SampleDivision(
            self.subject, self.mesh, self._licence, others, whole=self.sharded.whole
        ).choices()
        division = LayerDivision(self.subject, self.mesh, self._licence, axes, columns=self._columns)
        layers = division.choices()
        if not division.divides_layers(layers):
            return None
        return tuple(map(self._both, self.subject.operations, samples, layers))

    def _both(self, operation: Operation, by_samples: Choice, by_layers: Choice) -> Choice:
        """Divided by samples along some axes, as part of a layer along others; by samples alone where sizes
        do not admit both."""
        both = tuple(
            layer if layer != COPIED else sample for sample, layer in zip(by_samples, by_layers, strict=True)
        )
        return both if is_divisible(operation, both, self.mesh) else by_samples

    def _dense_by_parameters(self) -> tuple[Choice, ...] | None:
        """Dense layers by columns and rows on all devices, the rest by samples. None where none can be."""
        axes = self.sharded.sample_axes(range(len(self.mesh.sizes)))
        data = {Value(node, 0): 0 for node in self.sharded.step.data}
        division = LayerDivision(
            self.subject, self.mesh, self._licence, axes, columns=self._columns, given=data
        )
        found = division.choices()
        return tuple(found) if division.divides_layers(found) else None

    def _tables_apart(self) -> Sharding:
        """Each embedding table on its own device, with what looks rows up, adds gradients to rows, and
        updates them."""
        choices = list(self.sharded.replicated)
        shares: dict[int, int] = {}
        count = len(self.mesh.devices)
        for place, (table, lookups) in enumerate(self._tables.items()):
            share = place * max(1, count // len(self._tables)) % count
            for node in (
                *lookups,
                *self._row_gradients(table),
                *self.sharded.updates_of.get(table.name, ()),
            ):
                number = self.subject.numbers[node]
                choices[number] = (ALONE,) * len(self.mesh.sizes)
                shares[number] = share
        return Sharding(HYBRID, tuple(choices), shares)

    @property
    def subject(self) -> Subject:
        """The step to be planned."""
        return self.sharded.subject

    @property
    def mesh(self) -> Mesh:
        """The machine."""
        return self.sharded.mesh

    @property
    def _licence(self) -> Licence:
        return self.sharded.licence

    @cached_property
    def _columns(self) -> Mapping[NodeId, int]:
        """The products of the forward pass by a parameter, and the dimension of their columns."""
        found: dict[NodeId, int] = {}
        for node in self._forward:
            operation = self.subject.operations[self.subject.numbers[node]]
            operands = self.subject.graph[node].inputs
            if _product(operation) is Product.MATRIX and any(map(self._is_parameter, operands)):
                for number, dimension in enumerate(operation.splits.dimensions):
                    if dimension.kind is SplitKind.PARAMETER and self._licence(operation, number):
                        found.setdefault(node, number)
        return found

    @cached_property
    def _forward(self) -> tuple[NodeId, ...]:
        """The operations that the loss depends on."""
        loss = self.sharded.step.loss
        return () if loss is None else tuple(postorder([loss.node], self._read))

    def _read(self, node: NodeId) -> list[NodeId]:
        return [value.node for value in self.subject.graph[node].inputs if value.node in self.subject.numbers]

    def _is_parameter(self, value: Value) -> bool:
        """Whether it is a parameter, perhaps with its elements moved."""
        state = self.sharded.step.by_input.get(before_moves(self.subject, value).node)
        return state is not None and state.of is None

    @cached_property
    def _tables(self) -> Mapping[StateTensor, tuple[NodeId, ...]]:
        """The parameters of which only rows are read, and what reads them."""
        found: dict[StateTensor, tuple[NodeId, ...]] = {}
        for state in self.sharded.parameters:
            users = [node for node in self.subject.graph.users(state.input) if node in self.subject.numbers]
            reading = [node for node in users if node not in self.sharded.updates]
            if reading and all(takes_rows(self.subject, node, state.input) for node in reading):
                found[state] = tuple(reading)
        return found

    def _row_gradients(self, table: StateTensor) -> Iterator[NodeId]:
        """What computes the gradient of a whole table from rows, and passes it to the updates."""
        shape = shape_of(tensor_of(self.subject.graph, Value(table.input, 0)))
        updates = self.sharded.updates_of.get(table.name, ())

        def before(node: NodeId) -> list[NodeId]:
            return [
                read
                for read in self._read(node)
                if read not in self._forward_set and self.sharded.is_of_shape(read, shape)
            ]

        for node in postorder(updates, before):
            if node not in updates:
                yield node

    @cached_property
    def _forward_set(self) -> frozenset[NodeId]:
        return frozenset(self._forward)


def _product(operation: Operation) -> Product | None:
    return traits(operation.operator.name).product
