"""Graphs: edits derive, nothing changes under anyone's feet, indices are those of a graph built anew."""

from __future__ import annotations

import pytest

from superopt.errors import IllTypedError
from superopt.ir import (
    CyclicGraphError,
    ElementType,
    FusionGroup,
    Graph,
    Input,
    NodeId,
    Plan,
    TensorType,
    UnknownType,
    Value,
    Weight,
    format_graph,
    symbol,
)
from superopt.ops import Opaque
from superopt.ops.elementwise.activation import Relu
from superopt.ops.elementwise.arithmetic import Add
from superopt.ops.matrix import Matmul
from superopt.ops.shape import Split

F32 = ElementType.FLOAT


def small() -> Graph:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(F32, (2, 3)))).value
    w = editor.add(Weight("w", TensorType(F32, (3, 4)))).value
    y = editor.add(Matmul(), (x, w)).value
    halves = editor.add(Split(1, (1, 3)), (y,)).values
    r = editor.add(Relu(), (halves[1],)).value
    editor.set_outputs((r, halves[0]))
    return editor.build()


def test_a_graph_as_text() -> None:
    assert format_graph(small()) == (
        "x = input: f32[2, 3]\n"
        "w = weight: f32[3, 4]\n"
        "%2 = matmul(x, w): f32[2, 4]\n"
        "%3 = split[axis=1, sizes=(1, 3)](%2): f32[2, 1], f32[2, 3]\n"
        "%4 = relu(%3.1): f32[2, 3]\n"
        "return %4, %3.0"
    )


def test_an_edit_leaves_the_graph_and_what_was_built_before() -> None:
    graph = small()
    before = format_graph(graph)
    editor = graph.edit()
    added = editor.add(Relu(), (Value(NodeId(2)),))
    first = editor.build()
    first_text = format_graph(first)
    editor.remove((added.id,))
    editor.set_outputs(())
    second = editor.build()
    assert format_graph(graph) == before
    assert format_graph(first) == first_text
    assert added.id in first.nodes
    assert added.id not in second.nodes
    assert second.next_id == first.next_id, "ids are not given twice"


def test_indices_follow_edits() -> None:
    graph = small()
    assert graph.users(NodeId(2)) == (3,)
    assert graph.with_operator("relu") == (4,)
    editor = graph.edit()
    new = editor.add(Relu(), (Value(NodeId(2)),))
    editor.redirect({Value(NodeId(3), 1): Value(NodeId(3), 0)}, (NodeId(4),))
    editor.set_inputs_of(NodeId(3), (new.value,))
    edited = editor.build()
    assert edited.users(NodeId(2)) == (new.id,)
    assert edited.users(new.id) == (3,)
    assert edited.users(NodeId(3)) == (4,)
    assert edited.with_operator("relu") == (4, new.id)
    assert edited.with_operator("conv") == ()
    assert format_graph(edited).endswith("return %4, %3.0")


def test_used_once_means_one_slot_of_one_node_and_no_output() -> None:
    graph = small()
    assert graph.is_used_once(Value(NodeId(2)))
    assert graph.is_used_once(Value(NodeId(3), 1))
    assert not graph.is_used_once(Value(NodeId(3), 0)), "it is returned"
    editor = graph.edit()
    editor.add(Add(), (Value(NodeId(4)), Value(NodeId(4))))
    editor.set_outputs(())
    assert not editor.build().is_used_once(Value(NodeId(4))), "both slots of one node"


def test_order_has_inputs_first_and_ties_by_id() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(F32, (2,)))).value
    late = editor.add(Relu(), (x,))
    early = editor.add(Relu(), (x,))
    editor.set_inputs_of(late.id, (early.value,))
    graph = editor.build()
    assert graph.order == (0, 2, 1)
    assert graph.position == {0: 0, 2: 1, 1: 2}


def test_a_cycle_is_an_error() -> None:
    editor = small().edit()
    editor.set_inputs_of(NodeId(2), (Value(NodeId(4)), Value(NodeId(1))))
    with pytest.raises(CyclicGraphError, match="3 nodes depend on themselves"):
        _ = editor.build().order


def test_ordering_edges_order_nodes_and_are_kept_aside() -> None:
    editor = Graph.empty().edit()
    x = editor.add(Input("x", TensorType(F32, (2,)))).value
    effect = editor.add(
        Opaque("", "Print", 0, "an effect"), (x,), types=(TensorType(F32, (2,)),), after=(NodeId(2),)
    )
    first = editor.add(Relu(), (x,))
    graph = editor.build()
    assert graph.order == (0, first.id, effect.id)
    assert graph.awaited == {first.id}
    text = format_graph(graph)
    assert "%1 = opaque[domain=, op_type=Print, index=0, reason=an effect](x): f32[2] after %2" in text


def test_weight_only_stops_at_inputs_and_at_what_cannot_be_folded() -> None:
    editor = Graph.empty().edit()
    w = editor.add(Weight("w", TensorType(F32, (2,)))).value
    x = editor.add(Input("x", TensorType(F32, (2,)))).value
    folded = editor.add(Relu(), (w,))
    random = editor.add(Opaque("", "Random", 0, "random"), (w,), types=(TensorType(F32, (2,)),))
    editor.add(Relu(), (random.value,))
    editor.add(Add(), (folded.value, x))
    assert editor.build().weight_only == {w.node, folded.id}


def test_signatures_see_the_computation_and_not_the_ids() -> None:
    graph = small()
    editor = graph.edit()
    editor.remove((NodeId(4),))
    again = editor.add(Relu(), (Value(NodeId(3), 1),))
    editor.set_outputs((again.value, Value(NodeId(3), 0)))
    same = editor.build()
    assert same.signature == graph.signature
    editor.set_outputs((Value(NodeId(3), 0), again.value))
    assert editor.build().signature != graph.signature, "outputs in another order"
    editor.set_inputs_of(again.id, (Value(NodeId(2)),))
    assert editor.build().signature != graph.signature, "another operand"


def test_an_ill_typed_node_is_not_added() -> None:
    editor = small().edit()
    with pytest.raises(IllTypedError, match="matmul: dimensions 3 and 2 must be equal"):
        editor.add(Matmul(), (Value(NodeId(0)), Value(NodeId(0))))


def test_types_as_text() -> None:
    type_ = TensorType(ElementType.FLOAT16, (symbol("n"), 2 * symbol("n") + 1, 3))
    assert str(type_) == "f16[n, 2*n + 1, 3]"
    assert str(type_.substitute({"n": 4})) == "f16[4, 9, 3]"
    assert type_.symbols == {"n"}
    assert str(type_.elements) == "6*n*n + 3*n"
    assert str(UnknownType("a sequence")) == "a sequence"


def test_a_plan_forgets_what_the_graph_no_longer_has() -> None:
    graph = small()
    plan = Plan({NodeId(2): FusionGroup(NodeId(2), (NodeId(2), NodeId(4)))})
    assert plan.restricted_to(graph) == plan
    editor = graph.edit()
    editor.set_outputs(())
    editor.remove((NodeId(4),))
    assert plan.restricted_to(editor.build()) == Plan()
