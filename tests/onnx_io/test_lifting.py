"""What ONNX nodes become in the graph, and what the graph is written as: texts that a person can read."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from superopt.ir.text import format_graph
from superopt.onnx_io import lift, load_model
from tests.onnx_io.forcing import written_anew
from tests.onnx_io.kit import assert_same_results, graph, listing, model, node, tensor, value, weight


@dataclass(frozen=True)
class Case:
    """A model by its nodes (the last one makes the output), its graph as text, and its nodes written anew."""

    name: str
    nodes: Sequence[onnx.NodeProto]
    inputs: Sequence[onnx.ValueInfoProto]
    lifted: str
    written: str
    weights: Sequence[TensorProto] = field(default=())
    opset: int = 17

    def model(self) -> bytes:
        """The model, its output typed by ONNX."""
        outputs = [onnx.ValueInfoProto(name=name) for name in self.nodes[-1].output]
        made = model(self.nodes, self.inputs, outputs, self.weights, opset=self.opset)
        inferred = onnx.shape_inference.infer_shapes(made, data_prop=True)
        made.graph.CopyFrom(graph(self.nodes, self.inputs, inferred.graph.output, self.weights))
        return made.SerializeToString()


CASES = (
    Case(
        "convolution with bias",
        [node("Conv", "x w b", "y", pads=[1, 1, 1, 1])],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            w = weight: f32[8, 4, 3, 3]
            %2 = conv[padding=same](x, w): f32[n, 8, 9, 9]
            b = weight: f32[8]
            %4 = bias_add[axis=1](%2, b): f32[n, 8, 9, 9]
            return %4
        """,
        written="""
            y = Conv(x, w, b)
        """,
        weights=[weight("w", 8, 4, 3, 3), weight("b", 8)],
    ),
    Case(
        "grouped pointwise convolution",
        [node("Conv", "x w", "y", group=2)],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            w = weight: f32[8, 2, 1, 1]
            %2 = conv[padding=same](x, w): f32[n, 8, 9, 9]
            return %2
        """,
        written="""
            y = Conv(x, w)
        """,
        weights=[weight("w", 8, 2, 1, 1)],
    ),
    Case(
        "convolution with automatic padding",
        [node("Conv", "x w", "y", auto_pad="SAME_UPPER", strides=[2, 2])],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            w = weight: f32[8, 4, 2, 2]
            %2 = conv[stride=(2, 2), padding=same_upper](x, w): f32[n, 8, 5, 5]
            return %2
        """,
        written="""
            y = Conv(x, w)
        """,
        weights=[weight("w", 8, 4, 2, 2)],
    ),
    Case(
        "convolution over one axis",
        [node("Conv", "x w", "y")],
        [value("x", [1, 2, 9])],
        lifted="""
            x = input: f32[1, 2, 9]
            w = weight: f32[8, 2, 3]
            %2 = opaque[domain=, op_type=Conv, index=0, reason=the convolution is over 1 axes, not 2](x, w): f32[1, 8, 7]
            return %2
        """,
        written="""
            y = Conv(x, w)
        """,
        weights=[weight("w", 8, 2, 3)],
    ),
    Case(
        "batch normalisation",
        [node("BatchNormalization", "x s b m v", "y", epsilon=0.001)],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            s = weight: f32[4]
            b = weight: f32[4]
            m = weight: f32[4]
            v = weight: f32[4]
            %5 = batchnorm_scale[epsilon=1/1000](s, v): f32[4]
            %6 = batchnorm_shift(%5, b, m): f32[4]
            %7 = affine[axis=1](x, %5, %6): f32[n, 4, 9, 9]
            return %7
        """,
        written="""
            y = BatchNormalization(x, superopt/weight_0, superopt/weight_1, superopt/zeros_2, superopt/ones_3)
        """,
        weights=[weight(name, 4) for name in "sbmv"],
    ),
    Case(
        "affine step",
        [node("BatchNormalization", "x s b m v", "y", epsilon=0.0)],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            s = weight: f32[4]
            b = weight: f32[4]
            %3 = affine[axis=1](x, s, b): f32[n, 4, 9, 9]
            return %3
        """,
        written="""
            y = BatchNormalization(x, s, b, superopt/zeros_0, superopt/ones_1)
        """,
        weights=[weight("s", 4), weight("b", 4), tensor("m", [0] * 4), tensor("v", [1] * 4)],
    ),
    Case(
        "product with transposed weight and factor",
        [node("Gemm", "x w c", "y", transB=1, alpha=0.5)],
        [value("x", ["n", 3])],
        lifted="""
            x = input: f32[n, 3]
            w = weight: f32[5, 3]
            %2 = transpose(w): f32[3, 5]
            %3 = matmul(x, %2): f32[n, 5]
            superopt/number/0.5/float = weight: f32[]
            %5 = scale(%3, superopt/number/0.5/float): f32[n, 5]
            c = weight: f32[5]
            %7 = bias_add[axis=-1](%5, c): f32[n, 5]
            return %7
        """,
        written="""
            superopt/matmul_3 = MatMul(x, superopt/weight_0)
            superopt/scale_5 = Mul(superopt/matmul_3, superopt/weight_1)
            y = Add(superopt/scale_5, c)
        """,
        weights=[weight("w", 5, 3), weight("c", 5)],
    ),
    Case(
        "product with transposed weight",
        [node("Gemm", "x w c", "y", transB=1)],
        [value("x", ["n", 3])],
        lifted="""
            x = input: f32[n, 3]
            w = weight: f32[5, 3]
            %2 = transpose(w): f32[3, 5]
            %3 = matmul(x, %2): f32[n, 5]
            c = weight: f32[5]
            %5 = bias_add[axis=-1](%3, c): f32[n, 5]
            return %5
        """,
        written="""
            y = Gemm(x, w, c)
        """,
        weights=[weight("w", 5, 3), weight("c", 5)],
    ),
    Case(
        "weights per channel",
        [node("Add", "x b", "a"), node("Mul", "s a", "c"), node("Sub", "c b", "y")],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            b = weight: f32[4, 1, 1]
            %2 = reshape[shape=(4)](b): f32[4]
            %3 = bias_add[axis=1](x, %2): f32[n, 4, 9, 9]
            s = weight: f32[9]
            %5 = channel_scale[axis=-1](%3, s): f32[n, 4, 9, 9]
            superopt/number/-1.0/float = weight: f32[]
            %7 = scale(b, superopt/number/-1.0/float): f32[4, 1, 1]
            %8 = reshape[shape=(4)](%7): f32[4]
            %9 = bias_add[axis=1](%5, %8): f32[n, 4, 9, 9]
            return %9
        """,
        written="""
            a = Add(x, b)
            c = Mul(a, s)
            y = Add(c, superopt/weight_0)
        """,
        weights=[weight("b", 4, 1, 1), weight("s", 9)],
    ),
    Case(
        "a weight minus a tensor",
        [node("Sub", "b x", "y")],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            b = weight: f32[4, 1, 1]
            %2 = broadcast[shape=(n, 4, 9, 9)](b): f32[n, 4, 9, 9]
            %3 = sub(%2, x): f32[n, 4, 9, 9]
            return %3
        """,
        written="""
            y = Sub(b, x)
        """,
        weights=[weight("b", 4, 1, 1)],
    ),
    Case(
        "one number",
        [
            node("Mul", "x k", "a"),
            node("Div", "a two", "b"),
            node("Div", "b three", "c"),
            node("Add", "c k", "y"),
        ],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            k = weight: f32[1, 1]
            %2 = reshape[shape=()](k): f32[]
            %3 = scale(x, %2): f32[n, 4, 9, 9]
            two = weight: f32[]
            superopt/number/0.5/float = weight: f32[]
            %6 = scale(%3, superopt/number/0.5/float): f32[n, 4, 9, 9]
            three = weight: f32[1]
            %8 = broadcast[shape=(n, 4, 9, 9)](three): f32[n, 4, 9, 9]
            %9 = div(%6, %8): f32[n, 4, 9, 9]
            %10 = broadcast[shape=(n, 4, 9, 9)](k): f32[n, 4, 9, 9]
            %11 = add(%9, %10): f32[n, 4, 9, 9]
            return %11
        """,
        written="""
            a = Mul(x, k)
            b = Mul(a, superopt/weight_0)
            c = Div(b, three)
            y = Add(c, k)
        """,
        weights=[weight("k", 1, 1), tensor("two", 2.0), tensor("three", [3.0])],
    ),
    Case(
        "batched products",
        [node("MatMul", "x w", "a"), node("MatMul", "a z", "y")],
        [value("x", ["n", 2, 3, 4]), value("z", [2, 5, 6])],
        lifted="""
            x = input: f32[n, 2, 3, 4]
            z = input: f32[2, 5, 6]
            w = weight: f32[4, 5]
            %3 = matmul(x, w): f32[n, 2, 3, 5]
            %4 = broadcast[shape=(n, 2, 5, 6)](z): f32[n, 2, 5, 6]
            %5 = matmul(%3, %4): f32[n, 2, 3, 6]
            return %5
        """,
        written="""
            a = MatMul(x, w)
            y = MatMul(a, z)
        """,
        weights=[weight("w", 4, 5)],
    ),
    Case(
        "reshapes",
        [
            node("Reshape", "x s", "a"),
            node("Flatten", "a", "b"),
            node("Unsqueeze", "b z", "c"),
            node("Squeeze", "c z", "y"),
        ],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = reshape[shape=(n, 2, 18, 9)](x): f32[n, 2, 18, 9]
            %2 = reshape[shape=(n, 324)](%1): f32[n, 324]
            %3 = reshape[shape=(1, n, 324)](%2): f32[1, n, 324]
            %4 = reshape[shape=(n, 324)](%3): f32[n, 324]
            return %4
        """,
        written="""
            a = Reshape(x, superopt/shape_0)
            b = Reshape(a, superopt/shape_1)
            c = Reshape(b, superopt/shape_2)
            y = Reshape(c, superopt/shape_3)
        """,
        weights=[tensor("s", [0, 2, -1, 9], np.int64), tensor("z", [0], np.int64)],
    ),
    Case(
        "reshape of unknown sizes",
        [node("Reshape", "x s", "y")],
        [value("x", ["n", "t", 8])],
        lifted="""
            x = input: f32[n, t, 8]
            %1 = reshape[shape=(n*t, 8)](x): f32[n*t, 8]
            return %1
        """,
        written="""
            y = Reshape(x, superopt/shape_0)
        """,
        weights=[tensor("s", [-1, 8], np.int64)],
    ),
    Case(
        "reshape to a computed shape",
        [node("Shape", "z", "s"), node("Reshape", "x s", "y")],
        [value("x", [6]), value("z", [2, 3])],
        lifted="""
            x = input: f32[6]
            z = input: f32[2, 3]
            %2 = opaque[domain=, op_type=Shape, index=0, reason=no operator describes it](z): i64[2]
            %3 = opaque[domain=, op_type=Reshape, index=1, reason=the shape is computed at run time](x, %2): f32[2, 3]
            return %3
        """,
        written="""
            s = Shape(z)
            y = Reshape(x, s)
        """,
    ),
    Case(
        "transpositions",
        [node("Transpose", "x", "a"), node("Transpose", "a", "y", perm=[0, 1, 3, 2])],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = transpose[perm=(3, 2, 1, 0)](x): f32[9, 9, 4, n]
            %2 = transpose(%1): f32[9, 9, n, 4]
            return %2
        """,
        written="""
            a = Transpose(x)
            y = Transpose(a)
        """,
    ),
    Case(
        "split and concat",
        [node("Split", "x", "a b", axis=1), node("Concat", "b a", "y", axis=-3)],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = split[axis=1, sizes=(2, 2)](x): f32[n, 2, 9, 9], f32[n, 2, 9, 9]
            %2 = concat[axis=-3](%1.1, %1.0): f32[n, 4, 9, 9]
            return %2
        """,
        written="""
            a, b = Split(x, superopt/shape_0)
            y = Concat(b, a)
        """,
    ),
    Case(
        "split by an attribute",
        [node("Split", "x", "a b", axis=1, split=[1, 3]), node("Concat", "b a", "y", axis=1)],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = split[axis=1, sizes=(1, 3)](x): f32[n, 1, 9, 9], f32[n, 3, 9, 9]
            %2 = concat[axis=1](%1.1, %1.0): f32[n, 4, 9, 9]
            return %2
        """,
        written="""
            a, b = Split(x)
            y = Concat(b, a)
        """,
        opset=11,
    ),
    Case(
        "poolings",
        [
            node("MaxPool", "x", "a", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
            node("AveragePool", "a", "b", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1),
            node("GlobalAveragePool", "b", "y"),
        ],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = maxpool[kernel=(3, 3), stride=(2, 2)](x): f32[n, 4, 4, 4]
            %2 = avgpool[kernel=(3, 3), padding=same, includes_padding=1](%1): f32[n, 4, 4, 4]
            %3 = global_avgpool(%2): f32[n, 4, 1, 1]
            return %3
        """,
        written="""
            a = MaxPool(x)
            b = AveragePool(a)
            y = GlobalAveragePool(b)
        """,
    ),
    Case(
        "pooling that rounds up",
        [node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = maxpool[kernel=(2, 2), stride=(2, 2), padding=(0, 0, 1, 1)](x): f32[n, 4, 5, 5]
            return %1
        """,
        written="""
            y = MaxPool(x)
        """,
    ),
    Case(
        "activations",
        [
            node("HardSigmoid", "x", "a", alpha=0.1),
            node("HardSwish", "a", "b"),
            node("Pow", "b e", "c"),
            node("Softmax", "c", "y", axis=1),
        ],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = hard_sigmoid[alpha=1/10](x): f32[n, 4, 9, 9]
            %2 = hard_swish(%1): f32[n, 4, 9, 9]
            %3 = power[exponent=2](%2): f32[n, 4, 9, 9]
            %4 = softmax[axis=1](%3): f32[n, 4, 9, 9]
            return %4
        """,
        written="""
            a = HardSigmoid(x)
            b = HardSwish(a)
            c = Pow(b, superopt/number_0)
            y = Softmax(c)
        """,
        weights=[tensor("e", 2, np.int64)],
    ),
    Case(
        "softmax of several axes",
        [node("Softmax", "x", "y")],
        [value("x", [2, 3, 4])],
        lifted="""
            x = input: f32[2, 3, 4]
            %1 = opaque[domain=, op_type=Softmax, index=0, reason=in operator set 11 it spans all axes from 1 on](x): f32[2, 3, 4]
            return %1
        """,
        written="""
            y = Softmax(x)
        """,
        opset=11,
    ),
    Case(
        "softmax of the last axis",
        [node("Softmax", "x", "y")],
        [value("x", [2, 3])],
        lifted="""
            x = input: f32[2, 3]
            %1 = softmax[axis=1](x): f32[2, 3]
            return %1
        """,
        written="""
            y = Softmax(x)
        """,
        opset=11,
    ),
    Case(
        "integers",
        [node("Add", "x x", "y")],
        [value("x", [3], TensorProto.INT64)],
        lifted="""
            x = input: i64[3]
            %1 = opaque[domain=, op_type=Add, index=0, reason=int64 operands stay as they are: rules are over the reals](x, x): i64[3]
            return %1
        """,
        written="""
            y = Add(x, x)
        """,
    ),
    Case(
        "a sum of three",
        [node("Sum", "x x x", "y")],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = add(x, x): f32[n, 4, 9, 9]
            %2 = add(%1, x): f32[n, 4, 9, 9]
            return %2
        """,
        written="""
            superopt/add_1 = Add(x, x)
            y = Add(superopt/add_1, x)
        """,
    ),
    Case(
        "a constant",
        [node("Constant", "", "k", value_float=0.5), node("Mul", "x k", "y")],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            k = weight: f32[]
            %2 = scale(x, k): f32[n, 4, 9, 9]
            return %2
        """,
        written="""
            k = Constant()
            y = Mul(x, k)
        """,
    ),
    Case(
        "unknown dimensions",
        [node("Conv", "x w", "a", strides=[2, 2]), node("NonZero", "a", "z"), node("Relu", "a", "y")],
        [value("x", [None, 3, None, "W"])],
        lifted="""
            x = input: f32[x.0, 3, x.2, W]
            w = weight: f32[4, 3, 3, 3]
            %2 = conv[stride=(2, 2)](x, w): f32[x.0, 4, floor((x.2 + 1) / (2)) - 1, floor((W + 1) / (2)) - 1]
            %3 = opaque[domain=, op_type=NonZero, index=1, reason=no operator describes it](%2): i64[4, unk__5]
            %4 = relu(%2): f32[x.0, 4, floor((x.2 + 1) / (2)) - 1, floor((W + 1) / (2)) - 1]
            return %4
        """,
        written="""
            a = Conv(x, w)
            z = NonZero(a)
            y = Relu(a)
        """,
        weights=[weight("w", 4, 3, 3, 3)],
    ),
)

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@every_case
def test_the_graph_of_a_model(case: Case) -> None:
    assert format_graph(lift(load_model(case.model())).graph).splitlines() == lines(case.lifted)


@every_case
def test_the_nodes_of_a_graph(case: Case) -> None:
    written = written_anew(case.model())
    assert listing(written).splitlines() == lines(case.written)
    onnx.checker.check_model(written, full_check=True)
    assert_same_results(case.model(), written)


def test_symbols_say_where_they_are_from() -> None:
    case = next(case for case in CASES if case.name == "unknown dimensions")
    symbols = lift(load_model(case.model())).symbols
    assert {name: symbols[name] for name in ("x.0", "x.2", "W")} == {
        "x.0": "x, axis 0",
        "x.2": "x, axis 2",
        "W": "x, axis 3",
    }


def test_opaque_nodes_say_why() -> None:
    reasons = {case.name: why for case in CASES for _, _, why in lift(load_model(case.model())).opaque}
    assert reasons == {
        "convolution over one axis": "the convolution is over 1 axes, not 2",
        "reshape to a computed shape": "the shape is computed at run time",
        "softmax of several axes": "in operator set 11 it spans all axes from 1 on",
        "integers": "int64 operands stay as they are: rules are over the reals",
        "unknown dimensions": "no operator describes it",
    }
