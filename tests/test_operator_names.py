"""Operators are named in ``superopt/ops`` alone; the exceptions are few, and each has its reason."""

from __future__ import annotations

import pytest

from tests.operator_names import Exemption, Occurrence, all_occurrences, complaints, occurrences_in


def test_production_code_names_operators_in_the_registry_alone() -> None:
    assert complaints(all_occurrences()) == []


NAMING = {
    "an import": "from superopt.ops.shape import Concat",
    "a module of the registry": "from superopt.ops import shape\nshape.Concat(0)",
    "a comparison": 'found = term.operator == "concat"',
    "a comparison of names": 'found = (a.name, b.name) == ("concat", axis)',
    "one of several": 'found = operator in ("softmax", "concat")',
    "one of names": 'found = "concat" in operators',
    "a constant": 'NAME = "concat"\nfound = term.operator == NAME',
    "a set": 'KNOWN = frozenset(("concat", "reduce"))',
    "a union": 'KNOWN = others | {"concat"}',
    "keys": 'COSTS = {"concat": 9, "split": 3}',
    "values": 'NAMES = {"CONCAT": "concat"}',
    "a term": 'made = application("concat", {"axis": 0}, x)',
    "a pattern": 'match term:\n    case Application("concat", _, inputs):\n        pass',
    "a match": 'match term.operator:\n    case "concat":\n        pass',
    "a look-up": 'nodes = graph.with_operator("concat")',
    "the registry": 'operator = OPERATORS["concat"]',
    "what is kept by operator": 'found = self._by_operator.get("concat")',
    "a choice": 'name = "concat" if operator in parts else operator',
}


@pytest.mark.parametrize("source", NAMING.values(), ids=NAMING.keys())
def test_an_operator_is_named_by(source: str) -> None:
    assert "concat" in [found.operator for found in occurrences_in("module.py", source)]


OTHER_TEXT = {
    "a docstring": '"""concat"""',
    "a message": 'raise ValueError(f"concat {axis}")',
    "a label": 'x = images.max_pool(x, "maxpool", padding=1)',
    "where an error is": 'axis = axis_of("softmax", axis, rank)',
    "a header": 'document({"name": name, "batch": batch, "seed": seed})',
    "an option": 'examples = {"dim": {"batch": 8}}',
    "an encoding": 'headers = {"Accept-Encoding": "identity"}',
    "an attribute": 'found = operator.approximate == "tanh"\n',
    "an export": '__all__ = ["partition"]',
    "a function of a domain": 'if function == "power":\n    pass',
}


@pytest.mark.parametrize("source", OTHER_TEXT.values(), ids=OTHER_TEXT.keys())
def test_no_operator_is_named_by(source: str) -> None:
    assert occurrences_in("module.py", source) == ()


def test_exemptions_are_for_what_is_there() -> None:
    found = [
        Occurrence("a.py", 3, "relu"),
        Occurrence("folder/b.py", 5, "conv"),
        Occurrence("c.py", 1, "add"),
    ]
    exemptions = {
        "a.py": Exemption("a reason", frozenset({"relu", "tanh"})),
        "folder/": Exemption("a reason"),
        "c.py": Exemption("a reason", frozenset({"sub"})),
        "d.py": Exemption("a reason"),
    }
    assert complaints(found, exemptions) == [
        "c.py:1: add is named; read a trait of it",
        "a.py: exempt for tanh, which it does not name",
        "c.py: exempt for sub, which it does not name",
        "d.py: exempt for any, which it does not name",
    ]
