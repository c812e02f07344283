"""Which terms equality saturation finds equal, and which it must not."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from superopt.equations import parse_equation
from superopt.errors import MissingServiceError
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting import substitutions_of, type_equation
from superopt.rewriting.egraph import Rules, Saturation, SaturationLimits
from superopt.rewriting.egraph.engine import Engine

ASSOCIATIVE = "concat[axis=a](concat[axis=a](x, y), z) <=> concat[axis=a](x, concat[axis=a](y, z))"
HALF = "split0[axis=a](concat[axis=a](x, y)) => x"
RELU = "relu(relu(x)) => relu(x)"
IDENTITY = "matmul(x, identity_matrix()) => x"
TRANSPOSED = "transpose(identity_matrix()) => identity_matrix()"
COMMUTATIVE = "add(x, y) <=> add(y, x)"
CONCAT_OF_SUMS = "add(concat[axis=a](x, y), concat[axis=a](z, w)) <=> concat[axis=a](add(x, z), add(y, w))"
OUTPUT_CHANNELS = (
    "concat[axis=1](conv(x, y), conv(x, z)) <=> conv(x, concat[axis=0](y, z)) where groups(x, y) = 1"
)

Shapes = Mapping[str, tuple[int, ...]]

MATRICES: Shapes = {"x": (2, 6), "y": (3, 6), "z": (5, 6)}
ALIGNED: Shapes = {"x": (2, 6), "y": (3, 6), "z": (2, 6), "w": (3, 6)}
MISALIGNED: Shapes = {"x": (2, 6), "y": (3, 6), "z": (1, 6), "w": (4, 6)}
ONE_GROUP: Shapes = {"x": (1, 4, 9, 9), "y": (6, 4, 3, 3), "z": (8, 4, 3, 3)}
TWO_GROUPS: Shapes = {"x": (1, 4, 9, 9), "y": (6, 2, 3, 3), "z": (8, 2, 3, 3)}

CASES: dict[str, tuple[tuple[str, ...], str, Shapes, Mapping[str, object], int | None]] = {
    "at once": ((RELU,), "relu(relu(relu(x))) => relu(relu(x))", MATRICES, {}, 1),
    "inside a term": ((RELU,), "transpose(relu(relu(x))) => transpose(relu(x))", MATRICES, {}, 1),
    "in two steps": ((IDENTITY, TRANSPOSED), "matmul(x, transpose(identity_matrix())) => x", MATRICES, {}, 2),
    "not in three": ((IDENTITY,), "transpose(relu(x)) => relu(transpose(x))", MATRICES, {}, None),
    "whatever the order": ((COMMUTATIVE, RELU), "add(relu(relu(x)), z) => add(z, relu(x))", ALIGNED, {}, 1),
    "an open attribute of the rule": (
        (HALF,), "split0[axis=0](concat[axis=0](x, y)) => x", MATRICES, {}, 1
    ),
    "an open attribute that the rule leaves open": (
        (HALF,), "split0[axis=b](concat[axis=b](x, y)) => x", MATRICES, {"b": 0}, 1
    ),
    "an open attribute that the rule does not leave open": (
        ("split0[axis=0](concat[axis=0](x, y)) => x",),
        "split0[axis=b](concat[axis=b](x, y)) => x", MATRICES, {"b": 0}, None,
    ),
    "halves of a regrouped concat stay where they are cut": (
        (ASSOCIATIVE, HALF),
        "split0[axis=0](concat[axis=0](concat[axis=0](x, y), z)) => concat[axis=0](x, y)", MATRICES, {}, 1,
    ),
    "blocks that are aligned": (
        (CONCAT_OF_SUMS,),
        "relu(add(concat[axis=0](x, y), concat[axis=0](z, w))) => relu(concat[axis=0](add(x, z), add(y, w)))",
        ALIGNED, {}, 1,
    ),
    "a condition that holds": (
        (OUTPUT_CHANNELS,),
        "relu(concat[axis=1](conv(x, y), conv(x, z))) => relu(conv(x, concat[axis=0](y, z)))",
        ONE_GROUP, {}, 1,
    ),
    "a condition that does not hold": (
        (OUTPUT_CHANNELS,),
        "relu(concat[axis=1](conv(x, y), conv(x, z))) => relu(conv(x, concat[axis=0](y, z)))", TWO_GROUPS, {},
        None,
    ),
}  # fmt: skip


def _rules(*texts: str) -> Rules:
    rules = Rules()
    for text in texts:
        for substitution in substitutions_of(parse_equation(text), text):
            rules.add(substitution)
    return rules


def _types(shapes: Shapes) -> dict[str, TensorType]:
    return {name: TensorType(ElementType.FLOAT, shape) for name, shape in shapes.items()}


def _asked(
    rules: Rules, questions: Mapping[int, str], shapes: Shapes, attributes: Mapping[str, object]
) -> Saturation:
    graph = Saturation(rules)
    for number, text in questions.items():
        equation = parse_equation(text)
        typing = type_equation(equation, _types(shapes), attributes)
        world = graph.world(number, _types(shapes))
        world.ask(number, equation.left[0], equation.right[0], typing)
    return graph


@pytest.mark.parametrize(("rules", "question", "shapes", "attributes", "steps"), CASES.values(), ids=CASES)
def test_what_is_equal_and_after_how_many_steps(
    rules: tuple[str, ...],
    question: str,
    shapes: Shapes,
    attributes: Mapping[str, object],
    steps: int | None,
) -> None:
    outcome = _asked(_rules(*rules), {7: question}, shapes, attributes).run(SaturationLimits(steps=3))
    assert dict(outcome.equal) == ({} if steps is None else {7: steps})
    assert outcome.complete


def test_blocks_that_are_not_aligned_are_not_added_block_by_block() -> None:
    rules = _rules(CONCAT_OF_SUMS, HALF, ASSOCIATIVE)
    graph = Saturation(rules)
    equation = parse_equation("split0[axis=0](add(concat[axis=0](x, y), concat[axis=0](z, w))) => relu(x)")
    typing = type_equation(equation, _types(MISALIGNED))
    world = graph.world(1, _types(MISALIGNED))
    world.ask(1, equation.left[0], equation.right[0], typing)
    assert not graph.run(SaturationLimits(steps=4)).equal


def test_terms_of_different_worlds_do_not_meet() -> None:
    graph = Saturation(_rules(HALF))
    useful = parse_equation("split0[axis=0](concat[axis=0](x, y)) => x")
    graph.world(1, _types(MATRICES)).insert(useful.left[0], type_equation(useful, _types(MATRICES)))
    asked = parse_equation("relu(x) => relu(relu(x))")
    graph.world(2, _types(MATRICES)).ask(
        2, asked.left[0], asked.right[0], type_equation(asked, _types(MATRICES))
    )
    assert not graph.run(SaturationLimits()).equal


def test_rules_added_later_are_applied() -> None:
    rules = _rules(TRANSPOSED)
    graph = _asked(rules, {1: "matmul(x, transpose(identity_matrix())) => x"}, MATRICES, {})
    assert not graph.run(SaturationLimits()).equal
    (substitution,) = substitutions_of(parse_equation(IDENTITY), "")
    rules.add(substitution)
    assert 1 in graph.run(SaturationLimits()).equal


def test_two_outputs_are_replaced_together() -> None:
    merge = (
        "(relu(x), relu(y)) => (split0[axis=0](relu(concat[axis=0](x, y))), "
        "split1[axis=0](relu(concat[axis=0](x, y))))"
    )
    equation = parse_equation(merge)
    typing = type_equation(equation, _types(MATRICES))
    for rules, expected in ((_rules(merge), {1: 1}), (_rules(HALF, ASSOCIATIVE), {})):
        graph = Saturation(rules)
        world = graph.world(1, {name: _types(MATRICES)[name] for name in "xy"})
        for term in equation.left:
            world.insert(term, typing)
        world.ask_all(1, list(zip(equation.left, equation.right, strict=True)), typing)
        assert dict(graph.run(SaturationLimits(steps=1)).equal) == expected


def test_a_limit_on_nodes_ends_a_run_incomplete() -> None:
    graph = _asked(_rules(RELU), {1: "relu(relu(relu(x))) => relu(x)"}, MATRICES, {})
    assert not graph.run(SaturationLimits(nodes=1)).complete


def test_without_egglog_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "egglog.bindings", None)
    with pytest.raises(MissingServiceError, match=r"superopt\[discovery\]"):
        Saturation(Rules()).run(SaturationLimits())


def test_an_e_graph_is_dropped_where_it_was_made_whoever_collects_it() -> None:
    pytest.importorskip("egglog.bindings")
    engine = Engine()
    known = weakref.ref(engine)
    cycle: list[object] = [engine]
    cycle.append(cycle)
    del cycle, engine
    with ThreadPoolExecutor(1) as other:
        other.submit(gc.collect).result()
    assert known() is None
    assert Engine().sizes() == {}
