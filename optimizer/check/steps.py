"""States that a training step hands to the next one: a step is checked over consecutive steps, and by what a
step changes, since new parameters hardly differ from old ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

import numpy as np

from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.check.compare import Leaf
from superopt.optimizer.check.distance import floor_of
from superopt.optimizer.cost.runtime.session import Array
from superopt.optimizer.training.metadata import is_step

STEPS = 3
"""Consecutive steps for each drawn batch."""

Carried = Mapping[str, str]
"""Inputs with the value of a state, by the output with its next value."""


def carried_states(source: SourceModel | None) -> Carried:
    """The states of a model that is a training step; none for another. Raises InvalidModelError for a
    malformed description."""
    if source is None or not is_step(source.proto):
        return {}
    # reading descriptions takes 0.2 s to import, which other models need not wait for
    from superopt.optimizer.training.description import read_description

    description = read_description(source.proto, source.name)
    return {state.output: state.input for state in description.states}


_UNITS = 2
"""Rounding of a new value and of the old one, in units in the last place of the largest element."""


def differing_changes(
    carried: Carried,
    feeds: Mapping[str, Array],
    leaves: Sequence[tuple[Leaf, Leaf]],
    tolerance: float | None,
) -> dict[str, Callable[[Array], Array]]:
    """The states, by output, whose change within a step differs between two runs by more than the floor times
    the largest change and ``_UNITS`` of the values, each with the function from values to changes."""
    found: dict[str, Callable[[Array], Array]] = {}
    for ours, theirs in leaves:
        old = feeds.get(carried.get(ours.name, ""))
        if old is None or old.dtype.kind != "f" or not old.shape == ours.array.shape == theirs.array.shape:
            continue
        own, other = change_from(old, ours.array), change_from(old, theirs.array)
        finite = np.isfinite(own) & np.isfinite(other)
        unit = float(np.finfo(old.dtype).eps) * _largest(old[finite])
        allowed = floor_of(str(old.dtype), tolerance) * _largest(own[finite]) + _UNITS * unit
        if _largest((own - other)[finite]) > allowed:
            found[ours.name] = partial(change_from, old)
    return found


def with_changes(
    carried: Carried, feeds: Mapping[str, Array], names: Sequence[str], outputs: Sequence[object]
) -> tuple[object, ...]:
    """The outputs, with changes in place of the new values of states."""
    return tuple(_change(carried, feeds, name, value) for name, value in zip(names, outputs, strict=True))


def _change(carried: Carried, feeds: Mapping[str, Array], name: str, value: object) -> object:
    old = feeds.get(carried.get(name, ""))
    if old is None or old.dtype.kind != "f" or not isinstance(value, np.ndarray):
        return value
    return change_from(old, cast("Array", value))


def change_from(old: Array, new: Array) -> Array:
    """What a step adds to a state, in double precision."""
    return new.astype(np.float64) - old


def _largest(array: Array) -> float:
    return float(np.max(np.abs(array), initial=0.0))


def next_states(carried: Carried, names: Sequence[str], outputs: Sequence[object]) -> dict[str, Array]:
    """The inputs of the step after one with these outputs."""
    return dict(_states(carried, names, outputs))


def _states(carried: Carried, names: Sequence[str], outputs: Sequence[object]) -> Iterator[tuple[str, Array]]:
    for name, value in zip(names, outputs, strict=True):
        if name in carried and isinstance(value, np.ndarray):
            yield carried[name], value
