"""States that a training step hands to the next one: a step is checked over consecutive steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from superopt.onnx_io.source import SourceModel
from superopt.optimizer.cost.runtime import Array
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


def next_states(carried: Carried, names: Sequence[str], outputs: Sequence[object]) -> dict[str, Array]:
    """The inputs of the step after one with these outputs."""
    return dict(_states(carried, names, outputs))


def _states(carried: Carried, names: Sequence[str], outputs: Sequence[object]) -> Iterator[tuple[str, Array]]:
    for name, value in zip(names, outputs, strict=True):
        if name in carried and isinstance(value, np.ndarray):
            yield carried[name], value
