"""Simulate plans: fully, or incrementally from the simulation of a similar plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Plan
from superopt.optimizer.parallel.simulator.assembly import Assembly
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.simulator.fused import fused
from superopt.optimizer.parallel.simulator.issue_order import IssueOrder
from superopt.optimizer.parallel.simulator.objective import ParallelObjective
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.residents import Residents
from superopt.optimizer.parallel.simulator.schedule import Schedule
from superopt.optimizer.parallel.simulator.simulation import Simulation
from superopt.optimizer.parallel.simulator.timing import timed
from superopt.optimizer.parallel.simulator.units import Key, Unit
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.states import StepStates


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
        self._assembly = Assembly(self.operations, self.prices)
        self._schedules: dict[tuple[tuple[int, ...], int], Schedule] = {}
        self._issue_order = IssueOrder(self.operations, len(self.prices.cluster.channels))
        self._base: Simulation | None = None

    def simulate(self, plan: Plan) -> Simulation:
        """Full simulation of the plan. Raises InvalidOptionError where it does not fit."""
        divisions = [self._assembly.division(plan, number) for number in range(len(self.operations.all))]
        stages, residents = self._assembly.stages(plan), self._assembly.residents(plan)
        units = [self._assembly.unit(divisions, residents, number) for number in range(len(divisions))]
        if plan.has_kernels:
            return self._fused(plan, units, residents)
        return self._timed(plan, stages, units, residents, None)

    def delta(self, plan: Plan, changed: Collection[NodeId], base: Simulation | None = None) -> Simulation:
        """Equals ``simulate`` for a plan that differs from the ``base`` (by default the last one simulated)
        at most in the machine mappings of some nodes (dissertation, section 3.4.3). Units around those nodes
        are rebuilt, and passes are timed again from the first that differs."""
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
        residents = self._assembly.residents(plan)
        for number in self._around(numbers):
            unit = self._assembly.unit(divisions, residents, number)
            if plan.residence or not unit.is_like(units[number]):
                units[number] = unit
        return self._timed(plan, base.schedule.stages, units, residents, base)

    def _fused(self, plan: Plan, units: list[Unit], residents: Residents) -> Simulation:
        """A plan with kernels of several operators, buckets, or an order."""
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
        stages: tuple[int, ...],
        units: list[Unit],
        residents: Residents,
        base: Simulation | None,
    ) -> Simulation:
        """Times the units in the order in which they are issued. ``units`` and ``residents`` have no fetches,
        or old ones; passes before the first that differs from those of the ``base`` are copied."""
        cluster = self.prices.cluster
        schedule = self._schedule(stages, plan.microbatches, units)
        opening: tuple[tuple[Key, Exchange], ...] = ()
        if plan.residence:
            order = [number for number, _ in schedule.items]
            residents = residents.fetched(self.operations, plan, order)
            units = self._assembly.fetching(units, residents)
            opening = self._assembly.fetched([unit.division for unit in units], residents)
        first, before = 0, None
        if base is not None and opening == base.opening:
            first, before = _first_new(schedule, units, base), base.timing
        timing = timed(units, schedule, len(cluster), len(cluster.channels), opening, before, first)
        self._base = Simulation(
            plan, self.objective, self.operations, self.prices, schedule, units, residents, opening, timing
        )
        return self._base

    def _schedule(self, stages: tuple[int, ...], microbatches: int, units: Sequence[Unit]) -> Schedule:
        """The operators of a training step are issued as list scheduling says, others by the longest path."""
        if self.operations.step is not None and microbatches == 1 and len(set(stages)) == 1:
            return Schedule.issued(self._issue_order.of(units), stages[0], len(units))
        key = stages, microbatches
        found = self._schedules.get(key)
        if found is None:
            self._schedules.clear()
            found = self._schedules[key] = Schedule.of(*key)
        return found

    def _around(self, numbers: set[int]) -> set[int]:
        """The operations whose units may change when those nodes do."""
        found = set(numbers)
        for number in numbers:
            operation = self.operations.all[number]
            found.update(source[0] for source in operation.sources if source is not None)
            found.update(use.reader for use in self.operations.uses[number])
            found.update(self.operations.states_read.get(number, ()))
        return found


def _first_new(schedule: Schedule, units: Sequence[Unit], base: Simulation) -> int:
    """The first pass that is not that of another simulation."""
    for place, (item, before) in enumerate(zip(schedule.items, base.schedule.items, strict=True)):
        unit, other = units[item[0]], base.units[item[0]]
        if item != before or (unit is not other and not unit.is_like(other)):
            return place
    return len(schedule.items)


__all__ = ["Simulator", "simulate"]
