"""Published rematerialisation, to compare with: RAF's eviction and Chen's segments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from superopt.errors import UnsupportedError
from superopt.optimizer.memory.liveness import Program, Schedule
from superopt.optimizer.memory.recompute import MOST_DEPTH, Fitted, bases


def raf_recompute(program: Program, order: Schedule, limit: int) -> Fitted | None:
    """RAF's rematerialisation (section 3.1.5): the order is walked, and whenever the next operation does not
    fit, tensors are freed, those first that are large, quick to compute and seldom read later. One that is
    read again is computed again, with what it needs, up to a depth of 10. None where nothing can be freed."""
    try:
        return Fitted.of(program, _Walk(program, order, limit).run())
    except UnsupportedError:
        return None


class _Walk:
    def __init__(self, program: Program, order: Schedule, limit: int) -> None:
        self._program = program
        self._order = order
        self._limit = limit
        self._base = bases(program)
        self._present: set[int] = set()
        self._alive = program.resident
        self._schedule: list[int] = []
        self._left = [0] * len(program.sizes)
        for operation in program.operations:
            for base in {self._base[tensor] for tensor in operation.reads}:
                self._left[base] += 1
        for tensor in program.outputs:
            self._left[self._base[tensor]] += len(order)

    def run(self) -> list[int]:
        """The schedule."""
        for index in self._order:
            self._perform(index, 0, frozenset())
            for base in {self._base[tensor] for tensor in self._program.operations[index].reads}:
                self._left[base] -= 1
            self._release(index)
        return self._schedule

    def _perform(self, index: int, depth: int, locked: frozenset[int]) -> None:
        """Runs an operation after computing again what it lacks."""
        operation = self._program.operations[index]
        needed = locked | {self._base[tensor] for tensor in operation.reads}
        for tensor in operation.reads:
            base = self._base[tensor]
            if base in self._program.maker and base not in self._present:
                maker = self._program.maker[base]
                if depth >= MOST_DEPTH or not self._program.operations[maker].repeatable:
                    raise UnsupportedError(f"{operation.name} needs a chain that is too deep")
                self._perform(maker, depth + 1, needed)
            if depth or tensor != base:
                self._schedule.extend(self._views(tensor))
        made = () if operation.is_view else self._sizes(operation.writes)
        while self._alive + sum(made) + operation.workspace > self._limit:
            self._evict(needed)
        self._schedule.append(index)
        if not operation.is_view:
            for tensor, size in zip(operation.writes, made, strict=True):
                if tensor not in self._present:
                    self._present.add(tensor)
                    self._alive += size
        if depth:
            self._release(index, locked)

    def _views(self, tensor: int) -> list[int]:
        """The operations between a tensor and the one whose memory it has."""
        path: list[int] = []
        while tensor != self._base[tensor]:
            path.append(self._program.maker[tensor])
            tensor = self._program.operations[path[-1]].reads[0]
        return path[::-1]

    def _sizes(self, tensors: Iterable[int]) -> tuple[int, ...]:
        placed = self._program.placed
        return tuple(0 if tensor in placed else self._program.sizes[tensor] for tensor in tensors)

    def _evict(self, needed: frozenset[int]) -> None:
        candidates = [
            tensor
            for tensor in self._present - needed
            if tensor not in self._program.outputs
            and self._program.operations[self._program.maker[tensor]].repeatable
        ]
        if not candidates:
            raise UnsupportedError("nothing can be freed")
        chosen = max(candidates, key=lambda tensor: (self._score(tensor), tensor))
        self._present.discard(chosen)
        self._alive -= self._sizes((chosen,))[0]

    def _score(self, tensor: int) -> float:
        latency = self._program.operations[self._program.maker[tensor]].cost
        return self._program.sizes[tensor] / (max(latency, 0.1) * max(self._left[tensor], 1))

    def _release(self, index: int, locked: frozenset[int] = frozenset()) -> None:
        operation = self._program.operations[index]
        for tensor in {*(self._base[tensor] for tensor in operation.reads), *operation.writes}:
            if tensor in self._present and not self._left[tensor] and tensor not in locked:
                self._present.discard(tensor)
                self._alive -= self._sizes((tensor,))[0]


def chen(program: Program, order: Schedule, last_forward: int, segments: int | None = None) -> Fitted:
    """Chen's segments (2016): of the forward pass, which ends with an operation, only tensors that one
    segment hands to another are kept, and a segment runs again when the backward pass first needs the rest of
    it. By default there are as many segments as the root of the number of operations."""
    forward = _ancestors(program, last_forward)
    ahead = [index for index in order if index in forward]
    count = segments or math.isqrt(len(ahead))
    segment = {index: place * count // len(ahead) for place, index in enumerate(ahead)}
    kept = _kept(program, segment)
    schedule: list[int] = []
    again: set[int] = {count - 1}
    ends = order.index(ahead[-1])
    for place, index in enumerate(order):
        if place > ends:
            for tensor in program.operations[index].reads:
                maker = program.maker.get(tensor)
                if maker is None or maker not in segment or tensor in kept or segment[maker] in again:
                    continue
                again.add(segment[maker])
                schedule.extend(_repeated(program, ahead, segment, segment[maker], kept))
        schedule.append(index)
    return Fitted.of(program, schedule)


def _repeated(
    program: Program, ahead: Sequence[int], segment: dict[int, int], number: int, kept: set[int]
) -> list[int]:
    return [
        index
        for index in ahead
        if segment[index] == number
        and program.operations[index].repeatable
        and not kept.issuperset(program.operations[index].writes)
    ]


def _kept(program: Program, segment: dict[int, int]) -> set[int]:
    """Tensors of the forward pass that another segment reads, that are outputs, or that are made once."""
    kept: set[int] = set(program.outputs)
    for index, number in segment.items():
        for tensor in program.operations[index].reads:
            maker = program.maker.get(tensor)
            if maker is not None and segment.get(maker) != number:
                kept.add(tensor)
        if not program.operations[index].repeatable:
            kept.update(program.operations[index].writes)
    return kept


def _ancestors(program: Program, index: int) -> set[int]:
    found: set[int] = set()
    waiting = [index]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting.extend(program.sources[one])
    return found
