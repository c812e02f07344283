"""Read strategies from files, and find those that a name stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from superopt.errors import InvalidFileError
from superopt.optimizer.parallel.strategies.auto import AUTO, AutoStrategy, Effort
from superopt.optimizer.parallel.strategies.builders import BUILDERS, Setting, build
from superopt.optimizer.parallel.strategies.model import Strategy, strategy_from_json
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.strategies.wire import strategy_from_wire

_MOST_BYTES = 1 << 28


def read_strategy(path: Path) -> Strategy:
    """The strategy of a file: JSON if it is named so or begins so, else AutoDist's message. Raises
    InvalidFileError, also for an empty file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidFileError(f"{path}: expected a strategy of at most {_MOST_BYTES >> 20} MiB")
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{path}: cannot be read as a strategy: {error.strerror}") from None
    if not content:
        raise InvalidFileError(f"{path}: expected a strategy, got an empty file")
    if path.suffix == ".json" or content.lstrip()[:1] == b"{":
        return strategy_from_json(content, str(path))
    return strategy_from_wire(content, str(path))


def strategy_named(
    name: str, planner: StrategyPlanner, seed: int, is_over: Callable[[], bool] = lambda: False
) -> Strategy:
    """The strategy of a builder, the one that a search finds until it is over, or that of a file. Raises
    InvalidFileError."""
    if name in BUILDERS:
        return build(name, planner.variables, Setting(planner.cluster, seed=seed))
    if name == AUTO:
        return AutoStrategy(planner, Effort(seed=seed, is_over=is_over)).search().strategy
    return read_strategy(Path(name))
