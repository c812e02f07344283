"""Values of open degrees that stand for all."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, parse_term
from superopt.errors import IllTypedError
from superopt.verifier.certificates.attribute_cases import attribute_cases
from superopt.verifier.certificates.degree_cases import require_above
from superopt.verifier.certificates.partial_typing import UndecidedCasesError
from superopt.verifier.certificates.rank_bound import largest_rank
from tests.verifier.degree_chains import DegreeRule, failure, rules


def test_degrees_meet_in_pairs_of_primes() -> None:
    text = "partition[axis=0, degree=d](partition[axis=0, degree=e](x)) => partition[axis=0, degree=e](x)"
    found = {(case["d"], case["e"]) for case in attribute_cases(parse_equation(text), 1, 1)}
    p, q = 3, 5
    some = {(q, q), (p, q), (q * q * p, p * p * q), (p * q, p * q * q)}
    assert some <= found | {(e, d) for d, e in found}
    assert all(isinstance(d, int) and isinstance(e, int) and min(d, e) > 1 for d, e in found)


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("partition[axis=0, degree=d](relu(x)) => relu(partition[axis=0, degree=d](x))", {5}),
        ("partition[axis=0, degree=d](x: f32[6]) => x", {2, 3, 6, 7}),
        ("partition[axis=0, degree=d](x) => x where dim(x, 0) = 10", {2, 5, 10, 11}),
        ("partition[axis=0, degree=d](replicate[degree=31](x)) => x", {31, 37, 31 * 37, 31**2, 31**3}),
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
    require_above(goal, [parse_term("partition[axis=7, degree=2](x)")])
    with pytest.raises(UndecidedCasesError, match="a chain with 3 beside an open degree"):
        require_above(goal, [parse_term("partition[axis=0, degree=3](x)")])
    closed = parse_equation("combine[axis=0, degree=2](partition[axis=0, degree=2](x)) => x")
    require_above(closed, [parse_term("partition[axis=0, degree=3](x)")])


def test_more_numbers_than_there_are_values_for_are_refused() -> None:
    names = "abcdefg"
    sums = "x"
    for name in names:
        sums = f"scale({sums}, full[value={name}])"
    with pytest.raises(IllTypedError, match="7 numbers are open, more than 6"):
        list(attribute_cases(parse_equation(f"{sums} => {sums}"), 1, 1))


QUICK = [
    rule
    for rule in rules()
    if rule.in_chains != rule.in_sides and sum(rule.in_chains.values()) < 6 and "partition" not in str(rule)
]
"""Those that take less than a few seconds; ``python -m tests.verifier.degree_chains`` replays all."""


@pytest.mark.parametrize("rule", QUICK, ids=str)
def test_chains_hold_at_all_degrees_that_their_terms_ask_for(rule: DegreeRule) -> None:
    assert failure(rule) == ""
