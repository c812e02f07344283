"""The search for the plan of one graph on a cluster: mappings, pipelines, experts; the simulator decides."""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from optimizer.parallel.experts import Assignment, assignments
from optimizer.parallel.search.choices import Choice, Licence, everything, parallelism
from optimizer.parallel.search.cost_source import both_ways, forward
from optimizer.parallel.search.estimate import Compute, Estimator
from optimizer.parallel.search.mapping import Mapper, Mapping
from optimizer.parallel.search.mcmc import Metropolis, with_mapping
from optimizer.parallel.search.mesh import Mesh, submachines
from optimizer.parallel.search.pipeline import pipelines, stage_counts, stage_meshes
from optimizer.parallel.search.prices import collective_prices
from optimizer.parallel.search.redistribution import CollectivePrices
from optimizer.parallel.search.subject import Operation, Subject
from optimizer.parallel.search.tables import Tables
from optimizer.parallel.simulator import ParallelObjective, Simulation, Simulator
from optimizer.parallel.simulator.prices import Prices
from optimizer.parallel.topology import Cluster
from superopt.ir.graph import Graph, NodeId
from superopt.ir.plan import Parallelism, Plan

_WORSE_MACHINES = 2
"""Smaller machines are not tried after so many that were no better."""

_KEPT_IN_TRAINING = 4
"""Tensors that a device keeps for each weight: itself, its gradient and two moments."""

_HOPELESS = 1.5
"""A pipeline that is so many times slower than the best plan is not tried with more microbatches."""

_KINDS_TRIED = 60
"""Simulations in which all operations of one kind are changed."""

_SIMULATIONS = 24_000
"""Over the number of operations: simulations that change one operation, in descending and in sampling."""

_ALTERNATIVES = 4
"""Choices that refinement tries for each kind of operation."""


class Origin(enum.StrEnum):
    """Where a plan comes from."""

    EXPERT = "expert"
    MAPPING = "dynamic programming"
    PIPELINE = "pipeline"
    REFINED = "refined"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to be evaluated; ``assignment`` is what it was made from, where that is known."""

    name: str
    origin: Origin
    plan: Plan
    assignment: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that was evaluated; ``fits``: no device needs more memory than it has."""

    proposal: Proposal
    simulation: Simulation
    fits: bool

    @property
    def plan(self) -> Plan:
        """The plan."""
        return self.proposal.plan

    @property
    def rank(self) -> tuple[bool, float]:
        """What makes one plan better than another: that it fits, then its time."""
        return (not self.fits, self.simulation.microseconds)


@dataclass(frozen=True)
class Planned:
    """The best plan of a graph, all that were evaluated, and how much was searched."""

    subject: Subject
    best: Candidate
    candidates: tuple[Candidate, ...]
    seconds: float

    @property
    def experts(self) -> tuple[Candidate, ...]:
        """The plans of experts, by time."""
        experts = (c for c in self.candidates if c.proposal.origin is Origin.EXPERT)
        return tuple(sorted(experts, key=lambda c: c.rank))


@dataclass
class Planner:
    """Plans graphs for one cluster and one objective, keeping what it learns from one graph to the next.

    ``deadline`` is a time of the monotonic clock; ``was_cut``: whether it ended anything so far. The plans of
    experts are evaluated however late it is.
    """

    cluster: Cluster
    objective: ParallelObjective
    licence: Licence = everything
    deadline: float = float("inf")
    was_cut: bool = False
    tables: Tables = field(default_factory=Tables)
    _shared: Prices = field(init=False)
    _compute: Compute = field(init=False)
    _simulators: dict[int, tuple[Subject, Simulator]] = field(
        default_factory=dict[int, tuple[Subject, Simulator]]
    )
    _prices: dict[Mesh, CollectivePrices] = field(default_factory=dict[Mesh, CollectivePrices])
    _estimators: dict[Mesh, Estimator] = field(default_factory=dict[Mesh, Estimator])

    def __post_init__(self) -> None:
        self._shared = Prices(self.cluster)
        source = both_ways if self._trains else forward
        self._compute = source(self.cluster, self._shared.tasks)

    @property
    def _trains(self) -> bool:
        return self.objective is ParallelObjective.TRAINING

    def estimate(self, graph: Graph) -> float:
        """The estimate of the best mapping on all devices: what guides the choice of substitutions."""
        mesh = Mesh.of(self.cluster)
        mapper = self._mapper(Subject.of(graph), mesh)
        return min(mapping.estimate for mapping in mapper.mappings(self.memory_limit))

    def plan(self, graph: Graph) -> Planned:
        """The best plan found for the graph."""
        began = time.process_time()
        subject = Subject.of(graph)
        seen: list[Candidate] = []
        known: set[frozenset[tuple[NodeId, Parallelism]]] = set()

        def is_over() -> bool:
            return self.is_expired() and any(candidate.fits for candidate in seen)

        for proposal in self._proposals(subject, is_over):
            key = frozenset(proposal.plan.parallel.items())
            if key not in known:
                known.add(key)
                seen.append(self.evaluated(subject, proposal))
        best = min(seen, key=lambda candidate: candidate.rank)
        if self.objective is not ParallelObjective.LATENCY:
            piped = self._piped(subject, best)
            seen.extend(piped)
            best = min((best, *piped), key=lambda candidate: candidate.rank)
        refined = self._refined(subject, best)
        if refined is not best:
            seen.append(refined)
            best = refined
        return Planned(subject, best, tuple(seen), time.process_time() - began)

    def experts(self, subject: Subject) -> tuple[Candidate, ...]:
        """The plans of experts for the whole machine, evaluated."""
        found = assignments(subject, Mesh.of(self.cluster), self.licence)
        return tuple(
            self.evaluated(subject, Proposal(name, Origin.EXPERT, assignment.plan(subject), assignment))
            for name, assignment in found
        )

    def thriftiest(self, subject: Subject) -> Candidate:
        """The plan that is estimated to need least memory on a device."""
        mappings = self._mapper(subject, Mesh.of(self.cluster)).mappings(0)
        least = min(mappings, key=lambda mapping: mapping.memory)
        plan = least.assignment.plan(subject)
        return self.evaluated(subject, Proposal("least memory", Origin.MAPPING, plan, least.assignment))

    @property
    def memory_limit(self) -> int:
        """The bytes of the smallest device."""
        return min(device.memory_bytes for device in self.cluster.devices)

    def evaluated(self, subject: Subject, proposal: Proposal) -> Candidate:
        """The plan as the simulator sees it."""
        return self._candidate(proposal, self.simulator(subject).simulate(proposal.plan))

    def simulator(self, subject: Subject) -> Simulator:
        """The simulator of the last graph that was asked for."""
        known = self._simulators.get(0)
        if known is None or known[0] is not subject:
            simulator = Simulator(subject.graph, self.cluster, self.objective, prices=self._shared)
            known = self._simulators[0] = (subject, simulator)
        return known[1]

    def _proposals(self, subject: Subject, is_over: Callable[[], bool]) -> Iterator[Proposal]:
        whole = Mesh.of(self.cluster)
        for name, assignment in assignments(subject, whole, self.licence):
            yield Proposal(name, Origin.EXPERT, assignment.plan(subject), assignment)
        best, worse = float("inf"), 0
        for mesh in submachines(self.cluster):
            if is_over():
                break
            mappings = self._mapper(subject, mesh).mappings(self.memory_limit)
            least = min(mapping.estimate for mapping in mappings)
            worse = worse + 1 if least >= best else 0
            if worse > _WORSE_MACHINES:
                break
            if least < best or mesh == whole:
                yield from _unique(subject, mappings)
            best = min(best, least)

    def _piped(self, subject: Subject, best: Candidate) -> list[Candidate]:
        """Pipelines, with more microbatches and more stages as long as that may help."""
        found: list[Candidate] = []
        whole = Mesh.of(self.cluster)
        worse = 0
        for count in stage_counts(whole):
            meshes = stage_meshes(whole, count)
            if meshes is None or self.is_expired() or worse > _WORSE_MACHINES:
                continue
            fastest: Candidate | None = None
            mapper = self._mapper(subject, meshes[0])
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

    def _mapper(self, subject: Subject, mesh: Mesh) -> Mapper:
        known = self._estimators.get(mesh)
        if known is None:
            prices = self._prices.setdefault(
                mesh, collective_prices(mesh, self.cluster, self._shared.collectives)
            )
            copies = _KEPT_IN_TRAINING if self._trains else 1
            estimator = Estimator(subject, mesh, prices, self._compute, self._trains, copies, self.tables)
        else:
            estimator = replace(known, subject=subject)
        self._estimators[mesh] = estimator
        return Mapper(subject, estimator, self.licence, self.is_expired)

    def _refined(self, subject: Subject, best: Candidate) -> Candidate:
        """Tries other choices for all operations of one kind at once, then for one operation at a time, then
        at random, as the simulator judges them."""
        given = best.proposal.assignment
        if given is None or self.is_expired():
            return best
        mapper = self._mapper(subject, given.mesh)
        simulator = self.simulator(subject)
        left = min(_KINDS_TRIED, _SIMULATIONS // len(subject.operations))
        for group, alternatives in _alternatives(subject, mapper, given):
            if self.is_expired():
                break
            for choice in alternatives:
                if self.is_expired() or not left:
                    break
                left -= 1
                base = best.proposal.assignment or given
                chosen = list(base.choices)
                for number in group:
                    chosen[number] = choice
                assignment = replace(base, choices=tuple(chosen))
                plan = assignment.plan(subject)
                nodes = [subject.operations[number].node for number in group]
                simulation = simulator.delta(plan, nodes, best.simulation)
                tried = self._candidate(Proposal("search", Origin.REFINED, plan, assignment), simulation)
                if tried.rank < best.rank:
                    best = tried
        return self._polished(subject, best, mapper)

    def _polished(self, subject: Subject, best: Candidate, mapper: Mapper) -> Candidate:
        """One operation at a time until nothing helps, then Metropolis sampling."""
        assignment = best.proposal.assignment
        assert assignment is not None, "refinement keeps what a plan was made from"
        simulator = self.simulator(subject)
        most = _SIMULATIONS // len(subject.operations)
        simulation, left = best.simulation, most
        helped = True
        order = sorted(range(len(subject.operations)), key=lambda n: -_weight(subject.operations[n]))
        while helped and left:
            helped = False
            for number in order:
                if self.is_expired():
                    break
                for choice in mapper.alternatives(number, assignment.choices, _ALTERNATIVES):
                    if self.is_expired() or not left:
                        break
                    left -= 1
                    chosen = list(assignment.choices)
                    chosen[number] = choice
                    changed = replace(assignment, choices=tuple(chosen))
                    operation = subject.operations[number]
                    how = parallelism(operation, choice, assignment.mesh)
                    plan = with_mapping(simulation.plan, operation.node, how)
                    tried = simulator.delta(plan, (operation.node,), simulation)
                    if tried.microseconds < simulation.microseconds and self._fits(tried):
                        assignment, simulation, helped = changed, tried, True
        found = self._candidate(Proposal("search", Origin.REFINED, simulation.plan, assignment), simulation)
        best = min((best, found), key=lambda candidate: candidate.rank)
        return self._sampled(subject, best, assignment.mesh, most)

    def _sampled(self, subject: Subject, best: Candidate, mesh: Mesh, proposals: int) -> Candidate:
        if self.is_expired():
            return best
        simulator = self.simulator(subject)

        def delta(plan: Plan, changed: Sequence[NodeId]) -> float:
            simulation = simulator.delta(plan, changed)
            return simulation.microseconds if self._fits(simulation) else math.inf

        sampler = Metropolis(subject, mesh, delta, self.licence, expired=self.is_expired)
        found = sampler.run([best.plan], 0, proposals)
        if found.microseconds >= best.simulation.microseconds:
            return best
        return self.evaluated(subject, Proposal("search", Origin.REFINED, found.plan))

    def _fits(self, simulation: Simulation) -> bool:
        limits = (device.memory_bytes for device in self.cluster.devices)
        return all(used <= limit for used, limit in zip(simulation.memory_bytes, limits, strict=True))

    def _candidate(self, proposal: Proposal, simulation: Simulation) -> Candidate:
        return Candidate(proposal, simulation, self._fits(simulation))

    def is_expired(self) -> bool:
        """Whether the deadline has passed."""
        is_late = time.monotonic() >= self.deadline
        self.was_cut = self.was_cut or is_late
        return is_late


def _unique(subject: Subject, mappings: Sequence[Mapping]) -> Iterator[Proposal]:
    seen: set[tuple[Choice, ...]] = set()
    for mapping in mappings:
        if mapping.assignment.choices not in seen:
            seen.add(mapping.assignment.choices)
            plan = mapping.assignment.plan(subject)
            yield Proposal(mapping.name, Origin.MAPPING, plan, mapping.assignment)


def _alternatives(
    subject: Subject, mapper: Mapper, assignment: Assignment
) -> Iterator[tuple[list[int], list[Choice]]]:
    """Operations that are alike and treated alike, the costliest kinds first, with other choices for them."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, operation in enumerate(subject.operations):
        key = (operation.operator, operation.inputs, operation.splits, assignment.choices[number])
        groups.setdefault(key, []).append(number)
    weights = {key: len(numbers) * _weight(subject.operations[numbers[0]]) for key, numbers in groups.items()}
    for key in sorted(groups, key=lambda k: -weights[k]):
        numbers = groups[key]
        options = mapper.alternatives(numbers[0], assignment.choices, _ALTERNATIVES)
        yield numbers, options


def _weight(operation: Operation) -> int:
    elements = [type_.elements for type_ in (*operation.inputs, *operation.outputs)]
    return sum(count for count in elements if isinstance(count, int))
