"""Shapes as ONNX tensors, computed at run time where sizes are open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
from onnx import TensorProto

from superopt.ir.dimensions import Atom, Dimension, FloorDivision, Monomial, product, symbols_of
from superopt.ir.graph import NodeId
from superopt.onnx_io.emit.recipes import Emission, Operand, Writer

_MAX_TAKES_INTEGERS = 12
"""The operator set since which Max takes integers."""


Size: TypeAlias = "Dimension | tuple[Dimension, ...]"
"""A dimension, or the dimensions of which it is the product."""


class RuntimeShape:
    """A shape as an ONNX tensor: an initialiser if all dimensions are known, else computed at run time.
    ``reader`` is the node that uses it."""

    def __init__(self, emission: Emission, reader: NodeId, sizes: Sequence[Size]) -> None:
        self._factors = [size if isinstance(size, tuple) else (size,) for size in sizes]
        self._dimensions = [product(factors) for factors in self._factors]
        labels = sorted(set[str]().union(*map(symbols_of, self._dimensions)))
        self._sources = {label: emission.symbol_source(label, reader) for label in labels}

    @property
    def may_refuse_empty(self) -> bool:
        """Whether a Reshape to it may fail for a tensor without elements: where a size is inferred beside
        others that are copied as 0, or a size that is computed as 0 means a copy."""
        return {0, -1} <= set(self._dimensions) or bool(self._sources)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors whose shapes are read."""
        return tuple(Operand(value) for value, _ in self._sources.values())

    def write(self, writer: Writer, names: Sequence[str]) -> str:
        """Writes the nodes; ``names`` are those of ``operands``. Returns the name of the int64 vector."""
        sizes: dict[str, str] = {}
        for (label, (_, axis)), name in zip(self._sources.items(), names, strict=True):
            shape = writer.calculated("Shape", [name])
            sizes[label] = writer.calculated("Gather", [shape, integers(writer, [axis])], {"axis": 0})
        known = [dimension for dimension in self._dimensions if isinstance(dimension, int)]
        if len(known) == len(self._dimensions):
            return integers(writer, known)
        parts = [
            self._product(writer, [self._size(writer, each, sizes) for each in factors])
            for factors in self._factors
        ]
        return parts[0] if len(parts) == 1 else writer.calculated("Concat", parts, {"axis": 0})

    def _size(self, writer: Writer, dimension: Dimension, sizes: dict[str, str]) -> str:
        """A dimension, at least 1 where it is divided: of an image that is smaller than its window, ONNX
        Runtime makes one output, as it rounds towards 0."""
        size = self._dimension(writer, dimension, sizes)
        if isinstance(dimension, int) or not any(_is_divided(monomial) for monomial, _ in dimension.terms):
            return size
        if writer.opset >= _MAX_TAKES_INTEGERS:
            return writer.calculated("Max", [size, integers(writer, [1])])
        is_empty = writer.calculated("Equal", [size, integers(writer, [0])])
        missing = writer.calculated("Cast", [is_empty], {"to": TensorProto.INT64})
        return writer.calculated("Add", [size, missing])

    def _dimension(self, writer: Writer, dimension: Dimension, sizes: dict[str, str]) -> str:
        if isinstance(dimension, int):
            return integers(writer, [dimension])
        total: str | None = None
        for monomial, coefficient in dimension.terms:
            factors = [self._atom(writer, atom, sizes) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(integers(writer, [coefficient]))
            term = self._product(writer, factors)
            total = term if total is None else writer.calculated("Add", [total, term])
        assert total is not None, "a symbolic dimension has terms"
        return total

    def _product(self, writer: Writer, factors: Sequence[str]) -> str:
        return reduce(lambda one, other: writer.calculated("Mul", [one, other]), factors)

    def _atom(self, writer: Writer, atom: Atom, sizes: dict[str, str]) -> str:
        if isinstance(atom, FloorDivision):
            top = self._dimension(writer, atom.numerator, sizes)
            return writer.calculated("Div", [top, self._dimension(writer, atom.denominator, sizes)])
        return sizes[atom.name]


class RuntimeShapes:
    """Shapes by name that one node may use."""

    def __init__(self, emission: Emission, reader: NodeId, shapes: Mapping[str, Sequence[Size]]) -> None:
        self._shapes = {name: RuntimeShape(emission, reader, shape) for name, shape in shapes.items()}

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors whose shapes are read."""
        return tuple(operand for shape in self._shapes.values() for operand in shape.operands)

    def writing(self, writer: Writer, names: Sequence[str]) -> Callable[[str], str]:
        """A function that writes the nodes of the shape of a name, and returns that of the vector; ``names``
        are those of ``operands``."""
        rest = iter(names)
        read = {name: [next(rest) for _ in shape.operands] for name, shape in self._shapes.items()}
        return lambda name: self._shapes[name].write(writer, read[name])


def _is_divided(monomial: Monomial) -> bool:
    return any(isinstance(atom, FloorDivision) for atom in monomial)


def integers(writer: Writer, numbers: Sequence[int]) -> str:
    return writer.constant(np.array(numbers, np.int64), "shape")
