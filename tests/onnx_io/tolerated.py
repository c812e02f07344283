"""Models that ONNX Runtime runs although the ONNX checker rejects them, or they say what is not so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from tests.onnx_io.kit import graph, model, node, tensor, value, weight


def plain(*, opset: int = 17, ir_version: int = 8) -> onnx.ModelProto:
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "c"), node("Relu", "c", "y")]
    return model(
        nodes, [value("x", ["n", 4])], [value("y", ["n", 4])], [weight("w", 4, 4), weight("b", 4)],
        opset=opset, ir_version=ir_version,
    )  # fmt: skip


def output_without_shape() -> onnx.ModelProto:
    made = plain()
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def output_without_type() -> onnx.ModelProto:
    made = plain()
    made.graph.output[0].ClearField("type")
    return made


def nodes_in_any_order() -> onnx.ModelProto:
    made = plain()
    nodes = list(made.graph.node)[::-1]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


def captures_in_any_order() -> onnx.ModelProto:
    """The branches come before what they capture."""
    branches = [graph([node(op, "a", op)], [], [value(op, [2])]) for op in ("Relu", "Neg")]
    nodes = [
        node("If", "yes", "y", then_branch=branches[0], else_branch=branches[1]),
        node("Tanh", "x", "a"),
    ]
    return model(nodes, [value("x", [2])], [value("y", [2])], [tensor("yes", 1, np.bool_)])


def initialiser_twice() -> onnx.ModelProto:
    made = plain()
    made.graph.initializer.append(weight("w", 4, 4, seed=1))
    return made


def undeclared_initialisers() -> onnx.ModelProto:
    return plain(opset=9, ir_version=3)


def oldest_version() -> onnx.ModelProto:
    return plain(opset=9, ir_version=1)


def domain_without_import() -> onnx.ModelProto:
    made = plain()
    made.graph.node[2].CopyFrom(node("FastGelu", "c", "y", domain="com.microsoft"))
    return made


def sequence_of_unknown_type() -> onnx.ModelProto:
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("ConcatFromSequence", "s", "c", axis=0),
        node("Relu", "c", "y"),
    ]
    return model(nodes, [value("x", ["n", 3])], [onnx.ValueInfoProto(name="y")])


def output_of_another_rank() -> onnx.ModelProto:
    made = plain()
    made.graph.output[0].CopyFrom(value("y", ["n", 4, 1]))
    return made


def output_of_another_size() -> onnx.ModelProto:
    made = plain()
    made.graph.output[0].CopyFrom(value("y", ["n", 7]))
    return made


def output_of_a_traced_size() -> onnx.ModelProto:
    """What reads the output would be reshaped to the size that was traced."""
    nodes = [node("Relu", "x", "a"), node("Shape", "a", "s"), node("Reshape", "x s", "y")]
    return model(nodes, [value("x", ["n", 4])], [value("a", [7, 4]), value("y", ["n", 4])])


def inner_tensor_of_another_rank() -> onnx.ModelProto:
    made = plain()
    made.graph.value_info.append(value("a", ["n", 9, 2]))
    return made


CHECKER = "the ONNX checker rejects it: "

TOLERATED: Mapping[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "output without shape": (output_without_shape, CHECKER + "Field 'shape' of 'type' is required"),
    "output without type": (output_without_type, CHECKER + "Field 'type' of 'value_info' is required"),
    "nodes in any order": (nodes_in_any_order, "its nodes are not in topological order"),
    "captures in any order": (captures_in_any_order, "its nodes are not in topological order"),
    "initialiser twice": (initialiser_twice, "several initialisers are called 'w': the last one is used"),
    "undeclared initialisers": (undeclared_initialisers, CHECKER + "in IR version 3 the initialiser"),
    "oldest version": (oldest_version, CHECKER + "in IR version 1 the initialiser"),
    "domain without import": (domain_without_import, CHECKER + "No opset import for domain 'com.microsoft'"),
    "sequence of unknown type": (sequence_of_unknown_type, CHECKER + "Field 'type' of 'value_info'"),
    "output of another rank": (output_of_another_rank, "output 'y' is declared as f32[n, 4, 1], but is"),
    "output of another size": (output_of_another_size, "output 'y' is declared as f32[n, 7], but is"),
    "output of a traced size": (output_of_a_traced_size, "output 'a' is declared as f32[7, 4], but is f32[n"),
    "inner tensor of another rank": (
        inner_tensor_of_another_rank,
        "a declared type is false, as that of 'a': f32[n, 9, 2], but it is f32[n, 4]",
    ),
}  # fmt: skip
"""Each with the beginning of the warning that says so."""
