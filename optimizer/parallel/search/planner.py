"""Plan search for one graph on a cluster: mappings, pipelines and expert plans, ranked by the simulator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from superopt.ir.graph import Graph
from superopt.optimizer.parallel.experts import ONE_DEVICE, assignments, one_device
from superopt.optimizer.parallel.search.candidates import Origin, Planned, Proposal, SimulatedPlan
from superopt.optimizer.parallel.search.choices import Choice, Licence, everything
from superopt.optimizer.parallel.search.cost_source import task_times
from superopt.optimizer.parallel.search.estimate import Compute, Estimator
from superopt.optimizer.parallel.search.mapping import MachineMapping, Mapper
from superopt.optimizer.parallel.search.mesh import Mesh, submachines
from superopt.optimizer.parallel.search.pipeline import pipelines, stage_counts, stage_meshes
from superopt.optimizer.parallel.search.prices import collective_prices
from superopt.optimizer.parallel.search.redistribution import CollectivePrices
from superopt.optimizer.parallel.search.refinement import Refined, Refinement
from superopt.optimizer.parallel.search.residence_moves import ResidenceMoves
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.search.tables import Tables
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, Simulator
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.states import StepLayout

_WORSE_MACHINES = 2
"""Number of consecutive smaller machines without improvement after which no more are tried."""

_HOPELESS = 1.5
"""Slowdown of a pipeline relative to the best plan above which no more microbatches are tried; nor a smaller
machine after one where this happened."""

_SIMULATIONS = 16_000
_MANY_DEVICES = 48
_PER_OPERATION = 40
"""Simulations per refinement phase: this number divided by the number of operations, fewer on many devices,
and a maximum per operation."""

_CAUTIOUS = 1.1
"""Ratio of estimated to simulated memory above which the estimate's limit is raised."""

_STARTS = 3
_NEAR = 1.5
"""Number of plans that are refined, and their maximum slowdown relative to the best."""


@dataclass
class Planner:
    """Plans graphs for one cluster and one objective; caches are kept between graphs. ``seed`` is that of
    random moves. ``deadline`` is a time of the monotonic clock, which is over, too, once ``is_cut_short`` is
    true; ``was_cut``: whether it has interrupted anything. Expert plans are evaluated even after the
    deadline. ``layout`` is that of the graphs if they are a training step."""

    cluster: Cluster
    objective: ParallelObjective
    licence: Licence = everything
    deadline: float = float("inf")
    seed: int = 0
    was_cut: bool = False
    is_cut_short: Callable[[], bool] = lambda: False
    layout: StepLayout | None = None
    tables: Tables = field(default_factory=Tables)
    _shared: Prices = field(init=False)
    _compute: Compute = field(init=False)
    _simulators: dict[int, tuple[Subject, Simulator]] = field(
        default_factory=dict[int, tuple[Subject, Simulator]]
    )
    _experts: tuple[Subject, tuple[SimulatedPlan, ...]] | None = None
    _prices: dict[Mesh, CollectivePrices] = field(default_factory=dict[Mesh, CollectivePrices])
    _estimators: dict[Mesh, Estimator] = field(default_factory=dict[Mesh, Estimator])

    def __post_init__(self) -> None:
        self._shared = Prices(self.cluster)
        self._compute = task_times(self.cluster, self._shared.tasks)

    def estimate(self, graph: Graph) -> float:
        """Estimated cost of the best mapping on all devices; guides the substitution search."""
        mesh = Mesh.of(self.cluster)
        mapper = self.mapper(Subject.of(graph, self.layout), mesh)
        return min(mapping.estimate for mapping in mapper.mappings(self.memory_limit))

    def plan(self, graph: Graph) -> Planned:
        """The best plan found for the graph."""
        began = time.process_time()
        subject = Subject.of(graph, self.layout)
        seen = [*self.experts(subject)]
        known = {frozenset(candidate.plan.parallel.items()) for candidate in seen}
        for proposal in self._mapped(subject, seen):
            key = frozenset(proposal.plan.parallel.items())
            if key not in known:
                known.add(key)
                seen.append(self.evaluated(subject, proposal))
        if not any(candidate.fits for candidate in seen):
            seen.append(self.least_memory_plan(subject))
        best = min(seen, key=lambda candidate: candidate.rank)
        if self.objective is ParallelObjective.THROUGHPUT and subject.step is None:
            piped = self._piped(subject, best)
            seen.extend(piped)
            best = min((best, *piped), key=lambda candidate: candidate.rank)
        refined = self._refined(subject, seen, best)
        if refined is not best:
            seen.append(refined)
            best = refined
        resided = self._resided(subject, seen, best)
        if resided is not best:
            seen.append(resided)
            best = resided
        return Planned(subject, best, tuple(seen), time.process_time() - began)

    def experts(self, subject: Subject) -> tuple[SimulatedPlan, ...]:
        """The evaluated expert plans for the whole machine; those of the most recent graph are kept."""
        if self._experts is None or self._experts[0] is not subject:
            self._experts = (subject, self._evaluated_experts(subject))
        return self._experts[1]

    def _evaluated_experts(self, subject: Subject) -> tuple[SimulatedPlan, ...]:
        mesh = Mesh.of(self.cluster)
        found = [self._on_one_device(subject, mesh)]
        for name, assignment in assignments(subject, mesh, self.licence):
            if name == ONE_DEVICE:
                continue
            plan = assignment.plan(subject)
            if assignment.residence:
                plan = self._moves(subject).overlapped(plan).plan
            proposal = Proposal(name, Origin.EXPERT, plan, replace(assignment, residence=plan.residence))
            found.append(self.evaluated(subject, proposal))
        return tuple(found)

    def _on_one_device(self, subject: Subject, mesh: Mesh) -> SimulatedPlan:
        """The best plan for one device alone, among the first devices of each kind."""
        kinds: dict[object, int] = {}
        for place, number in enumerate(mesh.devices):
            device = self.cluster.devices[number]
            kinds.setdefault((device.kind, device.memory_bytes), place)
        plans: list[SimulatedPlan] = []
        for place in kinds.values():
            assignment = one_device(subject, mesh, place)
            plan = assignment.plan(subject)
            plans.append(self.evaluated(subject, Proposal(ONE_DEVICE, Origin.EXPERT, plan, assignment)))
        return min(plans, key=lambda candidate: candidate.rank)

    def least_memory_plan(self, subject: Subject) -> SimulatedPlan:
        """The plan with the lowest estimated memory per device; the best on one device if only that fits."""
        mesh = Mesh.of(self.cluster)
        mappings = self.mapper(subject, mesh).mappings(0)
        least = min(mappings, key=lambda mapping: mapping.memory)
        proposal = Proposal("least memory", Origin.MAPPING, least.assignment.plan(subject), least.assignment)
        divided = self.evaluated(subject, proposal)
        if divided.fits:
            return divided
        alone = self._on_one_device(subject, mesh)
        return alone if alone.fits else divided

    @property
    def memory_limit(self) -> int:
        """Memory of the smallest device in bytes."""
        return min(device.memory_bytes for device in self.cluster.devices)

    def evaluated(self, subject: Subject, proposal: Proposal) -> SimulatedPlan:
        """Simulates the plan."""
        return self._candidate(proposal, self.simulator(subject).simulate(proposal.plan))

    def simulator(self, subject: Subject) -> Simulator:
        """The simulator of the most recent graph."""
        known = self._simulators.get(0)
        if known is None or known[0] is not subject:
            simulator = Simulator(
                subject.graph, self.cluster, self.objective, prices=self._shared, step=subject.step
            )
            known = self._simulators[0] = (subject, simulator)
        return known[1]

    def _mapped(self, subject: Subject, seen: Sequence[SimulatedPlan]) -> Iterator[Proposal]:
        """The best mappings on the whole machine and parts of it; ``seen`` are plans evaluated so far."""
        whole = Mesh.of(self.cluster)
        best, worse = float("inf"), 0
        for mesh in submachines(self.cluster):
            if self.is_expired() and any(candidate.fits for candidate in seen):
                break
            mapper = self.mapper(subject, mesh)
            mappings = mapper.mappings(self.memory_limit)
            if mesh == whole:
                mappings += self._less_cautious(mapper, seen)
            least = min(mapping.estimate for mapping in mappings)
            worse = worse + 1 if least >= best else 0
            if worse > _WORSE_MACHINES or least > _HOPELESS * best:
                break
            if least < best or mesh == whole:
                yield from _unique(subject, mappings)
            best = min(best, least)

    def _less_cautious(self, mapper: Mapper, experts: Sequence[SimulatedPlan]) -> list[MachineMapping]:
        """Mappings that fit if the memory estimate is corrected by the ratio observed for expert plans."""
        corrections = [
            mapper.mapping(name, assignment.choices).memory / max(1, *expert.simulation.memory_bytes)
            for expert in experts
            if (assignment := expert.proposal.assignment) is not None
            and not assignment.residence
            and (name := expert.proposal.name) != ONE_DEVICE
        ]
        correction = max(corrections, default=1.0)
        return mapper.mappings(self.memory_limit * correction) if correction > _CAUTIOUS else []

    def _piped(self, subject: Subject, best: SimulatedPlan) -> list[SimulatedPlan]:
        """Pipelines, with more microbatches and more stages while that may help."""
        found: list[SimulatedPlan] = []
        whole = Mesh.of(self.cluster)
        worse = 0
        for count in stage_counts(whole):
            meshes = stage_meshes(whole, count)
            if meshes is None or self.is_expired() or worse > _WORSE_MACHINES:
                continue
            fastest: SimulatedPlan | None = None
            mapper = self.mapper(subject, meshes[0])
            mapping = mapper.mappings(self.memory_limit * count)[0]
            choices = mapping.assignment.choices
            costs = mapper.costs(choices)
            for plan in pipelines(subject, choices, costs, meshes):
                name = f"{count} stages, {plan.microbatches} microbatches"
                tried = self.evaluated(subject, Proposal(name, Origin.PIPELINE, plan))
                found.append(tried)
                if fastest is not None and tried.rank >= fastest.rank:
                    break
                fastest = tried
                if tried.fits and tried.simulation.microseconds > _HOPELESS * best.simulation.microseconds:
                    break
                if self.is_expired():
                    break
            worse += fastest is None or fastest.rank > best.rank
        return found

    def mapper(self, subject: Subject, mesh: Mesh) -> Mapper:
        """The search for mappings of the graph on that mesh."""
        known = self._estimators.get(mesh)
        if known is None:
            prices = self._prices.setdefault(
                mesh, collective_prices(mesh, self.cluster, self._shared.collectives)
            )
            estimator = Estimator(subject, mesh, prices, self._compute, self.tables)
        else:
            estimator = replace(known, subject=subject)
        self._estimators[mesh] = estimator
        return Mapper(subject, estimator, self.licence, self.is_expired)

    def _refined(
        self, subject: Subject, found: Sequence[SimulatedPlan], best: SimulatedPlan
    ) -> SimulatedPlan:
        """Refines the best plans that are choices on a mesh, as judged by the simulator."""
        starts = sorted((c for c in found if c.proposal.assignment is not None), key=lambda c: c.rank)
        near = [
            c for c in starts[:_STARTS] if c.rank <= (not best.fits, _NEAR * best.simulation.microseconds)
        ]
        refined: list[tuple[Refinement, Refined]] = []
        for candidate in near:
            assignment = candidate.proposal.assignment
            if self.is_expired() or assignment is None:
                break
            refinement = Refinement(
                subject,
                self.mapper(subject, assignment.mesh),
                self.simulator(subject),
                self._fits,
                self._simulations(len(subject.operations)),
                self.is_expired,
                self.seed,
            )
            start = Refined(assignment, candidate.simulation)
            refined.append((refinement, refinement.descended(start)))
        if not refined:
            return best
        refinement, start = min(refined, key=lambda pair: self._rank(pair[1].simulation))
        if not self.is_expired():
            start = refinement.sampled(start)
        plan = start.simulation.plan
        tried = self._candidate(Proposal("search", Origin.REFINED, plan, start.assignment), start.simulation)
        return min((best, tried), key=lambda candidate: candidate.rank)

    def _resided(
        self, subject: Subject, found: Sequence[SimulatedPlan], best: SimulatedPlan
    ) -> SimulatedPlan:
        """The best of the plans that are found and of the fastest with their states in parts."""
        starts = sorted(
            (
                one
                for one in found
                if one.proposal.assignment is not None
                and not one.plan.residence
                and (not best.fits or one.simulation.microseconds <= best.simulation.microseconds)
            ),
            key=lambda one: one.simulation.microseconds,
        )
        moves = self._moves(subject)
        for start in starts[:_STARTS] if subject.step is not None else ():
            tried = moves.best(start.plan)
            if tried is not None:
                proposal = Proposal(f"{start.proposal.name}, states in parts", Origin.REFINED, tried.plan)
                best = min((best, self._candidate(proposal, tried)), key=lambda candidate: candidate.rank)
        return best

    def _moves(self, subject: Subject) -> ResidenceMoves:
        return ResidenceMoves(subject, self.simulator(subject), self._fits, self.is_expired)

    def _simulations(self, operations: int) -> int:
        work = max(1, operations) * max(1.0, len(self.cluster) / _MANY_DEVICES)
        return min(int(_SIMULATIONS / work), _PER_OPERATION * operations)

    def _rank(self, simulation: Simulation) -> tuple[bool, float]:
        return (not self._fits(simulation), simulation.microseconds)

    def _fits(self, simulation: Simulation) -> bool:
        return simulation.fits([device.memory_bytes for device in self.cluster.devices])

    def _candidate(self, proposal: Proposal, simulation: Simulation) -> SimulatedPlan:
        return SimulatedPlan(proposal, simulation, self._fits(simulation))

    def is_expired(self) -> bool:
        """Whether the deadline has passed."""
        is_late = time.monotonic() >= self.deadline or self.is_cut_short()
        self.was_cut = self.was_cut or is_late
        return is_late


def _unique(subject: Subject, mappings: Sequence[MachineMapping]) -> Iterator[Proposal]:
    seen: set[tuple[Choice, ...]] = set()
    for mapping in mappings:
        if mapping.assignment.choices not in seen:
            seen.add(mapping.assignment.choices)
            plan = mapping.assignment.plan(subject)
            yield Proposal(mapping.name, Origin.MAPPING, plan, mapping.assignment)
