"""Every registered operator means what ONNX Runtime computes for the nodes that it is written as."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import onnx
import pytest

from superopt.domains.floats import FloatDomain
from superopt.errors import UnsupportedError
from superopt.ir import ElementType, Graph, Input, Node, TensorType, Weight
from superopt.ir.text import format_operator
from superopt.onnx_io import build_model, lift, load_model
from superopt.onnx_io.emit.emission import EMITTERS
from superopt.ops import OPERATORS, Operator
from superopt.ops.bilinear.convolution import BilinearConv, FilterTransform
from superopt.ops.bilinear.filter_algorithms import KARATSUBA
from superopt.ops.bilinear.product import BilinearMatmul, ProductTransform
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN
from superopt.ops.elementwise.activation import (
    Erf,
    Gelu,
    HardSigmoid,
    HardSwish,
    LogSoftmax,
    Relu,
    Sigmoid,
    Silu,
    Softmax,
    Tanh,
)
from superopt.ops.elementwise.affine import Affine, BatchNormScale, BatchNormShift, BiasAdd, ChannelScale
from superopt.ops.elementwise.arithmetic import (
    Add,
    Divide,
    Identity,
    Multiply,
    Power,
    Scale,
    Sqrt,
    Subtract,
    Sum,
)
from superopt.ops.elementwise.order import Clip, Maximum, Minimum, PRelu
from superopt.ops.elementwise.precision import Cast
from superopt.ops.elementwise.selection import Equal, Greater, LogicalAnd, LogicalNot, LogicalOr, Select
from superopt.ops.filled import Full, Ones
from superopt.ops.images.convolution import (
    AveragePoolKernel,
    BandKernel,
    Conv,
    Enlarge,
    IdentityKernel,
    KernelResponse,
)
from superopt.ops.images.pooling import AveragePool, GlobalAveragePool, MaxPool
from superopt.ops.images.transposed import ConvTranspose, Flip
from superopt.ops.images.upsampling import LinearUpsample, NearestUpsample
from superopt.ops.lookup import Lookup
from superopt.ops.matrix import IdentityMatrix, Matmul, Transpose, keeps_order
from superopt.ops.normalization import LayerNormalization, LocalResponseNormalization, RmsNormalization
from superopt.ops.reduction import Exp, Log, ReduceMax, ReduceMean, ReduceMin, ReduceSum
from superopt.ops.shape import Broadcast, Concat, Reshape, Split
from tests.onnx_io.gradient_cases import GRADIENT_CASES
from tests.onnx_io.kit import session
from tests.ops.examples import examples

Shape = tuple[int, ...]
IMAGE: Shape = (2, 4, 7, 6)


@dataclass(frozen=True)
class Case:
    """An operator at input shapes; ``positive`` where it is defined for positive numbers only."""

    operator: Operator
    shapes: tuple[Shape, ...]
    positive: bool = False

    def __str__(self) -> str:
        return f"{format_operator(self.operator)} {' '.join('x'.join(map(str, s)) for s in self.shapes)}"


def convolutions() -> Iterator[Case]:
    for padding in ("valid", "same", "same_upper", "same_lower", (1, 0, 2, 1)):
        for stride in ((1, 1), (2, 1), (3, 2)):
            yield Case(Conv(stride=stride, padding=padding), (IMAGE, (6, 4, 3, 3)))
    for activation in ("relu", "sigmoid", "tanh"):
        yield Case(Conv(activation=activation), (IMAGE, (6, 4, 3, 1)))
    yield Case(Conv(padding="same", dilation=(2, 1)), (IMAGE, (4, 2, 3, 5)))
    yield Case(Conv(padding="same_lower"), (IMAGE, (8, 1, 2, 4)))


def poolings() -> Iterator[Case]:
    for padding in ("valid", "same", "same_upper", "same_lower", (1, 0, 2, 1)):
        for stride in ((1, 1), (2, 3)):
            for counted in (0, 1):
                yield Case(AveragePool((3, 3), stride, padding, counted), (IMAGE,))
            yield Case(MaxPool((3, 3), stride, padding), (IMAGE,))
    yield Case(MaxPool((2, 4), (2, 2), "same_upper"), (IMAGE,))


CASES = (
    *(
        Case(operator, ((2, 3), (2, 3)))
        for operator in (Add(), Sum(), Subtract(), Multiply(), Divide(), Maximum(), Minimum())
    ),
    *(Case(operator, ((), ())) for operator in (Add(), Multiply())),
    Case(Scale(), ((2, 3), ())),
    Case(Identity(), ((2, 3),)),
    Case(Sqrt(), ((2, 3),), positive=True),
    *(
        Case(Power(exponent), ((2, 3),), positive=True)
        for exponent in (2, 3, -1, Fraction(1, 2), Fraction(-3, 4))
    ),
    *(
        Case(operator, (IMAGE,))
        for operator in (
            Relu(),
            Sigmoid(),
            Tanh(),
            HardSigmoid(),
            HardSwish(),
            Silu(),
            Silu(Fraction(3, 2)),
            Erf(),
        )
    ),
    Case(HardSigmoid(Fraction(1, 3), Fraction(1, 7)), ((5,),)),
    *(Case(Clip(low, high), ((4, 5),)) for low, high in ((-1, 1), (0, 1), (Fraction(1, 3), 2))),
    Case(Log(), ((2, 3),), positive=True),
    Case(Gelu(), ((4, 5),)),
    Case(Gelu("tanh"), ((4, 5),)),
    *(Case(kind(axis), ((2, 3, 4),)) for kind in (Softmax, LogSoftmax) for axis in (0, 1, 2, -1, -2)),
    *(Case(Affine(axis), (IMAGE, (IMAGE[axis],), (IMAGE[axis],))) for axis in (0, 1, 3, -1)),
    Case(Affine(1), ((5, 3), (3,), (3,))),
    Case(Affine(0), ((5,), (5,), (5,))),
    *(Case(ChannelScale(axis), (IMAGE, (IMAGE[axis],))) for axis in (0, 1, -2, -1)),
    *(Case(PRelu(axis), (IMAGE, (IMAGE[axis],))) for axis in (0, 1, -2, -1)),
    *(Case(BiasAdd(axis), (IMAGE, (IMAGE[axis],))) for axis in (0, 1, -2, -1)),
    Case(BatchNormScale(Fraction(1, 100)), ((4,), (4,)), positive=True),
    Case(BatchNormShift(), ((4,), (4,), (4,))),
    *(Case(Matmul(), shapes) for shapes in (((2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)))),
    Case(Matmul(), ((2, 3), (5, 3, 4))),
    Case(Transpose(), (IMAGE,)),
    Case(Transpose((2, 0, 1)), ((2, 3, 4),)),
    Case(IdentityMatrix(3), ()),
    *convolutions(),
    *(
        Case(ConvTranspose(stride, margins, dilation), (IMAGE, (4, 6, 3, 2)))
        for stride in ((1, 1), (2, 3))
        for margins in ("valid", (1, 0, 2, 1))
        for dilation in ((1, 1), (2, 1))
    ),
    *(
        Case(BilinearConv(rows, columns, padding), (IMAGE, (6 * points, 4, *kernel)))
        for rows, columns, points, kernel in (
            (KARATSUBA, (), 3, (1, 3)),
            ((), KARATSUBA, 3, (2, 1)),
            (KARATSUBA, KARATSUBA, 9, (1, 1)),
            ((), (), 1, (3, 2)),
        )
        for padding in ("valid", (1, 0, 2, 1))
    ),
    Case(BilinearConv(KARATSUBA), (IMAGE, (2 * 3, 2, 1, 1))),
    Case(BilinearConv(KARATSUBA, (), (2, 0, 2, 0), (1, 0)), (IMAGE, (6 * 3, 4, 2, 3))),
    Case(BilinearConv((), KARATSUBA, "valid"), (IMAGE, (6 * 3, 4, 2, 2))),
    Case(BilinearConv((), KARATSUBA, "valid", (0, 0), (2, 2)), (IMAGE, (6 * 3, 4, 2, 1))),
    Case(BilinearConv(KARATSUBA, (), (2, 0, 1, 0), (0, 0), (2, 1)), (IMAGE, (6 * 3, 4, 1, 2))),
    *(
        Case(FilterTransform(rows, columns), ((4, 3, *kernel),))
        for rows, columns, kernel in (
            (KARATSUBA, (), (2, 3)),
            ((), KARATSUBA, (3, 2)),
            (KARATSUBA, KARATSUBA, (2, 2)),
            ((), (), (3, 2)),
        )
    ),
    Case(FilterTransform(KARATSUBA, KARATSUBA, (1, 0)), ((4, 3, 5, 4),)),
    Case(FilterTransform((), KARATSUBA, (0, 1)), ((4, 3, 2, 3),)),
    *(
        Case(BilinearMatmul(algorithm), (data, weight))
        for algorithm, data, weight in (
            (STRASSEN, (4, 6), (21, 5)),
            (STRASSEN, (3, 2, 4), (14, 2)),
            (DOT, (3, 4), (4, 5)),
            (DOT, (2, 3, 4), (4, 5)),
        )
    ),
    *(Case(ProductTransform(algorithm), ((4, 6),)) for algorithm in (STRASSEN, DOT)),
    Case(ConvTranspose((2, 2)), (IMAGE, (4, 1, 2, 2))),
    Case(ConvTranspose((1, 1), "same", (1, 2)), (IMAGE, (4, 1, 3, 5))),
    Case(ConvTranspose((2, 3), "same"), (IMAGE, (4, 1, 3, 1))),
    Case(Flip(), ((2, 3, 3, 2),)),
    Case(Enlarge((5, 3)), ((2, 3, 3, 1),)),
    Case(AveragePoolKernel((2, 3), 4), ()),
    Case(IdentityKernel((3, 1), 4), ()),
    Case(BandKernel(3, Fraction(1, 2), 5), ()),
    Case(KernelResponse(), ((6, 2, 3, 3), (4,))),
    *poolings(),
    *(Case(LocalResponseNormalization(size), (IMAGE,)) for size in (1, 3, 5)),
    Case(LocalResponseNormalization(3, Fraction(1, 5), Fraction(1, 2), 2), (IMAGE,)),
    Case(GlobalAveragePool(), (IMAGE,)),
    Case(Cast("f64"), ((2, 3),)),
    Case(Select(), ((4, 5), (4, 5), (4, 5))),
    *(Case(operator, ((4, 5), (4, 5))) for operator in (Equal(), Greater(), LogicalAnd(), LogicalOr())),
    Case(LogicalNot(), ((4, 5),)),
    *(Case(Lookup(), ((rows, 3), shape)) for rows in (1, 2, 6) for shape in ((), (5,), (4, 5))),
    Case(Exp(), ((2, 3),)),
    *(
        Case(reduce(axis), (IMAGE,))
        for reduce in (ReduceSum, ReduceMean, ReduceMax, ReduceMin)
        for axis in (0, 1, -2, -1)
    ),
    *(Case(RmsNormalization(), (shape, shape[-1:])) for shape in ((5,), (3, 4), (2, 3, 4))),
    *(Case(LayerNormalization(), (shape, shape[-1:], shape[-1:])) for shape in ((5,), (3, 4), (2, 3, 4))),
    Case(LayerNormalization(Fraction(1, 3)), ((3, 4), (4,), (4,))),
    *(Case(Concat(axis), ((2, 3, 1), (2, 3, 1))) for axis in (0, 2, -2)),
    Case(Concat(1), ((2, 3), (2, 1), (2, 4))),
    Case(Split(1, (1, 2, 3)), ((2, 6),)),
    Case(Split(-2, (4, 1)), ((5, 2),)),
    Case(Reshape((3, 2)), ((2, 3),)),
    Case(Reshape(()), ((1, 1),)),
    Case(Broadcast((5, 2, 3)), ((2, 1),)),
    *(
        Case(up(stride), (IMAGE,))
        for up in (NearestUpsample, LinearUpsample)
        for stride in ((2, 2), (3, 1), (4, 5))
    ),
    Case(LinearUpsample((3, 2)), ((1, 2, 1, 4),)),
    Case(Ones((2, 3)), ()),
    Case(Full(Fraction(1, 3), (2, 3)), ()),
)
TRIED = frozenset(case.operator.name for case in CASES)
ONE_NODE = {name: kind.onnx for name, kind in OPERATORS.items() if kind.onnx and name not in TRIED}
"""Forms of operators that are tried on examples."""

EXAMPLES = tuple(Case(e.operator, e.shapes) for name in sorted(ONE_NODE) for e in examples(name)[:4])

OLDEST = {
    "broadcast": 8,
    "equal": 11,
    "select": 9,
    "kernel_response": 8,
    "erf": 9,
    "gelu": 9,
    "lookup": 8,
    "upsample_linear": 11,
    "upsample_nearest": 11,
} | {name: form.since for name, form in ONE_NODE.items()}
"""Operator sets below which ONNX has no way to write an operator."""


def graph_of(case: Case) -> Graph:
    editor = Graph.empty().edit()
    inputs = [
        editor.add(Input(f"x{index}", TensorType(ElementType.FLOAT, shape))).value
        for index, shape in enumerate(case.shapes)
    ]
    editor.set_outputs(editor.add(case.operator, inputs).values)
    return editor.build()


def inputs_of(case: Case) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    arrays = [np.asarray(generator.normal(size=shape) * 2, np.float32) for shape in case.shapes]
    return [np.abs(array) + np.float32(0.1) for array in arrays] if case.positive else arrays


def test_every_registered_operator_is_tried() -> None:
    written = {name for name, kind in OPERATORS.items() if kind.onnx or kind in EMITTERS or not kind.inputs}
    gradients = {case.operator.name for case in GRADIENT_CASES}
    assert TRIED | ONE_NODE.keys() | gradients == written


@pytest.mark.parametrize("case", [*CASES, *EXAMPLES], ids=str)
@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17, 23])
def test_onnx_runtime_computes_what_the_operator_means(case: Case, opset: int) -> None:
    if opset < OLDEST.get(case.operator.name, 7) and case.operator != Gelu("tanh"):
        with pytest.raises(UnsupportedError, match=f"operator set {opset}"):
            build_model(graph_of(case), {}, opset)
        return
    built = build_model(graph_of(case), {}, opset)
    onnx.checker.check_model(built, full_check=True)
    arrays = inputs_of(case)
    given = {f"x{index}": array for index, array in enumerate(arrays)}
    got = session(built).run(None, given)
    expected = case.operator.evaluate(
        FloatDomain(), *(array.astype(np.float64)[np.newaxis] for array in arrays)
    )
    assert len(got) == len(expected)
    for ours, theirs in zip(expected, got, strict=True):
        assert theirs.shape == ours.shape[1:]
        np.testing.assert_allclose(theirs, ours[0], rtol=1e-4, atol=1e-5)


NOT_READ = ("enlarge", "flip", "lookup", "prelu")
"""Pad is not lifted, nor are positions in reverse, the rounding of numbers to indices and slopes that are
computed. Lookups by integers are tried in test_cuts.py, stored slopes in test_lifting.py."""

ROUND_TRIPS = [case for case in CASES if case.shapes and case.operator.name not in NOT_READ]
"""Operators without operands become initialisers."""


@pytest.mark.parametrize("case", ROUND_TRIPS, ids=str)
def test_lifting_reads_what_was_written(case: Case) -> None:
    """The same operator comes back, or operators that are lifted to the same once more; a number that is
    written as an attribute of two nodes becomes one weight, and a transposition of axes of size 1 becomes a
    reshape."""
    built = build_model(graph_of(case), {}, 21)
    lifted = lift(load_model(built))
    assert lifted.opaque == ()
    again = lift(load_model(build_model(lifted.graph, lifted.weight, 21)))
    names = [
        sorted(_name_as_written(graph, node) for node in graph if not isinstance(node.operator, Weight))
        for graph in (lifted.graph, again.graph)
    ]
    assert names[0] == names[1]


def _name_as_written(graph: Graph, node: Node) -> str:
    if isinstance(node.operator, Transpose):
        type_ = graph.type_of(node.inputs[0])
        assert isinstance(type_, TensorType)
        if keeps_order(node.operator.permutation(type_.rank), type_.shape):
            return Reshape.name
    return node.operator.name
