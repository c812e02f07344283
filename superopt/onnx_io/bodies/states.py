"""Reads from outside what a Loop or Scan passes on unchanged from one iteration to the next.

ONNX Runtime copies such a tensor in every iteration, and does not pack it for products although it is a
weight: exporters of recurrent layers carry all their weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import helper

from superopt.onnx_io.bodies.branches import Loads, with_known_branches
from superopt.onnx_io.bodies.names import rename, value_names
from superopt.onnx_io.changes.simplifying import light
from superopt.onnx_io.files.saving import LoweredModel
from superopt.onnx_io.files.source import SourceModel
from superopt.onnx_io.protos import IR_WITH_FREE_INITIALIZERS, STANDARD_DOMAINS, copy_without, free_names

_BODY = "body"
_SCAN_WITHOUT_LENGTHS = 9
"""The operator set since which Scan has no operand with the lengths of sequences."""


def with_simple_control_flow(
    source: SourceModel, loads: Loads, keep: Collection[str] = (), prefix: str = ""
) -> SourceModel:
    """The model with known branches in place of their If nodes (``with_known_branches``), and with states
    that never change read from outside of their loops, where it still loads."""
    return _with_read_states(with_known_branches(source, loads, keep, prefix), loads, keep, prefix)


def _with_read_states(source: SourceModel, loads: Loads, keep: Collection[str], prefix: str) -> SourceModel:
    if source.fixed_reason is not None or source.proto.ir_version < IR_WITH_FREE_INITIALIZERS:
        return source
    found: dict[int, Sequence[_State]] = {}
    for index, node in enumerate(source.proto.graph.node):
        states = () if node.name in keep else tuple(_unchanged(node, source.opset or 0))
        if states:
            found[index] = states
    changed = _rewritten(source, found, prefix) if found else source
    return changed if changed is source or loads(LoweredModel.of_derived(changed)) else source


@dataclass(frozen=True, slots=True)
class _State:
    """A tensor that a body passes on as it is: its places among the inputs and outputs of the node and of the
    body, and its names outside and inside."""

    operand: int
    result: int
    formal: int
    passed: int
    outside: str
    inside: str


def _unchanged(node: onnx.NodeProto, opset: int) -> Iterator[_State]:
    """Yield the states that never change, but for one if the node had no output without them."""
    if node.domain not in STANDARD_DOMAINS or not _carries(node, opset):
        return
    (graph,) = (attribute.g for attribute in node.attribute if attribute.name == _BODY)
    copies = {each.output[0]: each.input[0] for each in graph.node if each.op_type == "Identity"}
    passed = [value.name for value in graph.output]
    made = set(value_names(graph)) - set(free_names(graph))
    left = sum(1 for name in node.output if name)
    for state in _states(node, graph):
        name = passed[state.passed]
        while name != state.inside and name in copies:
            name = copies[name]
        is_read_elsewhere = passed.count(state.inside) > (passed[state.passed] == state.inside)
        hides = state.outside in made and state.outside != state.inside
        if name != state.inside or is_read_elsewhere or hides or not state.outside:
            continue
        left -= bool(node.output[state.result])
        if left:
            yield state
        else:
            left += 1


def _carries(node: onnx.NodeProto, opset: int) -> bool:
    return node.op_type == "Loop" or (node.op_type == "Scan" and opset >= _SCAN_WITHOUT_LENGTHS)


def _states(node: onnx.NodeProto, graph: onnx.GraphProto) -> Iterator[_State]:
    """Yield all states of a loop that have a result."""
    if node.op_type == "Loop":
        before, first, count = 2, 1, len(node.input) - 2
    else:
        (scanned,) = (attribute.i for attribute in node.attribute if attribute.name == "num_scan_inputs")
        before, first, count = 0, 0, len(node.input) - scanned
    for place in range(min(count, len(node.output))):
        yield _State(
            operand=before + place,
            result=place,
            formal=before + place,
            passed=first + place,
            outside=node.input[before + place],
            inside=graph.input[before + place].name,
        )


def _rewritten(source: SourceModel, found: Mapping[int, Sequence[_State]], prefix: str) -> SourceModel:
    model = source.proto
    result = copy_without(model, ("node", "initializer"))
    result.graph.initializer.extend(map(light, model.graph.initializer))
    steps: list[str] = []
    for index, node in enumerate(model.graph.node):
        states = found.get(index, ())
        result.graph.node.append(_without_states(node, states) if states else node)
        for state in states:
            if node.output[state.result]:
                result.graph.node.append(
                    helper.make_node("Identity", [state.outside], [node.output[state.result]])
                )
        if states:
            what = "a tensor that it passes" if len(states) == 1 else f"{len(states)} tensors that it passes"
            steps.append(f"{prefix}{node.name or node.op_type}: {what} on unchanged, read from outside")
    return replace(source, proto=result, came_from=source, prepared=(*source.prepared, *steps))


def _without_states(node: onnx.NodeProto, states: Sequence[_State]) -> onnx.NodeProto:
    changed = onnx.NodeProto()
    changed.CopyFrom(node)
    (graph,) = (attribute.g for attribute in changed.attribute if attribute.name == _BODY)
    rename(graph, {state.inside: state.outside for state in states}, {})
    for state in sorted(states, key=lambda state: -state.result):
        del changed.input[state.operand]
        del changed.output[state.result]
        del graph.input[state.formal]
        del graph.output[state.passed]
    return changed


__all__ = ["with_simple_control_flow"]
