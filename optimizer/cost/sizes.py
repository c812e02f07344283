"""Sizes used to price a graph with open dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, cast

from superopt.ir.dimensions import Dimension, SymbolicDimension, as_symbol, substitute
from superopt.ir.graph import Graph
from superopt.ir.types import TensorType, UnknownType
from superopt.ops.base import Operator
from superopt.optimizer.cost.kernels.origin import Origin

_UNKNOWN = 64
"""A size about which nothing is known."""


class Sizes:
    """Concrete values for everything a graph leaves open, used for pricing: symbolic dimensions, and
    constants where the ``origin`` is known. ``given`` assigns symbols; any other symbol is 1 if it is axis 0
    of some tensor, else 64."""

    def __init__(self, graph: Graph, given: Mapping[str, int], origin: Origin | None = None) -> None:
        self.origin: Final = origin
        assignment: dict[str, Dimension] = {}
        for node in graph:
            for type_ in node.types:
                if isinstance(type_, UnknownType):
                    continue
                for axis, dimension in enumerate(type_.shape):
                    name = as_symbol(dimension)
                    if name is not None and (axis == 0 or name not in assignment):
                        assignment[name] = 1 if axis == 0 else _UNKNOWN
        self._assignment: Mapping[str, Dimension] = {**assignment, **given}
        self._types: dict[TensorType, TensorType] = {}

    @property
    def assignment(self) -> Mapping[str, Dimension]:
        """The value of every known symbol."""
        return self._assignment

    def type(self, type_: TensorType) -> TensorType:
        """The type with numbers for symbols."""
        if all(type(dimension) is int for dimension in type_.shape):
            return type_
        found = self._types.get(type_)
        if found is None:
            found = type_.with_shape(tuple(self.dimension(dimension) for dimension in type_.shape))
            self._types[type_] = found
        return found

    def dimension(self, dimension: Dimension) -> int:
        """The dimension as a number, at least 1; one in which the assumed sizes divide by 0 counts as
        unknown."""
        if isinstance(dimension, int):
            return dimension
        try:
            known = substitute(dimension, self._assignment)
            if not isinstance(known, int):
                rest: dict[str, Dimension] = dict.fromkeys(known.symbols, _UNKNOWN)
                known = substitute(known, rest)
        except ZeroDivisionError:
            return _UNKNOWN
        return max(1, known) if isinstance(known, int) else _UNKNOWN

    def operator(self, operator: Operator) -> Operator:
        """The operator with numbers for symbols in its attributes."""
        changed: dict[str, object] = {}
        for field in dataclasses.fields(operator):  # pyright: ignore[reportArgumentType]
            value: object = getattr(operator, field.name)
            if isinstance(value, SymbolicDimension):
                changed[field.name] = self.dimension(value)
            elif isinstance(value, tuple):
                parts = cast("tuple[object, ...]", value)
                if any(isinstance(part, SymbolicDimension) for part in parts):
                    changed[field.name] = tuple(
                        self.dimension(part) if isinstance(part, SymbolicDimension) else part
                        for part in parts
                    )
        if not changed:
            return operator
        return cast("Operator", dataclasses.replace(operator, **changed))  # pyright: ignore[reportArgumentType]


__all__ = ["Sizes"]
