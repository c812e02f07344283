"""Expert-designed plans: the baselines that a search has to beat.

A single device; data parallelism; Megatron-LM's column and row parallelism with attention heads (Shoeybi et
al. 2019); one weird trick (Krizhevsky 2014: convolutions by samples, dense layers by parameters); DLRM's
hybrid (Naumov et al. 2019: whole embedding tables on different devices, the rest by samples).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from superopt.ir.graph import NodeId
from superopt.ir.plan import Parallelism, Plan, Residence
from superopt.ops.roles import Product
from superopt.ops.sharded.splits import SplitKind
from superopt.ops.traits import traits
from superopt.optimizer.parallel.search.choices import (
    ALONE,
    COPIED,
    Choice,
    Licence,
    everything,
    is_divisible,
    parallelism,
)
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.subject import Operation, Subject, is_lookup
from superopt.optimizer.parallel.training_plans.divided_layers import (
    HYBRID,
    WEIRD_TRICK,
    DividedLayers,
    megatron,
    model_axes,
)
from superopt.optimizer.parallel.training_plans.resident_states import ResidentStates
from superopt.optimizer.parallel.training_plans.row_sums import few_row_sums
from superopt.optimizer.parallel.training_plans.sharded_states import ZERO_2, ZERO_3, ShardedStates

ONE_DEVICE = "one device"
"""The plan that uses one device only, the best one: the baseline of speed-ups."""


@dataclass(frozen=True, slots=True)
class Expert:
    """An expert plan and its name."""

    name: str
    plan: Plan


@dataclass(frozen=True)
class Assignment:
    """A choice on a mesh for every operation, by number; ``shares`` gives the device of operations that run
    on one device, ``residence`` the inputs that are kept in parts."""

    mesh: Mesh
    choices: tuple[Choice, ...]
    shares: Mapping[int, int]
    residence: Mapping[NodeId, Residence] = field(default_factory=lambda: MappingProxyType({}))

    def plan(self, subject: Subject) -> Plan:
        """The corresponding plan."""
        how: dict[NodeId, Parallelism] = {
            operation.node: parallelism(operation, choice, self.mesh, share=self.shares.get(number, 0))
            for number, (operation, choice) in enumerate(zip(subject.operations, self.choices, strict=True))
        }
        return Plan(parallel=MappingProxyType(how), residence=self.residence)


def experts(subject: Subject, mesh: Mesh, licence: Licence = everything) -> Iterator[Expert]:
    """The expert plans for that machine, with its first device as the only one; those not applicable to the
    model are left out."""
    for name, assignment in assignments(subject, mesh, licence):
        yield Expert(name, assignment.plan(subject))


def assignments(
    subject: Subject, mesh: Mesh, licence: Licence = everything
) -> Iterator[tuple[str, Assignment]]:
    """The same, as choices on the mesh."""
    yield ONE_DEVICE, one_device(subject, mesh)
    shaper = _Shaper(subject, mesh, licence)
    if subject.step is not None:
        sharded = ShardedStates(subject, subject.step, mesh, licence, few_row_sums(subject))
        for plan in sharded.plans():
            assignment = Assignment(mesh, plan.choices, plan.shares)
            yield plan.name, assignment
            if plan.name == ZERO_2:
                plan_of = ResidentStates(subject, assignment.plan(subject)).releasing_all()
                yield ZERO_3, replace(assignment, residence=plan_of.residence)
        for plan in DividedLayers(sharded).plans():
            yield plan.name, Assignment(mesh, plan.choices, plan.shares)
        return
    yield "data parallel", shaper.assignment(shaper.by_samples(shaper.all_axes))
    if any(_is_dense(operation) for operation in subject.operations):
        for axes in model_axes(mesh):
            found = shaper.by_columns_and_rows(axes, _is_dense)
            if found is not None:
                yield megatron(mesh, axes), shaper.assignment(found)
        if any(_product(operation) is Product.CONVOLUTION for operation in subject.operations):
            found = shaper.by_columns_and_rows(shaper.all_axes, _is_dense)
            if found is not None:
                yield WEIRD_TRICK, shaper.assignment(found)
    tables = [n for n in range(len(subject.operations)) if shaper.is_joined_table(n)]
    if len(tables) > 1 and len(mesh.devices) > 1:
        yield HYBRID, shaper.tables_apart(tables)


def one_device(subject: Subject, mesh: Mesh, place: int = 0) -> Assignment:
    """All operations on the device at that place of the mesh."""
    count = len(subject.operations)
    return Assignment(mesh, ((ALONE,) * len(mesh.sizes),) * count, dict.fromkeys(range(count), place))


class _Shaper:
    """Builds choices for all operations of a subject on a mesh."""

    def __init__(self, subject: Subject, mesh: Mesh, licence: Licence) -> None:
        self._subject = subject
        self._mesh = mesh
        self._licence = licence
        self.all_axes = tuple(range(len(mesh.sizes)))

    def assignment(self, choices: Sequence[Choice]) -> Assignment:
        return Assignment(self._mesh, tuple(choices), {})

    def by_samples(self, axes: Sequence[int]) -> list[Choice]:
        """Data parallelism along those axes, copies along the others."""
        return [self._samples(operation, axes) for operation in self._subject.operations]

    def by_columns_and_rows(
        self, axes: Sequence[int], is_split: Callable[[Operation], bool]
    ) -> list[Choice] | None:
        """Dense layers by columns where their input is whole along the axes, by rows where it is divided;
        following operations stay divided as long as possible. Data parallelism along the other axes. None
        where no dense layer can be divided this way."""
        others = [axis for axis in self.all_axes if axis not in axes]
        states: dict[tuple[int, int], int | None] = {}
        found: list[Choice] = []
        divided = 0
        for number, operation in enumerate(self._subject.operations):
            label = self._followed(number, operation, states)
            if label is None and is_split(operation):
                label = self._columns(operation)
            if label is not None:
                choice = self._with(operation, self._samples(operation, others), axes, label)
                if choice is not None:
                    divided += is_split(operation)
                    found.append(choice)
                    for port, followed in enumerate(operation.splits.outputs):
                        states[number, port] = followed.index(label) if label in followed else None
                    continue
            for port in range(len(operation.outputs)):
                states[number, port] = None
            is_apart = is_split(operation) or len(others) > 0
            found.append(self._samples(operation, others if is_apart else self.all_axes))
        return found if divided else None

    def tables_apart(self, tables: Sequence[int]) -> Assignment:
        """Each embedding table on its own device, with the operations that only it needs; the rest by
        samples."""
        choices = self.by_samples(self.all_axes)
        alone = (ALONE,) * len(self._mesh.sizes)
        shares: dict[int, int] = {}
        count = len(self._mesh.devices)
        for place, table in enumerate(tables):
            share = place * max(1, count // len(tables)) % count
            for number in self._tower(table):
                choices[number] = alone
                shares[number] = share
        return Assignment(self._mesh, tuple(choices), shares)

    def is_joined_table(self, number: int) -> bool:
        """Whether it looks up rows of a table that are later concatenated with others."""
        if not _is_embedding(self._subject.operations[number]):
            return False
        *_, last = self._tower(number)
        users = {edge.target for edge in self._subject.outgoing[last]}
        return any(traits(self._subject.operations[user].operator.name).joins for user in users)

    def _tower(self, number: int) -> Iterator[int]:
        """The operation and its successors that read nothing else, while one operation reads the output."""
        while True:
            yield number
            users = {edge.target for edge in self._subject.outgoing[number]}
            if len(users) != 1:
                return
            (number,) = users
            if len({edge.source for edge in self._subject.incoming[number]}) != 1:
                return
            if self._subject.operations[number].weights and _is_dense(self._subject.operations[number]):
                return

    def _samples(self, operation: Operation, axes: Sequence[int]) -> Choice:
        """Samples along as many of the axes as divide their number."""
        choice = [COPIED] * len(self._mesh.sizes)
        dimension = self._sample_dimension(operation)
        if dimension is not None:
            for axis in axes:
                choice[axis] = dimension
                if not is_divisible(operation, tuple(choice), self._mesh):
                    choice[axis] = COPIED
        return tuple(choice)

    def _sample_dimension(self, operation: Operation) -> int | None:
        for number, dimension in enumerate(operation.splits.dimensions):
            if dimension.kind is SplitKind.SAMPLE and self._licence(operation, number):
                return number
        return None

    def _columns(self, operation: Operation) -> int | None:
        for number, dimension in enumerate(operation.splits.dimensions):
            if dimension.kind is SplitKind.PARAMETER and self._licence(operation, number):
                return number
        return None

    def _followed(
        self, number: int, operation: Operation, states: Mapping[tuple[int, int], int | None]
    ) -> int | None:
        """The task dimension along which inputs are already divided, if all divided ones agree."""
        labels: set[int | None] = set()
        for edge in self._subject.incoming[number]:
            axis = states.get((edge.source, edge.port))
            if axis is not None:
                labels.add(operation.splits.inputs[edge.slot][axis])
        if len(labels) != 1:
            return None
        (label,) = labels
        if label is None or not self._licence(operation, label):
            return None
        return label

    def _with(self, operation: Operation, choice: Choice, axes: Sequence[int], label: int) -> Choice | None:
        changed = list(choice)
        for axis in axes:
            changed[axis] = label
        return tuple(changed) if is_divisible(operation, tuple(changed), self._mesh) else None


def _is_dense(operation: Operation) -> bool:
    return _product(operation) is Product.MATRIX and bool(operation.weights)


def _product(operation: Operation) -> Product | None:
    return traits(operation.operator.name).product


def _is_embedding(operation: Operation) -> bool:
    return is_lookup(operation) and 0 in operation.weights
