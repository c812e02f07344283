"""Models at old operator sets compute the same at the operator set of training steps."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from superopt import zoo
from superopt.errors import InvalidModelError
from superopt.onnx_io.changes.raise_opset import OPSET_OF_STEPS, with_opset
from tests.onnx_io.kit import assert_same_results, model, node, session, tensor, value, weight


def parsed(opset: int, signature: str, body: str) -> onnx.ModelProto:
    header = f'<ir_version: 7, opset_import: ["" : {opset}]>'
    return parser.parse_model(f"{header}\nmodel {signature}\n{{\n{body}\n}}")


IMAGE = "(float[n,2,3,5] x) => (float[n,2,a,b] y)"
ROWS = "(float[n,4] x) => (float[n,k] y)"

OLD = {
    "batch norm 7": (7, "(float[n,2,3] x) => (float[n,2,3] y)", """
        s = Constant<value = float[2] {1, 2}>()
        v = Constant<value = float[2] {1, 3}>()
        y = BatchNormalization<epsilon = 0.1>(x, s, v, s, v)"""),
    "softmax over several axes": (9, "(float[n,2,3] x) => (float[n,2,3] y)", "y = Softmax<axis = 1>(x)"),
    "log softmax": (11, "(float[n,2,3] x) => (float[n,2,3] y)", "y = LogSoftmax<axis = 1>(x)"),
    "upsample": (9, IMAGE, """
        s = Constant<value = float[4] {1, 1, 2, 2}>()
        y = Upsample<mode = "linear">(x, s)"""),
    "upsample by an attribute": (7, IMAGE, "y = Upsample<scales = [1.0, 1.0, 2.0, 1.0]>(x)"),
    "resize": (10, IMAGE, """
        s = Constant<value = float[4] {1, 1, 1.5, 2.5}>()
        y = Resize<mode = "nearest">(x, s)"""),
    "resize linear": (10, IMAGE, """
        s = Constant<value = float[4] {1, 1, 3, 2}>()
        y = Resize<mode = "linear">(x, s)"""),
    "slice": (9, ROWS, "y = Slice<axes = [1], starts = [1], ends = [3]>(x)"),
    "clip": (9, ROWS, "y = Clip<min = 0.0, max = 1.0>(x)"),
    "pad": (9, ROWS, "y = Pad<pads = [0, 1, 0, 2], value = 3.0>(x)"),
    "pad by repetition": (10, ROWS, """y = Pad<mode = "edge", pads = [0, 1, 0, 2], value = 3.0>(x)"""),
    "squeeze": (11, "(float[n,1,4] x) => (float[n,4] y)", "y = Squeeze<axes = [1]>(x)"),
    "unsqueeze": (9, "(float[n,4] x) => (float[n,1,4] y)", "y = Unsqueeze<axes = [1]>(x)"),
    "split": (11, "(float[n,4] x) => (float[n,1] y, float[n,3] z)", """
        y, z = Split<axis = 1, split = [1, 3]>(x)"""),
    "mean": (17, ROWS, "y = ReduceMean<axes = [1]>(x)"),
    "sum": (11, ROWS, "y = ReduceSum<axes = [1]>(x)"),
    "sum of squares": (13, ROWS, "y = ReduceSumSquare<axes = [1]>(x)"),
    "top k": (9, "(float[n,4] x) => (float[n,2] y)", "y, i = TopK<k = 2>(x)"),
    "branches": (11, "(float[n,4] x) => (float[n] y)", """
        c = Constant<value = bool {1}>()
        y = If(c)<
            then_branch = t() => (float[n] u) { u = ReduceMean<axes = [1], keepdims = 0>(x) },
            else_branch = e() => (float[n] w) { w = ReduceMax<axes = [1], keepdims = 0>(x) }
        >"""),
    "other domains": (11, "(float[n,4] x) => (float[n,1] y)", """
        a = ReduceSum<axes = [1]>(x)
        y = com.microsoft.Gelu(a)"""),
}  # fmt: skip


@pytest.mark.parametrize("case", OLD.values(), ids=OLD.keys())
def test_an_old_model_computes_the_same(case: tuple[int, str, str]) -> None:
    old = parsed(*case)
    if "com.microsoft" in case[2]:
        old.opset_import.add(domain="com.microsoft", version=1)
    before = old.SerializeToString()
    raised = with_opset(old)
    assert next(entry.version for entry in raised.opset_import if not entry.domain) == OPSET_OF_STEPS
    assert raised.ir_version == 8
    assert old.SerializeToString() == before
    assert_same_results(before, raised.SerializeToString(), n=3)


SMALL = ("light-squeezenet", "light-shufflenet", "light-densenet121", "light-inception_v1", "light-resnet50")


@pytest.mark.parametrize("name", SMALL)
def test_networks_compute_the_same(name: str) -> None:
    network = zoo.build(name)
    raised = with_opset(network)
    onnx.checker.check_model(raised, full_check=True)
    stored = {tensor.name for tensor in raised.graph.initializer}
    assert stored.isdisjoint(port.name for port in raised.graph.input)
    assert [port.name for port in session(raised.SerializeToString()).get_inputs()] == [
        port.name for port in network.graph.input if port.name not in stored
    ]
    assert_same_results(network.SerializeToString(), raised.SerializeToString(), rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["squeezenet", "mobilenet-v3", "repvgg", "nasrnn", "candle-uno", "lstm-lm-operator"]
)
@pytest.mark.parametrize("opset", [OPSET_OF_STEPS, 21])
def test_networks_can_be_raised(name: str, opset: int) -> None:
    raised = with_opset(zoo.build(name), opset)
    onnx.checker.check_model(raised)
    assert next(entry.version for entry in raised.opset_import if not entry.domain) == opset


def test_a_newer_model_stays_as_it_is() -> None:
    new = model([node("Relu", "x", "y")], [value("x", [2])], [value("y", [2])], opset=20, ir_version=9)
    assert with_opset(new) == new


def test_weights_and_declared_types_stay(tmp_path: Path) -> None:
    old = model(
        [node("MatMul", "x w", "z"), node("ReduceMean", "z", "y", axes=[1])],
        [value("x", ["n", 300])], [value("y", ["n", 1])], [weight("w", 300, 40)], opset=11,
    )  # fmt: skip
    old.graph.value_info.append(value("z", ["rows", 40]))
    path = tmp_path / "old.onnx"
    onnx.save(old, path, save_as_external_data=True, location="weights", size_threshold=0)
    outside = onnx.load(path, load_external_data=False)
    (tmp_path / "weights").unlink()
    raised = with_opset(outside)
    assert raised.graph.initializer[0] == outside.graph.initializer[0]
    assert list(raised.graph.value_info) == list(old.graph.value_info)
    assert list(raised.graph.input) == list(old.graph.input)
    assert list(raised.graph.output) == list(old.graph.output)


def test_large_constants_stay_nodes() -> None:
    content = weight("w", 50, 40)
    constant = onnx.helper.make_node("Constant", [], ["w"], value=content)
    layers = [node("MatMul", "z w", "a"), node("ReduceMean", "a", "y", axes=[1])]
    old = model(
        [node("Relu", "x", "z"), constant, *layers],
        [value("x", ["n", 50])], [value("y", ["n", 1])], opset=9,
    )  # fmt: skip
    raised = with_opset(old)
    assert [n.op_type for n in raised.graph.node if n.output[0] == "w"] == ["Constant"]
    assert_same_results(old.SerializeToString(), raised.SerializeToString(), n=2)


def test_initialisers_of_ir_version_3_do_not_become_overridable() -> None:
    old = model(
        [node("Add", "x w", "y")],
        [value("x", ["n", 3]), value("w", [3])], [value("y", ["n", 3])], [weight("w", 3)],
        opset=9, ir_version=3,
    )  # fmt: skip
    raised = with_opset(old)
    assert [port.name for port in raised.graph.input] == ["x"]
    assert_same_results(old.SerializeToString(), raised.SerializeToString(), n=2)


def unconvertible() -> onnx.ModelProto:
    layers = [node("Relu", "x", "z"), node("ThresholdedRelu", "z", "y")]
    layers[1].name = "cut"
    return model(layers, [value("x", ["n", 4])], [value("y", ["n", 4])], opset=9)


def functional() -> onnx.ModelProto:
    made = model([node("Relu", "x", "y")], [value("x", [2])], [value("y", [2])], opset=15)
    made.functions.add(name="f", domain="local")
    return made


@pytest.mark.parametrize(
    ("old", "message"),
    [
        (unconvertible(), r"node 'cut' \(ThresholdedRelu\) cannot be converted from operator set 9 to 18: "),
        (model([], [], [], opset=6), "the model has operator set 6; expected 7 or newer"),
        (functional(), "the model has functions and operator set 15; expected 18 or newer, or no functions"),
        (onnx.ModelProto(), "the model imports no standard operators; expected ai.onnx 7 or newer"),
    ],
)
def test_what_cannot_be_raised_is_named(old: onnx.ModelProto, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        with_opset(old)
    assert re.match(message, str(caught.value))
    assert "\n" not in str(caught.value)


def test_sizes_that_are_computed_stay_right() -> None:
    old = model(
        [
            node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n", "m", axes=[0]),
            node("Concat", "m rest", "to", axis=0), node("Reshape", "x to", "y"),
        ],
        [value("x", ["n", 2, 6])], [value("y", None)],
        [tensor("zero", 0, np.int64), tensor("rest", [3, 4], np.int64)], opset=11,
    )  # fmt: skip
    raised = with_opset(old)
    assert_same_results(old.SerializeToString(), raised.SerializeToString(), n=5)
    assert numpy_helper.to_array(raised.graph.initializer[1]).tolist() == [3, 4]
