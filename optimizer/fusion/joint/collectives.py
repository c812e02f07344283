"""Times of collectives in which all devices take part alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from superopt.optimizer.parallel.communication import CollectiveStep
from superopt.optimizer.parallel.simulator.exchange import Exchange, Numbers
from superopt.optimizer.parallel.simulator.prices import Prices


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective in phases: the microseconds of each, and those for which it occupies classes of
    channels."""

    phases: tuple[tuple[float, tuple[tuple[int, float], ...]], ...]

    @property
    def microseconds(self) -> float:
        """Time until all devices have the result, if all channels are free."""
        return sum(duration for duration, _ in self.phases)

    def run(self, ready: float, channels: list[float]) -> float:
        """The time of arrival; ``channels`` are the times at which classes of channels are free, before and
        afterwards."""
        for duration, loads in self.phases:
            start = ready
            for channel, _ in loads:
                start = max(start, channels[channel])
            for channel, busy in loads:
                channels[channel] = start + busy
            ready = start + duration
        return ready


@dataclass
class CollectiveTimes:
    """Collectives of some exchanges, and of several of them together. Channels that all algorithms for them
    use alike are a class, and stand for each other."""

    prices: Prices
    exchanges: Sequence[Exchange]
    _classes: dict[int, int] = field(init=False)
    _of_exchange: dict[Exchange, Collective] = field(init=False, default_factory=dict[Exchange, Collective])
    _of_size: dict[tuple[tuple[tuple[int, ...], int], ...], Collective] = field(
        init=False, default_factory=dict[tuple[tuple[tuple[int, ...], int], ...], Collective]
    )

    def __post_init__(self) -> None:
        groups = dict.fromkeys(
            (step.kind, step.group) for one in self.exchanges for phase in one.phases for step in phase.steps
        )
        ways = [way for kind, group in groups for way in self.prices.collectives.ways(kind, group)]
        phases = [phase for way in ways for phase in way.phases]
        representative: dict[tuple[float, ...], int] = {}
        for channel in range(len(self.prices.cluster.channels)):
            signature = tuple(phase.loads.get(channel, 0.0) for phase in phases)
            if any(signature):
                representative.setdefault(signature, channel)
        self._classes = {channel: number for number, channel in enumerate(representative.values())}

    @property
    def classes(self) -> int:
        """The number of classes of channels."""
        return len(self._classes)

    def of(self, exchange: Exchange) -> Collective:
        """The collective of an exchange."""
        found = self._of_exchange.get(exchange)
        if found is None:
            found = self._of_exchange[exchange] = Collective(
                tuple(
                    (
                        float(phase.durations[0]),
                        tuple(
                            (number, phase.loads[channel])
                            for channel, number in self._classes.items()
                            if channel in phase.loads
                        ),
                    )
                    for phase in exchange.phases
                )
            )
        return found

    def of_steps(self, steps: tuple[CollectiveStep, ...], holders: Numbers) -> Collective:
        """The collective of all-reduces of that many bytes."""
        key = tuple((step.group, step.bytes) for step in steps)
        found = self._of_size.get(key)
        if found is None:
            found = self._of_size[key] = self.of(self.prices.exchange_of(steps, holders))
        return found
