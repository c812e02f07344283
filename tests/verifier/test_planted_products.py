"""Wrong rules about products by bilinear algorithms are planted; none is verified or becomes a graph.

Each seed is one change of a right rule, to its matrices or to what is around them. The suite tries a few of
each kind; a thousand take half a minute:

    python -m tests.verifier.test_planted_products 1000
"""

from __future__ import annotations

import random
import sys
from fractions import Fraction
from typing import cast

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.errors import IllTypedError
from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.ir.terms import Application, AttributeTerm, Direction, Equation, Variable
from superopt.ops.bilinear.filter_algorithms import Matrices
from superopt.ops.bilinear.product import BilinearMatmul, ProductTransform
from superopt.ops.bilinear.product_algorithms import STRASSEN, ProductAlgorithm
from superopt.verifier import Status, verify
from tests.ops.algorithms import product_algorithm, product_with_shared_sums
from tests.verifier.test_planted_bilinear import CHANGES, balanced

SIZES = ((2, 2, 2), (1, 2, 1), (2, 1, 3), (1, 2, 2), (2, 2, 1))
X, Y = Variable("x"), Variable("y")
AROUND = ("another algorithm", "another transform", "missing transform", "transposed operands", "twice")
KINDS = (*CHANGES, *AROUND)


def computes_its_product(given: Matrices, sizes: tuple[int, int, int]) -> bool:
    """Whether results are those of the definition for every pair of unit matrices: an oracle of its own."""
    rows, inner, columns = sizes
    lengths = [rows * inner, inner * columns, rows * columns]
    if len({len(part) for part in given}) != 1:
        return False
    if any({len(row) for row in part} != {length} for part, length in zip(given, lengths, strict=True)):
        return False
    left, right, result = given
    return all(
        sum(
            a[i * inner + p] * b[q * columns + j] * c[s * columns + t]
            for a, b, c in zip(left, right, result, strict=True)
        )
        == (p == q and (i, j) == (s, t))
        for i in range(rows)
        for p in range(inner)
        for q in range(inner)
        for j in range(columns)
        for s in range(rows)
        for t in range(columns)
    )


def is_some_product(given: Matrices) -> bool:
    """Whether results are those of a product of any sizes."""
    numbers = range(1, 5)
    return any(computes_its_product(given, (n, k, m)) for n in numbers for k in numbers for m in numbers)


def rule(data: ProductAlgorithm, weights: ProductAlgorithm | None) -> Equation:
    """A product by the algorithms for its data and its weights, if those are transformed at all."""
    other = Y if weights is None else Application("product_transform", _attribute(weights), (Y,))
    target = Application("bilinear_matmul", _attribute(data), (X, other))
    return Equation((Application("matmul", (), (X, Y)),), (target,), direction=Direction.FORWARD)


def planted(kind: str, seed: int) -> Equation:
    """A wrong rule of a kind."""
    dice = random.Random(f"{kind} {seed}")
    while True:
        one, other = dice.sample(SIZES, 2)
        right = product_algorithm(*one)
        if kind in CHANGES:
            wrong = CHANGES[kind](dice, right)
            if not is_some_product(wrong):
                return rule(wrong, wrong)
            continue
        match kind:
            case "another algorithm" if len(right[0]) != len(product_algorithm(*other)[0]):
                return rule(right, product_algorithm(*other))
            case "another transform":
                return rule(right, balanced_weights(dice, right))
            case "missing transform":
                return rule(product_algorithm(2, 2, 2), None)
            case "transposed operands":
                equation = rule(STRASSEN, STRASSEN)
                source = Application("matmul", (), (Y, X))
                return Equation((source,), equation.right, direction=Direction.FORWARD)
            case "twice":
                equation = rule(right, right)
                doubled = Application("add", (), (equation.right[0], equation.right[0]))
                return Equation(equation.left, (doubled,), direction=Direction.FORWARD)
            case _:
                continue


def balanced_weights(dice: random.Random, given: Matrices) -> Matrices:
    """An algorithm for the same product whose weights have another transform."""
    factor = dice.choice((2, -1, Fraction(1, 3)))
    left, right, result = given
    more = tuple(tuple(factor * entry for entry in row) for row in right)
    return tuple(tuple(entry / Fraction(factor) for entry in row) for row in left), more, result


def is_verified(equation: Equation) -> bool:
    return verify(equation, load_axioms()).status is Status.VERIFIED


@pytest.mark.parametrize("kind", KINDS)
def test_no_wrong_rule_is_verified(kind: str) -> None:
    assert [seed for seed in range(3) if is_verified(planted(kind, seed))] == []


@pytest.mark.parametrize("kind", CHANGES)
def test_no_wrong_algorithm_is_an_operator_of_a_graph(kind: str) -> None:
    for seed in range(20):
        wrong = CHANGES[kind](random.Random(seed), STRASSEN)
        assert computes_its_product(wrong, (2, 2, 2)) == in_a_graph(wrong), (kind, seed)


def test_right_algorithms_are_verified() -> None:
    for given in (
        STRASSEN,
        product_with_shared_sums(),
        balanced(random.Random(0), STRASSEN),
        product_algorithm(2, 1, 3),
    ):
        assert is_verified(rule(given, given))


BY_HAND = "(((1, 0), (0, 1)), ((1, 0), (0, 1/2)), ((1,), (2,)))"


def test_a_rule_written_by_hand_is_verified_or_its_wrong_coefficient_named() -> None:
    text = "matmul(x, y) => bilinear_matmul[algorithm=A](x, product_transform[algorithm=A](y))"
    assert is_verified(parse_equation(text.replace("A", BY_HAND)))
    verdict = verify(parse_equation(text.replace("A", BY_HAND.replace("(2,)", "(3,)"))), load_axioms())
    assert verdict.status is Status.UNPROVED
    assert (verdict.reason or "").endswith(
        "no algorithm for a product of 1 x 2 and 2 x 1: result 0 has x[1] y[1] 3/2 times, expected 1"
    )


def in_a_graph(given: Matrices) -> bool:
    """Whether a graph takes products of matrices of two by two by the algorithm."""
    editor = Graph.empty().edit()
    data, weight = (
        editor.add(kind(label, TensorType(ElementType.FLOAT, (4, 4)))).value
        for kind, label in ((Input, "x"), (Weight, "w"))
    )
    blocks = editor.add(Weight("p", TensorType(ElementType.FLOAT, (2 * len(given[0]), 2)))).value
    accepted: list[bool] = []
    for operator, operands in ((ProductTransform(given), [weight]), (BilinearMatmul(given), [data, blocks])):
        try:
            editor.add(operator, operands)
        except IllTypedError:
            accepted.append(False)
        else:
            accepted.append(True)
    assert len(set(accepted)) == 1
    return accepted[0]


def _attribute(algorithm: ProductAlgorithm) -> tuple[tuple[str, AttributeTerm], ...]:
    return (("algorithm", cast("AttributeTerm", algorithm)),)


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
