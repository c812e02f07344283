"""Elementwise arithmetic on operands of equal shape; broadcasting is a separate operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, TypeVar

from superopt.domains import Domain
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import (
    OnnxForm,
    Operator,
    equal_shapes,
    number_of,
    register,
    require_float,
    require_rank,
    same_element,
    tensors,
)
from superopt.ops.roles import FusionRole, GateStep

A = TypeVar("A")


class BinaryElementwise(Operator):
    """Two tensors of equal type to one of the same type."""

    inputs: ClassVar[int] = 2
    element_wise: ClassVar[bool] = True
    equal_inputs: ClassVar[bool] = True

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """(t, t) -> t."""
        left, right = tensors(self.name, 2, types)
        same_element(self.name, left, right)
        equal_shapes(self.name, left, right)
        return (left,)


class UnaryElementwise(Operator):
    """One floating point tensor to one of the same type."""

    inputs: ClassVar[int] = 1
    element_wise: ClassVar[bool] = True

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """t -> t."""
        (only,) = tensors(self.name, 1, types)
        require_float(self.name, only)
        return (only,)


@register
@dataclass(frozen=True, slots=True)
class Add(BinaryElementwise):
    """x + y (TASO: ewadd)."""

    name: ClassVar[str] = "add"
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    commutative: ClassVar[bool] = True
    neutral: ClassVar[int | None] = 0
    role: ClassVar[FusionRole | None] = FusionRole.SUM
    gate_step: ClassVar[GateStep | None] = GateStep.SCALING
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Add", since=7)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum."""
        return (domain.add(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Sum(BinaryElementwise):
    """x + y by ONNX's operator for sums of any number of tensors, which a runtime does not fuse with what
    follows."""

    name: ClassVar[str] = "sum"
    from_rules: ClassVar[bool] = True
    polynomial: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    commutative: ClassVar[bool] = True
    neutral: ClassVar[int | None] = 0

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Sum."""
        return (domain.add(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Subtract(BinaryElementwise):
    """x - y."""

    name: ClassVar[str] = "sub"
    neutral: ClassVar[int | None] = 0
    gate_step: ClassVar[GateStep | None] = GateStep.CENTRING
    polynomial: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Sub", since=7)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Difference."""
        return (domain.subtract(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Multiply(BinaryElementwise):
    """x * y, elementwise (TASO: ewmul)."""

    name: ClassVar[str] = "mul"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    polynomial: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    commutative: ClassVar[bool] = True
    neutral: ClassVar[int | None] = 1
    gate_step: ClassVar[GateStep | None] = GateStep.SCALING
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Mul", since=7)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Product."""
        return (domain.multiply(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Divide(BinaryElementwise):
    """x / y, elementwise, of floating point tensors."""

    name: ClassVar[str] = "div"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,),)
    neutral: ClassVar[int | None] = 1
    gate_step: ClassVar[GateStep | None] = GateStep.SCALING
    composite: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Div", since=7)

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """(t, t) -> t for floating point t; integer division, which truncates, is excluded."""
        result = BinaryElementwise.infer_whole(self, *types)
        require_float(self.name, *result)
        return result

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """Undefined where the divisor is 0."""
        del attributes
        return False

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Quotient."""
        return (domain.divide(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Scale(Operator):
    """A tensor times a 0-d scalar (TASO: smul)."""

    name: ClassVar[str] = "scale"
    linear_in: ClassVar[tuple[tuple[int, ...], ...]] = ((0,), (1,))
    inputs: ClassVar[int] = 2
    side_inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Mul", since=7)
    element_wise: ClassVar[bool] = True
    neutral: ClassVar[int | None] = 1
    parameters: ClassVar[int | None] = 1
    side_rank: ClassVar[int | None] = 0
    role: ClassVar[FusionRole | None] = FusionRole.FACTOR
    gate_step: ClassVar[GateStep | None] = GateStep.SCALING

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """(t, scalar) -> t."""
        tensor, factor = tensors(self.name, 2, types)
        require_rank(f"{self.name}, second input", factor, 0)
        same_element(self.name, tensor, factor)
        return (tensor,)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Product with the scalar."""
        return (domain.multiply(arrays[0], arrays[1]),)


@register
@dataclass(frozen=True, slots=True)
class Identity(Operator):
    """The tensor itself: identity nodes, dropout at inference."""

    name: ClassVar[str] = "identity"
    inputs: ClassVar[int] = 1
    polynomial: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Identity")
    element_wise: ClassVar[bool] = True
    moves: ClassVar[bool] = True
    renames: ClassVar[bool] = True
    role: ClassVar[FusionRole | None] = FusionRole.TRANSPARENT

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """Always."""
        del inputs, output
        return "it does nothing"

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """t -> t."""
        return tensors(self.name, 1, types)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The same array."""
        return arrays


@register
@dataclass(frozen=True, slots=True)
class Sqrt(UnaryElementwise):
    """Square root, elementwise."""

    name: ClassVar[str] = "sqrt"
    gate: ClassVar[frozenset[GateStep]] = frozenset(GateStep)
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Sqrt", since=6)

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """Undefined where the argument is negative."""
        del attributes
        return False

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Square root."""
        return (domain.sqrt(arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Power(UnaryElementwise):
    """Elementwise power with a constant exponent. Undefined for 0 with a negative exponent, and for a
    negative number with a fractional one; x to the power of 0 is 1."""

    name: ClassVar[str] = "power"
    gate_step: ClassVar[GateStep | None] = GateStep.POWER
    exponent: Fraction | int

    @classmethod
    def is_total(cls, attributes: Mapping[str, object]) -> bool:
        """True for non-negative whole exponents."""
        exponent = number_of(cls.name, attributes, "exponent")
        return exponent is not None and exponent >= 0 and exponent.denominator == 1

    def why_same(self, inputs: tuple[ValueType, ...], output: ValueType) -> str | None:
        """For the exponent 1."""
        del inputs, output
        return "the power 1" if self.exponent == 1 else None

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Products of the base and its square roots where the exponent is a small dyadic fraction, otherwise
        the named function ``power``; a reciprocal for negative exponents."""
        exponent = abs(Fraction(self.exponent))
        sixteenths = exponent * 16
        if 0 < exponent <= 8 and sixteenths.denominator == 1:
            result = _dyadic_power(domain, arrays[0], int(sixteenths))
        else:
            result = domain.apply("power", arrays[0], (exponent,))
        return (domain.reciprocal(result) if self.exponent < 0 else result,)


def _dyadic_power(domain: Domain[A], base: A, sixteenths: int) -> A:
    """The base to the power of ``sixteenths / 16``: a whole power times the square roots given by the binary
    fraction."""
    whole, fraction = divmod(sixteenths, 16)
    factors, root = [base] * whole, base
    for bit in (8, 4, 2, 1):
        root = domain.sqrt(root) if fraction % (2 * bit) else root
        if fraction & bit:
            factors.append(root)
    result = factors[0]
    for factor in factors[1:]:
        result = domain.multiply(result, factor)
    return result
