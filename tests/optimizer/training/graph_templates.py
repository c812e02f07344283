"""Nodes that random models grow by: one function for each kind, which picks operands and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto

from tests.optimizer.training.graph_growth import Growth, UnfitError
from tests.optimizer.training.graph_movements import MOVEMENTS

Template = Callable[[Growth], object]

_UNARY: Mapping[str, int] = {
    "Abs": 6, "Erf": 9, "Gelu": 20, "HardSigmoid": 6, "HardSwish": 14, "Identity": 1,
    "LeakyRelu": 6, "Neg": 6, "Relu": 6, "Sigmoid": 6, "Tanh": 6,
}  # fmt: skip
"""Operators of one operand, with the operator set that has them in this form."""


def unary(g: Growth) -> None:
    known = [name for name, since in _UNARY.items() if since <= g.opset]
    op_type = str(g.random.choice(["Cos", "Elu", "Sin", "Softplus"] if g.chance(0.03) else known))
    attributes: dict[str, object] = {}
    if op_type == "LeakyRelu" and g.chance(0.5):
        attributes["alpha"] = float(g.random.uniform(-0.5, 1.5))
    if op_type == "HardSigmoid" and g.chance(0.5):
        attributes |= {"alpha": 0.3, "beta": 0.4}
    if op_type == "Gelu" and g.chance(0.5):
        attributes["approximate"] = "tanh"
    g.node(op_type, [g.pick()], **attributes)


def bounded(g: Growth) -> None:
    """Exp, Log, Sqrt, Reciprocal of numbers for which float32 is precise."""
    squashed = g.node("Sigmoid", [g.pick()])
    raised = g.node("Add", [squashed, g.constant(0.5, np.float32)])
    op_type = str(g.random.choice(["Exp", "Log", "Sqrt", "Reciprocal"]))
    g.node(op_type, [raised])


def power(g: Growth) -> None:
    x = g.pick()
    exponent = float(g.random.choice([2, 3, 2, 0.5, -1, -0.5, 1.5, 1, 0]))
    if exponent not in (0, 1, 2, 3):
        x = g.node("Add", [g.node("Sigmoid", [x]), g.constant(0.5, np.float32)])
    g.node("Pow", [x, g.constant(exponent, np.float32)])


def binary(g: Growth) -> None:
    """A broadcast element-wise operator."""
    op_type = str(g.random.choice(["Add", "Sub", "Mul", "Div"]))
    x = g.pick()
    y = _partner(g, x)
    if op_type == "Div":
        y = g.node("Add", [g.node("Sigmoid", [y]), g.constant(0.5, np.float32)])
    g.node(op_type, [x, y] if g.chance(0.5) or op_type == "Div" else [y, x])


def _partner(g: Growth, x: str) -> str:
    """A tensor that broadcasts with x: a weight of fewer or smaller axes, or another tensor."""
    shape = g.shape(x)
    if g.chance(0.3):
        return g.pick(fits=lambda array: _broadcasts(array.shape, shape))
    if g.dynamic:
        shape = (1, *shape[1:]) if shape else shape
    sizes = [1 if g.chance(0.3) else size for size in shape][g.number(0, len(shape)) :]
    if not g.dynamic and g.chance(0.1):
        sizes = [2, *sizes] if len(sizes) == len(shape) < 4 else sizes
    return g.weight(sizes)


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def several(g: Growth) -> None:
    """Max, Min, Sum or Mean of one to three operands."""
    op_type = str(g.random.choice(["Max", "Min", "Sum", "Mean"], p=[0.35, 0.35, 0.25, 0.05]))
    x = g.pick()
    if g.opset < 8:
        y = g.weight(g.shape(x)) if not g.dynamic else x
        g.node(op_type, [x, y])
        return
    g.node(op_type, [x, *(_partner(g, x) for _ in range(g.number(0, 2)))])


def clip(g: Growth) -> None:
    x = g.pick()
    low, high = (-0.6, 0.7) if g.chance(0.6) else (0.0, 6.0) if g.chance(0.5) else (0.0, 1.0)
    if g.opset < 11:
        g.node("Clip", [x], min=low, max=high)
    else:
        upper = [g.constant(high, np.float32)] if g.chance(0.8) else []
        lower = g.constant(low, np.float32) if g.chance(0.8) or not upper else ""
        g.node("Clip", [x, lower, *upper])


def prelu(g: Growth) -> None:
    x = g.pick(2)
    channels = (g.shape(x)[1], *(1,) * (len(g.shape(x)) - 2))
    g.node("PRelu", [x, g.weight((1,) if g.chance(0.3) else channels)])


def choice(g: Growth) -> None:
    """Where, by a comparison."""
    if g.opset < 9:
        raise UnfitError("Where is newer")
    x = g.pick()
    op_type = str(g.random.choice(["Greater", "Less"] + ["GreaterOrEqual", "LessOrEqual"] * (g.opset >= 12)))
    condition = g.node(op_type, [x, _partner(g, x)])
    if g.chance(0.3):
        condition = g.node("Not", [condition])
    if g.chance(0.2):
        condition = g.node(
            str(g.random.choice(["And", "Or"])), [condition, g.node("Less", [x, _partner(g, x)])]
        )
    g.node("Where", [condition, x, _partner(g, x)] if g.chance(0.5) else [condition, _partner(g, x), x])


def matmul(g: Growth) -> None:
    x = g.pick(2, 4)
    shape = g.shape(x)
    inner = (shape[-1], g.number(1, 4))
    if g.chance(0.3):
        batch = [1 if g.chance(0.5) else size for size in shape[:-2]][g.number(0, len(shape) - 2) :]
        if g.dynamic and len(batch) == len(shape) - 2 and batch:
            batch[0] = 1
        g.node("MatMul", [x, g.weight((*batch, *inner))])
    elif g.chance(0.3):
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        other = g.node("Transpose", [x], perm=perm)
        g.node("MatMul", [x, other] if g.chance(0.5) else [other, x])
    elif g.chance(0.3) and not (g.dynamic and len(shape) == 2):
        g.node("MatMul", [g.weight((g.number(1, 4), shape[-2])), x])
    elif g.chance(0.03):
        g.node("MatMul", [x, g.weight((shape[-1],))])
    else:
        g.node("MatMul", [x, g.weight(inner)])


def gemm(g: Growth) -> None:
    x = g.pick(2, 2)
    trans_a, trans_b = int(g.chance(0.2) and not g.dynamic), int(g.chance(0.5))
    rows, inner = g.shape(x)[::-1] if trans_a else g.shape(x)
    columns = g.number(1, 5)
    w = g.weight((columns, inner) if trans_b else (inner, columns))
    attributes: dict[str, object] = {"transA": trans_a, "transB": trans_b}
    if g.chance(0.3):
        attributes |= {"alpha": 0.5, "beta": 2.0}
    shapes = [(columns,), (1, columns), (1,), (1, 1)] + [(rows, columns), (rows, 1)] * (not g.dynamic)
    bias = shapes[g.number(0, len(shapes) - 1)]
    operands = [x, w] if g.opset >= 11 and g.chance(0.3) else [x, w, g.weight(bias)]
    g.node("Gemm", operands, **attributes)


def einsum(g: Growth) -> None:
    if g.opset < 12:
        raise UnfitError("Einsum is newer")
    x = g.pick(3, 3)
    _, b, c = g.shape(x)
    equation, shape = [("abc,cd->abd", (c, 2)), ("abc,cb->ab", (c, b)), ("abc,dc->adb", (3, c))][
        g.number(0, 2)
    ]
    g.node("Einsum", [x, g.weight(shape)], equation=equation)


def _image(g: Growth) -> str:
    """A tensor with one to three axes of positions."""
    rank = int(g.random.choice([3, 4, 5], p=[0.2, 0.77, 0.03]))
    return g.pick(rank, rank)


def conv(g: Growth) -> None:
    x = _image(g)
    shape = g.shape(x)
    rank = len(shape) - 2
    groups = int(g.random.choice([d for d in range(1, shape[1] + 1) if shape[1] % d == 0]))
    kernel = g.numbers(1, 3, rank)
    attributes: dict[str, object] = {"kernel_shape": kernel} if g.chance(0.7) else {}
    attributes |= _windows(g, rank, kernel, dilated=True)
    filters = groups * g.number(1, 2)
    operands = [x, g.weight((filters, shape[1] // groups, *kernel))]
    operands += [g.weight((filters,))] if g.chance(0.5) else []
    g.node("Conv", operands, group=groups, **attributes)


def _windows(g: Growth, rank: int, kernel: list[int], *, dilated: bool) -> dict[str, object]:
    """Strides, dilations and margins."""
    found: dict[str, object] = {}
    if g.chance(0.6):
        found["strides"] = g.numbers(1, 3, rank)
    if dilated and g.chance(0.4):
        found["dilations"] = g.numbers(1, 2, rank)
    kind = g.number(0, 4)
    if kind in (0, 1):
        found["pads"] = [g.number(0, size - 1) for size in (*kernel, *kernel)]
    elif kind == 2 and "dilations" not in found:
        found["auto_pad"] = str(g.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    return found


def conv_transpose(g: Growth) -> None:
    x = _image(g)
    shape = g.shape(x)
    rank = len(shape) - 2
    groups = 1 if g.chance(0.6) else shape[1]
    kernel, strides = g.numbers(1, 3, rank), g.numbers(1, 2, rank)
    attributes: dict[str, object] = {"strides": strides, "kernel_shape": kernel}
    if g.chance(0.3):
        attributes["dilations"] = g.numbers(1, 2, rank)
    if g.chance(0.4):
        attributes["pads"] = [g.number(0, size - 1) for size in (*kernel, *kernel)]
    if g.chance(0.3):
        attributes["output_padding"] = [g.number(0, stride - 1) for stride in strides]
    each = g.number(1, 2)
    operands = [x, g.weight((shape[1], each, *kernel))]
    operands += [g.weight((groups * each,))] if g.chance(0.5) else []
    g.node("ConvTranspose", operands, group=groups, **attributes)


def pool(g: Growth) -> None:
    x = _image(g)
    rank = len(g.shape(x)) - 2
    op_type = str(g.random.choice(["MaxPool", "AveragePool"]))
    kernel = g.numbers(1, 3, rank)
    newer = g.opset >= (10 if op_type == "MaxPool" else 19)
    attributes = _windows(g, rank, kernel, dilated=newer and g.chance(0.3))
    if g.opset >= 10 and g.chance(0.3):
        attributes["ceil_mode"] = 1
    if op_type == "AveragePool" and g.chance(0.5):
        attributes["count_include_pad"] = 1
    g.node(op_type, [x], kernel_shape=kernel, **attributes)


def global_pool(g: Growth) -> None:
    g.node(str(g.random.choice(["GlobalAveragePool", "GlobalMaxPool"])), [g.pick(3, 5)])


def normalization(g: Growth) -> None:
    """A normalisation with its scale; over enough elements for float32."""
    names = ["BatchNormalization"] * 4 + ["LRN"] + ["InstanceNormalization"] * g.chance(0.1)
    names += ["LayerNormalization"] * 2 * (g.opset >= 17) + ["GroupNormalization"] * (g.opset >= 21)
    names += ["RMSNormalization"] * 2 * (g.opset >= 23)
    op_type = str(g.random.choice(names))
    x = g.pick(4 if op_type == "LRN" else 3 if op_type == "InstanceNormalization" else 2, 4)
    shape = g.shape(x)
    if op_type == "LRN":
        g.node("LRN", [x], size=2 * g.number(0, 2) + 1, alpha=0.1, beta=0.75, bias=1.0)
        return
    attributes: dict[str, object] = {"epsilon": 0.125}
    if op_type in ("LayerNormalization", "RMSNormalization"):
        axis = g.axis(len(shape), 1)
        if g.chance(0.7):
            axis = -1
        size = shape[axis % len(shape) :]
        attributes["axis"] = axis
    elif op_type == "GroupNormalization":
        groups = int(g.random.choice([d for d in range(1, shape[1] + 1) if shape[1] % d == 0]))
        attributes["num_groups"] = groups
        size = (groups if g.opset < 21 else shape[1],)
    else:
        size = (shape[1],)
    operands = [x, g.weight(size, 0.5, 1.5)]
    if op_type == "LayerNormalization" and g.chance(0.3):
        operands += []
    elif op_type != "RMSNormalization":
        operands += [g.weight(size)]
    if op_type == "BatchNormalization":
        operands += [g.constant(np.zeros(size), np.float32), g.constant(np.ones(size), np.float32)]
    g.node(op_type, operands, **attributes)


def softmax(g: Growth) -> None:
    x = g.pick(1)
    attributes: dict[str, object] = {} if g.chance(0.3) else {"axis": g.axis(len(g.shape(x)))}
    if g.opset < 13 and attributes.get("axis", 1) == 0 and g.dynamic:
        raise UnfitError("mixes samples")
    if g.opset < 13 and len(g.shape(x)) == 1:
        attributes = {"axis": 0}
    g.node(str(g.random.choice(["Softmax", "LogSoftmax"])), [x], **attributes)


_REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSumExp",
    "ReduceL1",
)


def reduction(g: Growth) -> None:
    weights = [20, 20, 15, 15, 1, 1, 1, 1]
    op_type = str(g.random.choice(_REDUCTIONS, p=np.array(weights) / sum(weights)))
    x = g.pick(1)
    axes = g.axes(len(g.shape(x)))
    is_operand = g.opset >= (13 if op_type == "ReduceSum" else 18)
    attributes: dict[str, object] = {} if g.chance(0.3) else {"keepdims": g.number(0, 1)}
    if g.chance(0.15):
        g.node(op_type, [x], **attributes)
    elif is_operand:
        g.node(op_type, [x, g.constant(axes)], **attributes)
    else:
        g.node(op_type, [x], axes=axes, **attributes)


def cast(g: Growth) -> None:
    """To double precision and back."""
    x = g.node("Cast", [g.pick()], to=TensorProto.DOUBLE)
    if g.chance(0.7):
        g.floats.remove(x)
        x = g.node(str(g.random.choice(["Tanh", "Sigmoid", "Neg", "Abs"])), [x])
    g.floats.remove(x)
    g.node("Cast", [x], to=TensorProto.FLOAT)


TEMPLATES: tuple[tuple[Template, float], ...] = (
    (unary, 5), (bounded, 2), (power, 1), (binary, 6), (several, 2), (clip, 1), (prelu, 1), (choice, 2),
    (matmul, 4), (gemm, 3), (einsum, 0.3), (conv, 4), (conv_transpose, 2), (pool, 3), (global_pool, 0.5),
    (normalization, 3), (softmax, 2), (reduction, 3), (cast, 0.5), *MOVEMENTS,
)  # fmt: skip
"""Each with how often it is tried, relative to the others."""
