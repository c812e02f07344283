"""Exchanges: the timed steps that bring one tensor from its placement to another.

A step of an exchange starts when its senders have the tensor and its channels are free; the steps of one
exchange share channels evenly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.optimizer.cost.objective import rounded
from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import REDUCTIONS, CollectiveKind, CollectiveStep, moved_bytes

Times = NDArray[np.float64]
Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Transfer:
    """A timed step, in microseconds."""

    step: CollectiveStep
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class _Segments:
    """Numbers in groups, with a maximum for each group."""

    flat: Numbers
    starts: Numbers
    single: bool

    @staticmethod
    def of(groups: Sequence[Sequence[int]]) -> _Segments:
        lengths = [len(group) for group in groups]
        flat = np.array([number for group in groups for number in group], np.intp)
        starts = np.concatenate(([0], np.cumsum(lengths[:-1]))).astype(np.intp)
        return _Segments(flat, starts, all(length == 1 for length in lengths))

    def maxima(self, values: Times) -> Times:
        taken = values[self.flat]
        return taken if self.single else np.maximum.reduceat(taken, self.starts)


class Phase:
    """Independent steps."""

    def __init__(self, steps: Sequence[CollectiveStep], collectives: Collectives) -> None:
        self.steps = steps
        costs = [collectives.cost(step) for step in steps]
        totals: dict[int, float] = defaultdict(float)
        for cost in costs:
            for channel, load in cost.loads:
                totals[channel] += load
        self.loads = {channel: rounded(load) for channel, load in totals.items()}
        self.durations = np.array(
            [
                rounded(cost.microseconds + max(totals[channel] - load for channel, load in cost.loads))
                for cost in costs
            ]
        )
        self.is_single = len(steps) == 1
        self.senders = _Segments.of([senders(step) for step in steps])
        self.uses = [tuple(channel for channel, _ in cost.loads) for cost in costs]
        self.used = _Segments.of(self.uses)
        users: dict[int, list[int]] = defaultdict(list)
        receivers: dict[int, list[int]] = defaultdict(list)
        for number, (step, cost) in enumerate(zip(steps, costs, strict=True)):
            for channel, _ in cost.loads:
                users[channel].append(number)
            for device in receivers_of(step):
                receivers[device].append(number)
        self.channels = np.array(list(users), np.intp)
        self.busy = np.array([self.loads[channel] for channel in users])
        self.users = _Segments.of(list(users.values()))
        self.receivers = np.array(list(receivers), np.intp)
        self.arrivals = _Segments.of(list(receivers.values()))

    def run(self, ready: Times, channels: Times) -> tuple[Times, Times]:
        """Start time of each step, and the channels' times afterwards; ``ready`` is by device."""
        after = channels.copy()
        if self.is_single:
            start = max(ready[self.senders.flat].max(), channels[self.channels].max())
            after[self.channels] = start + self.busy
            return np.array([start]), after
        starts = np.maximum(self.senders.maxima(ready), self.used.maxima(channels))
        after[self.channels] = self.users.maxima(starts) + self.busy
        return starts, after

    def received(self, starts: Times) -> Times:
        """Time at which each of ``receivers`` has everything."""
        if self.is_single:
            return starts + self.durations
        return self.arrivals.maxima(starts + self.durations)


class Exchange:
    """The steps from one placement to another, with their costs. ``moved`` is the number of bytes sent."""

    def __init__(
        self,
        steps: tuple[CollectiveStep, ...],
        holders: Sequence[int],
        collectives: Collectives,
        devices: int,
    ) -> None:
        first = [step for step in steps if step.kind in REDUCTIONS]
        rest = [step for step in steps if step.kind not in REDUCTIONS]
        self.steps = steps
        self.phases = [Phase(part, collectives) for part in (first, rest) if part]
        self.holders = np.array(holders, np.intp)
        self._held = np.zeros(devices, bool)
        self._held[list(holders)] = True
        self.moved = moved_bytes(steps)

    @property
    def gathers_only(self) -> bool:
        """Whether it consists of all-gathers."""
        return all(step.kind is CollectiveKind.ALL_GATHER for step in self.steps)

    @cached_property
    def microseconds(self) -> float:
        """How long it lasts when its channels are free."""
        return sum(float(phase.durations.max()) for phase in self.phases)

    @cached_property
    def occupied(self) -> tuple[Numbers, Times]:
        """The channels that it uses, and busy microseconds of each."""
        loads = self.loads()
        return np.array(list(loads), np.intp), np.array(list(loads.values()))

    def ready_at(self, ready: Times) -> float:
        """Time at which all devices have their parts."""
        return float(ready[self.holders].max())

    def run(self, ready: Times, channels: Times) -> tuple[Times, Times]:
        """Time at which each device has what it needs, given when each has its part and when channels are
        free; and when channels are free afterwards."""
        available = np.where(self._held, ready, 0.0)
        for phase in self.phases:
            starts, channels = phase.run(available, channels)
            available = available.copy()
            at = phase.receivers
            available[at] = np.maximum(available[at], phase.received(starts))
        return available, channels

    def transfers(self, ready: Times, channels: Times) -> list[Transfer]:
        """The same, as individual steps."""
        found: list[Transfer] = []
        available = np.where(self._held, ready, 0.0)
        for phase in self.phases:
            starts, channels = phase.run(available, channels)
            stops = starts + phase.durations
            found.extend(
                Transfer(step, float(start), float(stop))
                for step, start, stop in zip(phase.steps, starts, stops, strict=True)
            )
            at = phase.receivers
            available[at] = np.maximum(available[at], phase.received(starts))
        return found

    def loads(self) -> dict[int, float]:
        """Busy microseconds of each channel."""
        found: dict[int, float] = defaultdict(float)
        for phase in self.phases:
            for channel, load in phase.loads.items():
                found[channel] += load
        return found


def gathered_together(exchanges: Sequence[Exchange]) -> tuple[CollectiveStep, ...]:
    """The all-gathers of several exchanges as one for each group of devices (horizontal fusion: RAF, section
    3.3)."""
    groups: dict[tuple[int, ...], list[CollectiveStep]] = defaultdict(list)
    for exchange in exchanges:
        for step in exchange.steps:
            groups[step.group].append(step)
    return tuple(
        CollectiveStep(
            CollectiveKind.ALL_GATHER,
            group,
            sum(step.bytes for step in steps),
            ((),) * len(group),
            ((),) * len(group),
            sum(step.moved for step in steps),
        )
        for group, steps in groups.items()
    )


def senders(step: CollectiveStep) -> tuple[int, ...]:
    """The devices that must have their part before the step starts."""
    if step.kind in (CollectiveKind.SEND, CollectiveKind.BROADCAST):
        return step.group[:1]
    return step.group


def receivers_of(step: CollectiveStep) -> tuple[int, ...]:
    """The devices that receive data in the step."""
    if step.kind in (CollectiveKind.SEND, CollectiveKind.BROADCAST):
        return step.group[1:]
    return tuple(d for d, after in zip(step.group, step.after, strict=True) if after is not None)
