"""Dependencies that a graph does not show: sizes read at run time never make what is written cyclic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

from superopt.errors import UnsupportedError
from superopt.ir import CyclicGraphError, NodeId, Plan, TensorType, Value
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.onnx_io.lowering.ordering import in_order
from superopt.ops import Opaque
from superopt.ops.shape import Broadcast
from tests.onnx_io.kit import assert_same_results, model, node, tensor, value, weight
from tests.onnx_io.lowering.rewriting import rewritten

DISTRIBUTE = "mul(add(x, y), z) => add(mul(x, z), mul(y, z))"
COMMUTE = "add(x, y) => add(y, x)"


def selected_rows() -> onnx.ModelProto:
    """How many rows Compress selects is known at run time only, and sums are as long."""
    nodes = [
        node("Add", "x u", "a"),
        node("Compress", "a which", "c", axis=0),
        node("Div", "c v", "e"),
        node("Add", "c v", "d"),
        node("Mul", "d w", "m"),
        node("Sub", "e m", "y"),
    ]
    weights = [
        weight("u", 3, 2, 4),
        weight("v", 2, 4),
        weight("w", 2, 4),
        tensor("which", [1, 0, 1], np.bool_),
    ]
    return model(nodes, [value("x", [3, 2, 4])], [value("y", [None, 2, 4])], weights)


@pytest.mark.parametrize("rules", [(DISTRIBUTE,), (COMMUTE, DISTRIBUTE)], ids=["new", "behind new nodes"])
def test_a_size_is_read_where_it_comes_from(rules: Sequence[str]) -> None:
    """Not from a tensor that is itself expanded to that size, although it stands earlier in the graph."""
    content = selected_rows().SerializeToString()
    lifted = lift(load_model(content))
    written = lower(lifted, rewritten(lifted, *rules), Plan()).to_bytes()
    assert_same_results(content, written)


def test_a_size_that_is_known_too_late_is_no_reason_to_write_a_cycle() -> None:
    lifted = lift(load_model(selected_rows()))
    (compress,) = (n for n in lifted.graph if isinstance(n.operator, Opaque))
    selected = lifted.graph.type_of(compress.value)
    assert isinstance(selected, TensorType)
    editor = lifted.graph.edit()
    expanded = editor.add(Broadcast(selected.shape), (Value(producer(lifted, "v")),))
    editor.set_inputs_of(compress.id, (expanded.value, *compress.inputs[1:]))
    with pytest.raises(UnsupportedError, match=r"broadcast: no tensor that is computed before it has a dim"):
        lower(lifted, editor.build(), Plan())


def test_a_copied_node_that_would_need_itself_is_written_anew() -> None:
    """The second Expand reads the shape of what comes after the first; then that reads the second."""
    nodes = [
        node("Expand", "x first", "a"),
        node("Relu", "a", "b"),
        node("Shape", "b", "shape"),
        node("Relu", "x", "z"),
        node("Expand", "z shape", "c"),
        node("Add", "b c", "y"),
    ]
    made = model(nodes, [value("x", ["n", 1, 4])], [value("y", ["n", 2, 4])],
                 [tensor("first", [1, 2, 4], np.int64)])  # fmt: skip
    content = made.SerializeToString()
    lifted = lift(load_model(content))
    relu = producer(lifted, "b")
    editor = lifted.graph.edit()
    editor.set_inputs_of(relu, (Value(producer(lifted, "c")),))
    written = lower(lifted, editor.build(), Plan()).to_bytes()
    assert_same_results(content, written)


def test_what_a_copied_node_reads_beside_the_graph_may_be_gone() -> None:
    lifted = lift(load_model(runtime_shape()))
    shape = next(n for n in lifted.graph if isinstance(n.operator, Opaque) and n.operator.op_type == "Concat")
    editor = lifted.graph.edit()
    editor.remove((shape.id,))
    written = lower(lifted, editor.build(), Plan()).to_bytes()
    assert_same_results(runtime_shape().SerializeToString(), written)


def runtime_shape() -> onnx.ModelProto:
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s zero one", "batch"),
        node("Concat", "batch heads", "shape", axis=0),
        node("Expand", "x shape", "a"),
        node("Relu", "a", "y"),
    ]
    weights = [tensor("zero", [0], np.int64), tensor("one", [1], np.int64), tensor("heads", [2, 4], np.int64)]
    return model(nodes, [value("x", ["n", 1, 4])], [value("y", ["n", 2, 4])], weights)


READS: Mapping[str, str] = {"end": "ab", "a": "c", "b": "c", "c": ""}


def test_everything_is_written_once_and_after_what_it_reads() -> None:
    items = {name: name for name in ("end", "a", "b", "c")}
    order = list(
        in_order([items["end"], items["b"]], lambda name: [items[read] for read in READS[name]], str)
    )
    assert order == ["c", "a", "b", "end"]


def test_what_needs_itself_is_an_error() -> None:
    items = {"a": ["b"], "b": ["c"], "c": ["a"]}
    names = {name: name for name in items}
    with pytest.raises(CyclicGraphError, match="the nodes to be written have a cycle: a"):
        list(in_order([names["a"]], lambda name: [names[read] for read in items[name]], str))


def test_a_cyclic_graph_is_not_written() -> None:
    lifted = lift(load_model(selected_rows()))
    first, second = producer(lifted, "d"), producer(lifted, "m")
    editor = lifted.graph.edit()
    editor.set_inputs_of(first, (Value(second), Value(second)))
    with pytest.raises(CyclicGraphError, match="depend on themselves"):
        lower(lifted, editor.build(), Plan())


def producer(lifted: LiftedModel, name: str) -> NodeId:
    return next(value.node for value, known in lifted.names.items() if known == name)
