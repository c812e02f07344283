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
    """A convolution, the outputs of tiles along rows and columns, and the taps of parts of the kernel: all
    of its taps where there is none."""

    image: Shape
    kernel: Shape
    tiles: tuple[int, int]
    padding: Padding = "valid"
    parts: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def taps(self) -> tuple[int, int]:
        return self.parts[0] or self.kernel[2], self.parts[1] or self.kernel[3]

    @property
    def algorithms(self) -> tuple[FilterAlgorithm, FilterAlgorithm]:
        rows, columns = map(algorithm, self.tiles, self.taps)
        return rows, columns

    @property
    def zeros(self) -> tuple[int, int]:
        return -self.kernel[2] % self.taps[0], -self.kernel[3] % self.taps[1]


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
    *(
        Case((1, 2, 9, 8), (2, 2, *kernel), tiles, padding, parts)
        for kernel, tiles, parts in (
            ((5, 2), (2, 0), (2, 0)),
            ((6, 2), (2, 0), (2, 0)),
            ((2, 7), (0, 3), (0, 3)),
            ((7, 2), (2, 0), (4, 0)),
            ((5, 3), (1, 2), (2, 2)),
            ((3, 5), (2, 4), (2, 5)),
        )
        for padding in ("valid", "same_upper", "same_lower", (2, 0, 1, 3))
    ),
    Case((2, 4, 1, 14), (6, 2, 1, 11), (0, 4), "same", (0, 4)),
    Case((1, 1, 1, 2), (1, 1, 1, 9), (0, 3), "same", (0, 3)),
    *(
        Case((1, 2, 10, 9), (2, 2, 3, 2), tiles, padding, (0, 0), dilation)
        for tiles in ((2, 0), (0, 2), (2, 4))
        for padding in ("valid", "same_upper", "same_lower", (2, 0, 1, 3))
        for dilation in ((1, 2), (2, 1), (3, 2))
    ),
    Case((2, 4, 1, 14), (6, 2, 1, 5), (0, 4), "same", (0, 0), (1, 3)),
    Case((2, 4, 1, 25), (6, 2, 1, 7), (0, 4), "same", (0, 4), (1, 2)),
    Case((1, 1, 1, 2), (1, 1, 1, 3), (0, 4), "same", (0, 0), (1, 5)),
)


def of(*shape: int) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_types_and_values_are_those_of_the_convolution(case: Case) -> None:
    rows, columns = case.algorithms
    transform = FilterTransform(rows, columns, case.zeros)
    tiled = BilinearConv(rows, columns, case.padding, case.zeros, case.dilation)
    plain = Conv(padding=case.padding, dilation=case.dilation)
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


@pytest.mark.parametrize(
    ("zeros", "message"),
    [
        ((1, 1), "columns: expected no zeros without an algorithm, got 1"),
        ((2, 0), "rows: expected fewer than 2 zeros behind parts, got 2"),
        ((-1, 0), "rows: expected fewer than 2 zeros behind parts, got -1"),
        ((1,), "expected zeros to be two numbers, got (1,)"),
        ((1, "a"), "expected zeros to be two numbers, got (1, 'a')"),
        (1, "expected zeros to be two numbers, got 1"),
    ],
)
def test_zeros_that_complete_no_part_are_ill_typed(zeros: tuple[int, int], message: str) -> None:
    for operator, types in (
        (FilterTransform(KARATSUBA, (), zeros), (of(1, 1, 3, 3),)),
        (BilinearConv(KARATSUBA, (), "valid", zeros), (of(1, 1, 5, 5), of(3, 1, 2, 3))),
    ):
        with pytest.raises(IllTypedError) as raised:
            operator.infer(*types)
        assert str(raised.value).startswith(operator.name)
        assert str(raised.value).endswith(message)


def test_zeros_need_several_parts_that_begin_where_tiles_do() -> None:
    for given, zeros, kernel, message in (
        (KARATSUBA, 1, 1, "expected zeros behind several parts of 2 taps, got 1 taps"),
        (algorithm(2, 3), 1, 5, "expected fewer than 3 zeros behind parts, got 1"),
    ):
        with pytest.raises(IllTypedError, match=message):
            FilterTransform(given, (), (zeros, 0)).infer(of(1, 1, kernel, 3))


def test_shapes_that_do_not_fit_are_ill_typed() -> None:
    by_three = algorithm(2, 3)
    for operator, types, message in (
        (
            FilterTransform((), KARATSUBA),
            (of(1, 1, 2, 3),),
            "filter_transform, columns, taps: 3 does not divide",
        ),
        (FilterTransform(by_three), (of(1, 1, 6, 3),), "filter_transform, rows, taps"),
        (BilinearConv(by_three), (of(1, 1, 9, 5), of(4, 1, 2, 3)), "extent of the transformed kernel"),
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
