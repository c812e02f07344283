"""Type inference for operators of ``ai.onnx.ml`` and ONNX Runtime's domain, which ONNX does not infer, and
for Slice in operator set 10, of which it infers that a cut axis of open size stays whole.

Only what an operator's documentation guarantees for every input is included, not what one run would show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import onnx
from onnx import TensorProto, TensorShapeProto, TypeProto, helper

from superopt.onnx_io.protos import STANDARD_DOMAINS, default_opset, nodes_within
from superopt.onnx_io.sizes.constants import small_constants
from superopt.onnx_io.sizes.shape_data import chosen

Operands: TypeAlias = "Sequence[TypeProto | None]"
Rule: TypeAlias = "Callable[[onnx.NodeProto, Operands], Sequence[TypeProto | None]]"

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"

_SLICE_10 = "superopt.slice10"
"""The domain of Slice nodes of operator set 10 while types are inferred."""

_SLICE_OPERANDS = ("starts", "ends", "axes", "steps")


def foreign_types(node: onnx.NodeProto, known: Mapping[str, TypeProto]) -> dict[str, TypeProto]:
    """Output types given by a rule, by name; ``known`` are tensors of known type and shape."""
    rule = _rule_of(node)
    if rule is None or all(name in known for name in node.output if name):
        return {}
    found = rule(node, [known.get(name) for name in node.input])
    named = zip(node.output, found, strict=False)
    return {name: type_ for name, type_ in named if name and type_ is not None and name not in known}


def has_rule(node: onnx.NodeProto) -> bool:
    """Whether ``foreign_types`` has a rule for the node."""
    return _rule_of(node) is not None


def _rule_of(node: onnx.NodeProto) -> Rule | None:
    if node.domain == _SLICE_10:
        return _slice
    return RULES.get((node.domain if node.domain not in STANDARD_DOMAINS else "", node.op_type))


def with_own_slices(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a rule for its Slice nodes, if they are those of operator set 10: in bodies they have no
    type. What is constant in their operands becomes attributes, which the rule reads."""
    slices = [node for node in nodes_within(model.graph) if node.op_type == "Slice" and not node.domain]
    if default_opset(model.opset_import) != 10 or not slices:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    constants = dict(small_constants(model))
    for node in nodes_within(copy.graph):
        if node.op_type == "Slice" and not node.domain:
            node.domain = _SLICE_10
            for operand, name in zip(node.input[1:], _SLICE_OPERANDS, strict=False):
                if operand in constants:
                    numbers = constants[operand].reshape(-1).tolist()
                    node.attribute.append(
                        helper.make_attribute(name, numbers, attr_type=onnx.AttributeProto.INTS)
                    )
    copy.opset_import.append(helper.make_opsetid(_SLICE_10, 1))
    return copy


def _slice(node: onnx.NodeProto, operands: Operands) -> Sequence[TypeProto | None]:
    """The axes that are not cut; of one that is, the size where that is known."""
    data = _operand(operands, 0)
    if data is None:
        return [None]
    sizes = [TensorShapeProto.Dimension.FromString(size.SerializeToString()) for size in _dims(data)]
    given = {attribute.name: list(attribute.ints) for attribute in node.attribute}
    starts, ends = given.get("starts"), given.get("ends")
    has_axes, has_steps = (len(node.input) > slot and bool(node.input[slot]) for slot in (3, 4))
    axes = given.get("axes") if has_axes else list(range(len(starts or sizes)))
    steps = given.get("steps") if has_steps else [1] * len(axes or sizes)
    for place, axis in enumerate(range(len(sizes)) if axes is None else axes):
        size = sizes[axis]
        if axes is None or starts is None or ends is None or steps is None or not size.HasField("dim_value"):
            size.Clear()
        else:
            size.dim_value = len(chosen(size.dim_value, starts[place], ends[place], steps[place]))
    return [_tensor(data.tensor_type.elem_type, sizes)]


def _tensor(element: int, shape: Sequence[TensorShapeProto.Dimension]) -> TypeProto:
    type_ = TypeProto()
    type_.tensor_type.elem_type = element
    type_.tensor_type.shape.dim.extend(shape)
    return type_


def _dims(type_: TypeProto) -> Sequence[TensorShapeProto.Dimension]:
    return type_.tensor_type.shape.dim


def _size(number: int) -> TensorShapeProto.Dimension:
    return TensorShapeProto.Dimension(dim_value=number)


def _operand(operands: Operands, slot: int) -> TypeProto | None:
    return operands[slot] if slot < len(operands) else None


def _integer(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _like(*slots: int, element: int | None = None, element_of: int | None = None) -> Rule:
    """Each output has the shape of an operand, and its element type unless another is given."""

    def rule(_: onnx.NodeProto, operands: Operands) -> Sequence[TypeProto | None]:
        found: list[TypeProto | None] = []
        for slot in slots:
            like = _operand(operands, slot)
            source = like if element_of is None else _operand(operands, element_of)
            if like is None or source is None:
                found.append(None)
            else:
                found.append(_tensor(element or source.tensor_type.elem_type, _dims(like)))
        return found

    return rule


def _per_row(node: onnx.NodeProto, operands: Operands, *columns: int | None) -> Sequence[TypeProto | None]:
    """Numbers for each row of a matrix: a vector where ``columns`` is None; -1 means unknown."""
    first = _operand(operands, 0)
    if first is None or len(_dims(first)) != 2:
        return [None] * len(columns)
    rows = _dims(first)[0]
    found: list[TypeProto | None] = []
    for count in columns:
        if count is None:
            texts = any(a.name.startswith("classlabels_s") and a.strings for a in node.attribute)
            found.append(_tensor(TensorProto.STRING if texts else TensorProto.INT64, [rows]))
        else:
            column = _size(count) if count > 0 else TensorShapeProto.Dimension()
            found.append(_tensor(TensorProto.FLOAT, [rows, column]))
    return found


def _labels(node: onnx.NodeProto, operands: Operands) -> Sequence[TypeProto | None]:
    """A label for each element; in version 1 of the operator, texts for integers and integers for texts."""
    first = _operand(operands, 0)
    given = {attribute.name: attribute for attribute in node.attribute}
    if "values_tensor" in given:
        element: int | None = given["values_tensor"].t.data_type
    elif "classes_strings" in given:
        is_text = first is not None and first.tensor_type.elem_type == TensorProto.STRING
        element = TensorProto.INT64 if is_text else TensorProto.STRING
    else:
        element = next((made for name, made in _LABELS.items() if name in given), None)
    return [None if first is None or element is None else _tensor(element, _dims(first))]


_LABELS = {
    "values_floats": TensorProto.FLOAT,
    "values_int64s": TensorProto.INT64,
    "values_strings": TensorProto.STRING,
}
"""Element types by the attribute of LabelEncoder that has the labels."""


def _regressor(attribute: str) -> Rule:
    return lambda node, operands: _per_row(node, operands, _integer(node, attribute, 1))


def _broadcast(_: onnx.NodeProto, operands: Operands) -> Sequence[TypeProto | None]:
    """Two quantised tensors of the same shape, or one whose shape is that of the other's last axes."""
    first, second = _operand(operands, 0), _operand(operands, 3)
    if first is None or second is None:
        return [None]
    for larger, smaller in ((first, second), (second, first)):
        own, other = _dims(larger), _dims(smaller)
        pairs = zip(list(own)[len(own) - len(other) :], other, strict=False)
        if len(own) >= len(other) and all(b.dim_value == 1 or _is_same(a, b) for a, b in pairs):
            return [larger]
    return [None]


def _is_same(first: TensorShapeProto.Dimension, second: TensorShapeProto.Dimension) -> bool:
    return first.WhichOneof("value") is not None and first == second


def _matmul(slot: int, element_of: int) -> Rule:
    """Matrix product with a matrix in that slot."""

    def rule(_: onnx.NodeProto, operands: Operands) -> Sequence[TypeProto | None]:
        left, right, source = (_operand(operands, place) for place in (0, slot, element_of))
        if left is None or right is None or source is None or len(_dims(right)) != 2 or len(_dims(left)) < 2:
            return [None]
        return [_tensor(source.tensor_type.elem_type, [*list(_dims(left))[:-1], _dims(right)[1]])]

    return rule


def _matmul_of_blocks(node: onnx.NodeProto, operands: Operands) -> Sequence[TypeProto | None]:
    left, columns = _operand(operands, 0), _integer(node, "N", 0)
    if left is None or columns <= 0 or not _dims(left):
        return [None]
    return [_tensor(left.tensor_type.elem_type, [*list(_dims(left))[:-1], _size(columns)])]


_SAME = _like(0)

RULES: Mapping[tuple[str, str], Rule] = {
    (ML, "Imputer"): _SAME,
    (ML, "LabelEncoder"): _labels,
    (ML, "LinearRegressor"): _regressor("targets"),
    (ML, "Normalizer"): _like(0, element=TensorProto.FLOAT),
    (ML, "Scaler"): _like(0, element=TensorProto.FLOAT),
    (ML, "TreeEnsembleClassifier"): lambda node, operands: _per_row(node, operands, None, -1),
    (ML, "TreeEnsembleRegressor"): _regressor("n_targets"),
    (MICROSOFT, "BiasGelu"): _SAME,
    (MICROSOFT, "DequantizeLinear"): _like(0, element_of=1),
    (MICROSOFT, "DynamicQuantizeMatMul"): _matmul(1, element_of=0),
    (MICROSOFT, "FastGelu"): _SAME,
    (MICROSOFT, "Gelu"): _SAME,
    (MICROSOFT, "MatMulIntegerToFloat"): _matmul(1, element_of=2),
    (MICROSOFT, "MatMulNBits"): _matmul_of_blocks,
    (MICROSOFT, "QLinearAdd"): _broadcast,
    (MICROSOFT, "QLinearLeakyRelu"): _SAME,
    (MICROSOFT, "QLinearMul"): _broadcast,
    (MICROSOFT, "QLinearSigmoid"): _SAME,
    (MICROSOFT, "QLinearSoftmax"): _SAME,
    (MICROSOFT, "QuantizeLinear"): _like(0, element_of=2),
    (MICROSOFT, "QuickGelu"): _SAME,
    (MICROSOFT, "RotaryEmbedding"): _SAME,
    (MICROSOFT, "SkipLayerNormalization"): _SAME,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _SAME,
    ("", "SimplifiedLayerNormalization"): _SAME,
}
"""Type rules by domain and operator, where the operand types determine the output's."""
