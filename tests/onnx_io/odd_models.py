"""Valid models of every odd kind: whatever ONNX allows must go in and come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.onnx_io.kit import FLOAT, graph, model, node, tensor, value, weight

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL


def unknown_operator() -> onnx.ModelProto:
    nodes = [node("Relu", "x", "a"), node("CumSum", "a axis", "b"), node("Sigmoid", "b", "y")]
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], [tensor("axis", 1, np.int64)])


def other_domain() -> onnx.ModelProto:
    nodes = [
        node("Relu", "x", "a"),
        node("FastGelu", "a", "b", domain="com.microsoft"),
        node("Tanh", "b", "y"),
    ]
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], domains={"com.microsoft": 1})


def standard_domain_spelled_out() -> onnx.ModelProto:
    nodes = [node("Relu", "x", "a", domain="ai.onnx"), node("Add", "a w", "y", domain="ai.onnx")]
    made = model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], [weight("w", 3)])
    made.opset_import[0].domain = "ai.onnx"
    return made


def branches_that_capture() -> onnx.ModelProto:
    """Both branches read ``a`` (computed), ``w`` (an initialiser) and ``x`` (an input) from outside."""
    then = graph([node("Add", "a w", "t")], [], [value("t", [2, 3])])
    otherwise = graph([node("Mul", "a x", "e0"), node("Add", "e0 w", "e")], [], [value("e", [2, 3])])
    nodes = [
        node("Relu", "x", "a"),
        node("ReduceSum", "a", "sum", keepdims=0),
        node("Greater", "sum zero", "positive"),
        node("If", "positive", "b", then_branch=then, else_branch=otherwise),
        node("Add", "b w", "y"),
    ]
    weights = [weight("w", 2, 3), tensor("zero", 3)]
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], weights)


def loop_in_a_branch() -> onnx.ModelProto:
    """A subgraph in a subgraph captures from the outermost graph."""
    body = graph(
        [node("Identity", "go", "go_on"), node("Add", "state a", "next")],
        [value("i", [], INT64), value("go", [], BOOL), value("state", [2, 3])],
        [value("go_on", [], BOOL), value("next", [2, 3])],
    )
    then = graph([node("Loop", "times - a", "t", body=body)], [], [value("t", [2, 3])])
    otherwise = graph([node("Identity", "a", "e")], [], [value("e", [2, 3])])
    nodes = [node("Sigmoid", "x", "a"), node("If", "yes", "b", then_branch=then, else_branch=otherwise),
             node("Relu", "b", "y")]  # fmt: skip
    weights = [tensor("times", 2, np.int64), tensor("yes", 1, np.bool_)]
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], weights)


def dynamic_dimensions() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w b", "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", "a", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f m c", "y", transB=1),
    ]
    weights = [weight("w", 4, 3, 3, 3), weight("b", 4), weight("m", 5, 4), weight("c", 5)]
    return model(nodes, [value("x", ["N", 3, None, None])], [value("y", ["N", 5])], weights)


def sequences_in_between() -> onnx.ModelProto:
    nodes = [
        node("Relu", "x", "a"),
        node("SequenceConstruct", "a x", "s"),
        node("ConcatFromSequence", "s", "c", axis=0),
        node("Tanh", "c", "y"),
    ]
    return model(nodes, [value("x", ["n", 3])], [value("y", ["m", 3])])


def shared_weights() -> onnx.ModelProto:
    nodes = [
        node("MatMul", "x w", "a"),
        node("MatMul", "a w", "b"),
        node("Mul", "b v", "c"),
        node("Add", "c v", "y"),
    ]
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], [weight("w", 3, 3), weight("v", 3)])


def inputs_that_are_outputs() -> onnx.ModelProto:
    nodes = [node("Relu", "x", "y")]
    return model(
        nodes, [value("x", [2]), value("z", [3])], [value("x", [2]), value("y", [2]), value("z", [3])]
    )


def weights_that_are_outputs() -> onnx.ModelProto:
    nodes = [node("Add", "x w", "y")]
    return model(nodes, [value("x", [3])], [value("y", [3]), value("w", [3])], [weight("w", 3)])


def defaults_for_inputs() -> onnx.ModelProto:
    """From IR version 4 on, an initialiser that is an input is a default, not a constant."""
    nodes = [node("Mul", "x w", "a"), node("Add", "a v", "y")]
    inputs = [value("x", [2, 3]), value("w", [3])]
    return model(nodes, inputs, [value("y", [2, 3])], [weight("w", 3), weight("v", 3)])


def weights_declared_as_inputs() -> onnx.ModelProto:
    """Before IR version 4, every initialiser had to be an input, and no caller could override it."""
    nodes = [node("Sub", "x w", "a"), node("BatchNormalization", "a s b m v", "y")]
    weights = [weight("w", 2, 1), weight("s", 2), weight("b", 2), weight("m", 2), tensor("v", [1, 2])]
    inputs = [value("x", [2, 2, 3]), *(value(t.name, list(t.dims)) for t in weights)]
    return model(nodes, inputs, [value("y", [2, 2, 3])], weights, opset=9, ir_version=3)


def several_outputs() -> onnx.ModelProto:
    nodes = [
        node("Split", "x sizes", "a b c", axis=1),
        node("Relu", "a", "y0"),
        node("Concat", "c b", "y2", axis=-1),
    ]
    outputs = [value("y0", [2, 1]), value("b", [2, 2]), value("y2", [2, 5])]
    return model(nodes, [value("x", [2, 6])], outputs, [tensor("sizes", [1, 2, 3], np.int64)])


def quantised() -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "wq ws wz", "wd", axis=0),
        node("Conv", "d wd", "c"),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r s z", "rq"),
        node("DequantizeLinear", "rq s z", "y"),
    ]
    weights = [
        tensor("s", 0.05),
        tensor("z", 3, np.int8),
        tensor("wq", np.arange(-18, 18).reshape(4, 1, 3, 3), np.int8),
        tensor("ws", [0.1, 0.2, 0.3, 0.4]),
        tensor("wz", [0, 0, 0, 0], np.int8),
    ]
    made = model(nodes, [value("x", [1, 1, 5, 5])], [value("y", [1, 4, 3, 3])], weights)
    annotation = made.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    return made


def functions() -> onnx.ModelProto:
    """A function of the model, one that hides a standard operator's name in its own domain."""
    function = helper.make_function(
        "local",
        "Relu",
        ["a"],
        ["b"],
        [node("Neg", "a", "n"), node("Exp", "n", "b")],
        [helper.make_opsetid("", 17)],
    )
    nodes = [node("Relu", "x", "a"), node("Relu", "a", "c", domain="local"), node("Relu", "c", "y")]
    made = model(nodes, [value("x", [3])], [value("y", [3])], domains={"local": 1})
    made.functions.append(function)
    return made


def nothing_to_do() -> onnx.ModelProto:
    return model([], [value("x", [3])], [value("x", [3])])


def only_constants() -> onnx.ModelProto:
    nodes = [node("Constant", "", "c", value_floats=[1.0, 2.0]), node("Add", "c w", "y")]
    return model(nodes, [], [value("y", [2])], [weight("w", 2)])


def names_in_other_scripts() -> onnx.ModelProto:
    nodes = [node("Relu", "вход", "中間", name="層/1"), node("Add", "中間 poids_é", "出力", name="層/2")]
    return model(
        nodes, [value("вход", ["партия", 3])], [value("出力", ["партия", 3])], [weight("poids_é", 3)]
    )


def names_like_ours() -> onnx.ModelProto:
    nodes = [node("Relu", "x", "superopt/relu_1"), node("Add", "superopt/relu_1 superopt/weight_0", "y")]
    return model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], [weight("superopt/weight_0", 3)])


def dead_nodes() -> onnx.ModelProto:
    nodes = [
        node("Relu", "x", "y"),
        node("Sigmoid", "x", "unused"),
        node("Tanh", "unused", "unused_too"),
        node("Constant", "", "forgotten", value_float=1.0),
    ]
    return model(nodes, [value("x", [3])], [value("y", [3])], [weight("unread", 3)])


def metadata_everywhere() -> onnx.ModelProto:
    made = model([node("Relu", "x", "a"), node("Add", "a w", "y")], [value("x", [3])], [value("y", [3])],
                 [weight("w", 3)], opset=21, ir_version=10)  # fmt: skip
    made.doc_string, made.producer_name, made.producer_version, made.model_version = "Δοκιμή", "me", "1", 7
    made.domain, made.graph.doc_string = "org.example", "the graph"
    made.graph.node[0].doc_string = "a node"
    for holder in (made, made.graph, made.graph.node[0], made.graph.initializer[0], made.graph.input[0]):
        holder.metadata_props.add(key="key", value="value")
        holder.metadata_props.add(key="another", value="")
    made.graph.value_info.append(value("a", [3]))
    return made


def repeated_identities() -> onnx.ModelProto:
    """Three outputs that are one tensor, and an output that is an input under another name."""
    nodes = [
        node("Relu", "x", "a"),
        *(node("Identity", "a", f"y{i}") for i in range(3)),
        node("Identity", "x", "z"),
    ]
    return model(nodes, [value("x", [3])], [value(name, [3]) for name in ("y0", "y1", "y2", "z")])


def optional_operands() -> onnx.ModelProto:
    nodes = [
        node("Clip", "x - top", "a"),
        node("Dropout", "a - off", "b mask"),
        node("Resize", "b - - sizes", "y", mode="nearest"),
    ]
    weights = [tensor("top", 0.5), tensor("sizes", [1, 1, 4, 4], np.int64), tensor("off", 0, np.bool_)]
    return model(nodes, [value("x", [1, 1, 2, 2])], [value("y", [1, 1, 4, 4])], weights)


def many_broadcasts() -> onnx.ModelProto:
    """Every way to combine a tensor with a smaller one."""
    smaller = {"s": (), "one": (1,), "last": (4,), "channel": (3, 1, 1), "full": (1, 3, 1, 1), "two": (5, 4)}
    nodes: list[onnx.NodeProto] = []
    before = "x"
    for op_type in ("Add", "Mul", "Sub", "Div"):
        for name in smaller:
            for operands in ((before, name), (name, before)):
                after = f"{op_type}_{name}_{operands[0] == name}"
                nodes.append(node(op_type, " ".join(operands), after))
                nodes.append(node("Tanh", after, f"{after}_t"))
                before = f"{after}_t"
    nodes.append(node("Div", f"{before} eighth", "y"))
    weights = [weight(name, *shape) for name, shape in smaller.items()]
    return model(
        nodes, [value("x", [2, 3, 5, 4])], [value("y", [2, 3, 5, 4])], [*weights, tensor("eighth", 0.125)]
    )


def computed_broadcasts() -> onnx.ModelProto:
    nodes = [
        node("Add", "x row", "a"),
        node("Mul", "row a", "b"),
        node("MatMul", "b m", "c"),
        node("Sub", "c one", "d"),
        node("Expand", "d shape", "y"),
    ]
    inputs = [value("x", ["n", 2, 3]), value("row", [3]), value("m", ["n", 3, 3]), value("one", [1, 1, 1])]
    return model(nodes, inputs, [value("y", ["n", 2, 3])], [tensor("shape", [1, 1, 3], np.int64)])


def half_precision() -> onnx.ModelProto:
    nodes = [
        node("Conv", "x w b", "a"),
        node("BatchNormalization", "a s t m v", "n"),
        node("Mul", "n k", "y"),
    ]
    weights = [
        weight("w", 2, 1, 3, 3, dtype=np.float16),
        *(weight(name, 2, dtype=np.float16) for name in "bstm"),
        tensor("v", [1, 2], np.float16),
        tensor("k", 0.25, np.float16),
    ]
    half = TensorProto.FLOAT16
    return model(nodes, [value("x", [1, 1, 4, 4], half)], [value("y", [1, 2, 2, 2], half)], weights, opset=15)


def doubles() -> onnx.ModelProto:
    nodes = [node("Gemm", "x w c", "a", alpha=0.5, beta=2.0, transA=1), node("Softmax", "a", "y")]
    weights = [weight("w", 3, 4, dtype=np.float64), weight("c", 2, 1, dtype=np.float64)]
    kind = TensorProto.DOUBLE
    return model(nodes, [value("x", [3, 2], kind)], [value("y", [2, 4], kind)], weights)


ODD_MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    build.__name__.replace("_", " "): build
    for build in (
        unknown_operator, other_domain, standard_domain_spelled_out, branches_that_capture, loop_in_a_branch,
        dynamic_dimensions, sequences_in_between, shared_weights, inputs_that_are_outputs,
        weights_that_are_outputs, defaults_for_inputs, weights_declared_as_inputs, several_outputs, quantised,
        functions, nothing_to_do, only_constants, names_in_other_scripts, names_like_ours, dead_nodes,
        metadata_everywhere, repeated_identities, optional_operands, many_broadcasts, computed_broadcasts,
        half_precision, doubles,
    )
}  # fmt: skip

__all__ = ["FLOAT", "ODD_MODELS"]
