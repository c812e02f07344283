"""Which verified rules ship, and the reason that is given; what differs between two libraries."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from superopt.equations import parse_equation, rule_id
from superopt.journeys.library.comparison import compare
from superopt.journeys.library.selection import select
from superopt.substitution_db.rules.exchange import export_rules
from superopt.substitution_db.store.records import Rule, RuleStatus, Selection
from superopt.substitution_db.store.rows import new_rule

COMMUTATIVE = "add(x, y) <=> add(y, x)"
ASSOCIATIVE = "add(add(x, y), z) <=> add(x, add(y, z))"
DISTRIBUTIVE = "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(y, z))"
REORDERED = "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(z, y))"
BRANCH = "add(x, conv[padding=same](x, y)) <=> conv[padding=same](x, add(y, identity_kernel[kernel=3]))"


def rule(text: str, selection: Selection | None = None) -> Rule:
    """A verified rule, whoever verified it."""
    new = new_rule(parse_equation(text), "by hand")
    return Rule(
        new.id,
        new.equation,
        new.conditions,
        new.operators_source,
        new.operators_target,
        RuleStatus.VERIFIED,
        (),
        new.provenance,
        None,
        datetime(2026, 1, 1, tzinfo=UTC),
        selection,
    )


def chosen(*texts: str, **options: object) -> dict[str, Selection]:
    """What becomes of rules when they are chosen from, by their texts."""
    selected = select([rule(text) for text in texts], **{"names": (), **options})  # type: ignore[arg-type]
    return {text: selected.choices[rule_id(parse_equation(text))] for text in texts}


@pytest.mark.parametrize(
    ("text", "ships", "why"),
    [
        ("relu(relu(x)) => relu(x)", True, "saves "),
        (COMMUTATIVE, True, "a step that no smaller rules give"),
        (BRANCH, True, "saves "),
        ("matmul(x, identity_matrix()) => x", False, "about constants that no model has"),
        ("relu(identity_kernel[kernel=3]) => identity_kernel[kernel=3]", False, "about constants"),
        ("conv[padding=same, activation=relu](x, identity_kernel[kernel=3]) <=> relu(x)", False, "about"),
        ("mul(exp(x), exp(y)) => exp(add(x, y))", True, "saves "),
        (
            "combine[axis=a, degree=d](relu(x)) <=> relu(combine[axis=a, degree=d](x))",
            True,
            "says where a plan may divide tensors",
        ),
    ],
)
def test_a_rule_is_judged_by_itself(text: str, *, ships: bool, why: str) -> None:
    selection = chosen(text)[text]
    assert selection.ships is ships
    assert selection.why.startswith(why)


def test_what_smaller_rules_give_stays_out() -> None:
    swapped = "add(x, add(y, z)) <=> add(y, add(x, z))"
    made = chosen(swapped, COMMUTATIVE, ASSOCIATIVE, DISTRIBUTIVE, REORDERED)
    out = {text for text, selection in made.items() if not selection.ships}
    assert swapped in out
    assert len(out & {DISTRIBUTIVE, REORDERED}) == 1
    assert {made[text].why for text in out} == {"smaller rules that ship give it in a few steps"}
    assert chosen(swapped)[swapped].ships


def test_the_graphs_on_which_a_search_used_a_rule_are_named() -> None:
    made = chosen(DISTRIBUTIVE, COMMUTATIVE, names=("x W1 + x W2", "gelu by tanh"))
    assert made[DISTRIBUTIVE].why == "a search uses it: x W1 + x W2"
    assert made[COMMUTATIVE].why == "a step that no smaller rules give"


def test_a_rule_without_which_a_search_finds_less_ships_although_others_give_it() -> None:
    """The way over products of square matrices costs more than both ends, and takes two more steps."""
    up = "add(mul(x, y), mul(x, z)) => matmul(x, add(y, z))"
    turned = "matmul(x, add(y, z)) => matmul(add(y, z), x)"
    down = "matmul(add(y, z), x) => mul(x, add(y, z))"
    at_once = "add(mul(x, y), mul(x, z)) => mul(x, add(y, z)) where rank(x) = 2, dim(x, 0) = dim(x, 1)"
    assert not chosen(up, turned, down, at_once)[at_once].ships
    made = chosen(up, turned, down, at_once, names=("x y + x z",), candidates=16)
    assert made[at_once] == Selection(ships=True, why="a search uses it: x y + x z")


def test_what_other_rules_give_at_some_sizes_alone_ships() -> None:
    """Products of matrices and of elements have the same shape for square matrices alone."""
    up = "add(mul(x, y), mul(x, z)) => matmul(x, add(y, z))"
    down = "matmul(x, add(y, z)) => mul(x, add(y, z))"
    everywhere = "add(mul(x, y), mul(x, z)) => mul(x, add(y, z))"
    assert chosen(up, down, everywhere)[everywhere].ships


def test_the_same_choice_in_any_order() -> None:
    texts = (DISTRIBUTIVE, REORDERED, COMMUTATIVE, ASSOCIATIVE, BRANCH)
    names = ("x W1 + x W2", "3x3 and 1x1 branches summed")
    assert chosen(*texts, names=names) == chosen(*reversed(texts), names=names)


def test_what_differs_between_two_libraries(tmp_path: Path) -> None:
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    shipped = Selection(ships=True, why="saves 10% at typical sizes")
    export_rules([rule(COMMUTATIVE, shipped), rule(ASSOCIATIVE)], before)
    export_rules([rule(COMMUTATIVE), rule(DISTRIBUTIVE)], after)
    assert compare(before, before).same
    found = compare(before, after)
    assert not found.same
    assert list(found.lost.values()) == [rule(ASSOCIATIVE).equation]
    assert list(found.gained.values()) == [rule(DISTRIBUTIVE).equation]
    (changed,) = found.changed
    assert changed.equation == rule(COMMUTATIVE).equation
    assert changed.what == ("why: saves 10% at typical sizes -> not selected",)
