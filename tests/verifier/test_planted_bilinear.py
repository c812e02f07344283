"""Wrong rules about convolutions by bilinear algorithms are planted; none is verified or becomes a graph.

Each seed is one change of a right rule, to matrices along one axis or both, or to what is around them. The
suite tries a few of each kind; all thousand take half a minute:

    python -m tests.verifier.test_planted_bilinear 1000
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import cast

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.errors import IllTypedError
from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, AttributeTerm, Direction, Equation, Variable
from superopt.ops.bilinear.convolution import BilinearConv, FilterTransform
from superopt.ops.bilinear.filter_algorithms import FilterAlgorithm, Matrices, Matrix
from superopt.ops.images.windows import Padding
from superopt.verifier import Status, verify
from tests.ops.algorithms import algorithm

FILTERS = ((2, 3), (4, 3), (1, 3), (2, 2), (3, 2), (2, 5), (4, 5))
X, Y, P, D = Variable("x"), Variable("y"), AttributeVariable("p"), AttributeVariable("d")
Change = Callable[[random.Random, Matrices], Matrices]


def coefficient(dice: random.Random, given: Matrices) -> Matrices:
    """One coefficient is another."""
    part = dice.randrange(3)
    row = dice.randrange(len(given[part]))
    column = dice.randrange(len(given[part][0]))
    by = dice.choice((1, -1, Fraction(1, 2), Fraction(-1, 10**6)))
    rows = [list(one) for one in given[part]]
    rows[row][column] += by
    return _with(given, part, tuple(map(tuple, rows)))


def doubled(dice: random.Random, given: Matrices) -> Matrices:
    """A point is evaluated twice, another never."""
    here, there = dice.sample(range(len(given[0])), 2)
    return _mapped(given, lambda m: (*m[:there], m[here], *m[there + 1 :]))


def repeated(dice: random.Random, given: Matrices) -> Matrices:
    """A multiplication is done and added twice."""
    here = dice.choice([i for i in range(len(given[0])) if all(any(m[i]) for m in given)])
    return _mapped(given, lambda m: (*m, m[here]))


def dropped_row(dice: random.Random, given: Matrices) -> Matrices:
    """A multiplication is missing in one matrix, or in all."""
    row = dice.randrange(len(given[0]))
    part = dice.randrange(4)
    if part == 3:
        return _mapped(given, lambda m: (*m[:row], *m[row + 1 :]))
    return _with(given, part, (*given[part][:row], *given[part][row + 1 :]))


def dropped_column(dice: random.Random, given: Matrices) -> Matrices:
    """A tile reads, has or writes one number less."""
    part = dice.randrange(3)
    column = dice.randrange(len(given[part][0]))
    return _with(given, part, tuple((*row[:column], *row[column + 1 :]) for row in given[part]))


def another_column(dice: random.Random, given: Matrices) -> Matrices:
    """A tile reads, has or writes one number more."""
    part, number = dice.randrange(3), dice.randrange(2)
    return _with(given, part, tuple((*row, number) for row in given[part]))


def rolled_columns(dice: random.Random, given: Matrices) -> Matrices:
    """A tile is off by one."""
    part = dice.choice([part for part in range(3) if len(given[part][0]) > 1])
    return _with(given, part, tuple((*row[1:], row[0]) for row in given[part]))


def rolled_rows(dice: random.Random, given: Matrices) -> Matrices:
    """Points of one matrix are off by one."""
    part = dice.randrange(3)
    return _with(given, part, (*given[part][1:], given[part][0]))


def transposed(dice: random.Random, given: Matrices) -> Matrices:
    """One matrix, or each, is transposed."""
    turned = cast("Matrices", tuple(tuple(zip(*part, strict=True)) for part in given))
    part = dice.randrange(4)
    return turned if part == 3 else _with(given, part, turned[part])


def swapped(dice: random.Random, given: Matrices) -> Matrices:
    """Two of the matrices are exchanged."""
    one, other = dice.sample(range(3), 2)
    parts = list(given)
    parts[one], parts[other] = parts[other], parts[one]
    return cast("Matrices", tuple(parts))


def scaled(dice: random.Random, given: Matrices) -> Matrices:
    """One matrix is multiplied by a number."""
    factor = dice.choice((2, -1, Fraction(1, 2), 0))
    part = dice.randrange(3)
    return _with(given, part, tuple(tuple(factor * entry for entry in row) for row in given[part]))


def balanced(dice: random.Random, given: Matrices) -> Matrices:
    """One matrix is multiplied by a number and another divided by it: the algorithm stays right."""
    factor = dice.choice((2, -1, Fraction(1, 3)))
    one, other = dice.sample(range(3), 2)
    much = _with(given, one, tuple(tuple(factor * entry for entry in row) for row in given[one]))
    return _with(much, other, tuple(tuple(entry / Fraction(factor) for entry in row) for row in much[other]))


CHANGES: Mapping[str, Change] = {
    change.__name__: change
    for change in (
        *(coefficient, doubled, repeated, dropped_row, dropped_column, another_column, rolled_columns),
        *(rolled_rows, transposed, swapped, scaled),
    )
}
AROUND = ("other taps", "exchanged axes", "another transform", "padding", "missing transform", "other axis")
PARTS = ((2, 2), (3, 3), (4, 4), (1, 3))
OF_PARTS = (
    "other zeros",
    "no zeros",
    "zeros along the other axis",
    "zeros without parts",
    "another dilation",
)
KINDS = (*CHANGES, *AROUND, *OF_PARTS)
SAME: tuple[Padding, ...] = ("same", "same_upper", "same_lower")


def computes_its_filter(given: Matrices) -> bool:
    """Whether outputs are those of the definition for every pair of unit vectors: an oracle of its own."""
    left, right, result = given
    if len({len(part) for part in given}) != 1 or any(len({len(row) for row in part}) != 1 for part in given):
        return False
    reads, taps, outputs = (len(part[0]) for part in given)
    return reads == outputs + taps - 1 and all(
        sum(a[i] * b[j] * c[k] for a, b, c in zip(left, right, result, strict=True)) == (i == j + k)
        for i in range(reads)
        for j in range(taps)
        for k in range(outputs)
    )


def rule(
    data: Mapping[str, FilterAlgorithm],
    kernel: Mapping[str, FilterAlgorithm] | None,
    paddings: tuple[AttributeTerm, AttributeTerm] = (P, P),
    zeros: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    dilations: tuple[AttributeTerm, AttributeTerm] = (D, D),
) -> Equation:
    """A convolution by the algorithms for its data and its kernel, if that is transformed at all, with the
    zeros of the convolution and of the transform."""
    tiled, transformed = ((("zeros", each),) if any(each) else () for each in zeros)
    weight = (
        Y if kernel is None else Application("filter_transform", (*_attributes(kernel), *transformed), (Y,))
    )
    padded, padded_tiles = (("padding", each) for each in paddings)
    spread, spread_tiles = ((("dilation", each),) if each != (1, 1) else () for each in dilations)
    source = Application("conv", (padded, *spread), (X, Y))
    attributes = (*_attributes(data), padded_tiles, *tiled, *spread_tiles)
    target = Application("bilinear_conv", attributes, (X, weight))
    return Equation((source,), (target,), direction=Direction.FORWARD)


def planted(kind: str, seed: int) -> Equation:
    """A wrong rule of a kind."""
    dice = random.Random(f"{kind} {seed}")
    while kind in OF_PARTS:
        axis, sizes = dice.randrange(2), dice.choice(PARTS if kind != "zeros without parts" else FILTERS)
        given = {("rows", "columns")[axis]: _given(*sizes)}
        one, other = (_along(axis, number) for number in dice.sample(range(sizes[1]), 2))
        match kind:
            case "other zeros":
                return rule(given, given, zeros=(one, other))
            case "no zeros" if any(one):
                return rule(given, given, zeros=dice.choice((((0, 0), one), (one, (0, 0)))))
            case "zeros along the other axis" if any(one):
                return rule(given, given, zeros=dice.choice(((one, one[::-1]), (one[::-1], one))))
            case "another dilation":
                others = dice.choice(((1, 1), (2, 1) if axis else (1, 2)))
                own = dice.choice((D, (1, 3) if axis else (3, 1)))
                return rule(given, given, dilations=dice.choice(((own, others), (others, own))))
            case "zeros without parts" if any(one) and sizes[1] % sizes[0]:
                return rule(given, given, zeros=(one, one))
            case _:
                continue
    while True:
        sizes, others = dice.sample(FILTERS, 2)
        right, other = (_given(*each) for each in (sizes, others))
        axes = dice.choice((("rows",), ("columns",), ("rows", "columns")))
        if kind in CHANGES:
            if len(right[0]) < 2:
                continue
            wrong = CHANGES[kind](dice, right)
            changed = dict.fromkeys(axes, right) | {dice.choice(axes): wrong}
            if not computes_its_filter(wrong):
                return rule(changed, changed)
            continue
        given = dict.fromkeys(axes, right)
        match kind:
            case "other taps" if sizes[1] != others[1]:
                return rule(given, given | {axes[0]: other})
            case "exchanged axes" if sizes != others:
                return rule({"rows": right, "columns": other}, {"rows": other, "columns": right})
            case "another transform":
                return rule(given, given | {axes[0]: balanced_weights(dice, right)})
            case "padding":
                return rule(given, given, _different(dice))
            case "missing transform" if sizes[0] > 1:
                return rule(given, None)
            case "other axis":
                return rule({"rows": right}, {"columns": right})
            case _:
                continue


def _along(axis: int, number: int) -> tuple[int, int]:
    return (0, number) if axis else (number, 0)


def balanced_weights(dice: random.Random, given: Matrices) -> Matrices:
    """An algorithm for the same filter whose weights have another transform."""
    factor = dice.choice((2, -1, Fraction(1, 3)))
    more = _with(given, 1, tuple(tuple(factor * entry for entry in row) for row in given[1]))
    return _with(more, 0, tuple(tuple(entry / Fraction(factor) for entry in row) for row in given[0]))


def is_verified(equation: Equation) -> bool:
    return verify(equation, load_axioms()).status is Status.VERIFIED


@pytest.mark.parametrize("kind", KINDS)
def test_no_wrong_rule_is_verified(kind: str) -> None:
    assert [seed for seed in range(3) if is_verified(planted(kind, seed))] == []


@pytest.mark.parametrize("kind", CHANGES)
def test_no_wrong_algorithm_is_an_operator_of_a_graph(kind: str) -> None:
    for seed in range(20):
        dice = random.Random(seed)
        wrong = CHANGES[kind](dice, _given(4, 3))
        is_right = computes_its_filter(wrong) and len(wrong[1][0]) == 3
        assert is_right == in_a_graph(wrong), (kind, seed)


@pytest.mark.parametrize("seed", range(4))
def test_factors_that_cancel_are_verified(seed: int) -> None:
    dice = random.Random(seed)
    right = balanced(dice, _given(2, 3))
    assert computes_its_filter(right)
    assert in_a_graph(right)
    assert is_verified(rule({"columns": right}, {"columns": right}))


@pytest.mark.parametrize(("sizes", "zeros"), [((2, 2), 0), ((2, 2), 1), ((1, 3), 2), ((3, 3), 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_parts_of_long_kernels_are_verified(sizes: tuple[int, int], zeros: int, axis: int) -> None:
    given = {("rows", "columns")[axis]: _given(*sizes)}
    assert is_verified(rule(given, given, zeros=(_along(axis, zeros),) * 2))
    assert is_verified(rule(given, given, zeros=(_along(axis, zeros),) * 2, dilations=((2, 2), (2, 2))))


BY_HAND = (
    "(((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)), "
    "((1, 0, 0), (1/2, 1/2, 1/2), (1/2, -1/2, 1/2), (0, 0, 1)), ((1, 0), (1, 1), (1, -1), (0, -1)))"
)


@pytest.mark.parametrize(
    ("matrices", "reason"),
    [
        (BY_HAND, ""),
        (
            BY_HAND.replace("1/2, -1/2", "1/3, -1/2"),
            "columns: no algorithm for a filter: output 0 has x[1] w[0] 1/6 times, expected 0",
        ),
    ],
)
def test_a_rule_written_by_hand_is_verified_or_its_wrong_coefficient_named(
    matrices: str, reason: str
) -> None:
    text = "conv[padding=p](x, y) => bilinear_conv[columns=A, padding=p](x, filter_transform[columns=A](y))"
    verdict = verify(parse_equation(text.replace("A", matrices)), load_axioms())
    assert verdict.status is (Status.UNPROVED if reason else Status.VERIFIED)
    assert (verdict.reason or "").endswith(reason)


def in_a_graph(given: Matrices) -> bool:
    """Whether a graph takes convolutions by the algorithm, of 3 taps along columns."""
    editor = Graph.empty().edit()
    image = editor.add(Input("x", TensorType(ElementType.FLOAT, (1, 2, 9, 9)))).value
    weight = editor.add(Weight("w", TensorType(ElementType.FLOAT, (2, 2, 1, 3)))).value
    points = editor.add(Weight("p", TensorType(ElementType.FLOAT, (2 * len(given[0]), 2, 1, 1)))).value
    accepted: list[bool] = []
    for operator, operands in (
        (FilterTransform((), given), [weight]),
        (BilinearConv((), given, "same"), [image, points]),
    ):
        try:
            editor.add(operator, operands)
        except IllTypedError:
            accepted.append(False)
        else:
            accepted.append(True)
    assert len(set(accepted)) == 1
    return accepted[0]


def _given(outputs: int, taps: int) -> Matrices:
    found = algorithm(outputs, taps)
    assert found
    return found


def _different(dice: random.Random) -> tuple[Padding, Padding]:
    """Two that differ for kernels of odd extent too."""
    one, other = dice.sample(("valid", dice.choice(SAME), (1, 0, 1, 0), (0, 1, 0, 1)), 2)
    return one, other


def _attributes(algorithms: Mapping[str, FilterAlgorithm]) -> tuple[tuple[str, AttributeTerm], ...]:
    return tuple((axis, cast("AttributeTerm", given)) for axis, given in algorithms.items())


def _with(given: Matrices, part: int, matrix: Matrix) -> Matrices:
    return cast("Matrices", (*given[:part], matrix, *given[part + 1 :]))


def _mapped(given: Matrices, change: Callable[[Matrix], Matrix]) -> Matrices:
    return cast("Matrices", tuple(map(change, given)))


def main(count: int) -> int:
    """Prints the wrong rules that are verified; 1 if there are any."""
    accepted = 0
    for number in range(count):
        kind, seed = KINDS[number % len(KINDS)], number // len(KINDS)
        if is_verified(planted(kind, seed)):
            accepted += 1
            sys.stdout.write(f"{kind} {seed} is verified\n")
    sys.stdout.write(f"{count} planted, {accepted} verified\n")
    return int(accepted > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
