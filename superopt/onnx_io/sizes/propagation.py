"""Propagate symbolic sizes through a model: types that ONNX leaves open, and contents that hold sizes.

``onnx.shape_inference`` knows numbers and names, but no arithmetic of names. Here each node is visited once,
in order. Its output type comes from a rule (``size_rules``) or from ONNX's inference for this node alone,
with symbolic dimensions in place of names; small integer tensors are followed as arrays of dimensions
(``shape_data``), so that a Reshape to computed sizes has a known type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, TypeProto, numpy_helper

from superopt.domains import Array
from superopt.ir.dimensions import Dimension, as_symbol, substitute, symbol, symbols_of
from superopt.ir.types import ElementType, TensorType, ValueType
from superopt.onnx_io.protos import (
    ONNX_ELEMENTS,
    STANDARD_DOMAINS,
    default_opset,
    dtype_of,
    element_type,
    subgraphs,
)
from superopt.onnx_io.sizes.constants import small_constants
from superopt.onnx_io.sizes.foreign import foreign_types, has_rule
from superopt.onnx_io.sizes.rules import Call, Shape, own_shapes
from superopt.onnx_io.sizes.shape_data import SIZE_READERS, evaluate, is_symbolic, shape_content

_MOST_FACTORS = 8
"""Most elements of a floating-point tensor that may hold factors of sizes: one for each axis."""

Fresh = Callable[[str, int], str]
"""Makes a symbol for an axis of a tensor."""


class Propagation:
    """Types and contents of the tensors of a model, refined node by node. ``types`` are those that ONNX
    infers, ``protos`` the same as ONNX writes them; ``given`` are the symbols of inputs, and ``known``
    contents of constants that the model does not hold itself."""

    def __init__(
        self,
        model: onnx.ModelProto,
        types: dict[str, ValueType],
        protos: Mapping[str, TypeProto],
        given: frozenset[str],
        known: Mapping[str, Array],
        fresh: Fresh,
    ) -> None:
        self.types = types
        self.contents: dict[str, Array] = {}
        self._nodes = model.graph.node
        self._opset = default_opset(model.opset_import) or 0
        self._imports = model.opset_import
        self._given = given
        self._fresh = fresh
        self._protos = protos
        self._codes = _Codes()
        self._tensors: dict[str, TensorProto] = {}
        self._constants = {**known, **dict(small_constants(model))}
        self._solved: dict[str, Dimension] = {}

    def run(self) -> None:
        """Visits every node."""
        for node in self._nodes:
            if node.op_type != "Constant":
                self._visit(node)

    def _visit(self, node: onnx.NodeProto) -> None:
        is_standard = node.domain in STANDARD_DOMAINS
        contents = self._evaluated(node) if is_standard else ()
        if not all(self._is_settled(name) for name in node.output if name) and not any(subgraphs(node)):
            self._refine(node, [content.shape for content in contents] or None, is_standard=is_standard)
        for name, content in zip(node.output, contents, strict=False):
            self._keep(name, content)

    def content(self, name: str) -> Array | None:
        """What is known of the content of a tensor before the model runs."""
        return self.contents[name] if name in self.contents else self._constants.get(name)

    def _evaluated(self, node: onnx.NodeProto) -> Sequence[Array]:
        if node.op_type in SIZE_READERS:
            content = shape_content(self.types.get(node.input[0]), node)
            return () if content is None else [content]
        known = [content for name in node.input if (content := self._followed(name)) is not None]
        return evaluate(node, known, self._opset) if len(known) == len(node.input) else ()

    def _followed(self, name: str) -> Array | None:
        content = self.content(name)
        if content is None or (content.dtype.kind == "f" and content.size > _MOST_FACTORS):
            return None
        return content

    def _keep(self, name: str, content: Array) -> None:
        """Records a content, in the element type that the tensor has."""
        type_ = self.types.get(name)
        if is_symbolic(content):
            self.contents[name] = content
        elif isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS:
            dtype = dtype_of(type_.element)
            if dtype == content.dtype or (dtype.kind == content.dtype.kind == "i"):
                self.contents[name] = content.astype(dtype)

    def _is_settled(self, name: str) -> bool:
        type_ = self.types.get(name)
        return isinstance(type_, TensorType) and type_.symbols <= self._given

    def _refine(self, node: onnx.NodeProto, known: Sequence[Shape] | None, *, is_standard: bool) -> None:
        inferred = self._inferred(node) if is_standard else self._foreign(node)
        shapes = known
        if shapes is None and is_standard:
            types = [self.types.get(name) for name in node.input]
            contents = [self.content(name) for name in node.input]
            shapes = own_shapes(Call(node, self._opset, types, contents))
        for slot, name in enumerate(node.output):
            element, shape = inferred.get(name, (None, None)) if name else (None, None)
            own = shapes[slot] if shapes is not None and slot < len(shapes) else None
            self._improve(name, element, _joined(own, shape))

    def _improve(self, name: str, element: ElementType | None, shape: Shape | None) -> None:
        before = self.types.get(name)
        if not name or shape is None or (element is None and not isinstance(before, TensorType)):
            return
        if not isinstance(before, TensorType):
            assert element is not None, "checked before"
            self.types[name] = TensorType(element, tuple(self._sized(name, shape)))
        elif before.rank == len(shape):
            pairs = zip(before.shape, shape, strict=True)
            after = before.with_shape(tuple(self._better(old, new) for old, new in pairs))
            self.types[name] = after
            self._learn(before, after)

    def _learn(self, before: TensorType, after: TensorType) -> None:
        """Records what a symbol stands for that ONNX gave to a size."""
        for old, new in zip(before.shape, after.shape, strict=True):
            label = as_symbol(old)
            if label is not None and old != new and label not in self._given and label not in symbols_of(new):
                self._solved.setdefault(label, substitute(new, self._solved))

    def _sized(self, name: str, shape: Shape) -> Iterator[Dimension]:
        for axis, size in enumerate(shape):
            yield symbol(self._fresh(name, axis)) if size is None else size

    def _better(self, old: Dimension, new: Dimension | None) -> Dimension:
        """Of two dimensions that are equal whenever the model runs, the one that says more."""
        if new is None or isinstance(old, int):
            return substitute(old, self._solved)
        return old if symbols_of(old) <= self._given and not symbols_of(new) <= self._given else new

    def _inferred(self, node: onnx.NodeProto) -> dict[str, tuple[ElementType, Shape | None]]:
        """What ONNX infers for this node from the types that are known by now."""
        try:
            since = 11 if node.op_type == "Slice" and self._opset == 10 else self._opset  # see `foreign`
            schema = onnx.defs.get_schema(node.op_type, since, "")
            types = {name: self._encoded(name) for name in node.input if name}
            data = {name: tensor for name in node.input if (tensor := self._tensor(name)) is not None}
            found = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=[*self._imports]
            )
        except (
            onnx.defs.SchemaError,
            onnx.shape_inference.InferenceError,
            onnx.checker.ValidationError,
            RuntimeError,
            KeyError,
            ValueError,
        ):
            return {}
        return dict(self._decoded(found))

    def _foreign(self, node: onnx.NodeProto) -> dict[str, tuple[ElementType, Shape | None]]:
        if not has_rule(node):
            return {}
        shaped = [name for name in node.input if isinstance(self.types.get(name), TensorType)]
        return dict(self._decoded(foreign_types(node, {name: self._encoded(name) for name in shaped})))

    def _encoded(self, name: str) -> TypeProto:
        """The type of a tensor, each symbolic dimension as a name of its own; raises KeyError."""
        type_ = self.types.get(name)
        if isinstance(type_, TensorType) and type_.element in ONNX_ELEMENTS:
            return self._codes.encoded(type_)
        return self._protos[name]

    def _decoded(
        self, found: Mapping[str, TypeProto]
    ) -> Iterator[tuple[str, tuple[ElementType, Shape | None]]]:
        for name, proto in found.items():
            if proto.WhichOneof("value") == "tensor_type" and proto.tensor_type.elem_type:
                is_shaped = proto.tensor_type.HasField("shape")
                shape = [*map(self._codes.decoded, proto.tensor_type.shape.dim)] if is_shaped else None
                yield name, (element_type(proto.tensor_type.elem_type), shape)

    def _tensor(self, name: str) -> TensorProto | None:
        """The content of an operand for ONNX, where it consists of numbers."""
        if name not in self._tensors:
            content = self.content(name)
            if content is None or is_symbolic(content):
                return None
            self._tensors[name] = numpy_helper.from_array(content, name)
        return self._tensors[name]


class _Codes:
    """Names that stand for symbolic dimensions in the types given to ONNX."""

    def __init__(self) -> None:
        self._names: dict[Dimension, str] = {}
        self._dimensions: dict[str, Dimension] = {}

    def encoded(self, type_: TensorType) -> TypeProto:
        proto = TypeProto()
        proto.tensor_type.elem_type = ONNX_ELEMENTS[type_.element]
        proto.tensor_type.shape.SetInParent()
        for size in type_.shape:
            if isinstance(size, int):
                proto.tensor_type.shape.dim.add(dim_value=size)
            else:
                proto.tensor_type.shape.dim.add(dim_param=self._name(size))
        return proto

    def decoded(self, dimension: onnx.TensorShapeProto.Dimension) -> Dimension | None:
        if dimension.HasField("dim_value"):
            return dimension.dim_value if dimension.dim_value >= 0 else None
        return self._dimensions.get(dimension.dim_param)

    def _name(self, size: Dimension) -> str:
        if size not in self._names:
            self._names[size] = f"d{len(self._names)}"
            self._dimensions[self._names[size]] = size
        return self._names[size]


def _joined(own: Shape | None, theirs: Shape | None) -> Shape | None:
    """A shape by rule, completed by what ONNX infers; ONNX's where the ranks differ."""
    if own is None or theirs is None or len(own) != len(theirs):
        return own if theirs is None else theirs
    return [
        second if first is None or isinstance(second, int) else first
        for first, second in zip(own, theirs, strict=True)
    ]


__all__ = ["Propagation"]
