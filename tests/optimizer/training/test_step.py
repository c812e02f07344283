"""Steps built from models: the losses of a few steps against JAX, names, states, what is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt import zoo
from superopt.errors import InvalidModelError, UnsupportedError
from superopt.journeys.training import train_graph
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.lowering import extending
from superopt.optimizer.training.description import Role, read_description
from superopt.optimizer.training.running import Step
from superopt.step_options import LossSettings, ModelSettings, StepSettings, UpdateSettings
from superopt.zoo import datasets
from tests.onnx_io.kit import session as onnx_session
from tests.optimizer.training import jax_oracle
from tests.optimizer.training.step_models import BATCH, RATE, SGD, Arrays, built, linear, model_of


def network(name: str) -> onnx.ModelProto:
    return zoo.blueprint(name, batch=BATCH).model(seed=0)


def batches(samples: datasets.Samples, count: int) -> list[Arrays]:
    return [
        {name: array[index * BATCH : (index + 1) * BATCH] for name, array in samples.items()}
        for index in range(count)
    ]


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("light-mlp", lambda: datasets.digits(3 * BATCH)),
        ("light-llama", lambda: datasets.text(3 * BATCH)),
    ],
)
def test_losses_and_parameters_are_those_of_jax(name: str, samples: Callable[[], datasets.Samples]) -> None:
    model = network(name)
    given = batches(samples(), 3)
    step = Step(built(model).model.to_bytes(), threads=1)
    losses = [step.run(batch) for batch in given]
    data = [({n: a for n, a in batch.items() if n != "labels"}, batch["labels"]) for batch in given]
    expected, parameters = jax_oracle.losses(model, data, jax_oracle.sgd(RATE))
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    trained = step.parameters()
    assert trained.keys() <= parameters.keys()
    for label, array in trained.items():
        np.testing.assert_allclose(array, parameters[label], rtol=1e-3, atol=1e-5, err_msg=label)


def dropping() -> onnx.ModelProto:
    """The loss depends on which elements are kept."""
    ratio = np.array(0.5, np.float32)
    nodes = [
        helper.make_node("Dropout", ["x", "ratio"], ["d"], name="drop"),
        helper.make_node("Mul", ["d", "w"], ["y"], name="scaled"),
    ]
    weights = {"ratio": ratio, "w": np.ones(256, np.float32)}
    return model_of(nodes, weights, {"x": (1, 256)}, {"y": (1, 256)})


def test_every_call_draws_its_own_masks() -> None:
    """Those that make one update, too; the number of a call decides, however many make an update."""
    x = np.random.default_rng(0).uniform(size=(1, 256)).astype(np.float32)
    batch = {"x": x, "targets": np.zeros((1, 256), np.float32)}
    drawn: list[list[float]] = []
    for calls in (1, 2, 3):
        update = UpdateSettings("sgd", learning_rate=0.0, accumulate=calls)
        settings = StepSettings(ModelSettings(trainable=("w",)), LossSettings("l1"), update)
        step = Step(built(dropping(), settings).model.to_bytes(), threads=1)
        drawn.append([step.run(batch) for _ in range(6)])
    assert len(set(drawn[0])) == 6
    assert drawn[0] == drawn[1] == drawn[2]


def test_names_states_and_metadata() -> None:
    step = built(linear(), StepSettings(update=UpdateSettings("adamw", learning_rate="input")))
    proto = onnx.ModelProto.FromString(step.model.to_bytes())
    description = read_description(proto, "the step")
    assert [value.name for value in proto.graph.output][:3] == ["loss", "fc/weight.next", "fc/bias.next"]
    assert description.data == ("x", "labels")
    assert [state.name for state in description.with_role(Role.PARAMETER)] == ["fc/weight", "fc/bias"]
    assert {state.name for state in description.with_role(Role.MOMENT)} == {
        "fc/weight.exp_avg",
        "fc/bias.exp_avg",
    }
    initial = {tensor.name for tensor in proto.graph.initializer}
    assert {state.input for state in description.states} <= initial
    inputs = {value.name for value in proto.graph.input}
    assert inputs == {"x", "labels", "learning_rate", *(state.input for state in description.states)}


def test_parameters_that_the_loss_does_not_read_stay_constants() -> None:
    step = built(linear())
    assert step.unreached == ("other",)
    proto = onnx.ModelProto.FromString(step.model.to_bytes())
    assert "other" not in {value.name for value in proto.graph.input}


def selected(condition: str) -> onnx.ModelProto:
    """x * w where a condition on x and a threshold holds, else x."""
    weights = {"w": np.array([1, 2, 3], np.float32), "threshold": np.array([1, -1, 0], np.float32)}
    nodes = [
        helper.make_node("Greater", ["x", "threshold"], ["above"]),
        helper.make_node("Mul", ["x", "w"], ["product"]),
        helper.make_node("Where", ["above", condition, "x"], ["y"]),
    ]
    return model_of(nodes, weights, {"x": (BATCH, 3)}, {"y": (BATCH, 3)})


BOTH = ModelSettings(trainable=("w", "threshold"))


def test_parameters_of_conditions_stay_constants() -> None:
    step = built(selected("product"), StepSettings(BOTH, LossSettings("mse"), SGD))
    assert step.unreached == ("threshold",)
    assert [state.name for state in step.description.with_role(Role.PARAMETER)] == ["w"]


def test_a_loss_that_depends_on_no_parameter_is_refused() -> None:
    with pytest.raises(InvalidModelError, match="constant in all of w, threshold"):
        built(selected("x"), StepSettings(BOTH, LossSettings("mse"), SGD))


@pytest.mark.parametrize(
    ("chosen", "trained"),
    [
        (ModelSettings(trainable=("*bias",)), ["fc/bias"]),
        (ModelSettings(frozen=("*bias",)), ["fc/weight"]),
        (ModelSettings(prediction="aside"), ["other"]),
    ],
    ids=["trainable", "frozen", "prediction"],
)
def test_what_is_trained_can_be_chosen(chosen: ModelSettings, trained: list[str]) -> None:
    step = built(linear(), StepSettings(model=chosen, update=SGD))
    assert [state.name for state in step.description.with_role(Role.PARAMETER)] == trained


def test_a_symbolic_batch_stays_symbolic() -> None:
    losses: list[float] = []
    random = np.random.default_rng(1)
    data = random.normal(size=(6, 5)).astype(np.float32), random.integers(0, 3, 6)
    for batch in ("batch", 6):
        step = Step(built(linear(batch)).model.to_bytes(), threads=1)
        feed = {"x": data[0], "labels": data[1]}
        losses += [step.run(feed), step.run(feed)]
    np.testing.assert_allclose(losses[:2], losses[2:], rtol=1e-6)


def test_a_model_without_types_of_outputs_is_trained_as_the_runtime_runs_it() -> None:
    model = linear()
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    settings = StepSettings(loss=LossSettings("cotangents"))
    assert built(model, settings).forward_nodes == built(linear(), settings).forward_nodes


DOUBLE = onnx.TensorProto.DOUBLE


@pytest.mark.parametrize("activation", ["Sigmoid", "Abs", "Relu", "Sqrt", "Tanh", "Reciprocal", "Softmax"])
def test_a_model_of_double_precision_is_trained_in_it(activation: str) -> None:
    """Also where the gradient holds a constant, and where nothing reads a piece of a tensor."""
    random = np.random.default_rng(0)
    weight = random.uniform(0.5, 1.5, (3, 4))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node(activation, ["h"], ["a"]),
        helper.make_node("Split", ["a"], ["y", "unread"], axis=1, num_outputs=2),
    ]
    graph = helper.make_graph(
        *(nodes, "net", [helper.make_tensor_value_info("x", DOUBLE, (2, 3))]),
        [helper.make_tensor_value_info("y", DOUBLE, (2, 2))],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    settings = StepSettings(loss=LossSettings("mse"), update=UpdateSettings("sgd", learning_rate=1.0))
    feed = {"x": random.uniform(0.5, 1.5, (2, 3)), "targets": random.uniform(0.5, 1.5, (2, 2))}
    step = Step(built(model, settings).model.to_bytes(), threads=1)
    step.run(feed)
    gradient = weight - step.parameters()["w"]

    def loss(weight: np.ndarray) -> float:
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
        (y,) = onnx_session(model.SerializeToString()).run(None, {"x": feed["x"]})
        return float(((y - feed["targets"]) ** 2).mean())

    direction = random.normal(size=weight.shape)
    change = (loss(weight + 1e-6 * direction) - loss(weight - 1e-6 * direction)) / 2e-6
    np.testing.assert_allclose((gradient * direction).sum(), change, rtol=1e-6)


def test_numbers_in_gradients_of_double_precision_are_double() -> None:
    """A tenth, as in the gradient of a mean of ten numbers, is not a number in single precision."""
    values = np.random.default_rng(0).standard_normal((2, 10))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [3, n])
        for name, n in (("x", 2), ("y", 10))
    ]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(values, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    update = UpdateSettings("sgd", learning_rate=1.0)
    step = Step(
        built(model, StepSettings(loss=LossSettings("mse"), update=update)).model.to_bytes(), threads=1
    )
    x, targets = np.ones((3, 2)), np.zeros((3, 10))
    step.run({"x": x, "targets": targets})
    expected = values - 2 * x.T @ (x @ values - targets) / targets.size
    np.testing.assert_allclose(step.states["w"], expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"x": [3, 2], "t": []}, "data 't': expected a first axis that counts samples, got a scalar"),
        ({"x": [3, 2], "learning_rate": [1]}, "input 'learning_rate' is neither a state nor data"),
    ],
)
def test_a_step_that_no_command_could_run_is_not_written(inputs: dict[str, list[int]], sentence: str) -> None:
    other = list(inputs)[1]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Add", ["z", other], ["y"])]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, n) for name, n in inputs.items()]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [3, 4])
    weight = numpy_helper.from_array(np.ones((2, 4), np.float32), "w")
    graph = helper.make_graph(nodes, "g", ports, [output], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(InvalidModelError, match=f"cannot be trained so: {sentence}"):
        train_graph(model, StepSettings(loss=LossSettings("cotangents")))


@pytest.mark.parametrize(("classes", "is_told"), [(1, True), (2, False)])
def test_one_class_is_told_of(classes: int, is_told: bool) -> None:  # noqa: FBT001
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[N,3] x) => (float[N,{classes}] y)'
        " { y = MatMul(x, w) }"
    )
    weight = np.ones((3, classes), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    notes = train_graph(model).step.notes
    assert any(note.startswith("the cross-entropy is always 0") for note in notes) is is_told


def test_cotangents_give_gradients_of_all_outputs() -> None:
    settings = StepSettings(loss=LossSettings("cotangents"), update=UpdateSettings("sgd", learning_rate=1.0))
    model = linear()
    step = Step(built(model, settings).model.to_bytes(), threads=1)
    random = np.random.default_rng(2)
    x, of_logits, of_aside = (random.normal(size=(BATCH, n)).astype(np.float32) for n in (5, 3, 2))
    loss = step.run({"x": x, "logits.cotangent": of_logits, "aside.cotangent": of_aside})
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    after = step.parameters()
    expected = {"fc/weight": x.T @ of_logits, "fc/bias": of_logits.sum(axis=0), "other": x.T @ of_aside}
    for name, gradient in expected.items():
        np.testing.assert_allclose(before[name] - after[name], gradient, rtol=1e-5, atol=1e-6)
    logits, aside = x @ before["fc/weight"] + before["fc/bias"], x @ before["other"]
    np.testing.assert_allclose(loss, (logits * of_logits).sum() + (aside * of_aside).sum(), rtol=1e-5)


def test_statistics_and_masks_are_states_of_the_step() -> None:
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(4, 3, 1, 1)).astype(np.float32),
        **{name: np.ones(4, np.float32) for name in ("scale", "shift", "mean", "variance")},
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        helper.make_node("Dropout", ["n"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["p"]),
        helper.make_node("Flatten", ["p"], ["logits"]),
    ]
    step = built(model_of(nodes, weights, {"x": (BATCH, 3, 5, 5)}, {"logits": (BATCH, 4)}))
    description = step.description
    assert description.seed == "seed"
    assert [state.name for state in description.with_role(Role.STATISTIC)] == ["mean", "variance"]
    assert [state.name for state in description.with_role(Role.COUNTER)] == ["step"]
    runner = Step(step.model.to_bytes(), threads=1)
    feed = {"x": random.normal(size=(BATCH, 3, 5, 5)).astype(np.float32), "labels": np.arange(BATCH)}
    first, again = runner.run(feed, seed=1), Step(step.model.to_bytes(), threads=1).run(feed, seed=1)
    assert first == again
    assert Step(step.model.to_bytes(), threads=1).run(feed, seed=2) != first
    channel = np.einsum("oc,nchw->nohw", weights["w"][:, :, 0, 0], feed["x"])
    mean = next(array for name, array in runner.states.items() if name == "mean")
    np.testing.assert_allclose(mean, 0.9 + 0.1 * channel.mean(axis=(0, 2, 3)), rtol=1e-4)


def test_a_parameter_behind_an_opaque_node_is_named() -> None:
    weights = {"w": np.eye(3, dtype=np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"], name="first"),
        helper.make_node("Det", ["y"], ["logits"], name="volume"),
    ]
    model = model_of(nodes, weights, {"x": (BATCH, 3, 3)}, {"logits": (BATCH,)})
    with pytest.raises(UnsupportedError, match=r"node 'volume' \(Det\) has no gradient") as refused:
        built(model, StepSettings(loss=LossSettings("mse"), update=SGD))
    assert str(refused.value).endswith(
        "; every parameter that is trained lies before it, so that keeping them leaves none to train"
    )


def test_the_parameters_to_keep_are_named() -> None:
    """Those before the node without a gradient, and no others; with them kept there is a step."""
    weights = {"w": np.eye(3, dtype=np.float32), "v": np.ones(BATCH, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Det", ["y"], ["volumes"]),
        helper.make_node("Mul", ["volumes", "v"], ["logits"]),
    ]
    model = model_of(nodes, weights, {"x": (BATCH, 3, 3)}, {"logits": (BATCH,)})
    with pytest.raises(UnsupportedError, match=r"keep the parameters before it with --frozen 'w'$"):
        built(model, StepSettings(loss=LossSettings("mse"), update=SGD))
    settings = StepSettings(loss=LossSettings("mse"), update=SGD, model=ModelSettings(frozen=("w",)))
    assert built(model, settings)


def test_a_step_is_lifted_with_few_opaque_nodes() -> None:
    step = built(network("light-mlp"))
    lifted = lift(load_model(step.model.to_bytes()))
    assert lifted.opaque == ()


def test_large_steps_go_to_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extending, "INLINE_BYTES", 1000)
    model = network("light-mlp")
    built(model).model.save(tmp_path / "step.onnx")
    data = [path for path in tmp_path.iterdir() if path.suffix == ".data"]
    assert len(data) == 1
    step = Step(tmp_path / "step.onnx", threads=1)
    batch = batches(datasets.digits(BATCH), 1)[0]
    assert step.run(batch) == Step(built(model).model.to_bytes(), threads=1).run(batch)


def test_the_power_0_of_0_has_the_gradient_0() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Pow", ["y", "zero"], ["ones"]),
    ]
    weights = {"w": np.ones((3, 2), np.float32), "zero": np.zeros((), np.float32)}
    model = model_of(nodes, weights, {"x": (BATCH, 3)}, {"ones": (BATCH, 2)})
    step = Step(built(model, StepSettings(loss=LossSettings("mse"), update=SGD)).model.to_bytes(), threads=1)
    batch = {"x": np.zeros((BATCH, 3), np.float32), "targets": np.zeros((BATCH, 2), np.float32)}
    assert step.run(batch) == 1
    np.testing.assert_array_equal(step.parameters()["w"], weights["w"])
