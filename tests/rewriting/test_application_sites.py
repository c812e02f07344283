"""Applying: what stays as it is, and the places where a rule does nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from superopt.ir import ElementType, Graph, Input, NodeId, TensorType, Value, format_graph, symbol
from superopt.ops import Opaque
from superopt.ops.elementwise.activation import Relu, Tanh
from superopt.ops.elementwise.arithmetic import Add, Identity
from superopt.ops.matrix import Transpose
from superopt.ops.shape import Concat, Split
from superopt.rewriting import evaluate_graph, find_matches
from superopt.rewriting.application import Obstacle, obstacle
from tests.rewriting.graphs import FIELD, MERGE, after, applied, arrays_of, f32, graph_of, rule, values_of

S = (2, 2)
FOUR: Mapping[str, tuple[int, ...]] = dict.fromkeys("abcd", S)


def three_way(*, axis: int) -> Graph:
    editor = Graph.empty().edit()
    a = editor.add(Input("a", f32(2, 6))).value
    parts = editor.add(Split(axis, (1, 2, 3)), (a,)).values
    results = [editor.add(Relu(), (part,)).value for part in parts]
    editor.set_outputs(results)
    return editor.build()


def test_other_outputs_of_a_split_stay() -> None:
    graph = three_way(axis=1)
    assert after(graph, "relu(split0[axis=a](x)) => split0[axis=a](relu(x))") == (
        "%1 = split[axis=1, sizes=(1, 2, 3)](a): f32[2, 1], f32[2, 2], f32[2, 3]\n"
        "%3 = relu(%1.1): f32[2, 2]\n"
        "%4 = relu(%1.2): f32[2, 3]\n"
        "%5 = relu(a): f32[2, 6]\n"
        "%6 = split[axis=1, sizes=(1, 5)](%5): f32[2, 1], f32[2, 5]\n"
        "return %6.0, %3, %4"
    )
    assert "sizes=(3, 3)" in after(graph, "relu(split1[axis=a](x)) => split1[axis=a](relu(x))")


def test_outputs_that_depend_on_each_other_are_not_merged() -> None:
    """Dissertation, Fig. 2.6: the merged node would need its own result."""
    dependent = graph_of("matmul(a, relu(matmul(a, b)))", a=S, b=S)
    assert len(list(find_matches(dependent, rule(MERGE)))) == 1
    assert after(dependent, MERGE) == "unchanged"
    independent = graph_of("matmul(matmul(a, b), relu(matmul(a, c)))", a=S, b=S, c=S)
    assert after(independent, MERGE) != "unchanged"


def test_outputs_that_depend_on_each_other_by_order_alone_are_not_merged() -> None:
    editor = graph_of("(matmul(a, b), matmul(a, c))", a=S, b=S, c=S).edit()
    first, second = editor.build().with_operator("matmul")
    c = editor[second].inputs[1]
    effect = editor.add(Opaque("", "Barrier", 0, "effect"), (c,), types=(f32(2, 2),), after=(first,))
    editor.set_inputs_of(second, (editor[second].inputs[0], effect.value))
    graph = editor.build()
    assert applied(graph, MERGE) is None


def test_a_node_that_another_waits_for_stays() -> None:
    editor = graph_of("relu(relu(a))", a=S).edit()
    inner, outer = editor.build().with_operator("relu")
    effect = editor.add(
        Opaque("", "Print", 0, "effect"), (Value(NodeId(0)),), types=(f32(2, 2),), after=(outer,)
    )
    editor.set_outputs((Value(outer), effect.value))
    rewrite = applied(editor.build(), "relu(relu(x)) => relu(x)")
    assert rewrite is not None
    assert outer in rewrite.graph.nodes
    assert rewrite.graph.outputs == (Value(inner), effect.value)


def test_a_waiting_node_is_not_used_again() -> None:
    editor = graph_of("matmul(a, matmul(b, c))", **FOUR).edit()
    a, b, _, _ = (Value(node) for node in editor.build().inputs)
    root = editor.outputs[0]
    sink = editor.add(Relu(), (root,))
    late = editor.add(editor[root.node].operator, (a, b), after=(sink.id,))
    editor.set_outputs((sink.value, late.value))
    rewrite = applied(editor.build(), "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)")
    assert rewrite is not None
    assert rewrite.graph[rewrite.replaced[root].node].inputs[0].node != late.id


def test_an_opaque_node_is_never_removed() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", f32(2, 2))).value
    opaque = editor.add(Opaque("", "Custom", 0, "unknown"), (x,), types=(f32(2, 2),))
    zero = editor.add(Add(), (opaque.value, x))
    editor.set_outputs((zero.value,))
    rewrite = applied(editor.build(), "add(x, y) => y")
    assert rewrite is not None
    assert opaque.id in rewrite.graph.nodes
    assert rewrite.removed == (zero.id,)


def test_integers_and_unknown_types_are_left_alone() -> None:
    for element in (ElementType.INT64, ElementType.BOOL):
        editor = Graph.empty().edit()
        x = editor.add(Input("x", TensorType(element, (2, 2)))).value
        inner = editor.add(Transpose(), (x,))
        editor.set_outputs((editor.add(Transpose(), (inner.value,)).value,))
        assert applied(editor.build(), "transpose(transpose(x)) => x") is None


def test_symbolic_sizes_stay_and_are_not_solved_for() -> None:
    n, m = symbol("n"), symbol("?")
    editor = Graph.empty().edit()
    a = editor.add(Input("a", TensorType(ElementType.FLOAT, (n, 3)))).value
    b = editor.add(Input("b", TensorType(ElementType.FLOAT, (m, 3)))).value
    c = editor.add(Concat(0), (editor.add(Relu(), (a,)).value, editor.add(Relu(), (b,)).value))
    editor.set_outputs((c.value,))
    graph = editor.build()
    rewrite = applied(graph, "concat[axis=k](relu(x), relu(y)) => relu(concat[axis=k](x, y))")
    assert rewrite is not None
    assert str(rewrite.graph.type_of(rewrite.graph.outputs[0])) == "f32[? + n, 3]"
    assert applied(graph, "concat[axis=k](x, y) => concat[axis=k](y, x)") is not None
    assert applied(graph, "concat[axis=0](x, y) => concat[axis=0](x, x)") is None, "n is not said to be ?"


@pytest.mark.parametrize(
    ("rule", "may_be_open"),
    [
        ("tanh(x) => sub(ones(), sub(ones(), tanh(x)))", True),
        ("tanh(x) => sub(tanh(x), full[value=0]())", True),
        ("tanh(x) => matmul(identity_matrix(), tanh(x))", False),
    ],
)
def test_constants_of_open_size_are_those_of_one_number(rule: str, may_be_open: bool) -> None:  # noqa: FBT001
    for size, applies in ((4, True), (symbol("n"), may_be_open)):
        editor = Graph.empty().edit()
        x = editor.add(Input("x", TensorType(ElementType.FLOAT, (size, 3)))).value
        editor.set_outputs((editor.add(Tanh(), (x,)).value,))
        assert (applied(editor.build(), rule) is not None) is applies


def test_a_double_precision_graph_takes_no_single_precision_constants() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(ElementType.DOUBLE, (2, 2)))).value
    editor.set_outputs((editor.add(Relu(), (x,)).value,))
    assert applied(editor.build(), "relu(x) => mul(relu(x), ones())") is None


def test_inputs_may_be_returned_and_take_the_place_of_nodes() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", f32(2))).value
    same = editor.add(Identity(), (x,))
    editor.set_outputs((same.value, x, same.value))
    rewrite = applied(editor.build(), "identity(x) => x")
    assert rewrite is not None
    assert rewrite.graph.outputs == (x, x, x)
    assert rewrite.removed == (same.id,)


def test_the_original_graph_is_as_it_was() -> None:
    graph = graph_of("matmul(a, matmul(b, c))", **FOUR)
    before, values = format_graph(graph), values_of(graph)
    assert applied(graph, "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)") is not None
    assert format_graph(graph) == before
    assert values_of(graph) == values


def test_graphs_are_evaluated_only_as_far_as_they_are_known() -> None:
    graph = graph_of("(relu(a), transpose(b))", a=S, b=(2, 3))
    results = evaluate_graph(graph, FIELD, arrays_of(graph))
    assert [FIELD.shape(array) for array in results] == [(2, 2), (3, 2)]


def test_a_rule_that_permutes_openly_is_applied_to_few_axes_only() -> None:
    """It is proved for tensors of at most 5 axes."""
    text = "transpose[perm=p](relu(x)) => relu(transpose[perm=p](x))"
    few = graph_of("transpose[perm=(4, 0, 1, 2, 3)](relu(a))", a=(1, 2, 3, 4, 5))
    many = graph_of("transpose[perm=(5, 0, 1, 2, 3, 4)](relu(a))", a=(1, 2, 3, 4, 5, 6))
    assert after(few, text) != "unchanged"
    assert after(many, text) == "unchanged"
    (match,) = find_matches(many, rule(text))
    assert obstacle(many, match) == Obstacle("the rule speaks of tensors of rank 5 at most")
