"""Rules move truth values and indices, but compute with floating point numbers only."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, rule_id
from superopt.ir import ElementType, Graph, Input, TensorType
from superopt.ops.elementwise.selection import LogicalNot, Select
from superopt.ops.lookup import Lookup
from superopt.ops.matrix import Transpose
from superopt.rewriting import Substitution, substitutions_of
from superopt.rewriting.application import apply_match
from superopt.rewriting.matching import find_matches


def substitution(text: str) -> Substitution:
    equation = parse_equation(text)
    return substitutions_of(equation, rule_id(equation))[0]


CHOOSING = {
    "select(c, relu(x), relu(y)) => relu(select(c, x, y))": {"c"},
    "transpose(select(c, x, y)) => select(transpose(c), transpose(x), transpose(y))": {"c"},
    "select(c, x, c) => select(c, x, c)": set[str](),
    "select(logical_not(c), x, y) => select(c, y, x)": {"c"},
    "select(relu(c), x, y) => select(c, x, y)": set[str](),
    "concat[axis=0](lookup(t, i), lookup(t, j)) => lookup(t, concat[axis=0](i, j))": {"i", "j"},
    "add(x, y) => add(y, x)": set[str](),
}


@pytest.mark.parametrize(("rule", "names"), CHOOSING.items(), ids=CHOOSING)
def test_what_only_chooses_may_be_a_truth_value_or_an_index(rule: str, names: set[str]) -> None:
    assert substitution(rule).conditional_variables == names


def graph(condition: ElementType, data: ElementType) -> Graph:
    """Return the transpose of a choice between two tensors, by the negation of a condition."""
    editor = Graph.empty().edit()
    c = editor.add(Input("c", TensorType(condition, (2, 3)))).value
    x, y = (editor.add(Input(name, TensorType(data, (2, 3)))).value for name in "xy")
    negated = editor.add(LogicalNot(), [c]).value
    editor.set_outputs([editor.add(Transpose(), [editor.add(Select(), [negated, x, y]).value]).value])
    return editor.build()


@pytest.mark.parametrize(
    ("condition", "data", "applies"),
    [
        (ElementType.BOOL, ElementType.FLOAT, True),
        (ElementType.BOOL, ElementType.FLOAT16, True),
        (ElementType.FLOAT, ElementType.FLOAT, True),
        (ElementType.BOOL, ElementType.INT64, False),
    ],
)
def test_a_rule_applies_to_floating_point_chosen_by_truth_values(
    condition: ElementType, data: ElementType, *, applies: bool
) -> None:
    rule = substitution("select(logical_not(c), x, y) => select(c, y, x)")
    before = graph(condition, data)
    (match,) = find_matches(before, rule)
    rewrite = apply_match(before, match)
    assert (rewrite is not None) == applies
    if rewrite is not None:
        names = [node.operator.name for node in rewrite.graph if node.inputs]
        assert sorted(names) == ["select", "transpose"]


def test_rows_of_two_lookups_are_joined() -> None:
    editor = Graph.empty().edit()
    table = editor.add(Input("t", TensorType(ElementType.FLOAT, (5, 4)))).value
    indices = editor.add(Input("i", TensorType(ElementType.INT64, (2, 3)))).value
    found = editor.add(Lookup(), [table, indices])
    assert str(found.types[0]) == "f32[2, 3, 4]"
