"""The preset of adjoints is data: the shipped one loads, and a wrong one is explained."""

from __future__ import annotations

import pytest

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.generator import load_preset, preset_names
from superopt.generator.adjoints import load_vocabulary, parse_vocabulary, problem_of

GOOD = """
name = "tiny"
description = "products"
[[constants]]
operator = "full"
role = "number"
attributes = { value = ["1/2", "alpha"] }
[[operators]]
operator = "mul"
signatures = ["cotangent, value -> cotangent"]
[[stages]]
operators = ["mul"]
[[goals]]
operator = "silu"
attributes = { alpha = 3 }
operands = [[[2, 3]], [[4]]]
"""

BAD = {
    "not TOML": ("name = ", "not TOML"),
    "unknown key": (f"inputs = 1\n{GOOD}", "unknown key inputs"),
    "no name": (GOOD.replace('name = "tiny"', ""), "expected text for name"),
    "an unknown operator": (GOOD.replace('"silu"', '"swish"'), "goals 1: unknown operator swish"),
    "an unknown attribute": (GOOD.replace("alpha = 3", "beta = 3"), "silu has no attribute beta"),
    "no signature": (GOOD.replace(" -> cotangent", ""), "expected a signature like"),
    "a stage of unknown operators": (GOOD.replace('= ["mul"]', '= ["div"]'), "unknown operators div"),
    "a number that is none": (GOOD.replace("1/2", "1/"), "constants 1: value"),
    "too many solved steps": (
        GOOD.replace("[[stages]]", "[[stages]]\nsolved = 3"),
        "solved = 0, 1 or 2, got 3",
    ),
    "no operands": (GOOD.replace("operands = [[[2, 3]], [[4]]]", ""), "expected operands"),
    "a shape that is none": (GOOD.replace("[[4]]", "[[0]]"), "expected a shape of positive sizes"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD)
def test_a_wrong_preset_is_explained(text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        parse_vocabulary(text, "tiny.toml")


def test_numbers_of_the_differentiated_operator_are_constants() -> None:
    vocabulary = parse_vocabulary(GOOD, "tiny.toml")
    one, other = map(problem_of, vocabulary.goals)
    constants = [str(constant.term.attributes) for constant in one.stage(vocabulary.searches[0]).constants]
    assert len(constants) == 3
    assert any("AttributeVariable(name='a')" in text for text in constants)
    assert (one.result, other.result) == ((2, 3), (4,))


def test_every_goal_of_the_shipped_preset_is_well_typed() -> None:
    vocabulary = load_vocabulary()
    assert vocabulary.name == "adjoints"
    for goal in vocabulary.goals:
        problem = problem_of(goal)
        for search in vocabulary.searches:
            assert problem.stage(search).inputs


def test_a_vocabulary_may_be_restricted() -> None:
    vocabulary = load_vocabulary()
    assert {goal.operator.name for goal in vocabulary.restricted_to(["mul"]).goals} == {"mul"}
    assert max(search.reach for search in vocabulary.up_to(2).searches) == 2
    with pytest.raises(InvalidOptionError, match="differentiates no operator greater"):
        vocabulary.restricted_to(["greater"])


def test_it_is_no_preset_of_rules() -> None:
    assert "adjoints" not in preset_names()
    with pytest.raises(InvalidOptionError, match="superopt axioms discover"):
        load_preset("adjoints")
