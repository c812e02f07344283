"""Shapes, poolings and what stays opaque: their graphs and how they are written."""

# ruff: noqa: E501
from __future__ import annotations

import numpy as np

from tests.onnx_io.kit import node, tensor, value, weight
from tests.onnx_io.lifting.case import Case

SHAPES = (
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
        [node("CumSum", "z first", "s"), node("Reshape", "x s", "y")],
        [value("x", [6])],
        lifted="""
            x = input: f32[6]
            z = weight: i64[2]
            first = weight: i64[1]
            %3 = opaque[domain=, op_type=CumSum, index=0, reason=no operator describes it](z, first): i64[2]
            %4 = opaque[domain=, op_type=Reshape, index=1, reason=the shape is computed at run time](x, %3): f32[unk__0, unk__1]
            return %4
        """,
        written="""
            s = CumSum(z, first)
            y = Reshape(x, s)
        """,
        weights=[tensor("z", [2, 1], np.int64), tensor("first", [0], np.int64)],
    ),
    Case(
        "transpositions",
        [node("Transpose", "x", "a"), node("Transpose", "a", "y", perm=[0, 1, 3, 2])],
        [value("x", ["n", 4, 3, 3])],
        lifted="""
            x = input: f32[n, 4, 3, 3]
            %1 = transpose[perm=(3, 2, 1, 0)](x): f32[3, 3, 4, n]
            %2 = transpose(%1): f32[3, 3, n, 4]
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
        "every second row and column",
        [node("Slice", "x s e a t", "y")],
        [value("x", ["n", 4, 9, 9])],
        lifted="""
            x = input: f32[n, 4, 9, 9]
            %1 = maxpool[kernel=(1, 1), stride=(2, 2)](x): f32[n, 4, 5, 5]
            return %1
        """,
        written="""
            y = MaxPool(x)
        """,
        weights=[
            tensor("s", [0, 0], np.int64),
            tensor("e", [2**63 - 1, 9], np.int64),
            tensor("a", [2, 3], np.int64),
            tensor("t", [2, 2], np.int64),
        ],
    ),
    Case(
        "images made larger and joined",
        [
            node("Resize", "x - twice", "a", mode="linear"),
            node(
                "Resize",
                "x - - sizes",
                "b",
                coordinate_transformation_mode="asymmetric",
                nearest_mode="floor",
            ),
            node("Concat", "a b", "c", axis=1),
            node("Conv", "c w", "y"),
        ],
        [value("x", [1, 2, 3, 3])],
        lifted="""
            x = input: f32[1, 2, 3, 3]
            %1 = upsample_linear[stride=(2, 2)](x): f32[1, 2, 6, 6]
            %2 = upsample_nearest[stride=(2, 2)](x): f32[1, 2, 6, 6]
            %3 = concat[axis=1](%1, %2): f32[1, 4, 6, 6]
            w = weight: f32[5, 4, 1, 1]
            %5 = split[axis=1, sizes=(2, 2)](w): f32[5, 2, 1, 1], f32[5, 2, 1, 1]
            %6 = concat[axis=1](%5.0, %5.1): f32[5, 4, 1, 1]
            %7 = conv[padding=same](%3, %6): f32[1, 5, 6, 6]
            return %7
        """,
        written="""
            a = Resize(x, , superopt/scales_0)
            b = Resize(x, , superopt/scales_0)
            c = Concat(a, b)
            y = Conv(c, superopt/weight_1)
        """,
        weights=[
            tensor("twice", [1, 1, 2, 2]),
            tensor("sizes", [1, 2, 6, 6], np.int64),
            weight("w", 5, 4, 1, 1),
        ],
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
