"""Simulate plans: fully, or incrementally from the simulation of a similar plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from superopt.errors import InvalidOptionError
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Plan
from superopt.optimizer.parallel.fetches import START
from superopt.optimizer.parallel.simulator.assembly import Assembly
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.simulator.fused import fused
from superopt.optimizer.parallel.simulator.objective import ParallelObjective
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.residents import Residents
from superopt.optimizer.parallel.simulator.schedule import BACKWARD, FORWARD, Schedule
from superopt.optimizer.parallel.simulator.simulation import Simulation
from superopt.optimizer.parallel.simulator.timing import timed
from superopt.optimizer.parallel.simulator.units import Key, Unit
from superopt.optimizer.parallel.states import StepStates
from superopt.optimizer.parallel.topology import Cluster


def simulate(
    graph: Graph,
    plan: Plan,
    cluster: Cluster,
    objective: ParallelObjective,
    step: StepStates | None = None,
) -> Simulation:
    """Simulates the plan. Raises InvalidOptionError for a plan that does not fit the graph or the cluster."""
    return Simulator(graph, cluster, objective, step=step).simulate(plan)


class Simulator:
    """Simulates plans for one graph on one cluster. ``sizes`` assigns symbolic dimensions; ``prices`` may be
    shared by simulators for the same cluster; ``step`` are the states of a training step."""

    def __init__(
        self,
        graph: Graph,
        cluster: Cluster,
        objective: ParallelObjective,
        *,
        sizes: Mapping[str, int] | None = None,
        prices: Prices | None = None,
        step: StepStates | None = None,
    ) -> None:
        self.objective = objective
        self.prices = Prices(cluster) if prices is None else prices
        self.operations = Operations(graph, sizes or {}, cluster.devices[0].kind, step)
        self._trains = objective is ParallelObjective.TRAINING
        self._assembly = Assembly(self.operations, self.prices, trains=self._trains)
        self._schedules: dict[tuple[tuple[int, ...], int], Schedule] = {}
        self._base: Simulation | None = None

    def simulate(self, plan: Plan) -> Simulation:
        """Full simulation of the plan. Raises InvalidOptionError where it does not fit."""
        divisions = [self._assembly.division(plan, number) for number in range(len(self.operations.all))]
        schedule = self._schedule(plan)
        residents = self._assembly.residents(plan)
        units = [
            self._assembly.unit(divisions, schedule.stages, residents, number)
            for number in range(len(divisions))
        ]
        opening = self._assembly.fetched(divisions, residents)
        if plan.has_kernels:
            return self._fused(plan, units, residents)
        return self._timed(plan, schedule, units, residents, opening, None, 0)

    def delta(self, plan: Plan, changed: Collection[NodeId], base: Simulation | None = None) -> Simulation:
        """Equals ``simulate`` for a plan that differs from the ``base`` (by default the last one simulated)
        at most in the machine mappings of some nodes (dissertation, section 3.4.3). Units around those nodes
        are rebuilt, and passes are timed again from the first that could differ."""
        base = self._base if base is None else base
        if (
            base is None
            or plan.microbatches != base.plan.microbatches
            or plan.residence != base.plan.residence
        ):
            return self.simulate(plan)
        if plan.has_kernels or base.plan.has_kernels:
            return self.simulate(plan)
        numbers = {self.operations.numbers[node] for node in changed if node in self.operations.numbers}
        divisions = [unit.division for unit in base.units]
        stages = list(base.schedule.stages)
        for number in numbers:
            divisions[number] = self._assembly.division(plan, number)
            stages[number] = divisions[number].how.stage
        if tuple(stages) != base.schedule.stages:
            return self.simulate(plan)
        units = base.units.copy()
        first = len(base.timing.passes)
        residents = base.residents
        for number in self._around(numbers, residents):
            unit = self._assembly.unit(divisions, base.schedule.stages, residents, number)
            if not unit.is_like(units[number]):
                units[number] = unit
                first = min(first, self._first_pass(base.schedule, number))
        opening = self._assembly.fetched(divisions, residents)
        if opening != base.opening:
            first = 0
        return self._timed(plan, base.schedule, units, residents, opening, base, first)

    def _fused(self, plan: Plan, units: list[Unit], residents: Residents) -> Simulation:
        """A plan with kernels of several operators, buckets, or an order."""
        if self._trains:
            raise InvalidOptionError(
                "plan: fusion groups, buckets and an order are for a training step as the model; expected "
                "one (superopt train-graph)"
            )
        made = fused(plan, self.operations, units, self.prices)
        cluster = self.prices.cluster
        timing = timed(made.units, made.schedule, len(cluster), len(cluster.channels))
        self._base = Simulation(
            plan,
            self.objective,
            self.operations,
            self.prices,
            made.schedule,
            units,
            residents,
            (),
            timing,
            made,
        )
        return self._base

    def _timed(
        self,
        plan: Plan,
        schedule: Schedule,
        units: list[Unit],
        residents: Residents,
        opening: tuple[tuple[Key, Exchange], ...],
        base: Simulation | None,
        first: int,
    ) -> Simulation:
        cluster = self.prices.cluster
        before = None if base is None else base.timing
        timing = timed(units, schedule, len(cluster), len(cluster.channels), opening, before, first)
        self._base = Simulation(
            plan, self.objective, self.operations, self.prices, schedule, units, residents, opening, timing
        )
        return self._base

    def _schedule(self, plan: Plan) -> Schedule:
        key = self._assembly.stages(plan), plan.microbatches
        found = self._schedules.get(key)
        if found is None:
            self._schedules.clear()
            found = self._schedules[key] = Schedule.of(*key, self.operations.trained, trains=self._trains)
        return found

    def _around(self, numbers: set[int], residents: Residents) -> set[int]:
        """The operations whose units may change when those nodes do."""
        found = set(numbers)
        for number in numbers:
            operation = self.operations.all[number]
            found.update(source[0] for source in operation.sources if source is not None)
            found.update(use.reader for use in self.operations.uses[number])
            found.update(self.operations.states_read.get(number, ()))
            found.update(fetch.issued for fetch, _ in residents.read.get(number, ()))
            if self._trains:
                found.update(self._assembly.readers_of_weights(number))
        found.discard(START)
        return found

    @staticmethod
    def _first_pass(schedule: Schedule, number: int) -> int:
        places = [
            row[number]
            for rows in (schedule.positions[FORWARD], schedule.positions[BACKWARD])
            for row in rows
            if row[number] >= 0
        ]
        return min(places)


__all__ = ["Simulator", "simulate"]
