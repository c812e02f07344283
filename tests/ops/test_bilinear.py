"""Convolutions by bilinear algorithms are convolutions, exactly, and other matrices are ill-typed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from superopt.domains import ExactDomain, PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.ir import ElementType, TensorType
from superopt.ops.bilinear.convolution import BilinearConv, FilterTransform
from superopt.ops.bilinear.filter_algorithms import KARATSUBA, FilterAlgorithm, by_definition
from superopt.ops.images.convolution import Conv
from superopt.ops.images.windows import Padding
from tests.ops.algorithms import algorithm

Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class Case:
    """A convolution, and the outputs of tiles along rows and columns."""

    image: Shape
    kernel: Shape
    tiles: tuple[int, int]
    padding: Padding = "valid"

    @property
    def algorithms(self) -> tuple[FilterAlgorithm, FilterAlgorithm]:
        rows, columns = map(algorithm, self.tiles, self.kernel[2:])
        return rows, columns


CASES = (
    *(
        Case((1, 2, 7, 6), (2, 2, 3, 3), tiles, padding)
        for tiles in ((0, 0), (2, 0), (0, 4), (2, 4), (6, 2), (1, 1))
        for padding in ("valid", "same", "same_upper", "same_lower", (2, 0, 1, 3))
    ),
    Case((2, 2, 5, 4), (2, 2, 3, 3), (2, 2), "same"),
    Case((1, 4, 5, 4), (6, 2, 3, 3), (2, 2), "same"),
    Case((1, 3, 5, 4), (6, 1, 3, 1), (4, 0), "same"),
    Case((1, 1, 6, 7), (1, 1, 5, 2), (4, 2), "valid"),
    Case((2, 1, 1, 9), (2, 1, 1, 5), (0, 6), "same"),
    Case((1, 1, 2, 1), (1, 1, 3, 3), (4, 4), "same"),
)


def of(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_types_and_values_are_those_of_the_convolution(case: Case) -> None:
    rows, columns = case.algorithms
    transform, tiled = FilterTransform(rows, columns), BilinearConv(rows, columns, case.padding)
    plain = Conv(padding=case.padding)
    (kernel,) = transform.infer(of(*case.kernel))
    assert tiled.infer(of(*case.image), kernel) == plain.infer(of(*case.image), of(*case.kernel))
    assert tiled.kernel(kernel) == of(*case.kernel)
    generator, exact, field = np.random.default_rng(0), ExactDomain(), PrimeFieldDomain()
    numbers = [exact.random(generator, 1, shape) for shape in (case.image, case.kernel)]
    (expected,) = plain.evaluate(exact, *numbers)
    (got,) = tiled.evaluate(exact, numbers[0], *transform.evaluate(exact, numbers[1]))
    assert got.tolist() == expected.tolist()
    residues = [field.random(generator, 2, shape) for shape in (case.image, case.kernel)]
    (wanted,) = plain.evaluate(field, *residues)
    (found,) = tiled.evaluate(field, residues[0], *transform.evaluate(field, residues[1]))
    assert (found.residue == wanted.residue).all()


LEFT, RIGHT, RESULT = KARATSUBA
WRONG: dict[str, tuple[object, str]] = {
    "coefficient": (
        (((1, 1, 0), *LEFT[1:]), RIGHT, RESULT),
        "rows: no algorithm for a filter: output 0 has x[1] w[0] 2 times, expected 0",
    ),
    "factor": (
        (((Fraction(1, 2), Fraction(-1, 2), 0), *LEFT[1:]), RIGHT, RESULT),
        "rows: no algorithm for a filter: output 0 has x[0] w[0] 1/2 times, expected 1",
    ),
    "order": ((LEFT, RIGHT[::-1], RESULT), "rows: no algorithm for a filter: output 0 has x[0] w[0] 0 times"),
    "reads": (
        (tuple(row[:2] for row in LEFT), RIGHT, RESULT),
        "rows: expected to read 3 numbers for 2 outputs of 2 taps, got 2",
    ),
    "rows": ((LEFT[:2], RIGHT, RESULT), "rows: expected matrices with equally many rows, each of one length"),
    "ragged": (((LEFT[0], LEFT[1], (0, 1)), RIGHT, RESULT), "rows: expected matrices with equally many rows"),
    "two": ((LEFT, RIGHT), "rows: expected three matrices (data, weights, results), got"),
    "empty": ((LEFT, RIGHT, ()), "rows: expected three matrices (data, weights, results), got"),
    "vectors": ((1, 2, 3), "rows: expected three matrices (data, weights, results), got (1, 2, 3)"),
    "number": (2, "rows: expected three matrices (data, weights, results), got 2"),
    "zero": (0, "rows: expected three matrices (data, weights, results), got 0"),
    "words": (((("a",),),) * 3, "rows: expected three matrices (data, weights, results), got"),
}


@pytest.mark.parametrize(("rows", "message"), WRONG.values(), ids=WRONG)
def test_matrices_that_compute_no_filter_are_ill_typed(rows: FilterAlgorithm, message: str) -> None:
    for operator, types in (
        (FilterTransform(rows), (of(1, 1, 2, 3),)),
        (BilinearConv(rows), (of(1, 1, 5, 5), of(3, 1, 1, 3))),
    ):
        with pytest.raises(IllTypedError) as raised:
            operator.infer(*types)
        assert str(raised.value).startswith(f"{operator.name}, {message}")


def test_shapes_that_do_not_fit_are_ill_typed() -> None:
    for operator, types, message in (
        (FilterTransform((), KARATSUBA), (of(1, 1, 2, 3),), "filter_transform, columns, taps"),
        (BilinearConv(KARATSUBA), (of(1, 1, 5, 5), of(3, 1, 2, 3)), "extent of the transformed kernel"),
        (BilinearConv(KARATSUBA), (of(1, 1, 5, 5), of(4, 1, 1, 3)), "outputs at all points"),
        (BilinearConv(KARATSUBA), (of(1, 3, 5, 5), of(3, 2, 1, 3)), "channels"),
    ):
        with pytest.raises(IllTypedError, match=message):
            operator.infer(*types)


def test_an_algorithm_by_definition_multiplies_as_often_as_the_definition() -> None:
    types = of(1, 8, 6, 6), of(3 * 4, 8, 1, 3)
    tiled = BilinearConv(by_definition(3))
    plain = Conv().work((types[0], of(4, 8, 3, 3)), Conv().infer(types[0], of(4, 8, 3, 3)))
    transforms = 2 * 3 * types[0].elements + 2 * 3 * 4 * 4 * 4
    assert tiled.work(types, tiled.infer(*types)).flops == plain.flops + transforms
