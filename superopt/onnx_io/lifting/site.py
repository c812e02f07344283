"""Lifting context of one ONNX node: its operands, its attributes, and the graph nodes made for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import onnx
from onnx import AttributeProto

from superopt.domains import Array
from superopt.errors import SuperoptError
from superopt.ir.dimensions import Dimension
from superopt.ir.graph import GraphEditor, GraphOperator, Node, NodeId, Value, Weight
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.files.stored import StoredTensor
from superopt.onnx_io.protos import dtype_of, simplest_fraction
from superopt.ops import Opaque
from superopt.ops.shape import Joining


class NotLiftedError(SuperoptError):
    """A node stays opaque; the message is the reason shown to the user."""


class Site:
    """The node at ``index`` of the main graph; ``resolve`` gives the value of a name, None if unknown.
    Everything that ``add``, ``number`` and ``array`` create is recorded in ``made``, so that a failed attempt
    can be undone."""

    def __init__(
        self,
        editor: GraphEditor,
        node: onnx.NodeProto,
        index: int,
        opset: int,
        resolve: Callable[[str], Value | None],
        constants: Mapping[str, StoredTensor],
        unused_outputs: frozenset[str],
        weight_only: set[NodeId],
        register: Callable[[str, Array], str],
        sizes_in: Callable[[str], tuple[Dimension, ...] | None],
        alike: Callable[[onnx.NodeProto], Sequence[onnx.NodeProto]],
        site_of: Callable[[int], Site],
    ) -> None:
        self.node = node
        self.index = index
        self.opset = opset
        self.made: list[NodeId] = []
        self._editor = editor
        self._resolve = resolve
        self._slots: dict[int, Value] = {}
        self._constants = constants
        self._unused_outputs = unused_outputs
        self._weight_only = weight_only
        self._register = register
        self._sizes_in = sizes_in
        self._alike = alike
        self._site_of = site_of
        self._read_beside: set[int] = set()
        self.is_respelled = False
        self._attributes = {attribute.name: attribute for attribute in node.attribute}

    def has(self, slot: int) -> bool:
        """Whether the operand is given."""
        return slot < len(self.node.input) and bool(self.node.input[slot])

    def value(self, slot: int) -> Value:
        """The operand."""
        if slot not in self._slots:
            value = self._resolve(self.node.input[slot]) if self.has(slot) else None
            if value is None:
                raise NotLiftedError(f"operand {slot} is missing")
            self._slots[slot] = value
        return self._slots[slot]

    def slots(self) -> tuple[Value | None, ...]:
        """Declares the operands that the graph nodes read, and sizes computed at run time. The others must be
        constants, or the node is not lifted."""
        read = {value for made in self.made for value in self._editor[made].inputs}
        slots = tuple(
            self._resolve(name)
            if slot in self._read_beside and name not in self._constants
            else (value if (value := self._slots.get(slot)) in read else None)
            for slot, name in enumerate(self.node.input)
        )
        for name, value in zip(self.node.input, slots, strict=True):
            if name and value is None and name not in self._constants:
                raise NotLiftedError(f"operand {name!r} is computed at run time")
        return slots

    def type(self, slot: int) -> TensorType:
        """The type of a floating-point operand; raises NotLiftedError for others."""
        return self.type_of(self.value(slot))

    def type_of(self, value: Value) -> TensorType:
        """The type of a floating-point tensor; raises NotLiftedError for others."""
        type_ = self._editor.type_of(value)
        if not isinstance(type_, TensorType):
            raise NotLiftedError(f"an operand is a {type_}")
        if not type_.element.is_float:
            raise NotLiftedError(
                f"{type_.element.lower()} operands stay as they are: rules are over the reals"
            )
        return type_

    def moved(self, slot: int) -> TensorType:
        """The type of an operand whose elements are only moved; raises NotLiftedError unless they are numbers
        or truth values."""
        return self.moved_type(self.value(slot))

    def moved_type(self, value: Value) -> TensorType:
        """The type of a tensor whose elements are only moved; raises NotLiftedError unless they are numbers
        or truth values."""
        type_ = self._editor.type_of(value)
        if not isinstance(type_, TensorType):
            raise NotLiftedError(f"an operand is a {type_}")
        if not type_.element.is_movable:
            raise NotLiftedError(f"{type_.element.lower()} operands stay as they are")
        return type_

    def joined(self, slot: int, axis: int) -> tuple[tuple[GraphOperator, TensorType], ...]:
        """The concatenated tensors that give the operand, with their types; empty if it is not a concat."""
        node = self._editor[self.value(slot).node]
        if not isinstance(node.operator, Joining) or node.operator.axis != axis:
            return ()
        return tuple((self._editor[value.node].operator, self.type_of(value)) for value in node.inputs)

    def is_weight(self, slot: int) -> bool:
        """Whether the operand depends only on weights."""
        return self.value(slot).node in self._weight_only

    def constant(self, slot: int) -> Array | None:
        """The content of a constant operand; None for others."""
        if slot >= len(self.node.input) or self.node.input[slot] not in self._constants:
            return None
        return self._constants[self.node.input[slot]].numpy()

    def producer(self, value: Value) -> Node:
        """The graph node that gives the value."""
        return self._editor[value.node]

    def site_of(self, opaque: Opaque) -> Site:
        """The ONNX node that stayed opaque, to be read."""
        return self._site_of(opaque.index)

    def stored(self, name: str) -> Array | None:
        """The content of a constant of the model; None for another tensor."""
        return self._constants[name].numpy() if name in self._constants else None

    def sizes_named(self, name: str) -> tuple[Dimension, ...] | None:
        """The numbers in an integer tensor computed from sizes and constants; None for another tensor."""
        return self._sizes_in(name)

    def read_beside(self, slot: int) -> None:
        """Declares that the graph nodes do without an operand, since what it holds is known: sizes, one
        number, or what they compute themselves."""
        self._read_beside.add(slot)

    def respell(self) -> None:
        """Declares that the runtime runs the graph nodes at least as fast as this ONNX node."""
        self.is_respelled = True

    def alike(self) -> Sequence[onnx.NodeProto]:
        """The nodes with the same operator that read the same first operand, this one among them."""
        return self._alike(self.node)

    def constant_integers(self, slot: int, what: str) -> tuple[int, ...]:
        """The content of a small integer operand, a shape or axes; raises NotLiftedError if it is
        computed."""
        content = self.constant(slot)
        if content is None:
            raise NotLiftedError(f"{what} is computed at run time")
        return tuple(int(number) for number in content.reshape(-1))

    def sizes(self, slot: int, what: str) -> tuple[Dimension, ...]:
        """The content of an operand that holds sizes, symbolic where computed at run time. Raises
        NotLiftedError where it depends on anything but sizes."""
        content = self._sizes_in(self.node.input[slot])
        if content is None:
            raise NotLiftedError(f"{what} is computed at run time")
        self.read_beside(slot)
        return content

    def add(self, operator: GraphOperator, *operands: Value) -> Value:
        """Adds a graph node for this ONNX node; returns its first output. Raises IllTypedError."""
        return self.add_many(operator, *operands)[0]

    def add_many(self, operator: GraphOperator, *operands: Value) -> tuple[Value, ...]:
        """Adds a graph node for this ONNX node; returns all outputs. Raises IllTypedError."""
        node = self._editor.add(operator, operands, origin=self.index)
        self.made.append(node.id)
        if all(operand.node in self._weight_only for operand in operands):
            self._weight_only.add(node.id)
        return node.values

    def number(self, value: float | Fraction, element: ElementType) -> Value:
        """A 0-d weight that the model does not contain, such as the -1 of a negation."""
        content = number_array(value, element)
        label = self._register(f"number/{float(value)!r}/{element.lower()}", content)
        return self.add(Weight(label, TensorType(element, ()), known_number(content)))

    def array(self, content: Array) -> Value:
        """A weight of single precision that the model does not contain, such as a matrix of known factors."""
        stored = np.ascontiguousarray(content, np.float32)
        label = self._register(
            f"array/{hashlib.sha256(stored.tobytes()).hexdigest()[:16]}/{stored.shape}", stored
        )
        return self.add(Weight(label, TensorType(ElementType.FLOAT, stored.shape), known_number(stored)))

    def require_unused(self, output: int) -> None:
        """Raises NotLiftedError when that output is named and may be read."""
        outputs = self.node.output
        if output < len(outputs) and outputs[output] and outputs[output] not in self._unused_outputs:
            raise NotLiftedError(f"output {output} is used")

    def has_attribute(self, name: str) -> bool:
        """Whether the attribute is given."""
        return name in self._attributes

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return self._attributes[name].i if name in self._attributes else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        """An integer list attribute, None if absent."""
        return tuple(self._attributes[name].ints) if name in self._attributes else None

    def fraction(self, name: str, default: Fraction | int) -> Fraction | int:
        """A float attribute as the simplest fraction that rounds to it."""
        if name not in self._attributes:
            return default
        return finite_fraction(self._attributes[name].f, f"attribute {name}")

    def decimal(self, name: str, default: float) -> float:
        """A float attribute, which may be infinite or NaN."""
        return self._attributes[name].f if name in self._attributes else default

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        return self._attributes[name].s.decode() if name in self._attributes else default

    def attribute_value(self, name: str) -> object:
        """An attribute as the value of an operator's field."""
        attribute = self._attributes[name]
        match attribute.type:
            case AttributeProto.INT:
                return attribute.i
            case AttributeProto.FLOAT:
                return self.fraction(name, 0)
            case AttributeProto.STRING:
                return attribute.s.decode()
            case AttributeProto.INTS:
                return tuple(attribute.ints)
            case _:
                raise NotLiftedError(f"attribute {name} is of a kind that operators do not have")


def finite_fraction(value: float, where: str) -> Fraction | int:
    """The simplest fraction that rounds to the float32; raises NotLiftedError for infinities and NaN."""
    if not np.isfinite(value):
        raise NotLiftedError(f"{where} is {value}")
    return simplest_fraction(value)


def number_array(value: float | Fraction, element: ElementType) -> Array:
    """A 0-d array of the element type."""
    return np.asarray(float(value)).astype(dtype_of(element))


def known_number(content: Array) -> Fraction | int | None:
    """The number that all elements of a tensor equal, in its simplest form; None where they differ, where
    there are none, and where it is not a float32."""
    if not content.size:
        return None
    first = content.reshape(-1)[0]
    value = float(first)
    if not (np.isfinite(value) and np.float32(value) == value and (content == first).all()):
        return None
    return simplest_fraction(value)
