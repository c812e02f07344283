"""Types of the inputs of a subgraph: what the node that runs it passes, and what holds in every iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from superopt.errors import UnsupportedError
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.protos import ELEMENTS, ONNX_ELEMENTS
from superopt.onnx_io.sizes.inference import InferredTypes, infer_types

_ROUNDS = 4
"""Maximum rounds of type inference for values that pass from one iteration to the next; what is not settled
by then is unknown."""


@dataclass(frozen=True, slots=True)
class FormalInputs:
    """The declarations of a subgraph's inputs. ``carried`` pairs the index of an input with that of the
    output that becomes its value in the next iteration."""

    declared: tuple[onnx.ValueInfoProto, ...]
    carried: tuple[tuple[int, int], ...] = ()


def formal_inputs(node: onnx.NodeProto, graph: onnx.GraphProto, types: InferredTypes) -> FormalInputs:
    """What the node is known to pass to its subgraph; where that is unknown, the element type and rank that
    the subgraph declares, because no runtime checks its sizes. Raises UnsupportedError where an input has no
    known element type."""
    passed, carried = _passed(node, types)
    declared = tuple(
        _formal(value, passed[index] if index < len(passed) else None)
        for index, value in enumerate(graph.input)
    )
    return FormalInputs(declared, tuple(pair for pair in carried if pair[0] < len(declared)))


def _passed(
    node: onnx.NodeProto, types: InferredTypes
) -> tuple[Sequence[ValueType | None], Sequence[tuple[int, int]]]:
    """The types of operands by input of the subgraph, and what passes to the next iteration."""

    def operand(slot: int) -> ValueType | None:
        return types.types.get(node.input[slot]) if node.input[slot] else None

    match node.op_type:
        case "Loop":
            count = len(node.input) - 2
            counter = [
                TensorType(ELEMENTS[TensorProto.INT64], ()),
                TensorType(ELEMENTS[TensorProto.BOOL], ()),
            ]
            carried = [(2 + place, 1 + place) for place in range(count)]
            return [*counter, *(operand(2 + place) for place in range(count))], carried
        case "Scan":
            attributes = {attribute.name: attribute for attribute in node.attribute}
            scanned = attributes["num_scan_inputs"].i
            states = len(node.input) - scanned
            axes = list(attributes["scan_input_axes"].ints) if "scan_input_axes" in attributes else []
            slices = [
                _slice(operand(states + place), axes[place] if place < len(axes) else 0)
                for place in range(scanned)
            ]
            return [*map(operand, range(states)), *slices], [(place, place) for place in range(states)]
        case _:
            return [], []


def _slice(type_: ValueType | None, axis: int) -> ValueType | None:
    if not isinstance(type_, TensorType) or not -type_.rank <= axis < type_.rank:
        return None
    shape = list(type_.shape)
    del shape[axis]
    return type_.with_shape(tuple(shape))


def _formal(value: onnx.ValueInfoProto, passed: ValueType | None) -> onnx.ValueInfoProto:
    if isinstance(passed, TensorType) and passed.element in ONNX_ELEMENTS:
        return declaration(value.name, passed)
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type" or not value.type.tensor_type.elem_type:
        raise UnsupportedError(f"its input {value.name!r} is {_described(value.type)}")
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    for size in copy.type.tensor_type.shape.dim:
        size.Clear()
    return copy


def _described(type_: onnx.TypeProto) -> str:
    kind = type_.WhichOneof("value")
    return (
        "of unknown type" if kind in (None, "tensor_type") else f"a {str(kind).removesuffix('_type')}"
    ).replace("_", " ")


def declaration(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """The declaration of a tensor. Sizes computed from others are names of their own."""
    shape: list[int | str] = [size if isinstance(size, int) else str(size) for size in type_.shape]
    return helper.make_tensor_value_info(name, ONNX_ELEMENTS[type_.element], shape)


def captured_input(name: str, types: InferredTypes) -> onnx.ValueInfoProto:
    """The declaration of an outer tensor that a subgraph reads. Raises UnsupportedError where its element
    type is unknown."""
    type_ = types.types.get(name)
    if isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS:
        return declaration(name, type_)
    proto = types.protos.get(name, onnx.TypeProto())
    if proto.WhichOneof("value") != "tensor_type" or not proto.tensor_type.elem_type:
        raise UnsupportedError(f"it reads {name!r}, which is {_described(proto)}")
    value = onnx.ValueInfoProto(name=name)
    value.type.tensor_type.elem_type = proto.tensor_type.elem_type
    return value


def settle(model: onnx.ModelProto, carried: Sequence[tuple[int, int]], apart: frozenset[str]) -> None:
    """Weakens the types of carried inputs in place until every iteration preserves them: a size that the next
    iteration may change is left open, and so is the rank."""
    inputs, outputs = model.graph.input, model.graph.output
    for _ in range(_ROUNDS if carried else 0):
        types = infer_types(model, apart).types
        changed = [
            _weaken(inputs[place], types.get(inputs[place].name), types.get(outputs[result].name))
            for place, result in carried
            if result < len(outputs) and inputs[place].type.tensor_type.HasField("shape")
        ]
        if not any(changed):
            return
    for place, _ in carried:
        inputs[place].type.tensor_type.ClearField("shape")


def _weaken(value: onnx.ValueInfoProto, before: ValueType | None, after: ValueType | None) -> bool:
    """Removes from the declaration what does not hold for the value of the next iteration."""
    tensor = value.type.tensor_type
    if not isinstance(before, TensorType) or not isinstance(after, TensorType) or before.rank != after.rank:
        tensor.ClearField("shape")
        return True
    changed = False
    for size, old, new in zip(tensor.shape.dim, before.shape, after.shape, strict=True):
        if size.WhichOneof("value") is not None and old != new:
            size.Clear()
            changed = True
    return changed


__all__: Sequence[str] = ["FormalInputs", "captured_input", "declaration", "formal_inputs", "settle"]
