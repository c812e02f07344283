"""``python -m benchmarks large_rules``: which rules it looks at, and a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.library.large_rules import HEADER, beyond, gains, peers_rules
from superopt.equations import parse_equation
from superopt.rewriting.derivability import Bounds
from superopt.substitution_db.rules.exchange import read_shipped
from superopt.substitution_db.rules.shipped import SHIPPED_LIBRARY
from superopt.substitution_db.store.rows import NewRule, new_rule

SUMMED = (
    "add(conv[stride=s, padding=same](x, y), conv[stride=s, padding=same](x, enlarge[kernel=3](z))) "
    "=> conv[stride=s, padding=same](x, add(y, enlarge[kernel=3](z)))"
)
STEPS = ("add(x, y) <=> add(y, x)", "add(add(x, y), z) <=> add(x, add(y, z))")
REORDERED = "add(add(add(x, y), z), relu(w)) => add(relu(w), add(x, add(y, z)))"
BOUNDS = Bounds(steps=4, graphs=200)


def _rules(*equations: str, provenance: str = "branches, 4 operators") -> list[NewRule]:
    return [new_rule(parse_equation(equation), provenance) for equation in equations]


def test_a_rule_that_smaller_ones_derive_or_a_peer_has_is_left_out(tmp_path: Path) -> None:
    large, found = beyond(_rules(*STEPS, SUMMED, REORDERED), frozenset(), BOUNDS)
    assert [rule.id for rule in large] == [rule.id for rule in _rules(SUMMED, REORDERED)]
    assert [rule.id for rule in found] == [rule.id for rule in _rules(SUMMED)]
    file = tmp_path / "peers.txt"
    file.write_text(f"{SUMMED}\n")
    assert not beyond(_rules(*STEPS, SUMMED), peers_rules([file]), BOUNDS)[1]


@pytest.mark.parametrize("provenance", ["branches, 3 operators", "bilinear, F(2,3)"])
def test_a_rule_of_a_smaller_run_is_not_looked_at(provenance: str) -> None:
    assert not beyond(_rules(SUMMED, provenance=provenance), frozenset(), BOUNDS)[0]


def test_a_row_compares_with_a_search_without_the_rule() -> None:
    rules = [rule for rule, _ in read_shipped(SHIPPED_LIBRARY) if rule.provenance == "softmaxes, 7 operators"]
    (row,) = gains(rules, ["softmax over channels"], budget=15)
    assert row.rule in rules
    assert row.all_rules > row.without
    assert str(row).replace("\\|", "").count("|") == HEADER.splitlines()[0].count("|")
