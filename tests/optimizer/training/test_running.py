"""A step in ONNX Runtime: states without copies, batches, learning rates, trained models."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidFileError, InvalidModelError, InvalidOptionError
from superopt.onnx_io import load_model
from superopt.optimizer.training.description import ConstantRate, RateInput, Role
from superopt.optimizer.training.running import Step
from superopt.optimizer.training.session import ALIGNMENT, aligned
from tests.optimizer.training.steps import (
    FEATURES,
    StepBuilder,
    linear_losses,
    linear_step,
    samples,
)

RATE_INPUT = RateInput("learning_rate")


def test_a_run_replaces_the_states() -> None:
    step = Step(linear_step(momentum=0.9), threads=1)
    batch = samples(8)
    losses = [step.run(batch) for _ in range(5)]
    assert losses == pytest.approx(list(linear_losses([batch] * 5, momentum=0.9)), rel=1e-6)
    assert step.states["step"] == 5
    assert set(step.parameters()) == {"w", "b"}


def test_states_change_places_between_two_sets_of_memory() -> None:
    step = Step(linear_step(), threads=1)
    seen: list[int] = []
    for _ in range(4):
        seen.append(step.states["w"].ctypes.data)
        step.run(samples(8))
    assert seen[0] == seen[2] != seen[1] == seen[3]


def test_a_state_that_does_not_change_is_kept() -> None:
    model = linear_step()
    for node in model.graph.node:
        if node.output[0] == "b.next":
            node.CopyFrom(helper.make_node("Identity", ["b"], ["b.next"]))
    (initial,) = (tensor for tensor in model.graph.initializer if tensor.name == "b")
    initial.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "b"))
    step = Step(model, threads=1)
    for _ in range(3):
        step.run(samples(8))
        assert step.states["b"] == 1


def test_parameters_are_copies() -> None:
    step = Step(linear_step(), threads=1)
    before = step.parameters()["w"]
    kept = before.copy()
    step.run(samples(8))
    step.run(samples(8))
    assert np.array_equal(before, kept)
    assert not np.array_equal(before, step.parameters()["w"])


def test_a_batch_may_have_any_size_where_the_step_does_not_fix_it() -> None:
    step = Step(linear_step(), threads=1)
    batches = [samples(size, seed=size) for size in (8, 3, 8, 1, 20, 8)]
    losses = [step.run(batch) for batch in batches]
    assert losses == pytest.approx(list(linear_losses(batches)), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int64, np.bool_])
def test_memory_of_any_type_is_aligned(dtype: type) -> None:
    for shape in ((), (3, 5), (0, 4), (1000,)):
        array = aligned(shape, np.dtype(dtype))
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.ctypes.data % ALIGNMENT == 0 or not array.size


def test_a_state_may_have_a_type_that_numpy_lacks() -> None:
    build = StepBuilder()
    build.state("w", Role.PARAMETER, np.ones((FEATURES, 1), ml_dtypes.bfloat16))
    wide = build.node("Cast", ["w"], "wide", to=TensorProto.FLOAT)
    difference = build.node("Sub", [build.node("MatMul", ["x", wide], "y"), "targets"], "d")
    build.node("ReduceMean", [difference], "loss", keepdims=0)
    half = build.node("Mul", [wide, build.constant("half", 0.5)], "smaller")
    build.node("Cast", [half], "w.next", to=TensorProto.BFLOAT16)
    step = Step(build.model("batch", ConstantRate(0.1)), threads=1)
    for _ in range(3):
        step.run(samples(4))
    assert step.parameters()["w"].dtype == ml_dtypes.bfloat16
    assert np.array_equal(step.parameters()["w"], np.full((FEATURES, 1), 0.125, ml_dtypes.bfloat16))


def test_a_learning_rate_that_is_an_input_stays_set() -> None:
    step = Step(linear_step(learning_rate=RATE_INPUT), threads=1)
    batch = samples(8)
    losses = [step.run(batch, learning_rate=0.02), step.run(batch), step.run(batch)]
    assert losses == pytest.approx(list(linear_losses([batch] * 3, rate=0.02)), rel=1e-6)
    assert step.learning_rate == 0.02


def test_a_learning_rate_has_one_place() -> None:
    with pytest.raises(
        InvalidOptionError, match=r"expected none, because the model has the constant 0\.05, got 1"
    ):
        Step(linear_step()).run(samples(8), learning_rate=1.0)
    with pytest.raises(InvalidOptionError, match="expected one, because the model has it as input"):
        Step(linear_step(learning_rate=RATE_INPUT)).run(samples(8))
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidOptionError, match="learning rate: expected a positive number, got"):
            Step(linear_step(learning_rate=RATE_INPUT)).run(samples(8), learning_rate=rate)


def test_a_learning_rate_may_have_a_default() -> None:
    model = linear_step(learning_rate=RATE_INPUT)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.02), "learning_rate"))
    batch = samples(8)
    step = Step(model)
    losses = [step.run(batch) for _ in range(3)]
    assert losses == pytest.approx(list(linear_losses([batch] * 3, rate=0.02)), rel=1e-6)


WRONG_BATCHES = {
    "missing": ({"x": np.zeros((2, 5), np.float32)}, "expected an array 'targets', got x"),
    "type": ({"x": np.zeros((2, 5))}, "array 'x': expected float32, got float64"),
    "rank": ({"x": np.zeros((2, 5, 1), np.float32)}, r"array 'x': expected shape \[\?, 5\], got \[2, 5, 1\]"),
    "size": ({"x": np.zeros((2, 4), np.float32)}, r"array 'x': expected shape \[\?, 5\], got \[2, 4\]"),
}


@pytest.mark.parametrize(("batch", "message"), WRONG_BATCHES.values(), ids=WRONG_BATCHES)
def test_a_batch_that_does_not_fit_is_refused(batch: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InvalidFileError, match=f"the batch: {message}"):
        Step(linear_step()).run(batch)


def test_a_step_may_be_a_file_with_external_data(tmp_path: Path) -> None:
    path = tmp_path / "step.onnx"
    onnx.save(
        linear_step(momentum=0.9), path, save_as_external_data=True, location="step.data", size_threshold=50
    )
    batch = samples(8)
    inside = Step(linear_step(momentum=0.9), threads=1)
    outside = Step(path, threads=1)
    assert [outside.run(batch) for _ in range(3)] == [inside.run(batch) for _ in range(3)]


def _inference(weight: np.ndarray) -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Add", ["product", "b"], ["y"]),
            helper.make_node("Mul", ["y", "scale"], ["z"]),
        ],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", FEATURES))],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ("batch", 1))],
        initializer=[
            numpy_helper.from_array(np.float32(2), "scale"),
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(np.zeros(1, np.float32), "b"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    model.metadata_props.add(key="author", value="somebody")
    return model


@pytest.mark.parametrize("place", ["inside", "outside"])
def test_trained_parameters_go_back_into_the_model(place: str, tmp_path: Path) -> None:
    source, written = tmp_path / "model.onnx", tmp_path / "trained.onnx"
    onnx.save(
        _inference(np.zeros((FEATURES, 1), np.float32)),
        source,
        save_as_external_data=place == "outside",
        location="model.data",
        size_threshold=0,
    )
    step = Step(linear_step())
    for _ in range(4):
        step.run(samples(8))
    step.save_into(source, written)
    tensors = load_model(written).tensors
    for name, content in {**step.parameters(), "scale": np.float32(2)}.items():
        assert np.array_equal(tensors[name].numpy(), content)
    before, after = onnx.load(source), onnx.load(written)
    onnx.checker.check_model(after)
    for model in (before, after):
        del model.graph.initializer[:]
    assert before == after


def test_parameters_go_only_into_a_model_that_has_them() -> None:
    step = Step(linear_step())
    with pytest.raises(InvalidModelError, match=r"'w': expected float32\[4, 1\], got float32\[5, 1\]"):
        step.trained(_inference(np.zeros((4, 1), np.float32)))
    other = _inference(np.zeros((FEATURES, 1), np.float32))
    other.graph.initializer[2].name = "bias"
    other.graph.node[1].input[1] = "bias"
    with pytest.raises(InvalidModelError, match="expected an initialiser called 'b', and there is none"):
        step.trained(other)


def test_parameters_go_into_constant_nodes() -> None:
    """As older exporters and PaddlePaddle's write weights."""
    model = _inference(np.zeros((FEATURES, 1), np.float32))
    (bias,) = (tensor for tensor in model.graph.initializer if tensor.name == "b")
    constant = helper.make_node("Constant", [], ["b"], value=bias)
    model.graph.initializer.remove(bias)
    model.graph.node.insert(0, constant)
    step = Step(linear_step())
    step.run(samples(8))
    written = step.trained(model).to_proto()
    (found,) = (node for node in written.graph.node if node.op_type == "Constant")
    assert np.array_equal(numpy_helper.to_array(found.attribute[0].t), step.parameters()["b"])
    onnx.checker.check_model(written)
    model.graph.node[0].attribute[0].t.CopyFrom(numpy_helper.from_array(np.zeros(3, np.float32)))
    with pytest.raises(InvalidModelError, match=r"'b': expected float32\[3\], got float32\[1\]"):
        step.trained(model)
