"""Applying: graphs before and after as text, and the places where a rule does nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

import pytest

from superopt.ir import ElementType, Graph, Input, NodeId, TensorType, Value, format_graph, symbol
from superopt.ops import Opaque
from superopt.ops.activation import Relu
from superopt.ops.elementwise import Add, Identity
from superopt.ops.matrix import Transpose
from superopt.ops.shape import Concat, Split
from superopt.rewriting import Rewrite, apply_match, evaluate_graph, find_matches
from tests.rewriting.graphs import FIELD, arrays_of, check_well_formed, f32, graph_of, rule, values_of


def applied(graph: Graph, text: str, index: int = 0) -> Rewrite | None:
    """What the rule does at its match of that number, checked to be what it says."""
    rewrite = apply_match(graph, list(find_matches(graph, rule(text)))[index])
    if rewrite is not None:
        check_well_formed(rewrite.graph)
        assert set(rewrite.removed) == set(graph.nodes) - set(rewrite.graph.nodes)
        assert set(rewrite.added) == set(rewrite.graph.nodes) - set(graph.nodes)
    return rewrite


def after(graph: Graph, text: str, index: int = 0) -> str:
    """The rewritten graph without its inputs; ``unchanged`` where the rule does not apply."""
    rewrite = applied(graph, text, index)
    if rewrite is None:
        return "unchanged"
    assert values_of(rewrite.graph) == values_of(graph)
    lines = format_graph(rewrite.graph).splitlines()
    return "\n".join(line for line in lines if " = input: " not in line and " = weight: " not in line)


S = (2, 2)
FOUR: Mapping[str, tuple[int, ...]] = dict.fromkeys("abcd", S)


MERGE = (
    "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
    "split1[axis=-1](matmul(x, concat[axis=-1](y, z))))"
)


@dataclass(frozen=True)
class Case:
    """A term, a rule, and the graph after the rule was applied at its match of number ``index``."""

    name: str
    term: str
    rule: str
    after: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: FOUR)
    index: int = 0


CASES = (
    Case(
        "a product is associated",
        "matmul(a, matmul(b, c))",
        "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)",
        """
        %5 = matmul(a, b): f32[2, 4]
        %6 = matmul(%5, c): f32[2, 5]
        return %6
        """,
        shapes={"a": (2, 3), "b": (3, 4), "c": (4, 5)},
    ),
    Case(
        "what another node reads stays",
        "(relu(relu(a)), transpose(relu(a)))",
        "relu(relu(x)) => relu(x)",
        """
        %4 = relu(a): f32[2, 2]
        %6 = transpose(%4): f32[2, 2]
        return %4, %6
        """,
    ),
    Case(
        "what is returned stays",
        "(transpose(transpose(a)), transpose(a))",
        "transpose(transpose(x)) => x",
        """
        %4 = transpose(a): f32[2, 2]
        return a, %4
        """,
    ),
    Case(
        "what the result stands for stays, though only the removed nodes read it",
        "relu(transpose(transpose(sigmoid(a))))",
        "transpose(transpose(x)) => x",
        """
        %4 = sigmoid(a): f32[2, 2]
        %7 = relu(%4): f32[2, 2]
        return %7
        """,
    ),
    Case(
        "an existing node is used again",
        "(matmul(a, matmul(b, c)), matmul(a, b))",
        "matmul(x, matmul(y, z)) => matmul(matmul(x, y), z)",
        """
        %6 = matmul(a, b): f32[2, 2]
        %7 = matmul(%6, c): f32[2, 2]
        return %7, %6
        """,
    ),
    Case(
        "two products become one and a split",
        "(matmul(a, b), matmul(a, c))",
        MERGE,
        """
        %5 = concat[axis=-1](b, c): f32[3, 9]
        %6 = matmul(a, %5): f32[2, 9]
        %7 = split[axis=-1, sizes=(4, 5)](%6): f32[2, 4], f32[2, 5]
        return %7.0, %7.1
        """,
        shapes={"a": (2, 3), "b": (3, 4), "c": (3, 5)},
    ),
    Case(
        "a long concat is taken apart and comes back long",
        "concat[axis=1](relu(a), relu(b), relu(c), d)",
        "concat[axis=k](relu(x), relu(y)) => relu(concat[axis=k](x, y))",
        """
        %4 = relu(a): f32[2, 2]
        %8 = concat[axis=1](b, c): f32[2, 4]
        %9 = relu(%8): f32[2, 4]
        %10 = concat[axis=1](%4, %9, d): f32[2, 8]
        return %10
        """,
        index=1,
    ),
    Case(
        "a concat that is what it was",
        "concat[axis=0](a, b, c)",
        "concat[axis=0](x, y) => concat[axis=0](x, y)",
        """
        unchanged
        """,
    ),
    Case(
        "nested concats become one",
        "concat[axis=0](concat[axis=0](a, b), c)",
        "concat[axis=k](concat[axis=k](x, y), z) => concat[axis=k](x, concat[axis=k](y, z))",
        """
        %6 = concat[axis=0](a, b, c): f32[6, 2]
        return %6
        """,
    ),
    Case(
        "association of what is long already is nothing",
        "concat[axis=0](a, b, c)",
        "concat[axis=k](concat[axis=k](x, y), z) => concat[axis=k](x, concat[axis=k](y, z))",
        """
        unchanged
        """,
    ),
    Case(
        "a window of a concat is replaced",
        "concat[axis=1](d, split0[axis=1, size=1](a), split1[axis=1, size=1](a), c)",
        "concat[axis=k](split0[axis=k](x), split1[axis=k](x)) => x",
        """
        %6 = concat[axis=1](d, a, c): f32[2, 6]
        return %6
        """,
    ),
    Case(
        "an operand that is a bundle becomes a concat where it is needed",
        "concat[axis=0](a, b, c)",
        "concat[axis=0](x, y) => transpose(concat[axis=-1](transpose(x), transpose(y)))",
        """
        %5 = concat[axis=0](a, b): f32[4, 2]
        %6 = transpose(%5): f32[2, 4]
        %7 = transpose(c): f32[2, 2]
        %8 = concat[axis=-1](%6, %7): f32[2, 6]
        %9 = transpose(%8): f32[6, 2]
        return %9
        """,
        index=1,
    ),
    Case(
        "the source may be a part of the target",
        "(relu(a), transpose(relu(a)))",
        "relu(x) => relu(relu(x))",
        """
        %4 = relu(a): f32[2, 2]
        %6 = relu(%4): f32[2, 2]
        %5 = transpose(%6): f32[2, 2]
        return %6, %5
        """,
    ),
    Case(
        "no cycle through nodes that are used again",
        "relu(relu(relu(a)))",
        "relu(x) => relu(relu(relu(x)))",
        """
        unchanged
        """,
    ),
    Case(
        "commuting back is a change",
        "add(a, b)",
        "add(x, y) => add(y, x)",
        """
        %5 = add(b, a): f32[2, 2]
        return %5
        """,
    ),
    Case(
        "a constant gets its shape from the place",
        "relu(a)",
        "relu(x) => mul(relu(x), ones())",
        """
        %1 = relu(a): f32[2, 5]
        %2 = ones[shape=(2, 5)](): f32[2, 5]
        %3 = mul(%1, %2): f32[2, 5]
        return %3
        """,
        shapes={"a": (2, 5)},
    ),
    Case(
        "a cut of the source is a cut of the target",
        "global_avgpool(split0[axis=2, size=2](relu(a)))",
        "global_avgpool(split0[axis=2](relu(x))) => global_avgpool(relu(split0[axis=2](relu(x))))",
        """
        %1 = relu(a): f32[1, 2, 5, 5]
        %2 = split[axis=2, sizes=(2, 3)](%1): f32[1, 2, 2, 5], f32[1, 2, 3, 5]
        %4 = relu(%2.0): f32[1, 2, 2, 5]
        %5 = global_avgpool(%4): f32[1, 2, 1, 1]
        return %5
        """,
        shapes={"a": (1, 2, 5, 5)},
    ),
    Case(
        "a cut that nothing determines",
        "global_avgpool(split0[axis=2, size=2](relu(a)))",
        "global_avgpool(split0[axis=2](relu(x))) => global_avgpool(relu(split0[axis=2](x)))",
        """
        unchanged
        """,
        shapes={"a": (1, 2, 5, 5)},
    ),
    Case(
        "an ill-typed target",
        "matmul(a, b)",
        "matmul(x, y) => matmul(y, x)",
        """
        unchanged
        """,
        shapes={"a": (2, 3), "b": (3, 4)},
    ),
    Case(
        "a target of another shape",
        "relu(transpose(a))",
        "transpose(x) => x",
        """
        unchanged
        """,
        shapes={"a": (2, 3)},
    ),
    Case(
        "a condition that does not hold",
        "relu(relu(a))",
        "relu(relu(x)) => relu(x) where rank(x) = 3",
        """
        unchanged
        """,
    ),
    Case(
        "a declared rank that is another",
        "relu(relu(a))",
        "relu(relu(x: f32[n, c, h])) => relu(x)",
        """
        unchanged
        """,
    ),
    Case(
        "a declared type that fits",
        "relu(relu(a))",
        "relu(relu(x: f32[n, n])) => relu(x)",
        """
        %4 = relu(a): f32[2, 2]
        return %4
        """,
    ),
    Case(
        "a constant of the size that the types determine",
        "conv(conv(a, identity_kernel[kernel=1, channels=4]), b)",
        "conv(conv(x, identity_kernel[kernel=1]), y) => conv(x, y)",
        """
        %5 = conv(a, b): f32[1, 2, 3, 3]
        return %5
        """,
        shapes={"a": (1, 4, 3, 3), "b": (2, 2, 1, 1)},
    ),
    Case(
        "a constant of another size, which makes a grouped convolution of the source",
        "conv(conv(a, identity_kernel[kernel=1, channels=2]), b)",
        "conv(conv(x, identity_kernel[kernel=1]), y) => conv(x, y)",
        """
        unchanged
        """,
        shapes={"a": (1, 4, 3, 3), "b": (2, 2, 1, 1)},
    ),
    Case(
        "a term of both sides is of one type",
        "broadcast[shape=(2, 2, 2)](broadcast[shape=(2, 2)](a))",
        "broadcast(broadcast(x)) => broadcast(x)",
        """
        unchanged
        """,
        shapes={"a": (2,)},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_before_and_after(case: Case) -> None:
    graph = graph_of(case.term, **case.shapes)
    assert after(graph, case.rule, case.index) == dedent(case.after).strip()


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
