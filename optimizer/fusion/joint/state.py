"""A candidate: which operations are one kernel, and which reductions one collective.

Kernels and buckets are nodes of a graph without circles, kept in an order of data flow. Merging two nodes
looks only at what lies between them in this order (Pearce and Kelly 2006).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.kernels import Kernel


@dataclass(frozen=True, slots=True)
class Node:
    """A kernel: ``reads`` are results of other kernels, as operation and transfer (-1 for none); ``sends``
    the transfers of its results; ``depth`` the largest number of transfers before it."""

    kernel: Kernel
    owned: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    sends: tuple[int, ...]
    depth: int
    takes_time: bool


class Joint:
    """Kernels by their heads, the last operation that each computes for all, and buckets by number; a bucket
    of number n is the node ``problem.size + n``. ``copies`` are the heads of the kernels in which operations
    are computed once more. ``turns`` order kernels that are ready, by operation, smaller ones first; without
    them, those with the fewest transfers before them come first."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.owner = list(range(problem.size))
        self.nodes: dict[int, Node] = {}
        self.copies: dict[int, frozenset[int]] = {}
        self.bucket = list(range(len(problem.transfers)))
        self.buckets: dict[int, tuple[int, ...]] = {number: (number,) for number in self.bucket}
        self.order: list[int] = []
        self.place: dict[int, int] = {}
        self.turns: tuple[int, ...] | None = None

    @staticmethod
    def unfused(problem: Problem) -> Joint:
        """Every operation is a kernel, and every reduction a collective."""
        found = Joint(problem)
        for number in range(problem.size):
            found.nodes[number] = made(problem, (number,), frozenset())
            found.order.append(number)
            found.order += [problem.size + transfer for transfer in problem.sent.get(number, ())]
        found.place = {node: place for place, node in enumerate(found.order)}
        return found

    def copy(self) -> Joint:
        """A candidate that can be changed independently."""
        found = Joint.__new__(Joint)
        found.problem = self.problem
        found.owner, found.bucket, found.order = self.owner.copy(), self.bucket.copy(), self.order.copy()
        found.nodes, found.copies, found.buckets = self.nodes.copy(), self.copies.copy(), self.buckets.copy()
        found.place, found.turns = self.place.copy(), self.turns
        return found

    def turn(self, head: int) -> tuple[int, int]:
        """A kernel's turn and its head: of the kernels that are ready, the one for which this is smallest is
        issued."""
        node = self.nodes[head]
        return node.depth if self.turns is None else min(self.turns[n] for n in node.owned), head

    def producers(self, head: int) -> tuple[int, ...]:
        """The heads of the kernels whose results a kernel reads without a transfer."""
        read = (self.owner[source] for source, transfer in self.nodes[head].reads if transfer < 0)
        return tuple(dict.fromkeys(read))

    def fuse(self, reader: int, producer: int) -> bool:
        """Makes a kernel and one that it reads one kernel; other readers wait for it. Whether this is
        possible; if not, nothing changes."""
        first, second = self.nodes[producer], self.nodes[reader]
        owned = {*first.owned, *second.owned}
        members = tuple(sorted({*first.kernel.members, *second.kernel.members}))
        copied = frozenset(members) - owned
        if (
            self._hides(owned)
            or self._is_impossible(members, copied)
            or not self._merge(producer, reader, max(owned))
        ):
            return False
        self._replace((producer, reader), members, copied)
        return True

    def saves(self, reader: int, producer: int) -> float:
        """Microseconds of computing that ``fuse`` saves; minus infinity where it is not possible."""
        first, second = self.nodes[producer], self.nodes[reader]
        members = tuple(sorted({*first.kernel.members, *second.kernel.members}))
        copied = frozenset(members).difference(first.owned, second.owned)
        if self._is_impossible(members, copied):
            return -math.inf
        together = made(self.problem, members, copied).kernel.microseconds
        return first.kernel.microseconds + second.kernel.microseconds - together

    def saves_by_copy(self, reader: int, producer: int) -> float:
        """Microseconds of computing that ``duplicate`` saves; minus infinity where it is not possible."""
        if not self.has_other_readers(producer, reader):
            return self.saves(reader, producer)
        members, copied = self._with_copy(reader, producer)
        if self._is_impossible(members, copied):
            return -math.inf
        return (
            self.nodes[reader].kernel.microseconds - made(self.problem, members, copied).kernel.microseconds
        )

    def readers_of(self, head: int) -> tuple[int, ...]:
        """The heads of the kernels that read a kernel's results without a transfer."""
        found = dict.fromkeys(one for number in self.nodes[head].owned for one in self._readers(number))
        return tuple(found)

    def duplicate(self, reader: int, producer: int) -> bool:
        """Computes what a kernel reads of another once more in it; other readers do not wait. The same as
        ``fuse`` if there are none. Whether this is possible; if not, nothing changes."""
        if not self.has_other_readers(producer, reader):
            return self.fuse(reader, producer)
        members, copied = self._with_copy(reader, producer)
        if self._is_impossible(members, copied):
            return False
        self._replace((reader,), members, copied)
        return True

    def combine(self, first: int, second: int) -> bool:
        """Makes two buckets one. Whether this is possible; if not, nothing changes."""
        transfers = self.problem.transfers
        kinds = {transfers[self.buckets[number][0]].kind for number in (first, second)}
        size, own = self.problem.size, min(first, second)
        if None in kinds or len(kinds) > 1 or first == second:
            return False
        earlier, later = sorted((first, second), key=lambda number: self.place[size + number])
        if not self._merge(size + earlier, size + later, size + own):
            return False
        joined = tuple(sorted((*self.buckets.pop(first), *self.buckets.pop(second))))
        self.buckets[own] = joined
        for transfer in joined:
            self.bucket[transfer] = own
        return True

    def separate(self) -> None:
        """Puts every reduction into a bucket of its own."""
        self.bucket = list(range(len(self.problem.transfers)))
        self.buckets = {number: (number,) for number in self.bucket}
        self._reorder()

    def has_other_readers(self, producer: int, reader: int) -> bool:
        """Whether anything but one kernel needs a result of another."""
        node = self.nodes[producer]
        if node.sends:
            return True
        outputs = self.problem.simulation.operations.outputs
        return any(
            outputs[number] or any(head not in (producer, reader) for head in self._readers(number))
            for number in node.owned
        )

    def _reorder(self) -> None:
        """Renews the order after nodes were added."""
        size, waiting = self.problem.size, dict[int, int]()
        nodes = [*self.nodes, *(size + number for number in self.buckets)]
        for node in nodes:
            for other in self.after(node):
                waiting[other] = waiting.get(other, 0) + 1
        ready = [node for node in nodes if node not in waiting]
        self.order = []
        while ready:
            node = ready.pop()
            self.order.append(node)
            for other in self.after(node):
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        self.place = {node: place for place, node in enumerate(self.order)}

    def _with_copy(self, reader: int, producer: int) -> tuple[tuple[int, ...], frozenset[int]]:
        """The members of a kernel with a copy of what it reads of another, and those that are copied."""
        first, second = self.nodes[producer], self.nodes[reader]
        wanted = {source for source, _ in second.reads if self.owner[source] == producer}
        members = tuple(sorted({*self._cone(first, wanted), *second.kernel.members}))
        return members, frozenset(members) - frozenset(second.owned)

    def _cone(self, node: Node, wanted: set[int]) -> set[int]:
        """The members of a kernel that some of them need."""
        reads = self.problem.reads
        found: set[int] = set()
        waiting = list(wanted)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                waiting.extend(s for s, t in reads[number] if t < 0 and s in node.kernel.members)
        return found

    def _readers(self, number: int) -> Iterator[int]:
        """The heads of the kernels that read an operation's results without a transfer, its own left out."""
        for reader in self.problem.direct[number]:
            for head in (self.owner[reader], *self.copies.get(reader, ())):
                if number not in self.nodes[head].kernel.members:
                    yield head

    def before(self, node: int) -> set[int]:
        """The nodes that a node waits for."""
        size = self.problem.size
        if node >= size:
            transfers = self.problem.transfers
            return {self.owner[transfers[one].number] for one in self.buckets[node - size]}
        return {
            self.owner[source] if transfer < 0 else size + self.bucket[transfer]
            for source, transfer in self.nodes[node].reads
        }

    def after(self, node: int) -> set[int]:
        """The nodes that wait for a node."""
        size, found = self.problem.size, set[int]()
        if node >= size:
            for transfer in self.buckets[node - size]:
                for reader in self.problem.receivers[transfer]:
                    found.add(self.owner[reader])
                    found.update(self.copies.get(reader, ()))
            return found
        for number in self.nodes[node].owned:
            found.update(self._readers(number))
        found.update(size + self.bucket[transfer] for transfer in self.nodes[node].sends)
        return found

    def _is_impossible(self, members: tuple[int, ...], copied: frozenset[int]) -> bool:
        return self.problem.why_not(members, copied) is not None

    def _hides(self, owned: set[int]) -> bool:
        """Whether a kernel of these operations would keep to itself what a copy of one of them reads in
        another kernel."""
        for number in owned:
            readers = self.problem.direct[number]
            if all(reader in owned for reader in readers) and any(
                number not in self.nodes[head].kernel.members
                for reader in readers
                for head in self.copies.get(reader, ())
            ):
                return True
        return False

    def _merge(self, first: int, second: int, named: int) -> bool:
        """Puts two nodes in one place of the order, under a name; false where another node lies on a path
        from one to the other."""
        low, high = self.place[first], self.place[second]
        moved: set[int] = set()
        waiting = [node for node in self.after(first) if node != second]
        while waiting:
            node = waiting.pop()
            if self.place[node] > high or node in moved:
                continue
            if node == second:
                return False
            moved.add(node)
            waiting.extend(self.after(node))
        between = self.order[low + 1 : high]
        changed = [
            *(node for node in between if node not in moved),
            named,
            *(node for node in between if node in moved),
        ]
        self.order[low : high + 1] = changed
        del self.place[first], self.place[second]
        for place in range(low, len(self.order)):
            self.place[self.order[place]] = place
        return True

    def _replace(self, heads: tuple[int, ...], members: tuple[int, ...], copied: frozenset[int]) -> None:
        for head in heads:
            old = self.nodes.pop(head)
            for number in old.kernel.copied:
                self.copies[number] -= {head}
        node = made(self.problem, members, copied)
        head = node.owned[-1]
        self.nodes[head] = node
        for number in node.owned:
            self.owner[number] = head
        for number in copied:
            self.copies[number] = self.copies.get(number, frozenset()) | {head}


def made(problem: Problem, members: tuple[int, ...], copied: frozenset[int]) -> Node:
    """The node of a kernel that is possible; equal ones are made once."""
    found = problem.known.get((members, copied))
    if found is None:
        owned = tuple(number for number in members if number not in copied)
        found = problem.known[members, copied] = Node(
            problem.model.kernel(members, copied, problem.readers),
            owned,
            tuple(
                dict.fromkeys(
                    read for number in members for read in problem.reads[number] if read[0] not in members
                )
            ),
            tuple(transfer for number in owned for transfer in problem.sent.get(number, ())),
            max(problem.depth[number] for number in members),
            any(problem.takes_time[number] for number in members),
        )
    return found
