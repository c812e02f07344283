"""Automatic choice of a strategy for a step and a cluster (AutoDist, section 2.4, algorithm 1).

In each round the sampler draws strategies, the learned ranking scores them, those below its fidelity level
are rejected, and of the rest those are tried that score well and differ from each other. A trial is a full
simulation of the plan. The ranking has learned from other steps. The builders' strategies are tried first, so
that the result is never slower than the best of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from superopt.optimizer.learning.graphs import FeatureGraph
from superopt.optimizer.parallel.search.mesh import Mesh
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, Simulator
from superopt.optimizer.parallel.strategies.builders import BUILDERS, CHUNK, Setting, build
from superopt.optimizer.parallel.strategies.model import Strategy
from superopt.optimizer.parallel.strategies.plans import PlannedStep, StrategyPlanner
from superopt.optimizer.parallel.strategies.ranking import FeatureExtractor, Ranking
from superopt.optimizer.parallel.strategies.sampling import EVERY_ASPECT, Aspect, Draft, Sampler
from superopt.optimizer.parallel.strategies.variables import DeviceNames

AUTO = "auto"
"""The name of the strategy that is found."""

_SAMPLES = 64
_TRIALS = 8
"""Strategies drawn in a round, and those of them that are tried."""

_PARENTS = 4
"""Tried strategies that half of the samples are variations of."""

_DIVERSITY = 0.5
"""Weight of the similarity to strategies of the same round, in standard deviations of the scores."""


@dataclass(frozen=True)
class Effort:
    """Limits and scope of a search: the number of ``trials`` beside the builders, the seed, the aspects that
    vary, the chunk of the builders. The search ends when ``is_over`` returns True."""

    trials: int = 48
    seed: int = 0
    aspects: frozenset[Aspect] = EVERY_ASPECT
    chunk: int = CHUNK
    is_over: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Trial:
    """A strategy that was simulated."""

    name: str
    strategy: Strategy
    features: FeatureGraph
    microseconds: float
    fits: bool
    draft: Draft | None = None

    @property
    def rank(self) -> tuple[bool, float]:
        """Lower is better: plans that do not fit come last."""
        return (not self.fits, self.microseconds)


@dataclass(frozen=True)
class Found:
    """The result of a search: all trials in order, and the ranking accuracies of the rounds."""

    trials: tuple[Trial, ...]
    accuracies: tuple[float, ...]

    @property
    def best(self) -> Trial:
        """The best trial."""
        return min(self.trials, key=lambda trial: trial.rank)

    @property
    def builders(self) -> tuple[Trial, ...]:
        """The trials of builders."""
        return tuple(trial for trial in self.trials if trial.name in BUILDERS)

    @property
    def best_builder(self) -> Trial:
        """The best trial of a builder."""
        return min(self.builders, key=lambda trial: trial.rank)

    @property
    def strategy(self) -> Strategy:
        """The strategy that was found, named ``auto`` unless it is a builder's."""
        best = self.best
        return best.strategy if best.name in BUILDERS else replace(best.strategy, identity=AUTO)


@dataclass
class AutoStrategy:
    """The search for one step on one cluster."""

    planner: StrategyPlanner
    effort: Effort = field(default_factory=Effort)

    def __post_init__(self) -> None:
        cluster, variables = self.planner.cluster, self.planner.variables
        self._extractor = FeatureExtractor(self.planner.timetable(Mesh.of(cluster)))
        self._draw = random.Random(self.effort.seed)
        self._sampler = Sampler(variables, DeviceNames(cluster), self._draw, self.effort.aspects)
        self.ranking = Ranking()

    def search(self) -> Found:
        """Tries the builders, then what is drawn, until the effort is spent."""
        tried = [self._tried(name, strategy) for name, strategy in self._built()]
        accuracies: list[float] = []
        recent, end = tried, len(tried) + self.effort.trials
        while len(tried) < end and not self.effort.is_over():
            count = min(_TRIALS, end - len(tried))
            recent = self._round(tried, recent, count)
            if not recent:
                break
            features, times = [one.features for one in recent], [one.microseconds for one in recent]
            accuracy = self.ranking.accuracy(features, times)
            accuracies.extend(() if accuracy is None else (accuracy,))
            tried.extend(recent)
        return Found(tuple(tried), tuple(accuracies))

    def _built(self) -> Iterator[tuple[str, Strategy]]:
        setting = Setting(self.planner.cluster, self.effort.chunk, self.effort.seed)
        for name in BUILDERS:
            yield name, build(name, self.planner.variables, setting)

    def _round(self, tried: Sequence[Trial], recent: Sequence[Trial], count: int) -> list[Trial]:
        known = {trial.draft for trial in tried}
        drafts = [draft for draft in dict.fromkeys(self._drawn(tried)) if draft not in known]
        strategies = [self._sampler.strategy(draft) for draft in drafts]
        scores = self.ranking.scores([self._extractor.graph(strategy) for strategy in strategies])
        proposals = [_Proposal(*one) for one in zip(drafts, strategies, scores, strict=True)]
        level = self.ranking.fidelity([one.features for one in recent], [one.microseconds for one in recent])
        elite = [proposal for proposal in proposals if proposal.score >= level]
        if len(elite) < count:
            elite = sorted(proposals, key=lambda proposal: -proposal.score)[: 4 * count]
        found: list[Trial] = []
        for proposal in _diverse(elite, count):
            if self.effort.is_over():
                break
            found.append(self._tried("", proposal.strategy, proposal.draft))
        return found

    def _drawn(self, tried: Sequence[Trial]) -> Iterator[Draft]:
        parents = [
            self._sampler.draft_like(trial.strategy) if trial.draft is None else trial.draft
            for trial in sorted(tried, key=lambda trial: trial.rank)
            if trial.draft is not None or self.effort.aspects == EVERY_ASPECT
        ]
        for number in range(_SAMPLES):
            if parents and number % 2:
                yield self._sampler.variation(self._draw.choice(parents[:_PARENTS]))
            else:
                yield self._sampler.draft()

    def _tried(self, name: str, strategy: Strategy, draft: Draft | None = None) -> Trial:
        simulation = simulated(self.planner.planned(strategy), self.planner)
        limits = [device.memory_bytes for device in self.planner.cluster.devices]
        features = self._extractor.graph(strategy)
        return Trial(name, strategy, features, simulation.microseconds, simulation.fits(limits), draft)


def simulated(step: PlannedStep, planner: StrategyPlanner) -> Simulation:
    """The simulation of a planned step."""
    simulator = Simulator(
        step.graph, planner.cluster, ParallelObjective.LATENCY, prices=planner.prices, step=step.subject.step
    )
    return simulator.simulate(step.plan)


@dataclass(frozen=True)
class _Proposal:
    draft: Draft
    strategy: Strategy
    score: float


def _diverse(proposals: Sequence[_Proposal], count: int) -> list[_Proposal]:
    """One after the other the proposal with the best score, less its largest similarity to those taken."""
    if not proposals:
        return []
    scores = [proposal.score for proposal in proposals]
    mean = sum(scores) / len(scores)
    spread = (sum((score - mean) ** 2 for score in scores) / len(scores)) ** 0.5
    left, taken = list(proposals), list[_Proposal]()
    nearest = [0.0] * len(left)
    while left and len(taken) < count:
        place = max(range(len(left)), key=lambda n: left[n].score - _DIVERSITY * spread * nearest[n])
        chosen = left.pop(place)
        nearest.pop(place)
        taken.append(chosen)
        nearest = [
            max(near, _similarity(one.draft, chosen.draft)) for near, one in zip(nearest, left, strict=True)
        ]
    return taken


def _similarity(one: Draft, other: Draft) -> float:
    """The share of variables with the same decision."""
    same = [left == right for left, right in zip(one.decisions, other.decisions, strict=True)]
    return sum(same) / max(1, len(same))
