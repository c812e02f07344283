"""A slow simulation to compare with: task by task, with everything that each waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.simulator.exchange import Exchange, receivers_of, senders

Ends = dict[int, float]


def slow_ends(simulation: Simulation) -> list[Ends]:
    """For every pass its end on each device that runs it."""
    return _Slow(simulation).ends()


class _Slow:
    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.operations = simulation.operations
        self.divisions = [unit.division for unit in simulation.units]
        self.free: Ends = defaultdict(float)
        self.channels: Ends = defaultdict(float)
        self.waiting: list[tuple[tuple[float, int], object, Exchange, Ends]] = []
        self.issued = 0
        self.arrivals: dict[object, Ends] = {}

    def ends(self) -> list[Ends]:
        return [self.done(number, microbatch) for number, microbatch in self.simulation.schedule.items]

    def done(self, number: int, microbatch: int) -> Ends:
        division = self.divisions[number]
        waits = [
            self.arrival((*source, division.needs[slot], microbatch))
            for slot, source in enumerate(self.operations.all[number].sources)
            if source is not None
        ]
        end = self.run(number, waits, division.duration.each)
        wanted = [
            (use.port, self.divisions[use.reader].needs[use.slot]) for use in self.operations.uses[number]
        ]
        wanted += [(port, division.reduces[port]) for port in self.operations.outputs[number]]
        for port, want in dict.fromkeys(wanted):
            exchange = self.exchange(number, port, division.makes[port], want)
            self.issue((number, port, want, microbatch), exchange, end)
        return end

    def run(self, number: int, waits: list[Ends], durations: Mapping[int, float]) -> Ends:
        division = self.divisions[number]
        end: Ends = {}
        for device in division.how.devices:
            start = max([known[device] for known in waits if device in known], default=0.0)
            if division.takes_time:
                start = max(start, self.free[device])
                self.free[device] = start + durations[device]
            end[device] = start + durations[device]
        return end

    def exchange(self, number: int, port: int, have: int, want: int) -> Exchange | None:
        type_ = self.operations.all[number].outputs[port]
        shape = self.divisions[number].shapes[port]
        for place in (self.simulation.prices.placements[number] for number in (have, want)):
            if any(size % degree for size, degree in zip(shape, place.degrees, strict=True)):
                shape = type_.shape
        return self.simulation.prices.exchange(have, want, shape, type_.element.bytes_per_element)

    def issue(self, key: object, exchange: Exchange | None, ready: Ends) -> None:
        if exchange is None:
            self.arrivals[key] = ready
            return
        turn = max(ready[device] for device in exchange.holders if device in ready), self.issued
        self.issued += 1
        self.waiting.append((turn, key, exchange, ready))

    def arrival(self, key: object) -> Ends:
        """When what an exchange brings is there, after all that were ready before it."""
        while key not in self.arrivals:
            (last,) = (found[0] for found in self.waiting if found[1] == key)
            self.waiting.sort(key=lambda found: found[0])
            assert self.waiting[0][0] <= last
            _, served, exchange, ready = self.waiting.pop(0)
            self.arrivals[served] = self.move(exchange, ready)
        return self.arrivals[key]

    def move(self, exchange: Exchange, ready: Ends) -> Ends:
        """When each device has what it needs: steps of a phase take their channels together."""
        known = defaultdict(float, ready)
        for phase in exchange.phases:
            starts = [
                max(
                    *(known[device] for device in senders(step)),
                    *(self.channels[channel] for channel in used),
                )
                for step, used in zip(phase.steps, phase.uses, strict=True)
            ]
            arrived: Ends = {}
            for start, step, used, duration in zip(
                starts, phase.steps, phase.uses, phase.durations, strict=True
            ):
                for channel in used:
                    self.channels[channel] = max(self.channels[channel], start + phase.loads[channel])
                for device in receivers_of(step):
                    arrived[device] = max(arrived.get(device, 0.0), start + duration)
            for device, stop in arrived.items():
                known[device] = max(known[device], stop)
        return known
