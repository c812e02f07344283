"""Matching: where a source occurs, and what its variables stand for there."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from superopt.ir import ElementType, Graph, Input, NodeId, TensorType, Value, Weight
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.shape import Broadcast, Split
from superopt.rewriting import Bundle, Match, find_matches
from tests.rewriting.graphs import f32, graph_of, rule


def found(graph: Graph, text: str) -> list[str]:
    """Every match as ``x=%1, y=[%2 %3], s=(1, 1)``."""
    return [described(graph, match) for match in find_matches(graph, rule(text))]


def described(graph: Graph, match: Match) -> str:
    def name(value: Value) -> str:
        operator = graph[value.node].operator
        port = f".{value.port}" if len(graph[value.node].types) > 1 else ""
        return f"{operator.label if isinstance(operator, Input) else f'%{value.node}'}{port}"

    parts: list[str] = []
    for variable, binding in sorted(match.values.items()):
        if isinstance(binding, Bundle):
            parts.append(f"{variable}=[{' '.join(map(name, binding.values))}]")
        else:
            parts.append(f"{variable}={name(binding)}")
    parts += [f"{key}={value}" for key, value in sorted(match.attributes.items())]
    parts += [f"cut={cut}" for cut in match.cuts.values()]
    parts += [f"operands {match.window.start} to {match.window.stop}"] if match.window else []
    return ", ".join(parts)


M = (2, 2)
MERGE = "(matmul(x, y), matmul(x, z)) => (y, z)"
S = ()
DEEP = (2, 3, 4)
CASES: tuple[tuple[str, str, tuple[int, ...], str], ...] = (
    ("relu(add(a, b))", "relu(x) => x", M, "x=%2"),
    ("sub(a, b)", "sub(x, y) => x", M, "x=a, y=b"),
    ("add(a, b)", "add(x, y) => add(y, x)", M, "x=a, y=b; x=b, y=a"),
    ("add(a, a)", "add(x, y) => add(y, x)", M, "x=a, y=a"),
    ("add(a, b)", "add(x, x) => x", M, ""),
    ("add(relu(a), b)", "add(x, relu(y)) => x", M, "x=b, y=a"),
    ("add(mul(a, b), mul(c, a))", "add(mul(x, y), mul(x, z)) => y", M, "x=a, y=b, z=c; x=a, y=c, z=b"),
    ("(relu(a), relu(b))", "(relu(x), relu(y)) => (x, y)", M, "x=a, y=b"),
    ("(relu(a), relu(b))", "(relu(x), relu(y)) => (x, y) where rank(x) = 2", M, "x=a, y=b; x=b, y=a"),
    ("(matmul(a, b), matmul(a, c), matmul(b, c))", MERGE, M, "x=a, y=b, z=c"),
    ("(relu(a), relu(relu(a)))", "(relu(x), relu(relu(x))) => (x, x)", M, "x=a"),
    ("softmax(a)", "softmax(x) => x", M, "x=a"),
    ("softmax[axis=1](a)", "softmax(x) => x", M, "x=a"),
    ("softmax[axis=0](a)", "softmax(x) => x", M, ""),
    ("softmax[axis=0](softmax[axis=-2](a))", "softmax[axis=k](softmax[axis=k](x)) => x", M, "x=a, k=0"),
    ("transpose(a)", "transpose[perm=(1, 0)](x) => x", M, "x=a"),
    ("transpose[perm=(0, 2, 1)](a)", "transpose(x) => x", DEEP, "x=a"),
    ("transpose[perm=(2, 1, 0)](a)", "transpose(x) => x", DEEP, ""),
    ("transpose(transpose(a))", "transpose[perm=p](transpose[perm=p](x)) => x", M, "x=a, p=(1, 0)"),
    ("scale(a, b)", "scale(x, y) => x", S, "x=a, y=b"),
    ("power[exponent=1/2](a)", "power[exponent=0.5](x) => x", M, "x=a"),
)


@pytest.mark.parametrize(
    ("graph", "text", "shape", "expected"), CASES, ids=[f"{c[0]} | {c[1]}" for c in CASES]
)
def test_matches(graph: str, text: str, shape: tuple[int, ...], expected: str) -> None:
    used = {name: shape for name in "abc" if re.search(rf"\b{name}\b", graph)}
    assert "; ".join(found(graph_of(graph, **used), text)) == expected


FOUR = dict.fromkeys("abcd", (2, 2))


def test_a_long_concat_matches_at_every_cut_and_in_every_window() -> None:
    graph = graph_of("concat[axis=1](a, b, c)", **FOUR)
    assert found(graph, "concat[axis=-1](x, y) => concat[axis=-1](y, x)") == [
        "x=a, y=[b c]",
        "x=[a b], y=c",
        "x=a, y=b, operands 0 to 2",
        "x=b, y=c, operands 1 to 3",
    ]
    assert found(graph, "concat[axis=0](x, y) => concat[axis=0](y, x)") == []


def test_a_nested_concat_of_a_rule_matches_a_long_one() -> None:
    graph = graph_of("concat[axis=1](a, b, c)", **FOUR)
    assert found(
        graph, "concat[axis=k](concat[axis=k](x, y), z) => concat[axis=k](z, concat[axis=k](x, y))"
    ) == ["x=a, y=b, z=c, k=1"]


def test_operators_within_a_long_concat() -> None:
    graph = graph_of("concat[axis=1](a, relu(b), relu(c), d)", **FOUR)
    assert found(graph, "concat[axis=k](relu(x), relu(y)) => relu(concat[axis=k](x, y))") == [
        "x=b, y=c, k=1, operands 1 to 3"
    ]
    assert found(graph, "concat[axis=k](x, relu(y)) => x") == [
        "x=a, y=b, k=1, operands 0 to 2",
        "x=%4, y=c, k=1, operands 1 to 3",
    ]


def test_the_same_window_twice_is_one_match() -> None:
    graph = graph_of("concat[axis=1](a, a, a, b)", **FOUR)
    windows = [text for text in found(graph, "concat[axis=1](x, y) => relu(x)") if "operands" in text]
    assert windows == ["x=a, y=a, operands 0 to 2", "x=a, y=b, operands 2 to 4"]


SCALED = "(scale(x, y), scale(z, y)) => (x, z)"


@pytest.mark.parametrize("factor", ["c", "full[value=3]()"])
def test_operators_that_share_a_number_alone_do_not_match_together(factor: str) -> None:
    graph = graph_of(f"(scale(a, {factor}), scale(b, {factor}), relu(c))", a=(2, 2), b=(2, 2), c=())
    assert list(find_matches(graph, rule(SCALED), through_numbers=False)) == []
    assert len(found(graph, SCALED)) == 1


def test_operators_that_share_a_number_and_a_tensor_match_together() -> None:
    graph = graph_of("(scale(a, c), relu(scale(a, c)))", a=(2, 2), c=())
    both = rule("(scale(x, y), relu(scale(x, y))) => (x, x)")
    assert [described(graph, m) for m in find_matches(graph, both, through_numbers=False)] == ["x=a, y=c"]


def split_graph(*sizes: int) -> Graph:
    editor = Graph.empty().edit()
    a = editor.add(Input("a", f32(sum(sizes), 2))).value
    editor.set_outputs(editor.add(Split(-2, sizes), (a,)).values)
    return editor.build()


def test_halves_are_the_first_and_the_last_output() -> None:
    two, three = split_graph(1, 3), split_graph(1, 2, 4)
    assert found(two, "split0[axis=0](x) => x") == ["x=a, cut=1"]
    assert found(two, "split1[axis=0](x) => x") == ["x=a, cut=1"]
    assert found(two, "(split0[axis=k](x), split1[axis=k](x)) => (x, x)") == ["x=a, k=-2, cut=1"]
    assert found(three, "split0[axis=0](x) => x") == ["x=a, cut=1"]
    assert found(three, "split1[axis=0](x) => x") == ["x=a, cut=3"]
    assert found(three, "(split0[axis=0](x), split1[axis=0](x)) => (x, x)") == [], "the cuts differ"
    assert found(two, "split0[axis=0, size=1](x) => x") == ["x=a, cut=1"]
    assert found(two, "split0[axis=0, size=2](x) => x") == []


def test_halves_of_a_concat_are_its_operands_or_they_do_not_match() -> None:
    text = "global_avgpool(split0[axis=2](concat[axis=2](x, y))) => global_avgpool(x)"
    image = {"a": (1, 2, 3, 3), "b": (1, 2, 4, 3)}
    term = "global_avgpool(split0[axis=2, size={}](concat[axis=2](a, b)))"
    assert found(graph_of(term.format(3), **image), text) == ["x=a, y=b, cut=3"]
    assert found(graph_of(term.format(4), **image), text) == []
    long = "global_avgpool(split0[axis=2, size=6](concat[axis=2](a, a, b)))"
    assert found(graph_of(long, **image), text) == ["x=[a a], y=b, cut=6"]
    other_axis = "global_avgpool(split0[axis=1, size=1](concat[axis=2](a, b)))"
    assert found(graph_of(other_axis, **image), text) == []


IMAGE = {"a": (1, 4, 6, 6), "u": (2, 4, 1, 1), "v": (2, 4, 3, 3)}


@pytest.mark.parametrize(
    ("term", "pattern", "expected"),
    [
        ("conv[padding=same](a, u)", "conv(x, y) => x", ["x=a, y=u"]),
        ("conv(a, u)", "conv[padding=same](x, y) => x", ["x=a, y=u"]),
        ("conv(a, v)", "conv[padding=same](x, y) => x", []),
        ("conv[padding=(1, 1, 1, 1)](a, v)", "conv[padding=same](x, y) => x", ["x=a, y=v"]),
        ("conv[padding=same_upper](a, v)", "conv[padding=same](x, y) => x", ["x=a, y=v"]),
        ("conv[padding=same_upper, stride=2](a, v)", "conv[padding=same, stride=2](x, y) => x", []),
        ("conv[padding=(1, 1, 1, 1)](a, v)", "conv[padding=p](x, y) => x", ["x=a, y=v, p=(1, 1, 1, 1)"]),
        ("maxpool[kernel=1](a)", "maxpool[kernel=1, padding=same](x) => x", ["x=a"]),
    ],
)
def test_paddings_match_by_what_they_mean(term: str, pattern: str, expected: list[str]) -> None:
    assert found(graph_of(term, **IMAGE), pattern) == expected


def test_a_shared_padding_is_one_that_fits_both() -> None:
    pair = "(conv[padding=p](x, y), conv[padding=p](x, z)) => (x, x)"
    both = graph_of("(conv(a, u), conv[padding=(1, 1, 1, 1)](a, v))", **IMAGE)
    assert found(both, pair) == ["x=a, y=u, z=v, p=same"]
    neither = graph_of("(conv(a, u), conv[padding=(2, 2, 2, 2)](a, v))", **IMAGE)
    assert found(neither, pair) == []
    asked = "(conv[padding=p](x, y), conv[padding=p](x, z)) => (x, x) where p = same"
    assert found(both, asked)[0].endswith("p=same")


def test_roots_limit_where_the_first_root_is() -> None:
    graph = graph_of("(relu(a), relu(relu(a)))", **FOUR)
    substitution = rule("relu(x) => x")
    relus = graph.with_operator("relu")
    assert len(relus) == 2
    for node in relus:
        assert [m.sites for m in find_matches(graph, substitution, [node])] == [(node,)]
    assert list(find_matches(graph, substitution, [NodeId(0), NodeId(99)])) == []


def test_a_node_that_waits_for_an_effect_is_left_alone() -> None:
    editor = graph_of("relu(relu(a))", **FOUR).edit()
    inner, outer = editor.build().with_operator("relu")
    moved = editor.add(editor[outer].operator, (Value(inner),), after=(NodeId(1),))
    editor.set_outputs((moved.value,))
    graph = editor.build()
    assert [m.sites[0] for m in find_matches(graph, rule("relu(relu(x)) => relu(x)"))] == [outer]


def test_matching_does_not_look_at_element_types() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("a", TensorType(ElementType.INT64, (2, 2)))).value
    editor.set_outputs((editor.add(Split(0, (1, 1)), (x,)).value,))
    assert found(editor.build(), "split0[axis=0](x) => x") == ["x=a, cut=1"]


def test_a_constant_matches_a_weight_that_repeats_its_number() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("a", TensorType(ElementType.FLOAT, (2, 3)))).value
    small = editor.add(Weight("w", TensorType(ElementType.FLOAT, ()), Fraction(1, 3))).value
    repeated = editor.add(Broadcast((2, 3)), (small,)).value
    editor.set_outputs((editor.add(Add(), (x, repeated)).value,))
    graph = editor.build()
    (match,) = find_matches(graph, rule("add(x, full[value=v]()) => hard_sigmoid[alpha=v](x)"))
    assert match.attributes == {"v": Fraction(1, 3)}
    assert [*find_matches(graph, rule("add(x, full[value=1/3]()) => x"))]
    assert not [*find_matches(graph, rule("add(x, full[value=1/4]()) => x"))]
    assert not [*find_matches(graph, rule("add(x, ones()) => x"))]
