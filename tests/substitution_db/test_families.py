"""Families of rules: how many there are, and what they save."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.discovery import verify_pending
from superopt.substitution_db import CandidateRule, Database, RuleFilter
from superopt.substitution_db.rules.families import Family, saved_share
from superopt.substitution_db.store.records import Selection

RULES = (
    "relu(relu(x)) => relu(x)",
    "relu(add(relu(x), relu(x))) => add(relu(x), relu(x))",
    "add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))",
    "matmul(x, y) => matmul(y, x)",
)
WHYS = ("saves 50% at typical sizes", "saves 10% at typical sizes", "a step that no smaller rules give")


def test_families_count_proved_rules_and_their_gains(database: Database) -> None:
    assert database.rules.families() == ()
    equations = [parse_equation(text) for text in RULES]
    database.rules.add_candidates(CandidateRule(equation, "test") for equation in equations)
    verify_pending(database)
    ids = [rule_id(equation) for equation in equations]
    database.rules.record_selections(
        {identity: Selection(ships=True, why=why) for identity, why in zip(ids, WHYS, strict=False)}
    )
    assert database.rules.families() == (
        Family("activation", 2, 2, 0.3),
        Family("arithmetic", 2, 1, 0.1),
        Family("matrix", 1, 0, 0.0),
    )
    found = database.rules.list(RuleFilter(family="arithmetic"))
    assert {rule.id for rule in found} == set(ids[1:3])
    assert database.rules.list(RuleFilter(family="unknown")) == ()


@pytest.mark.parametrize(
    ("why", "share"),
    [
        (None, None),
        ("saves 7% at typical sizes", 0.07),
        ("a search uses it: saves 7% at typical sizes", None),
    ],
)
def test_the_share_is_that_of_the_reason(why: str | None, share: float | None) -> None:
    assert saved_share(why) == share
