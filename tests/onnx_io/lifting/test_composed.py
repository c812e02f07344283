"""Operators that are made of simpler ones are understood, and written anew compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.ir import Graph, Input, Plan, Weight
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer.canonical.canonicalise import canonicalise
from superopt.optimizer.pipeline.selection import kept_nodes
from tests.onnx_io.forcing import written_anew, written_as_it_was
from tests.onnx_io.kit import assert_same_results, listing, model, node, operators, tensor, value, weight

INDICES = tensor("i", [[2, 0], [1, 2]], np.int64)
"""Positions that are in no row."""


@dataclass(frozen=True)
class Composed:
    """A node of operands ``x`` and ``y`` of these shapes, and its operators in the graph or why it stays."""

    node: onnx.NodeProto
    shapes: Sequence[Sequence[int | str]]
    lifted: str
    weights: Sequence[TensorProto] = field(default=())
    opset: int = 17
    rank: int | None = None

    def model(self) -> bytes:
        """A model of the node."""
        inputs = [value(name, shape) for name, shape in zip("xy", self.shapes, strict=False)]
        rank = len(self.shapes[0]) if self.rank is None else self.rank
        named = onnx.NodeProto(name="composed")
        named.MergeFrom(self.node)
        made = model([named], inputs, [value("z", [None] * rank)], self.weights, opset=self.opset)
        return made.SerializeToString()


def einsum(equation: str, *shapes: Sequence[int | str], lifted: str) -> Composed:
    """A sum of products; the weight ``v`` is [3, 5]."""
    operands = " ".join("xy"[: len(shapes)]) + (" v" if equation.count(",") == len(shapes) else "")
    rank = len(equation.partition("->")[2]) if "->" in equation else 2
    return Composed(
        node("Einsum", operands, "z", equation=equation), shapes, lifted, [weight("v", 3, 5)], rank=rank
    )


VECTORS = [weight("s", 6), weight("b", 6)]
AXES = [tensor("axes", [1, -1], np.int64)]

ACTIVATIONS = {
    "celu": Composed(node("Celu", "x", "z", alpha=2.0), [[3, 4]], "scale elu scale"),
    "celu of slope one": Composed(node("Celu", "x", "z"), [[3, 4]], "elu"),
    "root": Composed(node("Pow", "x e", "z"), [[3, 4]], "power", [tensor("e", 0.5)]),
    "one over a root": Composed(node("Pow", "x e", "z"), [[3, 4]], "power", [tensor("e", [-0.5])]),
    "cube": Composed(node("Pow", "x e", "z"), [[3, 4]], "power", [tensor("e", 3)]),
    "one slope": Composed(node("PRelu", "x e", "z"), [[3, 4]], "leaky_relu", [tensor("e", [0.5])]),
    "mean": Composed(node("Mean", "x y x", "z"), [[3, 4], [4]], "broadcast add add scale"),
    "mean of one": Composed(node("Mean", "x", "z"), [[3, 4]], "identity"),
}
NORMALISATIONS = {
    "groups": Composed(
        node("GroupNormalization", "x s b", "z", num_groups=2),
        [[2, 6, 3, 4]],
        "reshape broadcast broadcast layer_normalization reshape affine",
        VECTORS,
        opset=21,
    ),
    "layer over two axes": Composed(
        node("LayerNormalization", "x s b", "z", axis=-2),
        [["n", 2, 3]],
        "reshape reshape reshape layer_normalization reshape",
        [weight("s", 2, 3), weight("b", 2, 3)],
    ),
    "factors of one axis of two": Composed(
        node("LayerNormalization", "x s", "z", axis=-2),
        [[4, 2, 6]],
        "operand 1 has not the sizes of the axes along which it normalises",
        VECTORS,
    ),
    "log softmax of channels": Composed(
        node("LogSoftmax", "x", "z", axis=1),
        [["n", 6, 3, 4]],
        "reduce_max broadcast sub exp reduce_sum log broadcast sub",
    ),
    "log softmax of rows": Composed(node("LogSoftmax", "x", "z", axis=-2), [[2, 3, 4]], "log_softmax"),
    "mean squares over two axes": Composed(
        node("RMSNormalization", "x s", "z", axis=1),
        [[4, 2, 3]],
        "reshape reshape rms_normalization reshape",
        [weight("s", 2, 3)],
        opset=23,
    ),
}
NORMS = {
    "sum of sizes": Composed(node("ReduceL1", "x", "z", axes=[1]), [[3, 4]], "absolute reduce_sum"),
    "norm": Composed(
        node("ReduceL2", "x axes", "z", keepdims=0),
        [["n", 4, 5]],
        "mul reduce_sum reduce_sum reshape sqrt",
        AXES,
        opset=18,
        rank=1,
    ),
    "sum of squares": Composed(
        node("ReduceSumSquare", "x", "z", keepdims=0), [[3, 4]], "mul reduce_sum reduce_sum reshape", rank=0
    ),
    "logarithm of a sum": Composed(
        node("ReduceLogSum", "x axes", "z"), [[3, 4, 5]], "reduce_sum reduce_sum log", AXES, opset=18
    ),
    "logarithm of a sum of exponentials": Composed(
        node("ReduceLogSumExp", "x", "z", axes=[-1], keepdims=0),
        [[3, 4]],
        "reduce_max broadcast sub exp reduce_sum log add reshape",
        rank=1,
    ),
    "along no axis": Composed(
        node("ReduceL1", "x", "z", noop_with_empty_axes=1), [[3, 4]], "it reduces along no axis", opset=18
    ),
}
ROWS = {
    "rows of a tensor": Composed(
        node("Gather", "x i", "z"), [[3, 4, 5]], "reshape lookup reshape", [INDICES], rank=4
    ),
    "elements": Composed(node("Gather", "x i", "z"), [[3]], "reshape lookup reshape", [INDICES], rank=2),
}
PRODUCTS = {
    "a row": Composed(node("MatMul", "x y", "z"), [[4], [2, 4, 3]], "reshape matmul reshape", rank=2),
    "a column": Composed(node("MatMul", "x y", "z"), [["n", 2, 4], [4]], "reshape matmul reshape", rank=2),
    "a number": Composed(node("MatMul", "x y", "z"), [[4], [4]], "reshape reshape matmul reshape", rank=0),
    "matrices": einsum("ij,jk->ik", [2, 3], [3, 5], lifted="matmul"),
    "matrices, as their order says": einsum("ij,jk", [2, 3], [3, 5], lifted="matmul"),
    "scores of heads": einsum(
        "bihd,bjhd->bhij", ["n", 4, 2, 3], ["n", 5, 2, 3], lifted="transpose transpose matmul"
    ),
    "a weight": einsum("bqd,de->bqe", ["n", 4, 3], [3, 5], lifted="reshape matmul reshape"),
    "two axes summed": einsum(
        "bhqd,hde->bqe",
        [2, 3, 4, 5],
        [3, 5, 6],
        lifted="transpose reshape reshape matmul reshape",
    ),
    "no axis summed": einsum("i,j->ij", [2], [3], lifted="reshape reshape broadcast broadcast mul"),
    "element by element": einsum("bi,bi->bi", ["n", 3], ["n", 3], lifted="mul"),
    "an axis of one operand summed": einsum(
        "ijk,jl->il", [2, 3, 4], [3, 5], lifted="reduce_sum reshape matmul"
    ),
    "one operand": einsum("ijk->ki", [2, 3, 4], lifted="reduce_sum reshape transpose"),
    "nothing": einsum("ij->ij", [2, 3], lifted="identity"),
    "three operands": einsum("ai,ij,jc->ac", [4, 2], [2, 3], lifted="matmul matmul"),
    "a diagonal": einsum("ii->i", [3, 3], lifted="its equation ii->i takes a diagonal"),
    "any axes": einsum("...ij->...ji", [2, 3], lifted="its equation is ...ij->...ji"),
    "blocks from channels": Composed(
        node("DepthToSpace", "x", "z", blocksize=2), [["n", 12, 3, "w"]], "reshape transpose reshape"
    ),
    "blocks from channels, channels first": Composed(
        node("DepthToSpace", "x", "z", blocksize=3, mode="CRD"), [[2, 18, 3, 4]], "reshape transpose reshape"
    ),
    "sizes that may differ": einsum(
        "ij,jk->ik", [2, "m"], ["n", 5], lifted="whether m and n are equal is only known at run time"
    ),
}
CASES = {**ACTIVATIONS, **NORMALISATIONS, **NORMS, **ROWS, **PRODUCTS}

FASTER = {
    "softsign": Composed(node("Softsign", "x", "z"), [["n", 4]], "absolute broadcast add div"),
    "thresholded relu": Composed(
        node("ThresholdedRelu", "x", "z", alpha=0.5), [[3, 4]], "broadcast greater broadcast select"
    ),
    "instances": Composed(
        node("InstanceNormalization", "x s b", "z", epsilon=0.25),
        [[2, 6, 3, 4]],
        "reshape broadcast broadcast layer_normalization reshape affine",
        VECTORS,
    ),
    "instances of a sequence": Composed(
        node("InstanceNormalization", "x s b", "z"),
        [["n", 6, "t"]],
        "broadcast broadcast layer_normalization affine",
        VECTORS,
    ),
    "channels from blocks": Composed(
        node("SpaceToDepth", "x", "z", blocksize=2), [["n", 3, 4, 6]], "reshape transpose reshape"
    ),
    "channels from blocks of an open size": Composed(
        node("SpaceToDepth", "x", "z", blocksize=2),
        [["n", 3, 4, "w"]],
        "reshape: dimensions 12*n*w and 24*floor((w) / (2))*n must be equal",
    ),
    "copies": Composed(
        node("Tile", "x t", "z"),
        [[2, "n", 4]],
        "reshape broadcast reshape",
        [tensor("t", [3, 1, 2], np.int64)],
    ),
    "copies of what has one": Composed(
        node("Tile", "x t", "z"),
        [[1, 4]],
        "reshape broadcast reshape",
        [tensor("t", [3, 1], np.int64)],
    ),
    "one copy": Composed(node("Tile", "x t", "z"), [[2, 4]], "identity", [tensor("t", [1, 1], np.int64)]),
    "no copy": Composed(
        node("Tile", "x t", "z"), [[2, 4]], "it repeats nothing", [tensor("t", [0, 1], np.int64)]
    ),
    "columns": Composed(
        node("Gather", "x i", "z", axis=-1),
        [["n", 4, 3]],
        "transpose reshape lookup reshape transpose",
        [INDICES],
        rank=4,
    ),
}
"""Nodes that the runtime runs faster than what they are made of."""


def made(graph: Graph) -> str:
    """The operators of a graph, in order."""
    operators = [graph[node].operator for node in graph.order]
    return " ".join(one.name for one in operators if not isinstance(one, Input | Weight))


def told(case: Composed, *, for_gradients: bool = False) -> str:
    """Why the node stays opaque, or its operators."""
    lifted = lift(load_model(case.model()), for_gradients=for_gradients)
    return "; ".join(reason for _, _, reason in lifted.opaque) or made(lifted.graph)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_node_is_lifted_and_computes_the_same(case: Composed) -> None:
    content = case.model()
    assert told(case) == case.lifted
    assert listing(written_as_it_was(content)) == listing(content)
    assert_same_results(content, written_anew(content), m=5, n=5, w=4)


@pytest.mark.parametrize("case", FASTER.values(), ids=FASTER)
def test_a_faster_node_is_lifted_for_its_gradient(case: Composed) -> None:
    content = case.model()
    assert told(case, for_gradients=True) == case.lifted
    assert told(case) == (
        "the indices are not positions in a row, and the axis is not the first"
        if case.node.op_type == "Gather"
        else "it is faster than the operators that it is made of"
    )
    assert_same_results(content, written_anew(content, for_gradients=True), m=5, n=5, w=4)


RESPELLED = {
    "celu": "Mul Elu Mul",
    "root": "Sqrt",
    "one over a root": "Sqrt Reciprocal",
    "cube": "",
    "one slope": "LeakyRelu",
    "groups": "Reshape LayerNormalization Reshape BatchNormalization",
    "log softmax of channels": "ReduceMax Sub Exp ReduceSum Log Sub",
    "log softmax of rows": "",
    "norm": "Mul ReduceSum Reshape Sqrt",
    "sum of squares": "",
    "logarithm of a sum": "ReduceSum Log",
    "logarithm of a sum of exponentials": "ReduceMax Sub Exp ReduceSum Log Add Reshape",
    "a row": "",
    "a column": "Reshape MatMul Reshape",
    "scores of heads": "Transpose Transpose MatMul",
    "element by element": "Mul",
    "no axis summed": "Reshape Reshape Mul",
    "one operand": "ReduceSum Reshape Transpose",
}
"""What is written in the place of nodes; nothing where they stay."""


@pytest.mark.parametrize(("name", "written"), RESPELLED.items(), ids=RESPELLED)
def test_what_is_faster_in_parts_is_written_in_parts(name: str, written: str) -> None:
    content = CASES[name].model()
    lifted = lift(load_model(content))
    canonical = canonicalise(lifted)
    result = lower(lifted, canonical.graph, Plan()).to_bytes()
    op_type = CASES[name].node.op_type
    assert operators(result) == (written or op_type)
    told = [step.what for step in canonical.steps]
    assert told == ([f"{op_type} as the operators that it is made of"] if written else [])
    assert_same_results(content, result, n=5)
    kept = canonicalise(lifted, kept_nodes(lifted, ["composed"]))
    assert operators(lower(lifted, kept.graph, Plan()).to_bytes()) == op_type
