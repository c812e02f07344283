"""Synchronisation strategies of training steps: built, searched for, read and written."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from superopt.errors import InvalidOptionError
from superopt.files import write_atomically
from superopt.journeys.planning.lifted_steps import LiftedStep
from superopt.onnx_io import ModelSource
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.strategies.applying import GradientSums, InexactStrategy
from superopt.optimizer.parallel.strategies.auto import AutoStrategy, Effort, Found, simulated
from superopt.optimizer.parallel.strategies.builders import BUILDERS, Setting, build
from superopt.optimizer.parallel.strategies.inexact import Inexactness
from superopt.optimizer.parallel.strategies.model import Compressor, Strategy, renamed_nodes, strategy_to_text
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.reading import read_strategy
from superopt.optimizer.parallel.strategies.wire import strategy_to_wire
from superopt.optimizer.parallel.topology import Cluster


@dataclass(frozen=True)
class BuiltStrategy:
    """A strategy for a step and a cluster, and the simulation of its plan; with staleness or a compressor the
    number of parameters without it."""

    strategy: Strategy
    simulation: Simulation
    unchanged: int = 0


def strategy_planner(model: ModelSource, cluster: Cluster) -> StrategyPlanner:
    """The planner of a training step on a cluster. Raises InvalidOptionError for a model that is no training
    step."""
    return LiftedStep.of(model).planner(cluster)


def build_strategy(
    step: LiftedStep,
    cluster: Cluster,
    builder: str,
    setting: Setting,
    inexactness: Inexactness,
) -> BuiltStrategy:
    """The strategy of a builder, with the staleness of its servers or the compressor of its all-reduces. It
    is simulated on the step that it trains. Gradients that cannot be changed stay as they are. Raises
    InvalidOptionError for an unknown builder, and for one without any to which that applies."""
    if builder not in BUILDERS:
        raise InvalidOptionError(f"builder: expected one of {', '.join(BUILDERS)}, got {builder!r}")
    planner = step.planner(cluster)
    strategy = build(builder, planner.variables, setting)
    if inexactness == Inexactness():
        return BuiltStrategy(strategy, simulated(planner.planned(strategy), planner))
    found = GradientSums(planner).inexact(strategy, inexactness)
    _require_changed(found, inexactness)
    simulation = simulated(found.planner.planned(found.strategy), found.planner)
    return BuiltStrategy(found.strategy, simulation, len(planner.variables) - len(found.changes))


def _require_changed(found: InexactStrategy, asked: Inexactness) -> None:
    """Raises InvalidOptionError where no gradient takes the staleness or the compressor."""
    why = next(iter(found.defects.values()), None)
    changes, name = found.changes, found.strategy.identity
    if asked.delay and not any(one.delay for one in changes):
        raise InvalidOptionError(f"staleness: {why or f'expected parameter servers, and {name} has none'}")
    if asked.compressor is not Compressor.NONE and not any(one.compressed for one in changes):
        raise InvalidOptionError(f"compressor: {why or f'expected all-reduces, and {name} has none'}")


def auto_strategy(planner: StrategyPlanner, effort: Effort, seconds: float) -> Found:
    """The best strategy that a search finds. It ends after that many ``seconds``, but tries every builder in
    any case."""
    end = time.monotonic() + seconds
    return AutoStrategy(planner, replace(effort, is_over=lambda: time.monotonic() > end)).search()


def import_strategy(path: Path, cluster: Cluster | None = None) -> Strategy:
    """The strategy of a file, JSON or AutoDist's message. With a cluster, nodes are renamed to its nodes, in
    the order of their names. Raises InvalidFileError, and InvalidOptionError where there are more nodes."""
    strategy = read_strategy(path)
    return strategy if cluster is None else renamed_nodes(strategy, len(cluster.nodes))


def write_strategy(strategy: Strategy, path: Path, *, as_message: bool) -> None:
    """Writes the strategy as AutoDist's protobuf message, or as JSON."""
    content = strategy_to_wire(strategy) if as_message else strategy_to_text(strategy).encode()
    write_atomically(path, content)
