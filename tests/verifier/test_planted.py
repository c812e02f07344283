"""A thousand wrong rules are planted and none is verified; half of the kinds here, half next door."""

from __future__ import annotations

import pytest

from tests.verifier.changes import KINDS
from tests.verifier.planting import PER_KIND, judge_wrong_rules

MOST_UNPROVED = 4
"""A wrong rule should meet its counterexample; without one it is not verified either, but takes time."""


def test_it_is_a_thousand() -> None:
    assert len(KINDS) * PER_KIND >= 1000
    assert PER_KIND >= 50


@pytest.mark.parametrize("kind", list(KINDS)[::2])
def test_no_wrong_rule_is_verified(kind: str) -> None:
    tally = judge_wrong_rules(kind, PER_KIND)
    assert tally.accepted == ()
    assert tally.planted == PER_KIND
    assert tally.unproved <= MOST_UNPROVED
