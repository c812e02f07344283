"""Types shared between equations: what operators infer from them, and substitutions, computed once.

Equations of one run are about the same few hundred subterms, and their variables have the same names, hence
the same symbols for sizes. A type, and an operator with its attributes, is a number here; inference and
substitution are entries of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension
from superopt.ir.types import TensorType
from superopt.ops.attributes import substituted
from superopt.ops.base import Operator, attributes_of, operator_from_attributes
from superopt.ops.bound import bound
from superopt.ops.sharded.sharding import is_divided
from superopt.rewriting.concrete import operator_symbols

TypeId: TypeAlias = int
OperatorId: TypeAlias = int

_MOST_TYPES = 1 << 15
_MOST_ENTRIES = 1 << 18


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Two sizes that an operator requires to be equal."""

    left: Dimension
    right: Dimension


Inferred: TypeAlias = "TypeId | Mismatch | None"
"""The type of an output; None where the inputs are ill-typed for every size."""


class SharedTypes:
    """Types and operators by number. Numbers are valid until ``forget_much`` clears them."""

    def __init__(self) -> None:
        self._types: list[TensorType] = []
        self._numbers: dict[TensorType, TypeId] = {}
        self._symbols: list[frozenset[str]] = []
        self._largest: list[int] = []
        self._divided: list[bool] = []
        self._operators: list[Operator] = []
        self._open: list[frozenset[str]] = []
        self._operator_numbers: dict[Operator, OperatorId] = {}
        self._inferred: dict[tuple[OperatorId, tuple[TypeId, ...]], Inferred] = {}
        self._substituted: dict[tuple[object, ...], TypeId] = {}
        self._with_sizes: dict[tuple[object, ...], OperatorId] = {}
        self.written: dict[tuple[object, ...], OperatorId | None] = {}
        """Operators of applications whose text says all their attributes; None where it is invalid."""
        self.fitting: dict[tuple[object, ...], bool] = {}
        """Whether such applications accept inputs of some ranks."""

    def forget_much(self) -> bool:
        """Clears the tables where they are large; returns whether numbers became invalid."""
        if len(self._inferred) > _MOST_ENTRIES:
            self._inferred.clear()
        if len(self._substituted) > _MOST_ENTRIES:
            self._substituted.clear()
        if len(self._types) <= _MOST_TYPES:
            return False
        self.__init__()
        return True

    def of(self, type_: TensorType) -> TypeId:
        """The number of a type."""
        found = self._numbers.get(type_)
        if found is None:
            found = self._numbers[type_] = len(self._types)
            self._types.append(type_)
            self._symbols.append(type_.symbols)
            elements = type_.elements if type_.is_sized else 0
            self._largest.append(elements if isinstance(elements, int) else 0)
            self._divided.append(is_divided((type_,)))
        return found

    def type(self, number: TypeId) -> TensorType:
        """The type with this number."""
        return self._types[number]

    def symbols(self, number: TypeId) -> frozenset[str]:
        """The symbols in a type."""
        return self._symbols[number]

    def elements(self, number: TypeId) -> int:
        """The number of elements; 0 where a size is not a positive number."""
        return self._largest[number]

    def operator_id(self, operator: Operator) -> OperatorId:
        """The number of an operator."""
        found = self._operator_numbers.get(operator)
        if found is None:
            found = self._operator_numbers[operator] = len(self._operators)
            self._operators.append(operator)
            self._open.append(operator_symbols(operator))
        return found

    def operator(self, number: OperatorId) -> Operator:
        """The operator with this number."""
        return self._operators[number]

    def operator_symbols(self, number: OperatorId) -> frozenset[str]:
        """The symbols in the attributes of an operator."""
        return self._open[number]

    def operator_with(self, number: OperatorId, sizes: Mapping[str, Dimension]) -> OperatorId:
        """The operator with sizes for the symbols in its attributes; raises IllTypedError for sizes that it
        does not take."""
        names = self._open[number]
        if not names:
            return number
        key = (number, tuple([(name, sizes[name]) for name in sorted(names) if name in sizes]))
        found = self._with_sizes.get(key)
        if found is None:
            operator = self._operators[number]
            values = {name: substituted(value, sizes) for name, value in attributes_of(operator).items()}
            sized = operator_from_attributes(operator.name, values)
            found = self._with_sizes[key] = self.operator_id(sized)
        return found

    def bound_operator(self, number: OperatorId, inputs: tuple[TypeId, ...]) -> OperatorId:
        """The operator for arrays of inputs of these types."""
        if not any(self._divided[each] for each in inputs):
            return number
        types = tuple([self._types[each] for each in inputs])
        return self.operator_id(bound(self._operators[number], types))

    def inferred(self, operator: OperatorId, inputs: tuple[TypeId, ...]) -> Inferred:
        """What the operator infers for inputs of these types."""
        key = (operator, inputs)
        if key not in self._inferred:
            self._inferred[key] = self._infer(operator, inputs)
        return self._inferred[key]

    def substituted(self, number: TypeId, assignment: Mapping[str, Dimension]) -> TypeId:
        """The type with sizes for symbols."""
        named = self._symbols[number]
        if named.isdisjoint(assignment):
            return number
        own = tuple([(name, size) for name, size in assignment.items() if name in named])
        key = (number, own)
        found = self._substituted.get(key)
        if found is None:
            found = self._substituted[key] = self.of(self._types[number].substitute(assignment))
        return found

    def _infer(self, operator: OperatorId, inputs: Sequence[TypeId]) -> Inferred:
        try:
            (output,) = self._operators[operator].infer(*[self._types[number] for number in inputs])
        except DimensionMismatchError as mismatch:
            return Mismatch(mismatch.left, mismatch.right)
        except IllTypedError:
            return None
        return self.of(output)
