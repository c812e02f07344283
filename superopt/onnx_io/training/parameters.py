"""Which initialisers of a model are parameters, that is, what training changes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidInputError, InvalidModelError, InvalidOptionError
from superopt.onnx_io.changes.raise_opset import raise_ir
from superopt.onnx_io.files.external import is_external
from superopt.onnx_io.node_building import copy_of
from superopt.onnx_io.protos import STANDARD_DOMAINS, captured_names, constant_tensor
from superopt.onnx_io.training.running_statistics import NEXT

TRAINABLE_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE)
HALF_TYPES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)

_RECURRENT = frozenset((1, 2, 3, 7))

LAYERS: Mapping[str, frozenset[int]] = {
    "BatchNormalization": frozenset((1, 2)),
    "Conv": frozenset((1, 2)),
    "ConvTranspose": frozenset((1, 2)),
    "GRU": _RECURRENT,
    "Gemm": frozenset((0, 1, 2)),
    "GroupNormalization": frozenset((1, 2)),
    "InstanceNormalization": frozenset((1, 2)),
    "LSTM": _RECURRENT,
    "LayerNormalization": frozenset((1, 2)),
    "MatMul": frozenset((0, 1)),
    "PRelu": frozenset((1,)),
    "RMSNormalization": frozenset((1,)),
    "RNN": _RECURRENT,
}
"""The operands of layers that are parameters, whatever their number of elements."""

SETTINGS: Mapping[str, frozenset[int]] = {
    "BatchNormalization": frozenset((3, 4)),
    "Clip": frozenset((1, 2)),
    "ConstantOfShape": frozenset((0,)),
    "DequantizeLinear": frozenset((1, 2)),
    "Dropout": frozenset((1, 2)),
    "GRU": frozenset((5,)),
    "LSTM": frozenset((5, 6)),
    "OneHot": frozenset((1, 2)),
    "Pad": frozenset((1, 2, 3)),
    "Pow": frozenset((1,)),
    "QuantizeLinear": frozenset((1, 2)),
    "RNN": frozenset((5,)),
    "Range": frozenset((0, 1, 2)),
    "Resize": frozenset((1, 2, 3)),
    "Tile": frozenset((1,)),
    "Upsample": frozenset((1,)),
}
"""The operands that are statistics, initial states, bounds, scales or exponents."""

MOVING = frozenset(
    (
        "Cast",
        "Expand",
        "Flatten",
        "Identity",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    )
)
"""Operators that only move the elements of their first operand, or convert them."""

ARITHMETIC = frozenset(("Add", "Div", "Mul", "Sub"))

MASKED = -1e4
"""What a mask adds to scores that do not count is at most this."""


@dataclass(frozen=True, slots=True)
class Use:
    """A node that reads a tensor as operand ``slot``."""

    node: onnx.NodeProto
    slot: int


def overridable_parameters(
    model: onnx.ModelProto, trainable: Sequence[str] = ("*",), frozen: Sequence[str] = ()
) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """A copy of the model whose parameters are overridable initialisers (graph inputs of the same name), and
    their names in the order of the initialisers. Parameters are the float32 and float64 initialisers that
    match a pattern of ``trainable`` and none of ``frozen``, and that are no constants: see ``Roles``. A
    pattern that is the name of an initialiser makes that one a parameter in any case. Raises
    InvalidModelError for a parameter that is float16, bfloat16 or dequantised, and for a model without
    parameters, InvalidOptionError for a pattern other than * that no initialiser matches, and where patterns
    leave no parameter."""
    copy = copy_of(model)
    raise_ir(copy)
    constants = _store_constants(copy.graph)
    stored = {tensor.name: tensor for tensor in copy.graph.initializer}
    _require_stored("trainable", trainable, stored)
    _require_stored("frozen", frozen, stored)
    roles = Roles(copy.graph)
    outputs = {value.name for value in copy.graph.output}
    states = {value.name for value in copy.graph.input if value.name + NEXT in outputs}
    names: list[str] = []
    for name, tensor in stored.items():
        if name in states or not _matches(name, trainable) or _matches(name, frozen):
            continue
        if name in trainable or roles.is_parameter(tensor, of_layers_only=name in constants):
            _require_trainable(tensor)
            names.append(name)
    if not names:
        raise _without_parameters(list(stored.values()), trainable, frozen)
    _override(copy.graph, [stored[name] for name in names])
    return copy, tuple(names)


def _without_parameters(
    stored: Sequence[TensorProto], trainable: Sequence[str], frozen: Sequence[str]
) -> InvalidInputError:
    """Why no parameter is left: because of patterns, or the model has none."""
    if tuple(trainable) != ("*",) or frozen:
        return InvalidOptionError(
            f"trainable: expected patterns that match parameters, got {', '.join(trainable)}, without "
            f"{', '.join(frozen) or 'exceptions'}, which leaves none of {len(stored)} initialisers"
        )
    constants = [tensor.name for tensor in stored if tensor.data_type in TRAINABLE_TYPES]
    if not constants:
        return InvalidModelError(
            "the model has no floating-point parameters: none of its initialisers is floating-point, and "
            "numbers in attributes are not trained"
        )
    return InvalidModelError(
        f"the model has no floating-point parameters, only constants, as {constants[0]!r}; those that are "
        "named with --trainable are trained in any case"
    )


class Roles:
    """What initialisers of a graph are for. An initialiser is a parameter if any use of it, itself or with
    its elements moved, is one as a parameter: as weight, bias, slope or scale of a layer, or, where it has
    several elements, any other but as a setting (``SETTINGS``), as a mask that is added, or in arithmetic
    with the data that the graph is given, as the statistics of images are."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._uses: defaultdict[str, list[Use]] = defaultdict(list)
        for node in graph.node:
            for slot, name in enumerate(node.input):
                self._uses[name].append(Use(node, slot))
            for name in captured_names(node):
                self._uses[name].append(Use(node, -1))
        self._makers = {name: node.op_type for node in graph.node for name in node.output}
        self._given = _given(graph)

    def is_parameter(self, tensor: TensorProto, *, of_layers_only: bool = False) -> bool:
        """Whether training changes the tensor, by its uses, its type and its size; ``of_layers_only``: only
        uses as an operand of a layer, or as a term of its result, count."""
        single = math.prod(tensor.dims) == 1
        if tensor.data_type in (*TRAINABLE_TYPES, *HALF_TYPES):
            uses = list(self._uses_of(tensor.name))
            if of_layers_only:
                uses = [use for use in uses if self._is_of_layer(use)]
            return any(self._trains(use, tensor, single=single) for use in uses)
        return any(
            use.node.op_type == "DequantizeLinear" and use.slot == 0 for use in self._uses_of(tensor.name)
        )

    def _trains(self, use: Use, tensor: TensorProto, *, single: bool) -> bool:
        op_type = use.node.op_type if use.node.domain in STANDARD_DOMAINS else ""
        if use.slot in LAYERS.get(op_type, ()):
            other = use.node.input[1 - use.slot] if op_type == "MatMul" else ""
            return other not in self._given.counted
        if single:
            return self._is_bias(use, tensor)
        if use.slot in SETTINGS.get(op_type, ()):
            return False
        if op_type in ARITHMETIC and use.node.input[1 - use.slot] in self._given.all:
            return False
        return not (op_type in ("Add", "Where") and _is_mask(tensor))

    def _is_of_layer(self, use: Use) -> bool:
        if use.slot in LAYERS.get(use.node.op_type, ()):
            return True
        return use.node.op_type == "Add" and self._makers.get(use.node.input[1 - use.slot]) in LAYERS

    def _is_bias(self, use: Use, tensor: TensorProto) -> bool:
        """Whether a vector of one element is added to the result of a layer."""
        if use.node.op_type != "Add" or len(tensor.dims) != 1:
            return False
        return self._makers.get(use.node.input[1 - use.slot]) in LAYERS

    def _uses_of(self, name: str) -> Iterator[Use]:
        for use in self._uses[name]:
            if use.node.op_type in MOVING and use.slot == 0:
                for output in filter(None, use.node.output):
                    yield from self._uses_of(output)
            else:
                yield use


@dataclass(frozen=True, slots=True)
class Given:
    """Names of the tensors that depend on inputs of the graph and settings alone, moved or with arithmetic;
    ``counted`` are those of them that count something: integers, and floats made of these."""

    all: frozenset[str]
    counted: frozenset[str]


def _given(graph: onnx.GraphProto) -> Given:
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    found = {value.name for value in inputs}
    counted = {
        value.name
        for value in inputs
        if value.type.tensor_type.elem_type in (TensorProto.INT32, TensorProto.INT64)
    }
    for node in graph.node:
        read = [name for name in node.input if name and name not in stored]
        if node.op_type in ("Range", "Shape", "Size", "NonZero"):
            counted.update(node.output)
        elif node.op_type not in MOVING | ARITHMETIC or not read or not found.issuperset(read):
            continue
        elif counted.issuperset(read):
            counted.update(node.output)
        found.update(node.output)
    return Given(frozenset(found), frozenset(counted))


def _is_mask(tensor: TensorProto) -> bool:
    content = None if is_external(tensor) else numpy_helper.to_array(tensor).astype(np.float64)
    return content is not None and bool((content <= MASKED).any())


def _store_constants(graph: onnx.GraphProto) -> frozenset[str]:
    """Makes floating-point outputs of Constant nodes with several elements initialisers. Returns their names
    if the model has other such initialisers; without, its exporter writes weights as Constant nodes."""
    others = any(t.data_type in TRAINABLE_TYPES and math.prod(t.dims) > 1 for t in graph.initializer)
    stored: list[int] = []
    for index, node in enumerate(graph.node):
        tensor = constant_tensor(node) if node.op_type == "Constant" else None
        if tensor is None or tensor.data_type not in (*TRAINABLE_TYPES, *HALF_TYPES):
            continue
        if math.prod(tensor.dims) > 1:
            graph.initializer.append(tensor)
            graph.initializer[-1].name = node.output[0]
            stored.append(index)
    names = frozenset(graph.node[index].output[0] for index in stored)
    for index in reversed(stored):
        del graph.node[index]
    return names if others else frozenset()


def _require_trainable(tensor: TensorProto) -> None:
    if tensor.data_type in TRAINABLE_TYPES:
        return
    element = TensorProto.DataType.Name(tensor.data_type)
    kind = element if tensor.data_type in HALF_TYPES else f"{element} and dequantised"
    raise InvalidModelError(
        f"initialiser {tensor.name!r}: expected a parameter in float32 or float64, got one that is {kind}; "
        "convert the model to float32, or leave it out with --frozen"
    )


def _require_stored(option: str, patterns: Sequence[str], stored: Collection[str]) -> None:
    for pattern in patterns:
        if pattern != "*" and not any(_matches(name, [pattern]) for name in stored):
            raise InvalidOptionError(
                f"{option}: expected the name of an initialiser of the model, or a pattern that fits one, "
                f"got {pattern!r}"
            )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _override(graph: onnx.GraphProto, tensors: Sequence[TensorProto]) -> None:
    declared = {value.name for value in graph.input}
    graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        for tensor in tensors
        if tensor.name not in declared
    )
