"""The description of a training step: written, read, and refused where it does not fit the model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import onnx
import pytest
from onnx import TensorProto, helper

from superopt.errors import InvalidModelError
from superopt.optimizer.training.description import (
    PROPERTY,
    ConstantRate,
    RateInput,
    Role,
    ScheduledRate,
    State,
    read_description,
    write_description,
)
from superopt.optimizer.training.metadata import is_step
from tests.optimizer.training.steps import linear_step

RATE_INPUT = RateInput("learning_rate")


def test_a_description_is_read_as_it_was_written() -> None:
    model = linear_step(momentum=0.9)
    (entry,) = (entry for entry in model.metadata_props if entry.key == PROPERTY)
    assert json.loads(entry.value)["states"][3] == {
        "name": "w.moment",
        "role": "moment",
        "input": "w.moment",
        "output": "w.moment.next",
        "of": "w",
    }
    description = read_description(model, "step.onnx")
    assert description.by_name["step"] == State("step", Role.COUNTER, "step", "step.next")
    assert [state.name for state in description.with_role(Role.PARAMETER)] == ["w", "b"]
    for rate in (ConstantRate(0.001), ScheduledRate("cosine")):
        write_description(model, replace(description, learning_rate=rate))
        assert read_description(model, "step.onnx").learning_rate == rate
    assert [entry.key for entry in model.metadata_props].count(PROPERTY) == 1


def test_a_model_without_a_description_is_no_step() -> None:
    model = linear_step()
    del model.metadata_props[:]
    assert not is_step(model)
    with pytest.raises(InvalidModelError, match=r"m\.onnx is not a training step: .*superopt train-graph"):
        read_description(model, "m.onnx")


Change: TypeAlias = "Callable[[dict[str, Any]], None]"


def _with_state(**changes: object) -> Change:
    return lambda document: document["states"][0].update(changes)


def _with(**changes: object) -> Change:
    return lambda document: document.update(changes)


def _changed(model: onnx.ModelProto, change: Change) -> onnx.ModelProto:
    (entry,) = model.metadata_props
    document = json.loads(entry.value)
    change(document)
    entry.value = json.dumps(document)
    return model


def test_a_description_that_is_no_json_is_refused() -> None:
    model = linear_step()
    model.metadata_props[0].value = "{"
    with pytest.raises(InvalidModelError, match="the document: Invalid JSON"):
        read_description(model, "m.onnx")


MALFORMED: dict[str, tuple[Change, str]] = {
    "a later format": (_with(format=2), "format: Input should be 1"),
    "an unknown role": (_with_state(role="weight"), "states.0.role: Input should be 'parameter', 'moment'"),
    "an unknown member": (_with_state(colour="red"), "states.0.colour: Unexpected"),
    "no states": (_with(states=None), "states: Input should be a valid array"),
}


@pytest.mark.parametrize(("change", "message"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_description_is_refused(change: Change, message: str) -> None:
    with pytest.raises(InvalidModelError, match=re.escape(message)):
        read_description(_changed(linear_step(), change), "m.onnx")


MISFITS: dict[str, tuple[Change, str]] = {
    "input": (_with_state(input="v"), "state 'w': 'v' is no input of the model; its inputs are 'x', "),
    "output": (_with_state(output="v"), "state 'w': 'v' is no output of the model; its outputs are 'loss', "),
    "output twice": (_with_state(output="loss"), "output 'loss': expected one use, got 2"),
    "owner": (_with_state(of="step"), "state 'w': expected the name of a parameter as 'of', got 'step'"),
    "state twice": (_with_state(name="b"), "state name 'b': expected one use, got 2"),
    "data": (_with(data=["x", "labels"]), "data 'labels' is no input of the model"),
    "data left out": (_with(data=["x"]), "input 'targets' is neither a state nor data"),
    "data is a state": (_with(data=["x", "targets", "w"]), "input 'w': expected one use, got 2"),
    "loss": (_with(loss="cost"), "loss 'cost' is no output of the model"),
    "loss is a vector": (_with(loss="y"), "loss 'y': expected a floating-point scalar, got float[?, 1]"),
    "rate": (_with(learning_rate={"input": "rate"}), "learning rate: 'rate' is no input"),
    "seed": (_with(seed="ratio"), "seed: expected an int64 scalar as input 'ratio', got float[]"),
}


@pytest.mark.parametrize(("change", "message"), MISFITS.values(), ids=MISFITS)
def test_a_description_that_does_not_fit_the_model_is_refused(change: Change, message: str) -> None:
    model = linear_step()
    model.graph.input.append(helper.make_tensor_value_info("ratio", TensorProto.FLOAT, ()))
    model.graph.initializer.append(helper.make_tensor("ratio", TensorProto.FLOAT, (), [1.0]))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 1)))
    read_description(model, "m.onnx")
    with pytest.raises(InvalidModelError) as raised:
        read_description(_changed(model, change), "m.onnx")
    assert f"m.onnx: metadata '{PROPERTY}': {message}" in str(raised.value)


def test_a_state_keeps_its_type() -> None:
    model = linear_step()
    (output,) = (value for value in model.graph.output if value.name == "w.next")
    output.type.tensor_type.shape.dim[0].dim_value = 4
    with pytest.raises(
        InvalidModelError, match=r"expected float\[5, 1\] as output 'w.next', got float\[4, 1\]"
    ):
        read_description(model, "m.onnx")


def test_a_state_has_an_initial_value() -> None:
    model = linear_step()
    kept: list[onnx.TensorProto] = [tensor for tensor in model.graph.initializer if tensor.name != "w"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    with pytest.raises(InvalidModelError, match="state 'w': expected an initial value, and no initialiser"):
        read_description(model, "m.onnx")
