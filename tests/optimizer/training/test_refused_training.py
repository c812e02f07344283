"""Data, options and arguments of training that make no sense are refused in one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.training import Step, train
from tests.optimizer.training.steps import Arrays, linear_step, samples

DATA = samples(70)


def _without(name: str) -> Arrays:
    return {other: array for other, array in DATA.items() if other != name}


WRONG_DATA: dict[str, tuple[Arrays, str]] = {
    "missing": (_without("targets"), "the data: expected an array 'targets', got x"),
    "type": ({**DATA, "x": DATA["x"].astype(np.float64)}, "array 'x': expected float32, got float64"),
    "shape": ({**DATA, "x": DATA["x"][:, :3]}, r"array 'x': expected shape \[\?, 5\], got \[70, 3\]"),
    "scalar": ({**DATA, "x": np.float32(1)[()]}, r"array 'x': expected shape \[\?, 5\], got \[\]"),
    "samples": (
        {**DATA, "x": DATA["x"][:60]},
        r"expected equal numbers of samples \(first axes\), got x has 60, targets has 70",
    ),
    "none": ({name: array[:0] for name, array in DATA.items()}, "at least one sample, got none"),
    "fewer than a batch": (
        {name: array[:7] for name, array in DATA.items()},
        "expected at least 8 samples, the batch size of the model, got 7",
    ),
}


@pytest.mark.parametrize(("data", "message"), WRONG_DATA.values(), ids=WRONG_DATA)
def test_data_that_does_not_fit_is_refused(data: Arrays, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        train(Step(linear_step(batch=8)), data, steps=1)


def test_arrays_that_are_not_asked_for_are_left_alone() -> None:
    more = {**DATA, "names": np.array(["a"])}
    assert len(train(Step(linear_step()), more, steps=2).losses) == 2


WRONG_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "steps": ({"steps": 0}, "steps: expected at least 1, got 0"),
    "batch size": ({"steps": 1, "batch_size": 0}, "batch size: expected at least 1, got 0"),
    "fixed batch size": (
        {"steps": 1, "batch_size": 9},
        "batch size: expected 8, which the model fixes, got 9",
    ),
    "seed": ({"steps": 1, "seed": -1}, "seed: expected a number from 0"),
    "no number": ({"steps": "x"}, "steps: expected a whole number, got 'x'"),
    "half a batch": ({"steps": 1, "batch_size": 1.5}, "batch size: expected a whole number, got 1.5"),
}


@pytest.mark.parametrize(("options", "message"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        train(Step(linear_step(batch=8)), DATA, **options)


WRONG_ARGUMENTS: dict[str, tuple[tuple[Any, Any], str]] = {
    "a path as step": (("step.onnx", DATA), "step: expected a superopt.training.Step, got str"),
    "a list as data": ((Step(linear_step()), [1]), "data: expected a path, or arrays by name, got list"),
    "a list as array": (
        (Step(linear_step()), {**DATA, "x": [1.0]}),
        "data: array 'x': expected a numpy array, got list",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS)
def test_arguments_of_other_types_are_named(arguments: tuple[Any, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        train(*arguments, steps=1)


def test_a_batch_is_no_larger_than_the_samples() -> None:
    with pytest.raises(InvalidOptionError, match="batch size: expected at most 70, the number of samples"):
        train(Step(linear_step()), DATA, steps=1, batch_size=71)
