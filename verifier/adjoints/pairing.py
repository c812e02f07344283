"""The identity that defines an adjoint, <J v, g> = <v, adjoint(x, g)>, at one typed instance.

J is the Jacobian of the operator with respect to the operand at the inputs x; J v comes from dual numbers.
The inputs, the direction v and the cotangent g are random. Over the prime field the identity is exact: two
sides that differ as polynomials of degree d are equal with probability at most d / 2^31 in each sample. Over
floats both sides agree up to rounding, and the gradient is defined wherever the operator and J v are.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Generic, TypeVar, cast

import numpy as np

from superopt.domains import Domain, FloatDomain
from superopt.domains.arrays import Array
from superopt.equations import Adjoint
from superopt.errors import IllTypedError
from superopt.instances.instance import Instance
from superopt.ir.types import TensorType
from superopt.rewriting.evaluation import evaluate_terms
from superopt.verifier.adjoints.dual import Dual, DualDomain
from superopt.verifier.adjoints.samples import RootedField, floats

A = TypeVar("A")

RELATIVE_TOLERANCE = 1e-9
"""Largest difference over floats, relative to the sum of the magnitudes of the terms of both sides. What is
exact in the field may also differ relative to v and g, since small terms may have lost digits, as those of
1 - tanh(x)^2."""

FIELD_SAMPLES = 3
ROOTED_SAMPLES = 96
"""Samples where roots are taken, most of which may be unusable."""
FLOAT_SAMPLES = 8


@dataclass(frozen=True)
class Sides(Generic[A]):
    """The terms of both inner products, each a stack of vectors, and the ``result`` of the operator."""

    left: A
    right: A
    result: A


class Outcome(enum.Enum):
    """What evaluation says: equal in the field and over floats; over floats alone, because the field has no
    usable samples; unequal; undefined at all samples."""

    EXACT = "exact"
    ROUNDED = "rounded"
    UNEQUAL = "unequal"
    UNDEFINED = "undefined"


@dataclass(frozen=True)
class Paired:
    """The outcome at one instance; where it is UNEQUAL, ``reason`` has both numbers."""

    outcome: Outcome
    reason: str = ""


def sides(
    adjoint: Adjoint, instance: Instance, domain: Domain[A], arrays: Mapping[str, A], direction: A
) -> Sides[A]:
    """Both sides for stacked arrays of the operands and the cotangent, and a direction, an array like the
    operand. Raises IllTypedError where the gradient has another shape."""
    dual = DualDomain(domain)
    inputs = tuple(
        Dual(arrays[operand.name], direction if index == adjoint.input else None)
        for index, operand in enumerate(adjoint.operands)
    )
    operator = instance.typing.operators[adjoint.application]
    types = tuple(instance.types[operand.name] for operand in adjoint.operands)
    (result,) = operator.evaluate_typed(types, dual, inputs)
    (gradient,) = evaluate_terms((adjoint.gradient,), instance.typing, domain, arrays)
    expected = _shape(instance.types[adjoint.operand.name])
    if domain.shape(gradient) != expected:
        raise IllTypedError(f"expected a gradient of shape {expected}, got {domain.shape(gradient)}")
    return Sides(
        _terms(domain, dual.tangent(result), arrays[adjoint.cotangent.name]),
        _terms(domain, direction, gradient),
        result.value,
    )


def paired(adjoint: Adjoint, instance: Instance, generator: np.random.Generator) -> Paired:
    """Evaluates both sides over the prime field and over floats."""
    try:
        equal, usable = _in_field(adjoint, instance, generator)
        numbers = _over_floats(adjoint, instance, generator)
    except IllTypedError as error:
        return Paired(Outcome.UNEQUAL, str(error))
    if numbers is None:
        return Paired(Outcome.EXACT if usable and equal else Outcome.UNDEFINED)
    left, right, terms, largest = numbers
    scale = terms + largest if usable and equal else terms
    apart = ~(abs(left - right) <= RELATIVE_TOLERANCE * scale)
    if apart.any():
        place = int(np.argmax(apart))
        return Paired(Outcome.UNEQUAL, f"<J v, g> = {left[place]:.9g}, <v, adjoint> = {right[place]:.9g}")
    if equal:
        return Paired(Outcome.EXACT if usable else Outcome.ROUNDED)
    return Paired(
        Outcome.UNEQUAL,
        f"unequal in the prime field, although over floats <J v, g> = {left[0]:.17g} and "
        f"<v, adjoint> = {right[0]:.17g}",
    )


def _in_field(adjoint: Adjoint, instance: Instance, generator: np.random.Generator) -> tuple[bool, bool]:
    """Whether both sides are equal at all usable samples, and whether there is one."""
    for stack in (FIELD_SAMPLES, ROOTED_SAMPLES):
        domain = RootedField(stack)
        arrays = {
            name: domain.squares(generator, _shape(type_)) for name, type_ in sorted(instance.types.items())
        }
        direction = domain.squares(generator, _shape(instance.types[adjoint.operand.name]))
        found = sides(adjoint, instance, domain, arrays, direction)
        left, right = (domain.sum(terms, 0).residue for terms in (found.left, found.right))
        if domain.usable.all() or stack == ROOTED_SAMPLES:
            return bool(((left == right) | ~domain.usable).all()), bool(domain.usable.any())
    raise AssertionError("the last stack is judged")


def _over_floats(
    adjoint: Adjoint, instance: Instance, generator: np.random.Generator
) -> tuple[Array, Array, Array, Array] | None:
    """Both sides, the magnitudes of their terms and of the largest elements of v and g, at the samples where
    the operator and its derivative are defined; None if there is none."""
    arrays = {
        name: floats(generator, FLOAT_SAMPLES, _shape(type_))
        for name, type_ in sorted(instance.types.items())
    }
    direction = floats(generator, FLOAT_SAMPLES, _shape(instance.types[adjoint.operand.name]))
    with np.errstate(all="ignore"):
        found = sides(adjoint, instance, FloatDomain(np.float64), arrays, direction)
        left, right = found.left.sum(axis=1), found.right.sum(axis=1)
        scale = abs(found.left).sum(axis=1) + abs(found.right).sum(axis=1)
    largest = _largest(direction) * _largest(arrays[adjoint.cotangent.name])
    finite = np.isfinite(found.result).reshape(len(found.result), -1).all(axis=1)
    defined = np.isfinite(left) & finite
    if not defined.any():
        return None
    return left[defined], right[defined], scale[defined], largest[defined]


def _largest(array: Array) -> Array:
    """The largest magnitude in each sample of a stack."""
    return abs(array).reshape(len(array), -1).max(axis=1, initial=0)


def _terms(domain: Domain[A], one: A, other: A) -> A:
    """The products of corresponding elements, as vectors."""
    shapes: Sequence[tuple[int, ...]] = (domain.shape(one), domain.shape(other))
    if shapes[0] != shapes[1]:
        raise IllTypedError(f"expected arrays of one shape, got {shapes[0]} and {shapes[1]}")
    return domain.reshape(domain.multiply(one, other), (prod(shapes[0]),))


def _shape(type_: TensorType) -> tuple[int, ...]:
    return cast("tuple[int, ...]", type_.array_shape)


__all__ = [
    "RELATIVE_TOLERANCE",
    "Outcome",
    "Paired",
    "Sides",
    "paired",
    "sides",
]
