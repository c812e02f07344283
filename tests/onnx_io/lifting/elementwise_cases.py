"""Activations and other steps of single numbers: their graphs and how they are written."""

# ruff: noqa: E501
from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.onnx_io.kit import node, tensor, value, weight
from tests.onnx_io.lifting.case import Case

ELEMENTWISE = (
    Case(
        "activations with exponentials",
        [
            node("Softplus", "x", "a"),
            node("Elu", "a", "b", alpha=0.5),
            node("Selu", "b", "c"),
            node("Celu", "c", "y"),
        ],
        [value("x", ["n", 4])],
        lifted="""
            x = input: f32[n, 4]
            %1 = softplus(x): f32[n, 4]
            %2 = elu[alpha=1/2](%1): f32[n, 4]
            %3 = elu[alpha=3974/2375](%2): f32[n, 4]
            superopt/number/1.0507009794507394/float = weight: f32[]
            %5 = scale(%3, superopt/number/1.0507009794507394/float): f32[n, 4]
            %6 = elu(%5): f32[n, 4]
            return %6
        """,
        written="""
            a = Softplus(x)
            b = Elu(a)
            superopt/elu_3 = Elu(b)
            c = Mul(superopt/elu_3, superopt/weight_0)
            y = Elu(c)
        """,
    ),
    Case(
        "slopes",
        [
            node("PRelu", "x s", "a"),
            node("PRelu", "a half", "b"),
            node("PRelu", "b last", "y"),
        ],
        [value("x", ["n", 4, 9, 5])],
        lifted="""
            x = input: f32[n, 4, 9, 5]
            s = weight: f32[4, 1, 1]
            %2 = reshape[shape=(4)](s): f32[4]
            %3 = prelu[axis=1](x, %2): f32[n, 4, 9, 5]
            %4 = leaky_relu[alpha=1/2](%3): f32[n, 4, 9, 5]
            last = weight: f32[5]
            %6 = prelu[axis=-1](%4, last): f32[n, 4, 9, 5]
            return %6
        """,
        written="""
            a = PRelu(x, s)
            b = LeakyRelu(a)
            y = PRelu(b, last)
        """,
        weights=[weight("s", 4, 1, 1), tensor("half", [0.5]), weight("last", 5)],
    ),
    Case(
        "slopes that are inputs",
        [node("PRelu", "x s", "a"), node("PRelu", "a one", "y")],
        [value("x", ["n", 4, 9, 5]), value("s", [4, 1, 1]), value("one", [1])],
        lifted="""
            x = input: f32[n, 4, 9, 5]
            s = input: f32[4, 1, 1]
            one = input: f32[1]
            %3 = reshape[shape=(4)](s): f32[4]
            %4 = prelu[axis=1](x, %3): f32[n, 4, 9, 5]
            %5 = reshape[shape=()](one): f32[]
            %6 = broadcast[shape=(5)](%5): f32[5]
            %7 = prelu[axis=-1](%4, %6): f32[n, 4, 9, 5]
            return %7
        """,
        written="""
            superopt/reshape_3 = Reshape(s, superopt/shape_0)
            superopt/prelu_4/vector = Reshape(superopt/reshape_3, superopt/shape_1)
            a = PRelu(x, superopt/prelu_4/vector)
            superopt/reshape_5 = Reshape(one, superopt/shape_2)
            superopt/broadcast_6 = Expand(superopt/reshape_5, superopt/shape_3)
            y = PRelu(a, superopt/broadcast_6)
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
        "clips",
        [
            node("Clip", "x zero six", "a"),
            node("Clip", "a zero", "b"),
            node("Clip", "b one six", "c"),
            node("Clip", "c one", "d"),
            node("Clip", "d - six", "e"),
            node("Clip", "e - endless", "f"),
            node("Relu", "f", "y"),
        ],
        [value("x", ["n", 4])],
        lifted="""
            x = input: f32[n, 4]
            %1 = hard_sigmoid[alpha=1/6, beta=0](x): f32[n, 4]
            superopt/number/6.0/float = weight: f32[]
            %3 = scale(%1, superopt/number/6.0/float): f32[n, 4]
            %4 = relu(%3): f32[n, 4]
            %5 = clip[low=1, high=6](%4): f32[n, 4]
            superopt/number/1.0/float = weight: f32[]
            %7 = broadcast[shape=(n, 4)](superopt/number/1.0/float): f32[n, 4]
            %8 = maximum(%5, %7): f32[n, 4]
            superopt/number/6.0/float = weight: f32[]
            %10 = broadcast[shape=(n, 4)](superopt/number/6.0/float): f32[n, 4]
            %11 = minimum(%8, %10): f32[n, 4]
            %12 = identity(%11): f32[n, 4]
            %13 = relu(%12): f32[n, 4]
            return %13
        """,
        written="""
            a = Clip(x, superopt/number_0, superopt/number_1)
            b = Relu(a)
            c = Clip(b, superopt/number_2, superopt/number_1)
            d = Max(c, superopt/number_2)
            e = Min(d, superopt/number_1)
            y = Relu(e)
        """,
        weights=[tensor("zero", 0), tensor("one", 1), tensor("six", 6), tensor("endless", np.inf)],
    ),
    Case(
        "what changes nothing",
        [
            node("Pad", "x none", "a"),
            node("Cast", "a", "b", to=TensorProto.FLOAT),
            node("Relu", "b", "y"),
        ],
        [value("x", ["n", 4])],
        lifted="""
            x = input: f32[n, 4]
            %1 = identity(x): f32[n, 4]
            %2 = identity(%1): f32[n, 4]
            %3 = relu(%2): f32[n, 4]
            return %3
        """,
        written="""
            y = Relu(x)
        """,
        weights=[tensor("none", [0, 0, 0, 0], np.int64)],
    ),
    Case(
        "softmax of several axes",
        [node("Softmax", "x", "y")],
        [value("x", [2, 3, 4])],
        lifted="""
            x = input: f32[2, 3, 4]
            %1 = reshape[shape=(2, 12)](x): f32[2, 12]
            %2 = softmax[axis=1](%1): f32[2, 12]
            %3 = reshape[shape=(2, 3, 4)](%2): f32[2, 3, 4]
            return %3
        """,
        written="""
            superopt/reshape_1 = Reshape(x, superopt/shape_0)
            superopt/softmax_2 = Softmax(superopt/reshape_1)
            y = Reshape(superopt/softmax_2, superopt/shape_1)
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
        "log-softmax of the last axis",
        [node("LogSoftmax", "x", "y")],
        [value("x", [2, 3])],
        lifted="""
            x = input: f32[2, 3]
            %1 = log_softmax[axis=1](x): f32[2, 3]
            return %1
        """,
        written="""
            y = LogSoftmax(x)
        """,
        opset=11,
    ),
    Case(
        "integers",
        [
            node("Add", "x x", "a"),
            node("Unsqueeze", "a z", "b"),
            node("Max", "b x", "c"),
            node("Div", "c two", "y"),
        ],
        [value("x", [3], TensorProto.INT64)],
        lifted="""
            x = input: i64[3]
            %1 = add(x, x): i64[3]
            %2 = reshape[shape=(1, 3)](%1): i64[1, 3]
            %3 = broadcast[shape=(1, 3)](x): i64[1, 3]
            %4 = maximum(%2, %3): i64[1, 3]
            two = weight: i64[]
            %6 = opaque[domain=, op_type=Div, index=3, reason=int64 operands stay as they are: rules are over the reals](%4, two): i64[1, 3]
            return %6
        """,
        written="""
            a = Add(x, x)
            b = Reshape(a, superopt/shape_0)
            c = Max(b, x)
            y = Div(c, two)
        """,
        weights=[tensor("z", [0], np.int64), tensor("two", 2, np.int64)],
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
        [node("Constant", "", "k", value_float=0.25), node("Mul", "x k", "y")],
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
        "numbers of which rules speak",
        [node("Mul", "x h", "a"), node("Tanh", "a", "b"), node("Add", "b o", "c"), node("Mul", "t c", "y")],
        [value("x", ["n", 4])],
        lifted="""
            x = input: f32[n, 4]
            h = weight: f32[]
            %2 = full[value=1/2, shape=()](): f32[]
            %3 = scale(x, %2): f32[n, 4]
            %4 = tanh(%3): f32[n, 4]
            o = weight: f32[1]
            %6 = ones[shape=(n, 4)](): f32[n, 4]
            %7 = add(%4, %6): f32[n, 4]
            t = weight: f32[]
            %9 = full[value=2, shape=()](): f32[]
            %10 = scale(%7, %9): f32[n, 4]
            return %10
        """,
        written="""
            a = Mul(x, superopt/weight_0)
            b = Tanh(a)
            c = Add(b, superopt/number_1)
            y = Mul(c, superopt/weight_2)
        """,
        weights=[tensor("h", 0.5), tensor("o", [1.0]), tensor("t", 2.0)],
    ),
)
