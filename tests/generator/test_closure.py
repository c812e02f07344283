"""Which terms of an enumeration follow from which by rules, in how many steps, and what these use."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from superopt.equations import parse_equation, parse_term
from superopt.generator import load_preset
from superopt.generator.enumerate.enumeration import Enumeration
from superopt.generator.enumerate.recorded import RecordedTerms
from superopt.generator.prune import closure as closures
from superopt.generator.prune import matching
from superopt.generator.prune.bank import (
    CLOSED,
    CONDITIONAL,
    OPEN,
    UNDER_CONDITIONS,
    UNREACHED,
    Bank,
    ranges,
)
from superopt.generator.prune.closure import FAR, Closure
from superopt.generator.prune.patterns import Rule
from superopt.ir.terms import Term, Variable
from superopt.ops.terms import application

AXIS = 1 << 4

RULES = {
    "add(x, y) <=> add(y, x)": OPEN,
    "transpose(transpose(x)) => x": OPEN,
    "transpose(matmul(x, y)) <=> matmul(transpose(y), transpose(x))": OPEN,
    "add(matmul(x, y), matmul(x, z)) <=> matmul(x, add(y, z))": UNDER_CONDITIONS,
    "transpose(concat[axis=-1](x, y)) <=> concat[axis=-2](transpose(x), transpose(y))": AXIS,
}

ASKED: dict[str, tuple[str, str, int, int]] = {
    "one step": ("transpose(matmul(x, y))", "matmul(transpose(y), transpose(x))", OPEN, 1),
    "the order of arguments": ("add(x, y)", "add(y, x)", OPEN, 0),
    "a step inside as well": ("transpose(matmul(x, transpose(y)))", "matmul(y, transpose(x))", OPEN, 2),
    "by a condition": ("add(matmul(x, y), matmul(x, z))", "matmul(x, add(y, z))", CONDITIONAL, 1),
    "not without it": ("add(matmul(x, y), matmul(x, z))", "matmul(x, add(y, z))", CLOSED, FAR),
    "with an attribute closed": (
        "transpose(concat[axis=-1](x, y))",
        "concat[axis=-2](transpose(x), transpose(y))",
        CLOSED,
        1,
    ),
    "not with all open": (
        "transpose(concat[axis=-1](x, y))",
        "concat[axis=-2](transpose(x), transpose(y))",
        OPEN,
        FAR,
    ),
    "by no rule": ("add(add(x, y), z)", "add(add(x, z), y)", CONDITIONAL, FAR),
}


@cache
def _closure() -> Closure:
    return _made()


def _made() -> Closure:
    preset = load_preset("matrix").restricted_to(["matmul", "add", "transpose", "concat"])
    terms = RecordedTerms(Enumeration(preset.stages_to(3)[0]).complete())
    closure = Closure(Bank(terms.rows()))
    rules = [Rule.of(parse_equation(text), uses) for text, uses in RULES.items()]
    closure.add([rule for rule in rules if rule is not None])
    for size in range(1, int(closure.bank.sizes.max()) + 1):
        closure.begin(np.unique(closure.bank.classes[closure.bank.sizes == size]))
    closure.begin(np.unique(closure.bank.classes))
    return closure


def _row(bank: Bank, term: Term) -> int:
    if isinstance(term, Variable):
        row = bank.leaf(term)
        assert row is not None
        return row
    instances = {application(i.name, dict(i.attributes)): number for number, i in bank.vocabulary}
    number = instances[application(term.operator, dict(term.attributes))]
    inputs = [int(bank.classes[_row(bank, child)]) for child in term.inputs]
    arguments = np.array([[*inputs, -1, -1][: bank.rows.arguments.shape[1]]], np.int32)
    return int(bank.find(np.array([number], np.int32), arguments)[0])


@pytest.mark.parametrize(("source", "target", "uses", "steps"), ASKED.values(), ids=ASKED)
def test_steps(source: str, target: str, uses: int, steps: int) -> None:
    closure = _closure()
    rows = [np.array([_row(closure.bank, parse_term(text))], np.int32) for text in (source, target)]
    assert min(int(row[0]) for row in rows) >= 0
    assert int(closure.steps(rows[0], rows[1], uses)[0]) == steps


def test_what_gets_smaller() -> None:
    closure = _closure()
    rows = [_row(closure.bank, parse_term(t)) for t in ("transpose(transpose(x))", "transpose(matmul(x, y))")]
    assert closure.shrinks(np.array(rows, np.int32)).tolist() == [True, False]


def test_portions_change_no_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _closure()
    for module, name in ((closures, "REACHED_AT_ONCE"), (closures, "EDGES_JOINED"), (matching, "STATES")):
        monkeypatch.setattr(module, name, 3000)
    parts = _made()
    rows = np.arange(len(whole.bank.classes), dtype=np.int32)
    order = np.argsort(whole.bank.classes, kind="stable").astype(np.int32)
    for left, right in ((rows, whole.bank.classes), (order[:-1], order[1:])):
        for uses in (OPEN, CLOSED, CONDITIONAL):
            expected, found = whole.steps(left, right, uses), parts.steps(left, right, uses)
            assert (expected == found).all()
            assert {0, 1, FAR} <= set(expected.tolist())


def test_readings_are_the_reached_terms_of_a_class_with_one_operator() -> None:
    bank = _closure().bank
    operators = np.array([number for number, _ in bank.vocabulary])
    pairs = np.array([(c, o) for c in np.unique(bank.classes) for o in operators])
    first, counts = bank.readings(pairs[:, 0].astype(np.int32), pairs[:, 1])
    places = ranges(first, counts)
    terms, arguments = bank.read(places)
    assert (
        np.repeat(pairs, counts, axis=0) == np.stack((bank.classes[terms], bank.operators[terms]), 1)
    ).all()
    assert sorted(places.tolist()) == list(range(len(places)))
    reached = np.flatnonzero((bank.steps < UNREACHED) & (bank.operators >= 0)).astype(np.int32)
    expected, given = bank.root_readings(np.unique(bank.same[reached]))
    found = zip(terms.tolist(), map(tuple, arguments.tolist()), strict=True)
    assert sorted(found) == sorted(zip(expected.tolist(), map(tuple, given.tolist()), strict=True))
