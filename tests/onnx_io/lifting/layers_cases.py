"""Convolutions, normalisations and products: what they become in the graph and how they are written."""

# ruff: noqa: E501
from __future__ import annotations

from tests.onnx_io.kit import node, tensor, value, weight
from tests.onnx_io.lifting.case import Case

LAYERS = (
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
        "automatic padding that crops after one that does not",
        [
            node("Conv", "x w", "z", auto_pad="SAME_UPPER", strides=[2, 2]),
            node("Conv", "z w", "y", auto_pad="SAME_UPPER", strides=[3, 3]),
        ],
        [value("x", [1, 4, 8, 8])],
        lifted="""
            x = input: f32[1, 4, 8, 8]
            w = weight: f32[4, 4, 1, 1]
            %2 = conv[stride=(2, 2), padding=same_upper](x, w): f32[1, 4, 4, 4]
            %3 = opaque[domain=, op_type=Conv, index=1, reason=auto_pad is SAME_UPPER, and strides are longer than windows](%2, w): f32[1, 4, 2, 2]
            return %3
        """,
        written="""
            z = Conv(x, w)
            y = Conv(z, w)
        """,
        weights=[weight("w", 4, 4, 1, 1)],
    ),
    Case(
        "convolution over one axis",
        [node("Conv", "x w", "y")],
        [value("x", [1, 2, 9])],
        lifted="""
            x = input: f32[1, 2, 9]
            %1 = reshape[shape=(1, 2, 1, 9)](x): f32[1, 2, 1, 9]
            w = weight: f32[8, 2, 3]
            %3 = reshape[shape=(8, 2, 1, 3)](w): f32[8, 2, 1, 3]
            %4 = conv(%1, %3): f32[1, 8, 1, 7]
            %5 = reshape[shape=(1, 8, 7)](%4): f32[1, 8, 7]
            return %5
        """,
        written="""
            superopt/reshape_1 = Reshape(x, superopt/shape_0)
            superopt/conv_4 = Conv(superopt/reshape_1, superopt/weight_1)
            y = Reshape(superopt/conv_4, superopt/shape_2)
        """,
        weights=[weight("w", 8, 2, 3)],
    ),
    Case(
        "convolution over three axes",
        [node("Conv", "x w", "y")],
        [value("x", [1, 2, 5, 5, 5])],
        lifted="""
            x = input: f32[1, 2, 5, 5, 5]
            w = weight: f32[8, 2, 3, 3, 3]
            %2 = opaque[domain=, op_type=Conv, index=0, reason=it convolves a volume of fewer than 64 channels](x, w): f32[1, 8, 3, 3, 3]
            return %2
        """,
        written="""
            y = Conv(x, w)
        """,
        weights=[weight("w", 8, 2, 3, 3, 3)],
    ),
    Case(
        "sizes behind convolutions over one axis",
        [
            node("Conv", "x w", "a", strides=[2], pads=[1, 1]),
            node("Relu", "a", "b"),
            node("Conv", "b v", "c", auto_pad="SAME_UPPER"),
            node("Add", "c b", "y"),
        ],
        [value("x", [2, 2, "t"])],
        lifted="""
            x = input: f32[2, 2, t]
            %1 = reshape[shape=(2, 2, 1, t)](x): f32[2, 2, 1, t]
            w = weight: f32[8, 2, 3]
            %3 = reshape[shape=(8, 2, 1, 3)](w): f32[8, 2, 1, 3]
            %4 = conv[stride=(1, 2), padding=same](%1, %3): f32[2, 8, 1, floor((t + 1) / (2))]
            %5 = reshape[shape=(2, 8, floor((t + 1) / (2)))](%4): f32[2, 8, floor((t + 1) / (2))]
            %6 = relu(%5): f32[2, 8, floor((t + 1) / (2))]
            %7 = reshape[shape=(2, 8, 1, floor((t + 1) / (2)))](%6): f32[2, 8, 1, floor((t + 1) / (2))]
            v = weight: f32[8, 8, 3]
            %9 = reshape[shape=(8, 8, 1, 3)](v): f32[8, 8, 1, 3]
            %10 = conv[padding=same_upper](%7, %9): f32[2, 8, 1, floor((t + 1) / (2))]
            %11 = reshape[shape=(2, 8, floor((t + 1) / (2)))](%10): f32[2, 8, floor((t + 1) / (2))]
            %12 = add(%11, %6): f32[2, 8, floor((t + 1) / (2))]
            return %12
        """,
        written="""
            superopt/reshape_1 = Reshape(x, superopt/shape_0)
            superopt/conv_4 = Conv(superopt/reshape_1, superopt/weight_1)
            a = Reshape(superopt/conv_4, superopt/shape_2)
            b = Relu(a)
            superopt/reshape_7 = Reshape(b, superopt/shape_3)
            superopt/conv_10 = Conv(superopt/reshape_7, superopt/weight_4)
            c = Reshape(superopt/conv_10, superopt/shape_2)
            y = Add(c, b)
        """,
        weights=[weight("w", 8, 2, 3), weight("v", 8, 8, 3)],
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
            %10 = reshape[shape=()](k): f32[]
            %11 = broadcast[shape=(4)](%10): f32[4]
            %12 = bias_add[axis=1](%9, %11): f32[n, 4, 9, 9]
            return %12
        """,
        written="""
            a = Mul(x, superopt/weight_0)
            b = Mul(a, superopt/weight_1)
            c = Div(b, three)
            y = Add(c, superopt/weight_2)
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
)
