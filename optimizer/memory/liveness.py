"""Exact liveness: how many bytes of tensors are alive at each operation of a schedule.

A schedule is a sequence of operations in which one may stand several times: it is then computed again, and
later readers read its latest result; an output stays its first one. A tensor is alive from the operation that
computes it to the last one that reads it, and to the end where it is an output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from superopt.errors import SuperoptError

Schedule = Sequence[int]
"""Numbers of operations, in the order in which they run."""


class InvalidScheduleError(SuperoptError):
    """A schedule reads a tensor before it is computed, or lacks an output."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What one kernel does to tensors, given by number.

    ``overwrites`` are operands whose memory the first result takes over where it has the same size and
    nothing reads the operand later. A ``view`` has the memory of its first operand. ``workspace`` are bytes
    that are needed while it runs. ``after`` are operations that must run earlier. One that is not
    ``repeatable`` runs once: it draws random numbers or has effects. ``cost`` is its time in microseconds.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    overwrites: tuple[int, ...] = ()
    is_view: bool = False
    workspace: int = 0
    after: tuple[int, ...] = ()
    repeatable: bool = True
    cost: float = 1.0


@dataclass(frozen=True)
class Program:
    """Operations in an order in which they can run, and the bytes of tensors by number.

    ``resident`` are bytes that are held throughout: weights, inputs, buffers that the caller gives for
    outputs. Tensors that no operation writes are among them, and so are ``placed`` outputs, whose memory is
    the caller's. ``outputs`` are alive to the end.
    """

    operations: tuple[Operation, ...]
    sizes: tuple[int, ...]
    outputs: frozenset[int]
    resident: int = 0
    placed: frozenset[int] = frozenset()

    @property
    def order(self) -> tuple[int, ...]:
        """The schedule that runs each operation once, as listed."""
        return tuple(range(len(self.operations)))

    @cached_property
    def maker(self) -> dict[int, int]:
        """The operation that writes each tensor."""
        return {tensor: index for index, one in enumerate(self.operations) for tensor in one.writes}

    @cached_property
    def readers(self) -> dict[int, tuple[int, ...]]:
        """The operations that read each tensor, in the listed order."""
        found: dict[int, list[int]] = {}
        for index, operation in enumerate(self.operations):
            for tensor in dict.fromkeys(operation.reads):
                found.setdefault(tensor, []).append(index)
        return {tensor: tuple(readers) for tensor, readers in found.items()}

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """For each operation those that must run before it."""
        return tuple(
            tuple(
                dict.fromkeys(
                    (*(self.maker[tensor] for tensor in one.reads if tensor in self.maker), *one.after)
                )
            )
            for one in self.operations
        )

    def cost(self, schedule: Schedule) -> float:
        """Microseconds of all operations of a schedule."""
        return sum(self.operations[index].cost for index in schedule)


@dataclass(slots=True)
class Instance:
    """One computation of a tensor: made at position ``born``, read at ``uses``, the views of it included.
    It is alive at ``born`` to ``dies``, both included."""

    tensor: int
    size: int
    born: int
    dies: int
    uses: list[int] = field(default_factory=list[int])


@dataclass(frozen=True)
class Liveness:
    """The bytes alive at each position of a schedule, ``resident`` ones included, and the computed tensors
    with memory of their own."""

    curve: tuple[int, ...]
    resident: int
    instances: tuple[Instance, ...]

    @property
    def peak(self) -> int:
        """The largest number of bytes."""
        return max(self.curve, default=self.resident)

    @property
    def at(self) -> int:
        """The first position at which the peak is reached."""
        return self.curve.index(self.peak) if self.curve else 0


def liveness(program: Program, schedule: Schedule | None = None) -> Liveness:
    """The liveness of a schedule, by default of the listed order. Raises InvalidScheduleError."""
    order = program.order if schedule is None else schedule
    instances, overwritten = _instances(program, order)
    made, freed = [0] * (len(order) + 1), [0] * (len(order) + 1)
    for instance in instances:
        made[instance.born] += instance.size
        freed[instance.dies] += instance.size
    alive, curve = program.resident, list[int]()
    for position, index in enumerate(order):
        alive += made[position]
        curve.append(alive - overwritten[position] + program.operations[index].workspace)
        alive -= freed[position]
    return Liveness(tuple(curve), program.resident, instances)


def _instances(program: Program, order: Schedule) -> tuple[tuple[Instance, ...], list[int]]:
    """All computed tensors, and the bytes that each position writes over an operand."""
    present: dict[int, Instance | None] = {}
    found: list[Instance] = []
    taking_over: list[tuple[int, Instance, list[Instance]]] = []
    for position, index in enumerate(order):
        operation = program.operations[index]
        for tensor in operation.reads:
            instance = _present(program, present, tensor, operation)
            if instance is not None:
                instance.dies = position
                instance.uses.append(position)
        if operation.is_view:
            present[operation.writes[0]] = present.get(operation.reads[0])
            continue
        spare = [present.get(tensor) for tensor in operation.overwrites]
        for tensor in operation.writes:
            size = 0 if tensor in program.placed else program.sizes[tensor]
            instance = Instance(tensor, size, position, position)
            found.append(instance)
            if tensor not in program.outputs or tensor not in present:
                present[tensor] = instance
        if operation.overwrites and operation.writes:
            first = found[-len(operation.writes)]
            taking_over.append((position, first, [one for one in spare if one is not None]))
    for tensor in program.outputs & program.maker.keys():
        if tensor not in present:
            raise InvalidScheduleError(f"the schedule does not compute {_maker_of(program, tensor)}")
        instance = present[tensor]
        if instance is not None:
            instance.dies = len(order)
    return tuple(found), _overwritten(taking_over, len(order))


def _present(
    program: Program, present: dict[int, Instance | None], tensor: int, reader: Operation
) -> Instance | None:
    """The latest computation of a tensor; None for one that is resident."""
    if tensor in present:
        return present[tensor]
    if tensor in program.maker:
        made = _maker_of(program, tensor)
        raise InvalidScheduleError(f"the schedule runs {reader.name} before {made}, whose result it reads")
    return None


def _maker_of(program: Program, tensor: int) -> str:
    return program.operations[program.maker[tensor]].name


def _overwritten(taking_over: list[tuple[int, Instance, list[Instance]]], count: int) -> list[int]:
    bytes_of = [0] * count
    for position, made, operands in taking_over:
        if any(operand.dies == position and operand.size == made.size for operand in operands):
            bytes_of[position] = made.size
    return bytes_of
