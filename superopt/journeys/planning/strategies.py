"""Synchronisation strategies of training steps: built, searched for, read and written."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from superopt.axioms import load_axioms
from superopt.errors import InvalidOptionError
from superopt.files import write_atomically
from superopt.onnx_io import ModelSource, lift, load_model
from superopt.optimizer.parallel.licences import by_axioms
from superopt.optimizer.parallel.search.subject import plannable
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.auto import AutoStrategy, Effort, Found, simulated
from superopt.optimizer.parallel.strategies.builders import BUILDERS, Setting, build
from superopt.optimizer.parallel.strategies.model import Strategy, renamed_nodes, strategy_to_text
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.reading import read_strategy
from superopt.optimizer.parallel.strategies.wire import strategy_to_wire
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.states import StepLayout


@dataclass(frozen=True)
class BuiltStrategy:
    """A strategy for a step and a cluster, and the simulation of its plan."""

    strategy: Strategy
    simulation: Simulation


def strategy_planner(model: ModelSource, cluster: Cluster) -> StrategyPlanner:
    """The planner of a training step on a cluster. Operations are divided as axioms permit, or else as they
    declare. Raises InvalidOptionError for a model that is no training step."""
    source = load_model(model)
    layout = StepLayout.of(source.proto, source.name)
    if layout is None:
        raise InvalidOptionError(
            f"{source.name}: expected a training step, as superopt train-graph writes it, got another model"
        )
    licence = by_axioms(load_axioms().equations).allow
    return StrategyPlanner(plannable(lift(source).graph), layout, Prices(cluster), licence)


def build_strategy(planner: StrategyPlanner, builder: str, *, chunk: int, seed: int) -> BuiltStrategy:
    """The strategy of a builder. Raises InvalidOptionError for an unknown one."""
    if builder not in BUILDERS:
        raise InvalidOptionError(f"builder: expected one of {', '.join(BUILDERS)}, got {builder!r}")
    strategy = build(builder, planner.variables, Setting(planner.cluster, chunk, seed))
    return BuiltStrategy(strategy, simulated(planner.planned(strategy), planner))


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


def write_strategy(strategy: Strategy, path: Path) -> None:
    """Writes the strategy: AutoDist's message if the path ends in .pb, else JSON."""
    is_message = path.suffix == ".pb"
    content = strategy_to_wire(strategy) if is_message else strategy_to_text(strategy).encode()
    write_atomically(path, content)
