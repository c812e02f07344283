"""Time of a candidate on two streams: one computes kernels, the other sends buckets.

A kernel is ready when everything that it reads is there. The computing stream takes of the ready ones that
whose turn it is (``Joint.turn``); a bucket is sent when the last of its terms is computed and the channels
are free (DisCo, section 4.4, which takes ready operators in the order in which they became ready). The
simulator gives the same times for a plan in the order found here.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from superopt.optimizer.fusion.joint.state import Joint, Node


@dataclass(frozen=True, slots=True)
class Timed:
    """Microseconds of a step, of all kernels, and of all collectives; heads as they are issued, and buckets
    as they are sent, and when each is ready, by number."""

    microseconds: float
    computing: float
    sending: float
    order: tuple[int, ...]
    sent: tuple[int, ...]
    ready: Mapping[int, float]

    @property
    def overlapped(self) -> float:
        """The time if computing and sending overlapped fully (FO: DisCo, section 6.2)."""
        return max(self.computing, self.sending)


def timed(joint: Joint) -> Timed:
    """The time of a candidate whose kernels are issued when they are ready."""
    streams = _Streams(joint)
    return streams.timed(streams.run())


class _Streams:
    def __init__(self, joint: Joint) -> None:
        self._joint = joint
        problem = joint.problem
        self._size = problem.size
        self._waiting: dict[int, int] = {}
        self._after: dict[int, list[int]] = defaultdict(list)
        self._ready: list[tuple[int, int]] = []
        self._renaming: list[int] = []
        self._arriving: list[tuple[float, int]] = []
        self._terms = {number: len(members) for number, members in joint.buckets.items()}
        self._ready_at: dict[int, float] = {}
        self._ends: dict[int, float] = {}
        self._channels = [0.0] * problem.channel_classes
        self._sending = 0.0
        self._last = 0.0
        self._issued: list[int] = []
        self._sent: list[int] = []

        for head, node in joint.nodes.items():
            self._expect(head, node)

    def timed(self, end: float) -> Timed:
        """The result, when the computing stream has ended."""
        computing = sum(node.kernel.microseconds for node in self._joint.nodes.values())
        return Timed(
            max(end, self._last),
            computing,
            self._sending,
            tuple(self._issued),
            tuple(self._sent),
            self._ready_at,
        )

    def run(self) -> float:
        """Issues every kernel when it is ready; returns when the last one ends."""
        now = 0.0
        nodes = self._joint.nodes
        self._rename()
        while self._ready or self._arriving:
            if not self._ready:
                now = max(now, self._arriving[0][0])
                self._arrive(now)
                continue
            _, head = heapq.heappop(self._ready)
            now += nodes[head].kernel.microseconds
            self._arrive(now)
            self._issue(head, now)
        return now

    def _issue(self, head: int, end: float) -> None:
        self._issued.append(head)
        self._end(head, end)
        self._rename()

    def _operands_at(self, head: int) -> float:
        """The time at which a kernel has what it reads."""
        return max((self._ends[node] for node in self._joint.before(head)), default=0.0)

    def _expect(self, head: int, node: Node) -> None:
        sources = self._joint.before(head)
        for source in sources:
            self._after[source].append(head)
        self._waiting[head] = len(sources)
        if not sources:
            self._become_ready(head, node)

    def _become_ready(self, head: int, node: Node) -> None:
        if node.takes_time:
            heapq.heappush(self._ready, self._joint.turn(head))
        else:
            heapq.heappush(self._renaming, head)

    def _rename(self) -> None:
        """What only renames a tensor ends when its operands are there."""
        while self._renaming:
            head = heapq.heappop(self._renaming)
            self._issued.append(head)
            end = self._operands_at(head)
            self._last = max(self._last, end)
            self._end(head, end)

    def _end(self, head: int, time: float) -> None:
        self._ends[head] = time
        self._release(head)
        bucket = self._joint.bucket
        for transfer in self._joint.nodes[head].sends:
            number = bucket[transfer]
            self._ready_at[number] = max(time, self._ready_at.get(number, 0.0))
            self._terms[number] -= 1
            if not self._terms[number]:
                self._send(number)

    def _send(self, number: int) -> None:
        collective = self._joint.problem.collective(self._joint.buckets[number])
        arrival = collective.run(self._ready_at[number], self._channels)
        self._sending += collective.microseconds
        self._last = max(self._last, arrival)
        self._sent.append(number)
        heapq.heappush(self._arriving, (arrival, number))

    def _arrive(self, now: float) -> None:
        """Passes on what has arrived by now."""
        while self._arriving and self._arriving[0][0] <= now:
            arrival, number = heapq.heappop(self._arriving)
            self._ends[self._size + number] = arrival
            self._release(self._size + number)
            self._rename()

    def _release(self, node: int) -> None:
        waiting, nodes = self._waiting, self._joint.nodes
        for head in self._after.get(node, ()):
            waiting[head] -= 1
            if not waiting[head]:
                self._become_ready(head, nodes[head])
