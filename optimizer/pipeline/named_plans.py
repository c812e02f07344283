"""Plans of a training step by the name or the file of a strategy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from superopt.errors import InvalidOptionError
from superopt.optimizer.fusion.joint.problem import Problem
from superopt.optimizer.fusion.joint.strategies import JOINT_STRATEGIES, joint_plans
from superopt.optimizer.fusion.joint.sums import GradientSums
from superopt.optimizer.parallel.licences import Licences
from superopt.optimizer.parallel.search.candidates import Origin, Proposal
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.simulator import ParallelObjective
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.inexact import compressed_by
from superopt.optimizer.parallel.strategies.model import Strategy, strategy_of
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.reading import strategy_named
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.sharded_states import (
    BY_SAMPLES,
    DDP,
    FSDP,
    ZERO_3,
    ShardedStates,
)
from superopt.optimizer.parallel.training_plans.states import StepStates
from superopt.optimizer.pipeline.prepare import Request
from superopt.optimizer.pipeline.verdict import PlannedVariant

_ROUNDS = "; each device rounds its gradients before they are added: on devices it is not equal to the step"

_TOLD_EVERY = 50
"""Candidates of a joint fusion between two reports of its progress."""


@dataclass(frozen=True)
class FusedPlan:
    """The plan that a joint fusion found, the number of candidates, and the microseconds of its baselines."""

    variant: PlannedVariant
    tried: int
    baselines: Mapping[str, float]


@dataclass(frozen=True)
class NamedPlans:
    """Plans for the unchanged graph of a request."""

    request: Request
    planner: Planner
    cluster: Cluster
    licences: Licences

    def plan(self, strategy: str, end: float) -> PlannedVariant:
        """The plan of that name; of a strategy of joint fusion, the plan whose kernels it fuses. A search for
        a strategy stops at ``end`` (monotonic clock). Raises InvalidOptionError where there is none."""
        graph = self.request.lifted.graph
        subject = Subject.of(plannable(graph, self.request.options.dims), self.planner.layout)
        if subject.step is None:
            raise InvalidOptionError(
                f"strategy: expected a model that is a training step (superopt train-graph) with {strategy}"
            )
        found = {candidate.proposal.name: candidate for candidate in self.planner.experts(subject)}
        name = ZERO_3 if strategy == FSDP else strategy
        if strategy in JOINT_STRATEGIES:
            if self.planner.objective is not ParallelObjective.LATENCY:
                raise InvalidOptionError(f"strategy: expected objective latency or training with {strategy}")
            Problem.of(found[DDP].simulation)
            name = DDP
        if name in found:
            caveat = self._repeated(subject, subject.step) if name in BY_SAMPLES else ""
            return PlannedVariant(graph, (), (), subject, found[name], caveat=caveat)
        if name in BY_SAMPLES:
            raise InvalidOptionError(f"strategy: expected a cluster of several devices with {strategy}")
        return self._synchronised(strategy, end)

    def _repeated(self, subject: Subject, step: StepStates) -> str:
        """A note on a plan that divides samples where they do not divide among all devices."""
        mesh = Mesh.of(self.cluster)
        repeats = ShardedStates(subject, step, mesh, self.licences.allow).repeats
        if repeats == 1:
            return ""
        return f"; the samples do not divide among {len(mesh.devices)} devices, {repeats} compute each"

    def fused(self, divided: PlannedVariant, strategy: str) -> FusedPlan:
        """The plan with the joint fusion that a strategy finds until the planner's deadline; where that does
        not fit into memory, one that does, if there is any."""
        before = divided.chosen.simulation.microseconds

        def tell(tried: int, best: float) -> None:
            if best < before and tried % _TOLD_EVERY == 0:
                self.request.tell("search", tried, before, best)

        subject, planner = divided.subject, self.planner
        problem = Problem.of(divided.chosen.simulation)
        sums = GradientSums(subject, self.licences.allow, planner.simulator(subject))
        seed = self.request.options.seed
        first: FusedPlan | None = None
        for found in joint_plans(problem, sums, strategy, seed, planner.is_expired, tell):
            chosen = planner.evaluated(subject, Proposal(strategy, Origin.JOINT, found.plan))
            fused = FusedPlan(replace(divided, chosen=chosen), found.tried, found.baselines)
            if chosen.fits:
                return fused
            first = first or fused
        assert first is not None, "there is a plan by each rule"
        return first

    def again(self, synchronisation: object) -> PlannedVariant:
        """The plan of a strategy of AutoDist's kind that a report has as JSON values. Raises InvalidFileError
        for a defect in them, and InvalidOptionError for a strategy that does not fit."""
        strategy = strategy_of(synchronisation, "plan: synchronisation")
        return self._by(self._strategy_planner(), strategy, "given")

    def _synchronised(self, name: str, end: float) -> PlannedVariant:
        """The plan of a strategy of AutoDist's kind, by name or file."""
        planner = self._strategy_planner()
        strategy = strategy_named(name, planner, self.request.options.seed, lambda: time.monotonic() > end)
        return self._by(planner, strategy, strategy.identity or Path(name).name)

    def _strategy_planner(self) -> StrategyPlanner:
        layout = self.planner.layout
        assert layout is not None, "the model is a training step"
        graph = plannable(self.request.lifted.graph, self.request.options.dims)
        return StrategyPlanner(graph, layout, Prices(self.cluster), self.licences.allow)

    def _by(self, planner: StrategyPlanner, strategy: Strategy, title: str) -> PlannedVariant:
        planned = planner.planned(strategy)
        if planned.divided:
            state = planned.divided[0]
            raise InvalidOptionError(
                f"strategy: the state {state.whole!r} would become one state for each part of its parameter, "
                f"such as {state.input!r}, and the result keeps the inputs of the step: expected parts of "
                "equal size on different servers, or an optimizer without such states"
            )
        chosen = self.planner.evaluated(planned.subject, Proposal(title, Origin.GIVEN, planned.plan))
        caveat = _ROUNDS if compressed_by(strategy) else ""
        return PlannedVariant(planned.graph, (), (), planned.subject, chosen, strategy, caveat)
