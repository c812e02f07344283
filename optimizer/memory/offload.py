"""Tensors in the host's memory and cached on a device: fewest bytes that are brought to the device (Roc,
dissertation section 4.5).

All tensors fit into the host's memory. An operation needs its operands and results on the device at once;
operands that are not cached are brought. The cost is the bytes that are brought, as in Algorithm 3. That
algorithm, as printed, derives the cached tensors before an operation from those after it, so that an operand
read for the last time counts as brought even where it was cached; here any cached set may precede.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from superopt.errors import UnsupportedError
from superopt.optimizer.memory.liveness import Program, Schedule

_MOST_STATES = 200_000


@dataclass(frozen=True, slots=True)
class _State:
    """Operations that have run, and tensors that are cached, as sets of bits."""

    done: int
    cached: int


@dataclass(frozen=True)
class Offloading:
    """A program on a device with a capacity in bytes."""

    program: Program
    capacity: int

    def __post_init__(self) -> None:
        for operation in self.program.operations:
            needed = self._size(_bits((*operation.reads, *operation.writes)))
            if needed > self.capacity:
                raise UnsupportedError(
                    f"{operation.name} needs {needed:,} bytes on the device, which has {self.capacity:,}"
                )

    def streaming(self) -> int:
        """Bytes brought if nothing is cached: all operands of all operations."""
        return sum(self._size(_bits(one.reads)) for one in self.program.operations)

    def least_recently_used(self, order: Schedule | None = None) -> int:
        """Bytes brought if the tensor used longest ago is dropped when room is needed; what is never read
        again is dropped at once."""
        cache: OrderedDict[int, None] = OrderedDict()
        schedule = self.program.order if order is None else order
        last = {tensor: place for place, at in enumerate(schedule) for tensor in self._reads(at)}
        brought = 0
        for place, at in enumerate(schedule):
            operation = self.program.operations[at]
            needed = dict.fromkeys((*operation.reads, *operation.writes))
            brought += self._size(_bits(tensor for tensor in operation.reads if tensor not in cache))
            room = self.capacity - self._size(_bits(needed))
            while self._size(_bits(tensor for tensor in cache if tensor not in needed)) > room:
                del cache[next(tensor for tensor in cache if tensor not in needed)]
            for tensor in needed:
                cache[tensor] = None
                cache.move_to_end(tensor)
            for tensor in [one for one in cache if last.get(one, -1) <= place]:
                del cache[tensor]
        return brought

    def least(self) -> int:
        """The fewest bytes over all orders and all sets of cached tensors, by dynamic programming over both.
        Raises UnsupportedError beyond 200,000 states."""
        layer = {_State(0, 0): 0}
        seen = 1
        for _ in self.program.operations:
            following: dict[_State, int] = {}
            for state, cost in layer.items():
                for later, added in self._transitions(state):
                    if cost + added < following.get(later, cost + added + 1):
                        following[later] = cost + added
            seen += len(following)
            if seen > _MOST_STATES:
                raise UnsupportedError(f"more than {_MOST_STATES:,} states of the device's memory")
            layer = following
        return min(layer.values())

    def _transitions(self, state: _State) -> Iterator[tuple[_State, int]]:
        """The next operations, each with all largest sets of tensors that may stay cached beside it: to keep
        more never costs more, since it can be dropped later."""
        for at, sources in enumerate(self.program.sources):
            if state.done >> at & 1 or any(not state.done >> source & 1 for source in sources):
                continue
            reads, writes = _bits(self._reads(at)), _bits(self.program.operations[at].writes)
            done = state.done | 1 << at
            alive = self._alive(done)
            room = self.capacity - self._size(reads | writes)
            for kept in self._largest(state.cached & ~(reads | writes), room):
                cached = (kept | reads | writes) & alive
                yield _State(done, cached), self._size(reads & ~state.cached)

    def _largest(self, cached: int, room: int) -> Iterator[int]:
        """The subsets within the room to which no other tensor can be added."""
        tensors = sorted(_members(cached), key=lambda tensor: -self.program.sizes[tensor])
        if self._size(cached) <= room:
            yield cached
            return

        def choose(place: int, kept: int, left: int, smallest: int) -> Iterator[int]:
            if place == len(tensors):
                if smallest > left:
                    yield kept
                return
            size = self.program.sizes[tensors[place]]
            if size <= left:
                yield from choose(place + 1, kept | 1 << tensors[place], left - size, smallest)
            yield from choose(place + 1, kept, left, min(smallest, size))

        yield from choose(0, 0, room, room + 1)

    def _alive(self, done: int) -> int:
        """The tensors that an operation reads which has not run."""
        left = (at for at in range(len(self.program.operations)) if not done >> at & 1)
        return _bits(tensor for at in left for tensor in self._reads(at))

    def _reads(self, at: int) -> tuple[int, ...]:
        return self.program.operations[at].reads

    def _size(self, tensors: int) -> int:
        return sum(self.program.sizes[tensor] for tensor in _members(tensors))


def _bits(tensors: Iterable[int]) -> int:
    found = 0
    for tensor in tensors:
        found |= 1 << tensor
    return found


def _members(tensors: int) -> Iterator[int]:
    tensor = 0
    while tensors:
        if tensors & 1:
            yield tensor
        tensors >>= 1
        tensor += 1
