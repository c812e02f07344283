"""Products by bilinear algorithms are products, exactly, and other matrices are ill-typed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from superopt.domains import ExactDomain, PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.ir import ElementType, TensorType, symbol
from superopt.ops.bilinear.product import BilinearMatmul, ProductTransform
from superopt.ops.bilinear.product_algorithms import DOT, STRASSEN, ProductAlgorithm, sizes_of
from superopt.ops.matrix import Matmul
from tests.ops.algorithms import product_algorithm


@dataclass(frozen=True)
class Case:
    """A product, and the sizes of the one that the algorithm computes."""

    sizes: tuple[int, int, int]
    data: tuple[int, ...]
    weight: tuple[int, int]


CASES = (
    Case((2, 2, 2), (2, 2), (2, 2)),
    Case((2, 2, 2), (4, 6), (6, 2)),
    Case((2, 2, 2), (3, 4, 2), (2, 4)),
    Case((2, 2, 2), (2, 1, 2, 4), (4, 2)),
    Case((1, 2, 1), (3, 4), (4, 3)),
    Case((1, 1, 1), (3, 4), (4, 5)),
    Case((2, 2, 3), (2, 4, 4), (4, 3)),
    Case((3, 1, 2), (6, 2), (2, 4)),
)


def of(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_types_and_values_are_those_of_the_product(case: Case) -> None:
    algorithm = product_algorithm(*case.sizes)
    assert sizes_of("", algorithm) == case.sizes
    transform, blocks, plain = ProductTransform(algorithm), BilinearMatmul(algorithm), Matmul()
    (weight,) = transform.infer(of(*case.weight))
    assert blocks.infer(of(*case.data), weight) == plain.infer(of(*case.data), of(*case.weight))
    generator, exact, field = np.random.default_rng(0), ExactDomain(), PrimeFieldDomain()
    numbers = [exact.random(generator, 1, shape) for shape in (case.data, case.weight)]
    (expected,) = plain.evaluate(exact, *numbers)
    (got,) = blocks.evaluate(exact, numbers[0], *transform.evaluate(exact, numbers[1]))
    assert got.tolist() == expected.tolist()
    residues = [field.random(generator, 2, shape) for shape in (case.data, case.weight)]
    (wanted,) = plain.evaluate(field, *residues)
    (found,) = blocks.evaluate(field, residues[0], *transform.evaluate(field, residues[1]))
    assert (found.residue == wanted.residue).all()


LEFT, RIGHT, RESULT = STRASSEN
WRONG: dict[str, tuple[object, str]] = {
    "coefficient": (
        (((1, 1, 0, 1), *LEFT[1:]), RIGHT, RESULT),
        "no algorithm for a product of 2 x 2 and 2 x 2: result 0 has x[1] y[0] 1 times, expected 0",
    ),
    "factor": (
        (tuple(tuple(Fraction(entry, 2) for entry in row) for row in LEFT), RIGHT, RESULT),
        "no algorithm for a product of 2 x 2 and 2 x 2: result 0 has x[0] y[0] 1/2 times, expected 1",
    ),
    "order": ((LEFT, RIGHT[::-1], RESULT), "no algorithm for a product of 2 x 2 and 2 x 2: result 0 has"),
    "sizes": (
        (tuple(row[:3] for row in LEFT), RIGHT, RESULT),
        "expected matrices over n*k, k*m and n*m numbers, got 3, 4 and 4",
    ),
    "rows": (
        (LEFT[:6], RIGHT, RESULT),
        "expected equally many rows, one for each multiplication, got 6, 7, 7",
    ),
    "ragged": (((LEFT[0][:3], *LEFT[1:]), RIGHT, RESULT), "expected matrices with rows of equal length, got"),
    "two": ((LEFT, RIGHT), "expected three matrices (x, y, product), got"),
    "empty": ((LEFT, RIGHT, ()), "expected matrices with rows of equal length, got ()"),
    "vectors": ((1, 2, 3), "expected matrices with rows of equal length, got 1"),
    "number": (2, "expected three matrices (x, y, product), got 2"),
    "none": ((), "expected three matrices (x, y, product), got ()"),
    "words": (((("a",),),) * 3, "expected matrices of numbers, got"),
}


@pytest.mark.parametrize(("algorithm", "message"), WRONG.values(), ids=WRONG)
def test_matrices_that_compute_no_product_are_ill_typed(algorithm: ProductAlgorithm, message: str) -> None:
    for operator, types in (
        (ProductTransform(algorithm), (of(2, 2),)),
        (BilinearMatmul(algorithm), (of(2, 2), of(7, 1))),
    ):
        with pytest.raises(IllTypedError) as raised:
            operator.infer(*types)
        assert str(raised.value).startswith(f"{operator.name}: {message}")


def test_shapes_that_do_not_fit_are_ill_typed() -> None:
    integers = TensorType(ElementType.INT32, (2, 2))
    for operator, types, message in (
        (ProductTransform(STRASSEN), (of(3, 2),), "rows: 3 does not divide into 2 equal parts"),
        (ProductTransform(STRASSEN), (of(2, 3),), "columns: 3 does not divide into 2 equal parts"),
        (ProductTransform(STRASSEN), (of(2, 2, 2),), "rank"),
        (ProductTransform(STRASSEN), (integers,), "float"),
        (BilinearMatmul(STRASSEN), (of(3, 2), of(7, 1)), "rows: 3 does not divide into 2 equal parts"),
        (BilinearMatmul(STRASSEN), (of(2, 2), of(8, 1)), "8 does not divide into 7 equal parts"),
        (BilinearMatmul(STRASSEN), (of(2, 4), of(7, 1)), "bilinear_matmul"),
        (BilinearMatmul(STRASSEN), (of(2), of(7, 1)), "rank"),
        (BilinearMatmul(STRASSEN), (of(2, 2), of(1, 7, 1)), "rank"),
    ):
        with pytest.raises(IllTypedError, match=message):
            operator.infer(*types)


def test_an_open_number_of_samples_is_kept() -> None:
    data = TensorType(ElementType.FLOAT, (symbol("n"), 4, 6))
    assert BilinearMatmul(STRASSEN).infer(data, of(21, 5)) == (data.with_shape((symbol("n"), 4, 10)),)


def test_work_is_that_of_the_products_and_the_sums_of_blocks() -> None:
    """Strassen: 7 of 8 products; 5 sums of blocks of the data and 8 of products."""
    data, weight = of(3, 8, 16), of(7 * 8, 10)
    blocks = BilinearMatmul(STRASSEN)
    sums = 5 * 3 * 4 * 8 + 8 * 3 * 4 * 10
    assert (
        blocks.work((data, weight), blocks.infer(data, weight)).flops == 2 * 3 * 8 * 16 * 20 * 7 // 8 + sums
    )
    dot = BilinearMatmul(DOT)
    assert dot.work((of(2, 4), of(4, 3)), (of(2, 3),)).flops == 2 * 2 * 4 * 3 + 2 * 3
