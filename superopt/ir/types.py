"""Types of values: element type and shape; and a type for values that are not tensors of known rank."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from operator import is_
from typing import TypeAlias

from superopt.ir.dimensions import Assignment, Dimension, product, substitute


class ElementType(enum.StrEnum):
    """Element types of tensors, by their ONNX names."""

    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    FLOAT16 = "FLOAT16"
    BFLOAT16 = "BFLOAT16"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    BOOL = "BOOL"
    STRING = "STRING"
    COMPLEX64 = "COMPLEX64"
    COMPLEX128 = "COMPLEX128"
    OTHER = "OTHER"

    @property
    def is_float(self) -> bool:
        """Whether rules over the reals apply to tensors of this element type."""
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether elements are whole numbers of a fixed width."""
        return self.is_movable and not self.is_float and self is not ElementType.BOOL

    @property
    def is_movable(self) -> bool:
        """Whether elements are numbers or truth values that operators may move without computing."""
        return self not in _NEITHER

    @property
    def bytes_per_element(self) -> int:
        """Bytes in memory of one element; 8 where the size is not fixed."""
        return _BYTES.get(self, 8)


_FLOATS = frozenset((ElementType.FLOAT, ElementType.DOUBLE, ElementType.FLOAT16, ElementType.BFLOAT16))
_NEITHER = frozenset((ElementType.STRING, ElementType.COMPLEX64, ElementType.COMPLEX128, ElementType.OTHER))
_BYTES: Mapping[ElementType, int] = {
    ElementType.FLOAT: 4,
    ElementType.FLOAT16: 2,
    ElementType.BFLOAT16: 2,
    ElementType.INT8: 1,
    ElementType.INT16: 2,
    ElementType.INT32: 4,
    ElementType.UINT8: 1,
    ElementType.UINT16: 2,
    ElementType.UINT32: 4,
    ElementType.BOOL: 1,
    ElementType.COMPLEX128: 16,
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor of known rank; dimensions are integers or symbolic."""

    element: ElementType
    shape: tuple[Dimension, ...]

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def elements(self) -> Dimension:
        """The number of elements."""
        return product(self.shape)

    @property
    def array_shape(self) -> tuple[Dimension, ...]:
        """The shape of the array that holds the value."""
        return self.shape

    @property
    def is_sized(self) -> bool:
        """Whether every size is a positive number: no symbol, no empty tensor."""
        return all(isinstance(size, int) and size > 0 for size in self.shape)

    @property
    def symbols(self) -> frozenset[str]:
        """All symbols that occur in the shape."""
        symbolic = [dimension for dimension in self.shape if not isinstance(dimension, int)]
        return frozenset(name for dimension in symbolic for name in dimension.symbols)

    def with_shape(self, shape: tuple[Dimension, ...]) -> TensorType:
        """The same element type at another shape."""
        return TensorType(self.element, shape)

    def substitute(self, assignment: Assignment) -> TensorType:
        """The type with symbols replaced by the assignment; itself if none of them occurs."""
        shape = tuple([substitute(size, assignment) for size in self.shape])
        return self if all(map(is_, shape, self.shape)) else TensorType(self.element, shape)

    def __str__(self) -> str:
        name = _SHORT_NAMES.get(self.element, self.element.lower())
        return f"{name}[{', '.join(str(dimension) for dimension in self.shape)}]"


@dataclass(frozen=True, slots=True)
class Division:
    """Division of an axis: over ``degree`` places, and at each over ``batches`` turns."""

    degree: int = 1
    batches: int = 1

    @property
    def parts(self) -> int:
        """The total number of parts."""
        return self.degree * self.batches

    def __str__(self) -> str:
        return str(self.degree) + (f" in {self.batches} turns" if self.batches > 1 else "")


@dataclass(frozen=True, slots=True)
class ShardedType(TensorType):
    """A tensor divided into equal parts along its axes, and into replicas (Unity, section 3.1). ``shape`` is
    that of the whole. Replicas need not be equal: those of a partial result are terms of a sum."""

    divisions: tuple[Division, ...]
    replicas: int = 1

    @property
    def array_shape(self) -> tuple[Dimension, ...]:
        """The shape of the array that holds the value: with a leading replica axis if there are several
        replicas."""
        return (self.replicas, *self.shape) if self.replicas > 1 else self.shape

    def substitute(self, assignment: Assignment) -> TensorType:
        """The type with symbols replaced by the assignment."""
        shape = tuple(substitute(d, assignment) for d in self.shape)
        return ShardedType(self.element, shape, self.divisions, self.replicas)

    def __str__(self) -> str:
        sizes = (
            str(size) if division.parts == 1 else f"{size} / {division}"
            for size, division in zip(self.shape, self.divisions, strict=True)
        )
        name = _SHORT_NAMES.get(self.element, self.element.lower())
        return f"{name}[{', '.join(sizes)}]" + (f" x {self.replicas}" if self.replicas > 1 else "")


@dataclass(frozen=True, slots=True)
class UnknownType:
    """A value that is not a tensor of known rank: a sequence, an optional, a tensor of unknown rank."""

    description: str

    def __str__(self) -> str:
        return self.description


ValueType: TypeAlias = "TensorType | UnknownType"

_SHORT_NAMES: Mapping[ElementType, str] = {
    ElementType.FLOAT: "f32",
    ElementType.DOUBLE: "f64",
    ElementType.FLOAT16: "f16",
    ElementType.BFLOAT16: "bf16",
    ElementType.INT8: "i8",
    ElementType.INT16: "i16",
    ElementType.INT32: "i32",
    ElementType.INT64: "i64",
    ElementType.UINT8: "u8",
    ElementType.UINT16: "u16",
    ElementType.UINT32: "u32",
    ElementType.UINT64: "u64",
    ElementType.BOOL: "bool",
}

ELEMENT_TYPES_BY_SHORT_NAME: Mapping[str, ElementType] = {short: e for e, short in _SHORT_NAMES.items()}
