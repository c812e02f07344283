"""The other half of the thousand planted rules, in a module of its own so that two processes share them."""

from __future__ import annotations

import pytest

from tests.verifier.changes import KINDS
from tests.verifier.planting import PER_KIND, judge_wrong_rules
from tests.verifier.test_planted import MOST_UNPROVED


@pytest.mark.parametrize("kind", list(KINDS)[1::2])
def test_no_wrong_rule_is_verified(kind: str) -> None:
    tally = judge_wrong_rules(kind, PER_KIND)
    assert tally.accepted == ()
    assert tally.planted == PER_KIND
    assert tally.unproved <= MOST_UNPROVED
