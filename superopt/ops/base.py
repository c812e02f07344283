"""Operator base class (frozen dataclasses whose fields are the attributes), and the registry."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from superopt.domains import Domain
from superopt.errors import DimensionMismatchError, IllTypedError, RankMismatchError, UnfitTypesError
from superopt.ir.dimensions import Dimension, sum_of
from superopt.ir.graph import GraphOperator
from superopt.ir.types import ShardedType, TensorType, UnknownType, ValueType
from superopt.ops.attributes import checked_attribute, normalise_attribute
from superopt.ops.images.windows import Window
from superopt.ops.roles import Divided, FusionRole, GateStep, Product
from superopt.ops.sharded.sharding import evaluate_divided, infer_divided, is_divided
from superopt.ops.sharded.splits import Splits, axis_by_axis, undivided

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class OnnxForm:
    """The ONNX node of an operator with the same inputs and outputs. ``attributes`` pairs fields of the
    operator with names of ONNX attributes. Operators that need more (reshaped weights, constants as inputs)
    are lowered by ``superopt.onnx_io``."""

    op_type: str
    attributes: tuple[tuple[str, str], ...] = ()
    since: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """Cost of an operator for the analytic cost model: operations and bytes."""

    flops: Dimension
    bytes: Dimension


class Operator(ABC):
    """A tensor operator; subclasses are frozen dataclasses.

    ``implicit``: fields that equations omit because unification determines them: dimensions of constants, the
    size of the first half of a split, the target of a broadcast. ``overflows``: results may exceed the range
    of floating-point numbers for moderate arguments. ``positions``: the number of axes at either end of a
    tensor, or of a tensor of fixed rank, that an operator distinguishes without naming them in an attribute;
    None where every axis may matter. ``inputs``: the number of operands in an equation; the last
    ``side_inputs`` of them are numbers or vectors combined with the others.

    Class variables of type bool are *traits*. Axiom schemas hold for all operators with a trait, so declaring
    a trait asserts its laws in every number domain:

    - ``element_wise``: every element depends only on those at the same position, and on all side inputs;
    - ``commutative``: its two inputs may be exchanged;
    - ``polynomial``: computed by sums and products only, hence equal in every commutative ring;
    - ``composite``: an axiom defines it by other operators, from which its laws follow;
    - ``linear``: in all inputs together; other operators are ``linear_in`` sets of inputs, the rest fixed;
    - ``monotone``: defined everywhere, and no larger input gives a smaller element;
    - ``keeps_zero``: zeros give zeros, whatever the side inputs;
    - ``along_axis``: every line along the attribute ``axis`` is computed independently;
    - ``cuts``: one of the two pieces of a tensor split along ``axis``;
    - ``reduction``: reduces a line to one element, in any order; a line of one element is unchanged;
    - ``spatial``: [n, c, h, w] to [n, c, h', w'], every channel of every sample independently;
    - ``per_channel``: element-wise, with vectors of one number for each position along ``axis``;
    - ``parallel``: changes how a tensor is divided, not its value.

    Other traits serve cost models, drawings, placement and lowering instead of lists of operator names:

    - ``comparing``: the result depends on which of two numbers is larger;
    - ``rounds_more``: rounding errors are larger than those of the definition; ``from_rules``: only rules
      introduce it;
    - elements: it only ``moves`` them; it ``renames`` a tensor (the same elements in the same order), or
      ``repeats`` axes of size 1, or ``narrows`` axes to size 1 by a sum; it ``joins`` tensors; the ``half``
      of a tensor that it gives (0 or 1), for which graphs use the operator ``in_graphs``;
    - constants: a ``constant`` has no inputs; one that ``fills`` a tensor with a number is a
      ``superopt.ops.shape.Filled``; one that is ``neutral_for`` an operator is its neutral element;
    - numbers: the ``neutral`` last operand for which the result is the first one;
    - products: its kind of ``product``; inputs from ``parameters`` on are weights in every model, one of them
      (``kernel_input``) is a convolution kernel; ``windowed``: uses sliding windows over an image;
    - types: inputs that are ``conditions`` only choose, as truth values or indices, and may be of such types;
      all inputs have one type (``equal_inputs``); inputs except the first have ``side_rank``, numbers or
      vectors along ``axis``, and the result has the type of the first; ``ranks`` of its input, weighted by
      repetition, empty for any;
    - fusions of the runtime: its ``role`` in groups, the operators that may surround it as the centre of a
      ``gate``, and the ``gate_step`` that it is around another;
    - sharding: what it ``divides``, whether it ``gathers`` parts instead of creating them, and the operator
      that it is ``undone_by``;
    - ``typical``: attribute values for tests, where the usual ones for the attribute's name do not fit.
    """

    name: ClassVar[str]
    implicit: ClassVar[tuple[str, ...]] = ()
    onnx: ClassVar[OnnxForm | None] = None
    foldable: ClassVar[bool] = True
    overflows: ClassVar[bool] = False
    positions: ClassVar[int | None] = 0
    inputs: ClassVar[int] = 0
    side_inputs: ClassVar[int] = 0

    element_wise: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    polynomial: ClassVar[bool] = False
    composite: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ()
    monotone: ClassVar[bool] = False
    keeps_zero: ClassVar[bool] = False
    along_axis: ClassVar[bool] = False
    cuts: ClassVar[bool] = False
    reduction: ClassVar[bool] = False
    spatial: ClassVar[bool] = False
    per_channel: ClassVar[bool] = False
    parallel: ClassVar[bool] = False

    comparing: ClassVar[bool] = False
    moves: ClassVar[bool] = False
    renames: ClassVar[bool] = False
    repeats: ClassVar[bool] = False
    narrows: ClassVar[bool] = False
    joins: ClassVar[bool] = False
    half: ClassVar[int | None] = None
    in_graphs: ClassVar[str | None] = None
    constant: ClassVar[bool] = False
    fills: ClassVar[bool] = False
    neutral_for: ClassVar[str | None] = None
    neutral: ClassVar[int | None] = None
    product: ClassVar[Product | None] = None
    parameters: ClassVar[int | None] = None
    kernel_input: ClassVar[int | None] = None
    windowed: ClassVar[bool] = False
    conditions: ClassVar[frozenset[int]] = frozenset()
    equal_inputs: ClassVar[bool] = False
    side_rank: ClassVar[int | None] = None
    ranks: ClassVar[tuple[int, ...]] = ()
    role: ClassVar[FusionRole | None] = None
    gate: ClassVar[frozenset[GateStep]] = frozenset()
    gate_step: ClassVar[GateStep | None] = None
    divides: ClassVar[Divided | None] = None
    gathers: ClassVar[bool] = False
    undone_by: ClassVar[str | None] = None
    rounds_more: ClassVar[bool] = False
    from_rules: ClassVar[bool] = False
    typical: ClassVar[Mapping[str, tuple[object, ...]]] = {}

    def infer(self, *types: ValueType) -> tuple[TensorType, ...]:
        """Output types for input types, divided tensors among them; raises IllTypedError
        (DimensionMismatchError where two dimensions differ, so that unification can solve for symbols)."""
        for type_ in types:
            if type(type_) is ShardedType:
                return infer_divided(self, types)
        return self.infer_whole(*types)

    @abstractmethod
    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """``infer`` for unsharded tensors."""

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """Whether every output element is defined for all real inputs. ``attributes`` are as in a term:
        missing ones have their default, and a value that is not a number stands for any."""
        del attributes
        return True

    @classmethod
    def compares(cls, attributes: Mapping[str, object]) -> bool:
        """Whether it is ``comparing`` with these attributes, given as in ``is_total``."""
        del attributes
        return cls.comparing

    @classmethod
    def optional_sizes(cls, *inputs: TensorType) -> tuple[Dimension, ...]:
        """Sizes that unification would determine although other values are valid too."""
        del inputs
        return ()

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """Why the output equals the first input; None where that is not known."""
        del inputs, output
        return None

    def merged_with(self, inner: GraphOperator, rank: int) -> tuple[Operator, str] | None:
        """The operator equal to ``inner`` followed by this one, for an output of that rank, and why; None if
        there is none."""
        del inner, rank
        return None

    def permutation(self, rank: int) -> tuple[int, ...] | None:
        """The permutation of an input of that rank; None if it does not only permute."""
        del rank
        return None

    def window(self, *inputs: TensorType) -> Window | None:
        """The sliding windows of the operator; None if it has none."""
        del inputs
        return None

    @abstractmethod
    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Output arrays for input arrays, over any domain; arrays have a leading stack axis."""

    def evaluate_typed(
        self, types: tuple[TensorType, ...], domain: Domain[A], arrays: tuple[A, ...]
    ) -> tuple[A, ...]:
        """``evaluate`` for inputs of these types, including sharded tensors."""
        if is_divided(types):
            return evaluate_divided(self, types, domain, arrays)
        return self.evaluate(domain, *arrays)

    def work(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
        """One operation per output element and each tensor moved once, unless overridden."""
        return Work(sum_of(t.elements for t in outputs), moved_bytes(inputs, outputs))

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """The dimensions along which the computation can be divided into tasks: all axes of an element-wise
        operator, none of others, unless overridden."""
        return axis_by_axis(inputs, outputs) if self.element_wise else undivided(inputs, outputs)

    def grouped(self, *inputs: TensorType) -> tuple[Dimension, Dimension, Dimension] | None:
        """Channels, channels per group and outputs, where types are valid for any number of groups."""
        del inputs
        return None

    def unseen(self, *inputs: TensorType) -> frozenset[tuple[object, ...]]:
        """Conditions on symbolic sizes that ``infer`` assumes; empty where it has checked everything."""
        del inputs
        return frozenset()

    def task(self, outputs: tuple[TensorType, ...]) -> Operator:
        """The operator that computes a part of those types from parts of the inputs: itself, unless
        attributes contain sizes."""
        del outputs
        return self


OPERATORS: dict[str, type[Operator]] = {}

OperatorClass = TypeVar("OperatorClass", bound=type[Operator])


def register(operator: OperatorClass) -> OperatorClass:
    """Class decorator: registers an operator under its name."""
    if operator.name in OPERATORS:
        raise ValueError(f"operator {operator.name} is registered twice")
    OPERATORS[operator.name] = operator
    return operator


@cache
def _fields(operator: type[Operator]) -> tuple[dataclasses.Field[object], ...]:
    return dataclasses.fields(cast("type[DataclassInstance]", operator))


def operator_from_attributes(name: str, attributes: Mapping[str, object]) -> Operator:
    """The operator of that name with the given attributes, normalised; the others have their defaults. Raises
    IllTypedError for an unknown operator, an unknown attribute, a missing one, or a value of the wrong
    kind."""
    operator = OPERATORS.get(name)
    if operator is None:
        raise IllTypedError(f"unknown operator {name}; known: {', '.join(sorted(OPERATORS))}")
    fields = {field.name: field for field in _fields(operator)}
    for attribute in attributes:
        if attribute not in fields:
            raise IllTypedError(f"{name} has no attribute {attribute}; it has: {', '.join(fields) or 'none'}")
    values = {key: checked_attribute(name, key, value) for key, value in attributes.items()}
    for field in fields.values():
        if field.name not in values and field.default is dataclasses.MISSING:
            raise IllTypedError(f"{name} needs the attribute {field.name}")
    return operator(**values)


@lru_cache(maxsize=65536)
def known_operator(name: str, attributes: tuple[tuple[str, object], ...]) -> Operator:
    """``operator_from_attributes``, cached: equal attributes give the same object."""
    return operator_from_attributes(name, dict(attributes))


def attributes_of(operator: Operator) -> dict[str, object]:
    """All attributes by name, implicit ones included."""
    return {field.name: getattr(operator, field.name) for field in _fields(type(operator))}


def attribute_names(name: str) -> tuple[str, ...]:
    """The attributes of the operator of that name, implicit ones included; () for an unknown operator."""
    operator = OPERATORS.get(name)
    return tuple(field.name for field in _fields(operator)) if operator else ()


def attribute_defaults(name: str) -> dict[str, object]:
    """The operator's attributes that have a default, with the default."""
    return {
        field.name: field.default
        for field in _fields(OPERATORS[name])
        if field.default is not dataclasses.MISSING
    }


def number_of(name: str, attributes: Mapping[str, object], attribute: str) -> Fraction | None:
    """The value of an attribute that is given or has a default; None where it is not a number."""
    value = attributes[attribute] if attribute in attributes else attribute_defaults(name).get(attribute)
    return Fraction(value) if isinstance(value, int | float | Fraction) else None


def tensors(where: str, count: int, types: tuple[ValueType, ...]) -> tuple[TensorType, ...]:
    """The input types; raises unless they are ``count`` tensors."""
    if len(types) != count:
        raise UnfitTypesError(f"{where}: expected {count} inputs, got {len(types)}")
    return all_tensors(where, types)


def all_tensors(where: str, types: tuple[ValueType, ...]) -> tuple[TensorType, ...]:
    """The input types; raises unless all are tensors of known rank."""
    checked: list[TensorType] = []
    for type_ in types:
        if isinstance(type_, UnknownType):
            raise IllTypedError(f"{where}: expected a tensor of known rank, got {type_}")
        checked.append(type_)
    return tuple(checked)


def require_rank(where: str, type_: TensorType, low: int, high: int | None = None) -> None:
    """Raises RankMismatchError unless the rank is between the bounds."""
    high = low if high is None else high
    if not low <= type_.rank <= high:
        raise RankMismatchError(where, str(low) if low == high else f"{low} to {high}", type_.rank)


def axis_of(where: str, axis: int, rank: int) -> int:
    """The axis as a non-negative number; raises RankMismatchError when it is out of range."""
    if not -rank <= axis < rank:
        raise RankMismatchError(where, f"more than axis {axis} needs", rank)
    return axis % rank


def same_element(where: str, *types: TensorType) -> None:
    """Raises IllTypedError unless all element types are equal."""
    for type_ in types[1:]:
        if type_.element is not types[0].element:
            raise UnfitTypesError(
                f"{where}: element types {types[0].element} and {type_.element} must be equal"
            )


def require_float(where: str, *types: TensorType) -> None:
    """Raises IllTypedError unless all element types are floating point."""
    for type_ in types:
        if not type_.element.is_float:
            raise UnfitTypesError(f"{where}: expected a floating point tensor, got {type_}")


def equal_dimensions(where: str, left: Dimension, right: Dimension) -> None:
    """Raises DimensionMismatchError unless the dimensions are equal."""
    if left != right:
        raise DimensionMismatchError(left, right, where)


def equal_shapes(where: str, left: TensorType, right: TensorType) -> None:
    """Raises RankMismatchError or DimensionMismatchError unless the shapes are equal."""
    if left.rank != right.rank:
        raise RankMismatchError(where, str(left.rank), right.rank)
    for a, b in zip(left.shape, right.shape, strict=True):
        equal_dimensions(where, a, b)


def moved_bytes(inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Dimension:
    """The bytes of all tensors, read or written once."""
    return sum_of(t.elements * t.element.bytes_per_element for t in (*inputs, *outputs))


__all__ = [
    "OPERATORS",
    "OnnxForm",
    "Operator",
    "Work",
    "all_tensors",
    "attribute_defaults",
    "attribute_names",
    "attributes_of",
    "axis_of",
    "equal_dimensions",
    "equal_shapes",
    "moved_bytes",
    "normalise_attribute",
    "number_of",
    "operator_from_attributes",
    "register",
    "require_float",
    "require_rank",
    "same_element",
    "tensors",
]
