"""Kernels of several operators on one device: whether they are possible, and what they take.

A kernel reads its operands and writes its results once; what only its members read stays on the chip. So it
takes one launch and the larger of the time of all operations and that of moving operands and results. Where
the costs of a device were recorded, the time is scaled by the ratio of recorded to estimated time of its
members. Where the device has an estimator, it gives the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from superopt.ops.base import Operator
from superopt.ops.opaque import Opaque
from superopt.ops.traits import ALIASES
from superopt.optimizer.cost.machine import bytes_of, number_of
from superopt.optimizer.cost.objective import rounded
from superopt.optimizer.fusion.legality import (
    MOST_OPERANDS,
    KernelRole,
    Member,
    kernel_role,
    takes_transposed,
    transposes_matrices,
    why_not_one,
)
from superopt.optimizer.parallel.simulator.operations import Operation, Operations
from superopt.optimizer.parallel.simulator.units import Division, parts_of
from superopt.optimizer.parallel.task_costs import Types, roofline_microseconds
from superopt.optimizer.parallel.tasks import KernelTask, Task
from superopt.optimizer.parallel.topology import DeviceKind

_HALF_BYTES = 2
_MICRO = 1e6

Source = tuple[int, int]
"""A value: of a result number of the operation and port; of others -1 - id of the node and port."""


@dataclass(frozen=True, slots=True)
class Part:
    """An operation's work on one device. ``reads`` are bytes by operand, ``writes`` by result; ``flops`` is
    microseconds of computing, ``alone`` of the kernel of this operation only, ``estimate`` the same by the
    roofline. ``sources`` are the operands of the ``task``."""

    member: Member
    task: Task
    sources: tuple[Source, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: float
    alone: float
    estimate: float
    is_free: bool


@dataclass(frozen=True, slots=True)
class Kernel:
    """Operations that run as one kernel: ``members`` in order, of which ``copied`` also run elsewhere, for
    other readers."""

    members: tuple[int, ...]
    copied: frozenset[int]
    microseconds: float


class KernelModel:
    """Kernels of the operations of a plan, on devices of one kind."""

    def __init__(self, operations: Operations, divisions: Sequence[Division], kind: DeviceKind) -> None:
        self._operations = operations
        self._divisions = divisions
        self._kind = kind
        self.parts = tuple(
            self._part(operation, division)
            for operation, division in zip(operations.all, divisions, strict=True)
        )

    def is_joined(self, producer: int, port: int, reader: int, slot: int) -> bool:
        """Whether a reader finds its operand on its own device as it was computed there."""
        made, read = self._divisions[producer], self._divisions[reader]
        return made.makes[port] == read.needs[slot] and made.how.devices == read.how.devices

    def inner(self, members: Collection[int]) -> list[tuple[int, int, int]]:
        """The operands of members that are computed by members: producer, reader and slot."""
        return [
            (source[0], number, slot)
            for number in members
            for slot, source in enumerate(self.parts[number].sources)
            if source[0] in members
        ]

    def written(self, members: Collection[int], copied: Collection[int], readers: Readers) -> list[Source]:
        """The values that members compute for others."""
        return [
            (number, port)
            for number in members
            if number not in copied
            for port in range(len(self.parts[number].writes))
            if readers.has_others(number, port, members, copied)
        ]

    def why_not(self, members: tuple[int, ...], copied: frozenset[int], readers: Readers) -> str | None:
        """Why the members cannot be one kernel; None if they can."""
        within = frozenset(members)
        inner = self.inner(within)
        for producer, reader, slot in inner:
            port = self.parts[reader].sources[slot][1]
            if not self.is_joined(producer, port, reader, slot):
                return "one of them needs what another computes in another placement, through a collective"
        written = self.written(members, copied, readers)
        why = why_not_one(
            {number: self.parts[number].member for number in members},
            inner,
            [number for number, _ in written],
        )
        if why is None and len(written) + len(self._operands(members, within)) > MOST_OPERANDS:
            return f"a kernel has at most {MOST_OPERANDS} operands and results"
        return why

    def kernel(self, members: tuple[int, ...], copied: frozenset[int], readers: Readers) -> Kernel:
        """The kernel of members that can be one."""
        operands = self._operands(members, frozenset(members))
        written = self.written(members, copied, readers)
        return Kernel(members, copied, self._microseconds(members, operands, written))

    def task(self, members: Sequence[int], written: Sequence[Source]) -> KernelTask:
        """What a kernel of members computes and writes; operands of several members are given once."""
        place = {number: position for position, number in enumerate(members)}
        given: dict[Source, int] = {}
        operands = tuple(
            tuple(
                (place[source[0]], source[1])
                if source[0] in place
                else (-1 - given.setdefault(source, len(given)), 0)
                for source in self.parts[number].sources
            )
            for number in members
        )
        tasks = tuple(self.parts[number].task for number in members)
        return KernelTask(tasks, operands, tuple((place[number], port) for number, port in written))

    def _operands(self, members: Sequence[int], within: Collection[int]) -> dict[Source, int]:
        """The values that are read from outside, with bytes: of one that is read in several placements, those
        of the largest part."""
        found: dict[Source, int] = {}
        for number in members:
            part = self.parts[number]
            for source, read in zip(part.sources, part.reads, strict=True):
                if source[0] not in within:
                    found[source] = max(read, found.get(source, 0))
        return found

    def _microseconds(
        self,
        members: Sequence[int],
        operands: dict[Source, int],
        written: Sequence[Source],
    ) -> float:
        parts = [self.parts[number] for number in members]
        if len(parts) == 1:
            return parts[0].alone
        if all(part.is_free for part in parts):
            return 0.0
        if self._kind.estimator is not None:
            return rounded(self._kind.estimator.microseconds(self.task(members, written)))
        extent = max((self.parts[number].member.extent for number, _ in written), default=0)
        flops = sum(part.flops * max(1.0, extent / max(1, part.member.extent)) for part in parts)
        moved = sum(operands.values()) + sum(self.parts[number].writes[port] for number, port in written)
        time = self._kind.launch + max(flops, _MICRO * moved / self._kind.memory_bandwidth)
        if self._kind.profile is not None:
            time *= sum(part.alone for part in parts) / max(1e-9, sum(part.estimate for part in parts))
        return rounded(time)

    def _part(self, operation: Operation, division: Division) -> Part:
        operator, how = operation.operator, division.how
        inputs = parts_of(operation.inputs, operation.splits.inputs, how.degrees)
        outputs = parts_of(operation.outputs, operation.splits.outputs, how.degrees)
        is_free = operator.name in ALIASES
        flops, reads, writes = self._work(operation, inputs, outputs)
        alone = float(division.duration.each[how.devices[0]])
        return Part(
            self._member(operation, inputs, outputs),
            Task(operator.task(outputs) if isinstance(operator, Operator) else operator, inputs, outputs),
            tuple(
                (-1 - value.node, value.port) if source is None else source
                for source, value in zip(
                    operation.sources, self._operations.graph[operation.node].inputs, strict=True
                )
            ),
            reads,
            writes,
            0.0 if is_free else flops,
            alone,
            0.0
            if is_free
            else roofline_microseconds(operator, inputs, outputs, self._kind, operation.weights),
            is_free,
        )

    def _work(
        self, operation: Operation, inputs: Types, outputs: Types
    ) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
        """Microseconds of computing, and bytes of operands and results. An operator that reads less than its
        operands, as a look-up does, reads less of the largest."""
        operator = operation.operator
        reads, writes = [bytes_of(type_) for type_ in inputs], [bytes_of(type_) for type_ in outputs]
        if not isinstance(operator, Operator) or isinstance(operator, Opaque):
            return 0.0, tuple(reads), tuple(writes)
        work = operator.work(inputs, outputs)
        excess = sum(reads) + sum(writes) - number_of(work.bytes)
        if excess > 0 and reads and operator.name not in ALIASES:
            largest = reads.index(max(reads))
            reads[largest] = max(0, reads[largest] - excess)
        is_half = all(t.element.is_float and t.element.bytes_per_element <= _HALF_BYTES for t in outputs)
        rate = self._kind.half_flops if is_half else self._kind.flops
        return _MICRO * number_of(work.flops) / rate, tuple(reads), tuple(writes)

    def _member(self, operation: Operation, inputs: Types, outputs: Types) -> Member:
        role = kernel_role(operation.operator)
        sizes = [
            number_of(type_.elements) for type_ in (inputs if _loops_over_inputs(role, outputs) else outputs)
        ]
        return Member(role, max(sizes, default=0), self._takes(operation, role))

    def _takes(self, operation: Operation, role: KernelRole) -> tuple[bool, ...]:
        if role is not KernelRole.PRODUCT:
            return (True,) * len(operation.inputs)
        if not takes_transposed(operation.operator):
            return (False,) * len(operation.inputs)
        return tuple(
            source is not None and transposes_matrices(self._operations.all[source[0]].operator, type_.rank)
            for source, type_ in zip(operation.sources, operation.inputs, strict=True)
        )


def _loops_over_inputs(role: KernelRole, outputs: Types) -> bool:
    """Whether the loop is over the elements of the operands: of a reduction, and of what cuts."""
    return role is KernelRole.REDUCTION or len(outputs) != 1


class Readers:
    """Who reads the results of operations: operations, or somebody else, through a collective or as an output
    of the graph. ``apart`` are operations that a copy of a reader reads in another kernel."""

    def __init__(
        self,
        operations: Operations,
        divisions: Sequence[Division],
        apart: frozenset[int] = frozenset(),
    ) -> None:
        self._apart = apart
        self._inside: dict[Source, tuple[int, ...]] = {}
        self._outside: set[Source] = set()
        for number, operation in enumerate(operations.all):
            self._outside.update((number, port) for port in operations.outputs[number])
            for port in range(len(operation.outputs)):
                self._inside[number, port] = tuple(
                    dict.fromkeys(use.reader for use in operations.uses[number] if use.port == port)
                )
            for use in operations.uses[number]:
                if divisions[number].makes[use.port] != divisions[use.reader].needs[use.slot]:
                    self._outside.add((number, use.port))

    def has_others(self, number: int, port: int, members: Collection[int], copied: Collection[int]) -> bool:
        """Whether a result is read by anything but these members, of which those that are copied read it
        elsewhere, too. A result that nothing reads is written as well."""
        readers = self._inside[number, port]
        return (
            not readers
            or number in self._apart
            or (number, port) in self._outside
            or any(one not in members or one in copied for one in readers)
        )
