"""Products by bilinear algorithms compute in ONNX Runtime what the plain product computes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx
import pytest

from superopt.domains import Array
from superopt.errors import UnsupportedError
from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.ir.dimensions import Dimension, symbol
from superopt.onnx_io import build_model
from superopt.onnx_io.protos import dtype_of
from superopt.ops.bilinear.product import BilinearMatmul, ProductTransform
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN, ProductAlgorithm
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.matrix import Matmul
from tests.onnx_io.kit import operators, session
from tests.ops.algorithms import product_algorithm, product_with_shared_sums


@dataclass(frozen=True)
class Case:
    """A product of data [..., rows, inner] and a matrix with so many columns, with a bias or without. The
    algorithm is searched for when a test runs, not when it is collected."""

    name: str
    data: tuple[int, ...]
    columns: int
    algorithm: Callable[[], ProductAlgorithm]
    batch: Dimension | None = None
    biased: bool = True
    computed: bool = False
    element: ElementType = ElementType.FLOAT
    opset: int = 17

    def __str__(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[Dimension, ...]:
        return (self.data[0] if self.batch is None else self.batch, *self.data[1:])

    @property
    def weights(self) -> dict[str, Array]:
        generator = np.random.default_rng(0)
        inner, dtype = self.data[-1], dtype_of(self.element)
        return {
            "w": (generator.normal(size=(inner, self.columns)) / np.sqrt(inner)).astype(dtype),
            "b": generator.normal(size=self.columns).astype(dtype),
        }

    def built(self, algorithm: ProductAlgorithm | None) -> bytes:
        """The product by the algorithm, or the plain one."""
        editor = Graph.empty().edit()
        data = editor.add(Input("x", TensorType(self.element, self.shape))).value
        kinds = (Input if self.computed else Weight), Weight
        matrix, bias = (
            editor.add(kind(label, TensorType(self.element, array.shape))).value
            for kind, (label, array) in zip(kinds, self.weights.items(), strict=True)
        )
        if algorithm:
            matrix = editor.add(ProductTransform(algorithm), [matrix]).value
            result = editor.add(BilinearMatmul(algorithm), [data, matrix]).value
        else:
            result = editor.add(Matmul(), [data, matrix]).value
        if self.biased:
            result = editor.add(BiasAdd(len(self.data) - 1), [result, bias]).value
        editor.set_outputs([result])
        return build_model(editor.build(), self.weights, self.opset)


MATRIX = Case("matrix", (8, 12), 10, product_with_shared_sums)
SEQUENCE = Case("sequence", (3, 8, 12), 10, product_with_shared_sums)
CASES = (
    MATRIX,
    SEQUENCE,
    replace(MATRIX, name="no bias", biased=False),
    replace(SEQUENCE, name="no bias, sequence", biased=False),
    replace(MATRIX, name="Strassen's own", algorithm=lambda: STRASSEN),
    replace(MATRIX, name="by definition", algorithm=lambda: DOT),
    replace(SEQUENCE, name="sequence by definition", algorithm=lambda: DOT),
    replace(MATRIX, name="three columns", algorithm=partial(product_algorithm, 2, 2, 3), columns=9),
    replace(MATRIX, name="one product", algorithm=partial(product_algorithm, 1, 1, 1)),
    replace(SEQUENCE, name="rank 4", data=(2, 3, 4, 6)),
    replace(SEQUENCE, name="unknown batch", batch=symbol("n")),
    replace(MATRIX, name="a matrix computed at run time", computed=True),
    replace(MATRIX, name="older operators", opset=9),
    replace(SEQUENCE, name="older operators, sequence", opset=11),
    replace(MATRIX, name="f64", element=ElementType.DOUBLE),
)
TOLERANCES = {ElementType.FLOAT: 2e-6, ElementType.DOUBLE: 1e-14}


def run(case: Case, content: bytes, data: Array) -> Array:
    given = {"x": data, **({"w": case.weights["w"]} if case.computed else {})}
    return np.asarray(session(content).run(None, given)[0])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_computes_the_plain_product(case: Case) -> None:
    built, plain = case.built(case.algorithm()), case.built(None)
    onnx.checker.check_model(built, full_check=True)
    data = np.random.default_rng(1).normal(size=case.data).astype(dtype_of(case.element))
    got, expected = (run(case, content, data) for content in (built, plain))
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCES[case.element] * np.abs(expected).max())


def test_an_open_batch_may_be_empty() -> None:
    case = replace(SEQUENCE, batch=symbol("n"))
    data = np.zeros((0, *case.data[1:]), np.float32)
    assert run(case, case.built(case.algorithm()), data).shape == (0, 8, 10)


@pytest.mark.parametrize("case", [MATRIX, SEQUENCE], ids=str)
def test_nodes(case: Case) -> None:
    """Two Splits, four sums of data, seven products of which five add what was summed before, two sums of
    products; the bias is added to two products, and its parts are folded before the run."""
    rest = {"Split": 2, "Reshape": 2, "Concat": 1}
    for biased, products, folded in (
        (False, {"MatMul": 2, "Gemm": 5}, {}),
        (True, {"Gemm": 7}, {"Reshape": 1, "MatMul": 1, "Split": 1}),
    ):
        built = replace(case, biased=biased).built(case.algorithm())
        counts = Counter(operators(built).replace("Sub", "Add").split())
        assert counts == Counter(rest) + Counter(products) + Counter(folded) + Counter(Add=6)


def test_sizes_must_be_known() -> None:
    editor = Graph.empty().edit()
    data = editor.add(Input("x", TensorType(ElementType.FLOAT, (1, 2 * symbol("n"), 4)))).value
    matrix = editor.add(Input("w", TensorType(ElementType.FLOAT, (14, 3)))).value
    editor.set_outputs(editor.add(BilinearMatmul(STRASSEN), [data, matrix]).values)
    with pytest.raises(UnsupportedError, match=r"bilinear_matmul: ONNX needs a known size here, got 2\*n"):
        build_model(editor.build(), {}, 17)
