"""Simpler gradients: what they are instances of is proved, values stay, and passes over tensors go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.axioms import load_axioms
from superopt.domains import FloatDomain
from superopt.equations import parse_equation
from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.ir.graph import GraphEditor, Value
from superopt.journeys.training import train_graph
from superopt.onnx_io import lift, load_model
from superopt.ops.elementwise.affine import Affine
from superopt.ops.elementwise.arithmetic import Add, Multiply, Scale, Subtract
from superopt.ops.filled import Full
from superopt.ops.gradients.transposes import LookupGradient, SumTo
from superopt.ops.reduction import ReduceMean
from superopt.ops.shape import Broadcast
from superopt.optimizer.training.builder import StepBuilder
from superopt.optimizer.training.gradients import one_node_sums
from superopt.optimizer.training.gradients.simplification import EQUATIONS
from superopt.optimizer.training.running import Step
from superopt.rewriting.evaluation import evaluate_graph
from superopt.step_options import StepSettings
from superopt.verifier.verification import Status, verify

COLUMN, IMAGES = (1, 3, 1, 1), (2, 3, 4, 5)


@pytest.mark.parametrize("text", [*EQUATIONS, *one_node_sums.EQUATIONS])
def test_every_step_is_an_instance_of_a_proved_equation(text: str) -> None:
    assert verify(parse_equation(text), load_axioms()).status is Status.VERIFIED


class Example:
    """A graph under construction, once as it is written and once simplified."""

    def __init__(self, *, simplifies: bool) -> None:
        self.editor = GraphEditor(Graph({}, (), (), 0))
        self._builder = StepBuilder(self.editor) if simplifies else None

    def input(self, name: str, *shape: int) -> Value:
        return self.editor.add(Input(name, TensorType(ElementType.FLOAT, shape))).value

    def apply(self, operator: object, *inputs: Value) -> Value:
        if self._builder is not None:
            return self._builder.apply(operator, *inputs)
        return self.editor.add(operator, inputs).value

    def repeated(self, value: Value) -> Value:
        return self.apply(Broadcast(IMAGES), value)

    def times(self, value: Value, number: int) -> Value:
        return self.apply(Scale(), value, self.apply(Full(number, ())))

    def centred(self, x: Value) -> Value:
        mean = x
        for axis in (0, 2, 3):
            mean = self.apply(ReduceMean(axis), mean)
        return self.apply(Subtract(), x, self.repeated(mean))


def number_after_repetition(e: Example) -> Value:
    return e.times(e.times(e.repeated(e.input("v", *COLUMN)), 3), 5)


def factor_in_a_sum(e: Example) -> Value:
    x, v = e.input("x", *IMAGES), e.input("v", *COLUMN)
    return e.apply(SumTo(COLUMN), e.times(e.apply(Multiply(), e.repeated(v), x), -1))


def sum_of_what_is_centred(e: Example) -> Value:
    x, v, g = e.input("x", *IMAGES), e.input("v", *COLUMN), e.input("g", *IMAGES)
    product = e.times(e.apply(Multiply(), e.centred(x), e.repeated(v)), 2)
    total = e.apply(Add(), e.apply(Multiply(), g, e.repeated(v)), product)
    return e.apply(SumTo(COLUMN), total)


def the_same_term_twice(e: Example) -> Value:
    x, y, v = e.input("x", *IMAGES), e.input("y", *IMAGES), e.input("v", *COLUMN)
    term = e.apply(Multiply(), y, e.repeated(v))
    return e.apply(Add(), e.apply(Add(), term, x), term)


def a_term_beside_its_product(e: Example) -> Value:
    x, y, v, w = (
        *(e.input(name, *IMAGES) for name in "xy"),
        *(e.input(name, *COLUMN) for name in "vw"),
    )
    return e.apply(Add(), e.apply(Add(), e.apply(Multiply(), x, e.repeated(v)), y), e.repeated(w))


def multiplied_by_one_and_zero(e: Example) -> Value:
    x, y = e.input("x", *IMAGES), e.input("y", *IMAGES)
    one, zero = (e.repeated(e.apply(Full(number, COLUMN))) for number in (1, 0))
    return e.apply(Add(), e.apply(Multiply(), one, x), e.apply(Multiply(), y, zero))


@pytest.mark.parametrize(
    ("write", "passes"),
    [
        (number_after_repetition, 0),
        (factor_in_a_sum, 0),
        (sum_of_what_is_centred, 0),
        (the_same_term_twice, 2),
        (a_term_beside_its_product, 3),
        (multiplied_by_one_and_zero, 0),
    ],
)
def test_values_stay_and_passes_go(write: Callable[[Example], Value], passes: int) -> None:
    values: list[np.ndarray] = []
    for simplifies in (False, True):
        example = Example(simplifies=simplifies)
        found = write(example)
        example.editor.set_outputs((found,))
        graph = example.editor.build()
        random = np.random.default_rng(3)
        given = {
            node: random.normal(size=(1, *graph[node].types[0].shape))
            for node in sorted(graph.inputs, key=lambda node: graph[node].operator.label)
        }
        (value,) = evaluate_graph(graph, FloatDomain(np.float64), given)
        values.append(value)
    np.testing.assert_allclose(np.broadcast_to(values[1], values[0].shape), values[0], rtol=1e-12, atol=1e-12)
    assert len(_arithmetic(graph, [found], IMAGES)) == passes


def _arithmetic(graph: Graph, outputs: Iterable[Value], shape: tuple[int, ...]) -> list[str]:
    """The arithmetic on tensors of a shape that values need."""
    needed, names = {value.node for value in outputs}, list[str]()
    for node_id in reversed(graph.order):
        if node_id in needed:
            node = graph[node_id]
            needed.update(value.node for value in node.inputs)
            arithmetic = isinstance(node.operator, Add | Affine | Multiply | Scale | Subtract)
            if arithmetic and node.types[0].shape == shape:
                names.append(node.operator.name)
    return names


def _normalised(size: int) -> onnx.ModelProto:
    """A convolution, a batch normalisation and a mean over positions."""
    random = np.random.default_rng(0)
    weights = {
        "w": random.normal(size=(3, 2, 3, 3)),
        **{name: random.uniform(0.5, 1, 3) for name in ("scale", "bias", "mean", "variance")},
        "out": random.normal(size=(3, 4)),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["b"]),
            helper.make_node("Relu", ["b"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "out"], ["y"]),
        ],
        "normalised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("size", "affine"), [(8, 4), (24, 2)])
def test_a_batch_normalisation_is_differentiated_in_seven_passes(
    tmp_path: Path, size: int, affine: int
) -> None:
    """Forwards: centred, squares, normalised; backwards: the product with what is centred, a factor and a
    term for each channel, what is centred times a factor, and their sum. Few positions have one kernel for
    what belongs to channels."""
    model = tmp_path / "m.onnx"
    onnx.save(_normalised(size), model)
    graph = train_graph(model, StepSettings.from_json({"optimizer": "sgd"})).step.graph
    names = Counter(_arithmetic(graph, graph.outputs, (2, 3, size, size)))
    assert names.total() == 7
    assert names["affine"] == affine


def _embedding() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "i"], ["rows"]),
            helper.make_node("ReduceMean", ["rows"], ["y"], axes=[1], keepdims=0),
        ],
        "embedding",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32), "table")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(
    ("optimizer", "written"),
    [("sgd", ("table", "table.next")), ("momentum", (None, "table.momentum.next")), ("adam", None)],
)
def test_rows_are_added_to_a_table_in_one_node(
    tmp_path: Path, optimizer: str, written: tuple[str | None, str] | None
) -> None:
    """Where nothing else reads the gradient; what is written is read back as a sum."""
    model = tmp_path / "m.onnx"
    onnx.save(_embedding(), model)
    settings = {"optimizer": optimizer, "learning_rate": 0.5}
    step = train_graph(model, StepSettings.from_json(settings)).step.model
    (scatter,) = [node for node in step.proto.graph.node if node.op_type == "ScatterElements"]
    if written is None:
        assert not scatter.output[0].endswith(".next")
    else:
        table, result = written
        assert scatter.output[0] == result
        assert table is None or scatter.input[0] == table
    lifted = lift(load_model(step.to_bytes()))
    assert sum(isinstance(node.operator, LookupGradient) for node in lifted.graph) == 1


def test_rows_under_sgd_have_the_values_of_the_sum(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(_embedding(), model)
    settings = StepSettings.from_json({"optimizer": "sgd", "learning_rate": 0.5})
    step = Step(train_graph(model, settings).step.model.to_bytes(), threads=1)
    table, indices = step.parameters()["table"].copy(), np.array([[0, 3, 3], [8, 0, 1]])
    labels = np.array([1, 2])
    step.run({"i": indices, "labels": labels})
    rows = table[indices].mean(axis=1)
    shares = np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True)
    shares[np.arange(2), labels] -= 1
    gradient = np.zeros_like(table)
    np.add.at(gradient, indices, (shares / 6)[:, None, :])
    np.testing.assert_allclose(step.parameters()["table"], table - 0.5 * gradient, rtol=1e-5, atol=1e-6)


def _product_of_rows(depth: int) -> onnx.ModelProto:
    """x + b, times the same row again and again."""
    nodes = [helper.make_node("Sigmoid", ["q"], ["r"]), helper.make_node("Add", ["x", "b"], ["y0"])]
    nodes += [helper.make_node("Mul", [f"y{k}", "r"], [f"y{k + 1}"]) for k in range(depth)]
    rows = np.random.default_rng(0).normal(size=(2, 1, 3)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])],
        [helper.make_tensor_value_info(f"y{depth}", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(row, name) for row, name in zip(rows, "bq", strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_long_chains_of_products_do_not_take_the_stack(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    onnx.save(_product_of_rows(600), model)
    assert train_graph(model, StepSettings.from_json({"optimizer": "sgd"})).step.graph.nodes


def test_numbers_that_have_no_value_in_single_precision_are_not_gathered() -> None:
    example = Example(simplifies=True)
    x = example.input("x", *IMAGES)
    large = example.apply(Full(10**20, ()))
    twice = example.apply(Scale(), example.apply(Scale(), x, large), large)
    assert [example.editor[value.node].operator for value in example.editor[twice.node].inputs] == [
        Scale(),
        Full(10**20, ()),
    ]


@pytest.mark.parametrize("operator", ["Add", "Mul"])
def test_gradients_in_half_precision_stay_as_they_are(tmp_path: Path, operator: str) -> None:
    """Equal cotangents of a tensor in float16 are added in float16."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Cast", ["h"], ["low"], to=TensorProto.FLOAT16),
        helper.make_node(operator, ["low", "low"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        [numpy_helper.from_array(np.ones((3, 4), np.float32), "w")],
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    settings = {"optimizer": "sgd", "loss": "mse", "learning_rate": 1.0}
    step = Step(train_graph(model, StepSettings.from_json(settings)).step.model.to_bytes(), threads=1)
    x = np.array([[0.5, 1, 0], [1, 0, 0.25]], np.float32)
    labels = np.zeros((2, 4), np.float32)
    (name,) = {port.name for port in step.data} - {"x"}
    step.run({"x": x, name: labels})
    h = x @ np.ones((3, 4))
    y, slope = (2 * h, 2 * np.ones_like(h)) if operator == "Add" else (h * h, 2 * h)
    gradient = x.T @ (2 * y * slope / y.size)
    np.testing.assert_allclose(1 - step.parameters()["w"], gradient, rtol=5e-3)
