"""Values of open degrees that stand for all."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, parse_term
from superopt.errors import IllTypedError
from superopt.ir.terms import Equation
from superopt.verifier.certificates.attribute_cases import attribute_cases
from superopt.verifier.certificates.degree_cases import OpenDegrees
from superopt.verifier.certificates.partial_typing import UndecidedCasesError
from superopt.verifier.certificates.rank_bound import largest_rank


def test_degrees_meet_in_pairs_of_primes() -> None:
    text = "partition[axis=0, degree=d](partition[axis=0, degree=e](x)) => partition[axis=0, degree=e](x)"
    found = {(case["d"], case["e"]) for case in attribute_cases(parse_equation(text), 1, 1)}
    p, q = 5, 7
    some = {(q, q), (p, q), (q * q * p, p * p * q), (p * q, p * q * q)}
    assert some <= found | {(e, d) for d, e in found}
    assert all(isinstance(d, int) and isinstance(e, int) and min(d, e) > 1 for d, e in found)


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("partition[axis=0, degree=d](relu(x)) => relu(partition[axis=0, degree=d](x))", {5}),
        ("partition[axis=0, degree=d](x: f32[6]) => x", {2, 3, 6, 7}),
        ("partition[axis=0, degree=d](x) => x where dim(x, 0) = 10", {2, 5, 10, 11}),
        ("partition[axis=0, degree=d](replicate[degree=31](x)) => x", {31, 97, 31 * 97, 31**2, 31**3}),
    ],
)
def test_degrees_that_stand_for_all(text: str, degrees: set[int]) -> None:
    assert degrees <= {case["d"] for case in attribute_cases(parse_equation(text), 1, 1)}


@pytest.mark.parametrize(
    "text",
    [
        f"partition[axis=0, degree=d](x: f32[{2**31 * 3}]) => x",
        "partition[axis=0, degree=d](x: f32[6469693230]) => x",
        "relu(x) => x where rank(x) <= 100000000",
    ],
)
def test_large_numbers_take_no_time(text: str) -> None:
    equation = parse_equation(text)
    try:
        assert len(list(attribute_cases(equation, largest_rank(equation), 3))) < 2000
    except IllTypedError as error:
        assert "got 100000001" in str(error)  # noqa: PT017 - either is a quick answer


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            "partition[axis=0, degree=d](partition[axis=0, degree=2](partition[axis=1, degree=2](x))) => x",
            {16},
        ),
        (
            "partition[axis=0, degree=d](partition[axis=0, degree=2](partition[axis=1, degree=3](x))) => x",
            {6},
        ),
    ],
)
def test_degrees_beside_others_are_products_of_their_powers(text: str, values: set[int]) -> None:
    assert values <= {case["d"] for case in attribute_cases(parse_equation(text), 1, 1)}


def test_numbers_of_a_chain_are_below_the_degrees_that_stand_for_all() -> None:
    goal = parse_equation("combine[axis=0, degree=d](partition[axis=0, degree=d](x)) => x")
    OpenDegrees(goal, [parse_term("partition[axis=7, degree=3](x)")]).require_above()
    with pytest.raises(UndecidedCasesError, match="a chain with 5 beside an open degree"):
        OpenDegrees(goal, [parse_term("partition[axis=0, degree=5](x)")]).require_above()
    closed = parse_equation("combine[axis=0, degree=2](partition[axis=0, degree=2](x)) => x")
    OpenDegrees(closed, [parse_term("partition[axis=0, degree=5](x)")]).require_above()


def test_a_term_of_a_chain_that_has_a_degree_more_often_asks_for_more_values() -> None:
    goal = parse_equation(
        "combine[axis=0, degree=d](partition[axis=0, degree=e](x))"
        " => partition[axis=0, degree=e](combine[axis=0, degree=d](x))"
    )
    twice = "partition[axis=0, degree=d](partition[axis=0, degree=d](combine[axis=0, degree=d](x)))"
    assert _powers(goal) == {1, 2}
    for term in (twice, f"add({twice}, relu(x))"):
        assert _powers(goal, term) == {1, 2, 3, 4}


def _powers(goal: Equation, *chain: str) -> set[int]:
    """The k for which the second degree takes the k-th power of a number that the first one takes."""
    cases = OpenDegrees(goal, [parse_term(term) for term in chain]).cases()
    values = {(case["d"], case["e"]) for case in cases}
    return {k for d, e in values for k in range(1, 9) if e == d**k or d == e**k}


def test_equal_terms_count_as_often_as_they_occur() -> None:
    goal = parse_equation("replicate[degree=d](relu(x)) => relu(replicate[degree=d](x))")
    twice = "concat[axis=0](x, x)"
    several = parse_term(f"concat[axis=0](concat[axis=0]({twice}, {twice}), {twice})")
    assert [case["d"] for case in OpenDegrees(goal).cases()] == [5]
    assert [case["d"] for case in OpenDegrees(goal, [several]).cases()] == [7]


def test_more_numbers_than_there_are_values_for_are_refused() -> None:
    names = "abcdefg"
    sums = "x"
    for name in names:
        sums = f"scale({sums}, full[value={name}])"
    with pytest.raises(IllTypedError, match="7 numbers are open, more than 6"):
        list(attribute_cases(parse_equation(f"{sums} => {sums}"), 1, 1))
