"""Puts definitions by simpler operators in place of nodes that the algebra does not describe.

Most definitions are the function bodies of the ONNX standard. Those that overflow there, or that the standard
has not, are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper
from onnx.inliner import inline_selected_functions

from superopt.domains import Array
from superopt.errors import InvalidModelError
from superopt.ir.types import TensorType, ValueType
from superopt.onnx_io.node_building import NodeBuilder, copy_of
from superopt.onnx_io.protos import (
    ONNX_ELEMENTS,
    STANDARD_DOMAINS,
    attributes_of,
    default_opset,
    dtype_of,
    names_within,
)
from superopt.onnx_io.sizes.constants import small_constants
from superopt.onnx_io.sizes.inference import infer_types
from superopt.onnx_io.sizes.shape_data import chosen

STANDARD = (
    "MeanVarianceNormalization",
    "Shrink",
)
"""Operators of which ONNX's function bodies are used."""

_MOST_SUMMED = 4096
"""Elements of an axis up to which its running sums are a product with a triangular matrix."""

_STEPS = 4
"""The operand of Slice that has the steps."""


@dataclass(frozen=True)
class Known:
    """What is known of the tensors of a graph: their types, and numbers that are constant."""

    types: Mapping[str, ValueType]
    constants: Mapping[str, Array]

    @staticmethod
    def of(model: onnx.ModelProto) -> Known:
        """What is known of a model's main graph."""
        return Known(infer_types(model).types, dict(small_constants(model)))

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """The shape, -1 for a size that is not known; None for an unknown rank."""
        type_ = self.types.get(name)
        if not isinstance(type_, TensorType):
            return None
        return tuple(size if isinstance(size, int) else -1 for size in type_.shape)

    def numbers(self, node: onnx.NodeProto, slot: int) -> list[int] | None:
        """The whole numbers that are constant in an operand; None if they are not known, or not given."""
        if len(node.input) <= slot or node.input[slot] not in self.constants:
            return None
        return [int(number) for number in self.constants[node.input[slot]].reshape(-1)]

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of a tensor whose type is known."""
        type_ = self.types[name]
        assert isinstance(type_, TensorType), "the type is known"
        return np.dtype(dtype_of(type_.element))


Define: TypeAlias = "Callable[[NodeBuilder, onnx.NodeProto, Known], bool]"


def with_definitions(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the model whose nodes of the main graph have definitions in their place where there are any;
    the model itself if there are none. Large initialisers must be without content (``skeleton``). Raises
    InvalidModelError where the standard's inliner fails."""
    found = {node.op_type for node in model.graph.node if _may_be_defined(node)}
    if not found:
        return model
    copy = copy_of(model)
    if not found.isdisjoint(STANDARD):
        copy = _inlined(copy)
    _write_own(copy.graph, Known.of(copy))
    return copy


def _may_be_defined(node: onnx.NodeProto) -> bool:
    """Whether there is a definition; of paddings and cuts, only of those that repeat or reverse."""
    if node.domain not in STANDARD_DOMAINS or node.op_type not in (*STANDARD, *DEFINITIONS):
        return False
    if node.op_type == "Pad":
        return attributes_of(node).get("mode", b"constant") != b"constant"
    return node.op_type != "Slice" or len(node.input) > _STEPS


def _write_own(graph: onnx.GraphProto, known: Known) -> None:
    builder = NodeBuilder(names_within(graph))
    for node in graph.node:
        define = DEFINITIONS.get(node.op_type) if node.domain in STANDARD_DOMAINS else None
        if define is None or not define(builder, node, known):
            builder.keep(node)
    nodes = list(builder.nodes)
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(builder.initializers)


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the standard's bodies; the inliner needs a declared type for every tensor."""
    given = list(model.graph.value_info)
    version = default_opset(model.opset_import) or 0
    for node in model.graph.node:
        if node.op_type in STANDARD and node.domain in STANDARD_DOMAINS:
            _state_defaults(node, version)
    types = infer_types(model).types
    model.graph.value_info.extend(
        helper.make_tensor_value_info(name, ONNX_ELEMENTS[type_.element], None)
        for name, type_ in types.items()
        if isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS
    )
    try:
        inlined = inline_selected_functions(
            model, [("", name) for name in STANDARD], inline_schema_functions=True
        )
    except (RuntimeError, ValueError) as error:
        raise InvalidModelError(
            f"ONNX's inliner cannot put the definitions of operators in place: {error}"
        ) from error
    del inlined.graph.value_info[:]
    inlined.graph.value_info.extend(given)
    return inlined


def _state_defaults(node: onnx.NodeProto, opset: int) -> None:
    """Adds attributes that have their default, which the inliner would lose."""
    stated = {attribute.name for attribute in node.attribute}
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    node.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name not in stated and attribute.default_value.name
    )


def _cast_like(builder: NodeBuilder, node: onnx.NodeProto, known: Known) -> bool:
    """A cast to the element type of the second operand."""
    type_ = known.types.get(node.input[1])
    if not isinstance(type_, TensorType):
        return False
    builder.write("Cast", node.input[:1], node.output[0], {"to": ONNX_ELEMENTS[type_.element]})
    return True


def _picked(
    builder: NodeBuilder, node: onnx.NodeProto, positions: Mapping[int, Sequence[int]], data: str
) -> bool:
    """The elements at these positions of some axes, in their order; False if that is all that there is."""
    if not positions:
        return False
    *others, last = positions.items()
    for axis, numbers in others:
        indices = builder.constant("positions", np.array(numbers, np.int64))
        data = builder.add("Gather", [data, indices], f"{node.output[0]}:axis{axis}", {"axis": axis})
    axis, numbers = last
    indices = builder.constant("positions", np.array(numbers, np.int64))
    builder.write("Gather", [data, indices], node.output[0], {"axis": axis})
    return True


def _pad(builder: NodeBuilder, node: onnx.NodeProto, known: Known) -> bool:
    """Padding by elements of the tensor, as lookups along axes of known sizes."""
    attributes = attributes_of(node)
    mode = attributes.get("mode", b"constant").decode()
    sizes = known.sizes(node.input[0])
    pads = known.numbers(node, 1) or attributes.get("pads")
    if mode == "constant" or sizes is None or not pads or min(pads) < 0:
        return False
    axes = known.numbers(node, 3) if len(node.input) > 3 and node.input[3] else range(len(sizes))
    if axes is None:
        return False
    half = len(pads) // 2
    pairs = zip(pads[:half], pads[half:], strict=True)
    margins = dict(zip((axis % len(sizes) for axis in axes), pairs, strict=True))
    wanted = {axis: margin for axis, margin in margins.items() if any(margin)}
    if any(sizes[axis] < 1 for axis in wanted):
        return False
    positions = {
        axis: np.pad(np.arange(sizes[axis]), margin, mode=mode).tolist() for axis, margin in wanted.items()
    }
    return _picked(builder, node, positions, node.input[0])


def _slice(builder: NodeBuilder, node: onnx.NodeProto, known: Known) -> bool:
    """Cuts that reverse axes of known sizes, as lookups; others stay."""
    sizes, steps = known.sizes(node.input[0]), known.numbers(node, _STEPS)
    starts, ends = known.numbers(node, 1), known.numbers(node, 2)
    if sizes is None or steps is None or starts is None or ends is None or min(steps, default=1) > 0:
        return False
    axes = known.numbers(node, 3) if node.input[3] else list(range(len(steps)))
    if axes is None or any(sizes[axis] < 1 for axis in axes):
        return False
    cuts = zip(axes, starts, ends, steps, strict=True)
    positions = {axis % len(sizes): list(chosen(sizes[axis], *cut)) for axis, *cut in cuts}
    return all(positions.values()) and _picked(builder, node, positions, node.input[0])


def _trilu(builder: NodeBuilder, node: onnx.NodeProto, known: Known) -> bool:
    """A choice between the elements and 0, by a constant triangle."""
    sizes = known.sizes(node.input[0])
    diagonal = known.numbers(node, 1) if len(node.input) > 1 and node.input[1] else [0]
    if sizes is None or len(sizes) < 2 or min(sizes[-2:]) < 1 or diagonal is None:
        return False
    kept = np.ones(sizes[-2:], np.bool_)
    triangle = np.triu if attributes_of(node).get("upper", 1) else np.tril
    mask = builder.constant("triangle", triangle(kept, diagonal[0]))
    zero = builder.constant("zero", np.zeros((), known.dtype(node.input[0])))
    builder.write("Where", [mask, node.input[0], zero], node.output[0])
    return True


def _cum_sum(builder: NodeBuilder, node: onnx.NodeProto, known: Known) -> bool:
    """A product with a triangle of ones."""
    data, sizes, axes = node.input[0], known.sizes(node.input[0]), known.numbers(node, 1)
    if not sizes or not axes or not np.issubdtype(known.dtype(data), np.floating):
        return False
    axis, last = axes[0] % len(sizes), len(sizes) - 1
    if not 0 < sizes[axis] <= _MOST_SUMMED or not last:
        return False
    attributes = attributes_of(node)
    excluded = 1 if attributes.get("exclusive", 0) else 0
    ones = np.triu(np.ones((sizes[axis], sizes[axis]), known.dtype(data)), excluded)
    matrix = builder.constant("ones", ones.T.copy() if attributes.get("reverse", 0) else ones)
    if axis == last:
        builder.write("MatMul", [data, matrix], node.output[0])
        return True
    swapped = list(range(len(sizes)))
    swapped[axis], swapped[last] = last, axis
    data = builder.add("Transpose", [data], f"{node.output[0]}:turned", {"perm": swapped})
    sums = builder.add("MatMul", [data, matrix], f"{node.output[0]}:sums")
    builder.write("Transpose", [sums], node.output[0], {"perm": swapped})
    return True


DEFINITIONS: Mapping[str, Define] = {
    "CastLike": _cast_like,
    "CumSum": _cum_sum,
    "Pad": _pad,
    "Slice": _slice,
    "Trilu": _trilu,
}
"""Operators with a definition of this module."""
