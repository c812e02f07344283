"""Activations, defined by ring operations, order and the exponential, so that their identities hold."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias, TypeVar, get_args

import numpy as np

from superopt.domains import Domain
from superopt.errors import IllTypedError
from superopt.ir.types import TensorType, ValueType
from superopt.ops.base import OnnxForm, axis_of, register, require_float, tensors
from superopt.ops.elementwise.arithmetic import UnaryElementwise
from superopt.ops.roles import FusionRole, GateStep
from superopt.ops.sharded.splits import Splits, axis_by_axis

A = TypeVar("A")

Activation: TypeAlias = Literal["none", "relu", "sigmoid", "tanh"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
Approximation: TypeAlias = Literal["none", "tanh"]
APPROXIMATIONS: tuple[Approximation, ...] = get_args(Approximation)


def rectified(domain: Domain[A], array: A) -> A:
    """max(x, 0)."""
    return domain.maximum(array, domain.rational(0))


def logistic(domain: Domain[A], array: A) -> A:
    """1 / (1 + exp(-x))."""
    return domain.reciprocal(domain.add(domain.rational(1), domain.exp(domain.negate(array))))


def hyperbolic_tangent(domain: Domain[A], array: A) -> A:
    """2 logistic(2 x) - 1."""
    doubled = domain.add(array, array)
    sigmoid = logistic(domain, doubled)
    return domain.subtract(domain.add(sigmoid, sigmoid), domain.rational(1))


def clipped_line(domain: Domain[A], array: A, alpha: Fraction | int, beta: Fraction | int) -> A:
    """max(0, min(1, alpha x + beta))."""
    line = domain.add(domain.multiply(array, domain.rational(alpha)), domain.rational(beta))
    return rectified(domain, domain.minimum(line, domain.rational(1)))


def activate(domain: Domain[A], activation: Activation, array: A) -> A:
    """The activation that another operator applies to its result."""
    match activation:
        case "none":
            return array
        case "relu":
            return rectified(domain, array)
        case "sigmoid":
            return logistic(domain, array)
        case "tanh":
            return hyperbolic_tangent(domain, array)


@register
@dataclass(frozen=True, slots=True)
class Relu(UnaryElementwise):
    """max(x, 0)."""

    name: ClassVar[str] = "relu"
    comparing: ClassVar[bool] = True
    monotone: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Relu", since=6)
    role: ClassVar[FusionRole | None] = FusionRole.ACTIVATION

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Rectified."""
        return (rectified(domain, arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Sigmoid(UnaryElementwise):
    """1 / (1 + exp(-x))."""

    name: ClassVar[str] = "sigmoid"
    role: ClassVar[FusionRole | None] = FusionRole.ACTIVATION
    gate: ClassVar[frozenset[GateStep]] = frozenset({GateStep.SCALING})
    monotone: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Sigmoid", since=6)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Logistic function."""
        return (logistic(domain, arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Tanh(UnaryElementwise):
    """Hyperbolic tangent."""

    name: ClassVar[str] = "tanh"
    role: ClassVar[FusionRole | None] = FusionRole.ACTIVATION
    gate: ClassVar[frozenset[GateStep]] = frozenset({GateStep.SCALING, GateStep.POWER})
    monotone: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Tanh", since=6)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """By the logistic function."""
        return (hyperbolic_tangent(domain, arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class HardSigmoid(UnaryElementwise):
    """max(0, min(1, alpha x + beta))."""

    name: ClassVar[str] = "hard_sigmoid"
    comparing: ClassVar[bool] = True
    role: ClassVar[FusionRole | None] = FusionRole.ACTIVATION
    onnx: ClassVar[OnnxForm | None] = OnnxForm(
        "HardSigmoid", attributes=(("alpha", "alpha"), ("beta", "beta")), since=6
    )
    alpha: Fraction | int = Fraction(1, 5)
    beta: Fraction | int = Fraction(1, 2)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Clipped line."""
        return (clipped_line(domain, arrays[0], self.alpha, self.beta),)


@register
@dataclass(frozen=True, slots=True)
class HardSwish(UnaryElementwise):
    """x max(0, min(1, x/6 + 1/2))."""

    name: ClassVar[str] = "hard_swish"
    comparing: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("HardSwish", since=14)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Product with a hard sigmoid."""
        gate = clipped_line(domain, arrays[0], Fraction(1, 6), Fraction(1, 2))
        return (domain.multiply(arrays[0], gate),)


@register
@dataclass(frozen=True, slots=True)
class Silu(UnaryElementwise):
    """x / (1 + exp(-alpha x)): silu (swish); with another ``alpha`` the fast approximation of gelu."""

    name: ClassVar[str] = "silu"
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Swish", attributes=(("alpha", "alpha"),), since=24)
    alpha: Fraction | int = 1

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Product with a sigmoid."""
        (x,) = arrays
        return (domain.multiply(x, logistic(domain, domain.multiply(x, domain.rational(self.alpha)))),)


@register
@dataclass(frozen=True, slots=True)
class Softplus(UnaryElementwise):
    """log(1 + exp(x)), as the positive part of x and log(1 + exp(-|x|)), which does not overflow."""

    name: ClassVar[str] = "softplus"
    comparing: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Softplus")

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The positive part, and what is added to it."""
        (x,) = arrays
        decay = domain.exp(domain.negate(domain.maximum(x, domain.negate(x))))
        above = domain.apply("log", domain.add(domain.rational(1), decay))
        return (domain.add(rectified(domain, x), above),)


@register
@dataclass(frozen=True, slots=True)
class Elu(UnaryElementwise):
    """x where it is positive, else alpha (exp(x) - 1)."""

    name: ClassVar[str] = "elu"
    comparing: ClassVar[bool] = True
    composite: ClassVar[bool] = True
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Elu", attributes=(("alpha", "alpha"),), since=6)
    alpha: Fraction | int = 1

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The positive part, and the exponential of what is not positive."""
        (x,) = arrays
        decay = domain.exp(domain.minimum(x, domain.rational(0)))
        below = domain.multiply(domain.subtract(decay, domain.rational(1)), domain.rational(self.alpha))
        return (domain.add(rectified(domain, x), below),)


@register
@dataclass(frozen=True, slots=True)
class Erf(UnaryElementwise):
    """The error function."""

    name: ClassVar[str] = "erf"
    gate: ClassVar[frozenset[GateStep]] = frozenset({GateStep.SCALING})
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Erf", since=9)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The named function ``erf``."""
        return (domain.apply("erf", arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Sine(UnaryElementwise):
    """The sine of an angle in radians."""

    name: ClassVar[str] = "sin"
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Sin", since=7)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The named function ``sin``."""
        return (domain.apply("sin", arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Cosine(UnaryElementwise):
    """The cosine of an angle in radians."""

    name: ClassVar[str] = "cos"
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Cos", since=7)

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The named function ``cos``."""
        return (domain.apply("cos", arrays[0]),)


@register
@dataclass(frozen=True, slots=True)
class Gelu(UnaryElementwise):
    """x/2 (1 + erf(x / sqrt 2)), or its tanh approximation."""

    name: ClassVar[str] = "gelu"
    keeps_zero: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Gelu", attributes=(("approximate", "approximate"),), since=20)
    approximate: Approximation = "none"

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The definition of ONNX."""
        (x,) = arrays
        half = domain.multiply(x, domain.rational(Fraction(1, 2)))
        if self.approximate == "tanh":
            cube = domain.multiply(domain.multiply(x, x), x)
            inner = domain.add(x, domain.multiply(cube, domain.rational(Fraction("0.044715"))))
            inner = domain.multiply(inner, domain.rational(Fraction(np.sqrt(2 / np.pi))))
            curve = hyperbolic_tangent(domain, inner)
        else:
            curve = domain.apply("erf", domain.multiply(x, domain.rational(Fraction(np.sqrt(0.5)))))
        return (domain.multiply(half, domain.add(domain.rational(1), curve)),)


@register
@dataclass(frozen=True, slots=True)
class Softmax(UnaryElementwise):
    """exp(x) over its sum along one axis."""

    name: ClassVar[str] = "softmax"
    comparing: ClassVar[bool] = True
    along_axis: ClassVar[bool] = True
    onnx: ClassVar[OnnxForm | None] = OnnxForm("Softmax", attributes=(("axis", "axis"),), since=13)
    element_wise: ClassVar[bool] = False
    axis: int = -1

    def infer_whole(self, *types: ValueType) -> tuple[TensorType, ...]:
        """t -> t."""
        (only,) = tensors(self.name, 1, types)
        require_float(self.name, only)
        axis_of(self.name, self.axis, only.rank)
        return (only,)

    def splits(self, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Splits:
        """Every axis except the one that is normalised."""
        return axis_by_axis(inputs, outputs, (axis_of(self.name, self.axis, outputs[0].rank),))

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """Shifted by the maximum, which is exact over the reals and prevents overflow in floating point."""
        (x,) = arrays
        shape = domain.shape(x)
        axis = axis_of(self.name, self.axis, len(shape))
        kept = (*shape[:axis], 1, *shape[axis + 1 :])
        largest = domain.reshape(domain.max_along(x, axis), kept)
        powers = domain.exp(domain.subtract(x, domain.broadcast(largest, shape)))
        total = domain.reshape(domain.sum(powers, axis), kept)
        return (domain.divide(powers, domain.broadcast(total, shape)),)


@register
@dataclass(frozen=True, slots=True)
class LogSoftmax(Softmax):
    """The natural logarithm of softmax along one axis. Runtimes compute it as x less its largest element and
    the logarithm of the sum of exponentials, which is finite where softmax underflows, as it may in
    ``evaluate``; so it is left to them where x is a constant, too."""

    name: ClassVar[str] = "log_softmax"
    foldable: ClassVar[bool] = False
    onnx: ClassVar[OnnxForm | None] = OnnxForm("LogSoftmax", attributes=(("axis", "axis"),), since=13)
    axis: int = -1

    def evaluate(self, domain: Domain[A], *arrays: A) -> tuple[A, ...]:
        """The named function ``log`` of softmax."""
        (shares,) = Softmax(self.axis).evaluate(domain, *arrays)
        return (domain.apply("log", shares),)


def activation_from_text(text: str) -> Activation:
    """The activation of that name; raises IllTypedError."""
    match text:
        case "none" | "relu" | "sigmoid" | "tanh":
            return text
        case _:
            raise IllTypedError(f"unknown activation {text}; known: none, relu, sigmoid, tanh")
