"""How long one run of a model takes at the sizes that it is timed at, found out by running it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from superopt.errors import UnsupportedError
from superopt.optimizer.check.inputs import SCALES, InputPlan
from superopt.optimizer.cost.runtime import Array, LoadedModel, RuntimeRefusedError

_SLOW = 1.0
"""Seconds; a run that takes longer is not repeated."""


def first_run(model: LoadedModel, plan: InputPlan, given: Sequence[Mapping[str, Array]]) -> float:
    """The seconds of a run after the first, which takes longer; 0 where the model runs on nothing that was
    tried."""
    for feeds in _feeds(plan, given):
        try:
            took = _timed(model, feeds)
        except RuntimeRefusedError:
            continue
        return took if took > _SLOW else _timed(model, feeds)
    return 0.0


def _timed(model: LoadedModel, feeds: Mapping[str, Array]) -> float:
    began = time.monotonic()
    model.run(feeds)
    return time.monotonic() - began


def _feeds(plan: InputPlan, given: Sequence[Mapping[str, Array]]) -> Iterator[Mapping[str, Array]]:
    """Inputs that were given, else such as will be drawn."""
    yield from given[:1]
    random = np.random.default_rng(0)
    for sizes in plan.size_choices():
        try:
            yield plan.draw(random, sizes, SCALES[0])
        except (UnsupportedError, MemoryError):
            continue
