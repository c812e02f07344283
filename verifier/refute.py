"""Refutation: exact evaluation of both sides on many awkward instances, and a counterexample to read.

The prime field decides equality exactly (a false equation of degree d survives one evaluation with
probability d / 2^31); floats confirm a difference, show it to a person, and find values that only one side
leaves undefined.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from superopt.domains import Array, FieldArray, FloatDomain, PrimeFieldDomain
from superopt.errors import IllTypedError
from superopt.ir.terms import Equation, applications, attribute_variables
from superopt.ir.types import TensorType
from superopt.rewriting.evaluation import evaluate_terms
from verifier.enumeration import enumerated
from verifier.instance import Instance
from verifier.instances import InstanceSampler
from verifier.seeds import seed_of

RELATIVE_TOLERANCE = 1e-6
_IN_FLOATS = 12
"""On so many instances floats are compared too: a number that is another one modulo the prime shows in any.
On the others only where something may be undefined."""

_FEWEST, _ELEMENTS_IN_ALL = 3, 1_000_000
"""Where a rule declares large tensors, fewer instances are evaluated."""

_WINDOWS = frozenset(("conv", "avgpool", "maxpool", "enlarge"))


@dataclass(frozen=True)
class Effort:
    """How many schemes (ranks and attribute values), how many sizes for each, how many instances in all, and
    how many more by trying small shapes; twice as many of the former for attribute variables and windows.

    ``stack`` inputs are evaluated at once.
    """

    schemes: int = 24
    per_scheme: int = 3
    instances: int = 48
    enumerated: int = 60
    stack: int = 3


@dataclass(frozen=True)
class Refutation:
    """What evaluation found: a counterexample, or on how many instances both sides agreed."""

    counterexample: str | None
    instances: tuple[Instance, ...]
    suspicious: str | None = None

    @property
    def well_typed(self) -> int:
        """The number of instances on which both sides agreed."""
        return len(self.instances)


def refute(equation: Equation, effort: Effort = Effort(), seed: int = 0) -> Refutation:
    """Looks for a well-typed instance on which the sides have different types or values.

    ``suspicious`` names an instance on which the field differs and floats do not: nothing is known then.
    """
    return refute_on(InstanceSampler(equation, seed_of(equation, seed)), effort, seed)


def refute_on(sampler: InstanceSampler, effort: Effort, seed: int = 0) -> Refutation:
    """``refute`` for the equation of a sampler, on its instances."""
    equation = sampler.equation
    generator = np.random.default_rng(seed_of(equation, seed + 1))
    agreed: list[Instance] = []
    suspicious: str | None = None
    more = 2 if _has_many_cases(equation) else 1
    instances = sampler.instances(effort.schemes * more, effort.per_scheme)
    affordable = max(_FEWEST, _ELEMENTS_IN_ALL // (1 + sampler.declared_elements))
    tried = itertools.islice(instances, min(effort.instances * more, affordable))
    for instance in itertools.chain(tried, enumerated(equation, seed_of(equation, seed), effort.enumerated)):
        difference = difference_of_types(equation, instance)
        if difference is None:
            in_floats = len(agreed) < _IN_FLOATS
            difference, doubt = _difference_of_values(
                equation, instance, generator, effort.stack, in_floats=in_floats
            )
            suspicious = suspicious or doubt
        if difference is not None:
            return Refutation(f"{instance}: {difference}" if str(instance) else difference, tuple(agreed))
        agreed.append(instance)
    return Refutation(None, tuple(agreed), suspicious)


def difference_in(equation: Equation, instance: Instance, generator: np.random.Generator) -> str | None:
    """How the sides differ on an instance, in type or in value; None when they agree or that is not seen."""
    difference = difference_of_types(equation, instance)
    if difference is None:
        difference, _ = _difference_of_values(equation, instance, generator, Effort().stack, in_floats=True)
    return difference


def difference_of_types(equation: Equation, instance: Instance) -> str | None:
    """The first pair of outputs whose types differ."""
    for index, (left, right) in enumerate(zip(equation.left, equation.right, strict=True)):
        a, b = instance.typing.types[left], instance.typing.types[right]
        if a != b:
            return f"{_output(equation, index)}left has type {a}, right has type {b}"
    return None


def field_agrees(equation: Equation, instance: Instance, generator: np.random.Generator, stack: int) -> bool:
    """Whether both sides have the same residues for random inputs."""
    return _field_difference(equation, instance, generator, stack, PrimeFieldDomain()) is None


class _Watched(PrimeFieldDomain):
    """Knows afterwards if a function was met that is not defined everywhere, or not by ring operations."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ring = True

    def reciprocal(self, array: FieldArray) -> FieldArray:
        self.is_ring = False
        return super().reciprocal(array)

    def sqrt(self, array: FieldArray) -> FieldArray:
        self.is_ring = False
        return super().sqrt(array)

    def exp(self, array: FieldArray) -> FieldArray:
        self.is_ring = False
        return super().exp(array)

    def apply(self, function: str, array: FieldArray, parameters: tuple[Fraction, ...] = ()) -> FieldArray:
        self.is_ring = False
        return super().apply(function, array, parameters)


def _difference_of_values(
    equation: Equation, instance: Instance, generator: np.random.Generator, stack: int, *, in_floats: bool
) -> tuple[str | None, str | None]:
    domain = _Watched()
    try:
        in_field = _field_difference(equation, instance, generator, stack, domain)
    except IllTypedError as error:
        return None, f"{instance}: {error}"
    if in_field is None and domain.is_ring and not in_floats:
        return None, None
    first = _float_difference(equation, instance, generator, spread=in_field is not None)
    if first is not None:
        again = _float_difference(equation, instance, generator, spread=in_field is not None)
        if in_field is not None or again is not None:
            return first, None
    if in_field is not None:
        return None, f"{instance}: the sides differ in a prime field but not over floats, at {in_field}"
    return None, None


def _field_difference(
    equation: Equation,
    instance: Instance,
    generator: np.random.Generator,
    stack: int,
    domain: PrimeFieldDomain,
) -> tuple[int, ...] | None:
    arrays: Mapping[str, FieldArray] = {
        name: domain.random(generator, stack, _shape(type_)) for name, type_ in instance.types.items()
    }
    with np.errstate(all="ignore"):
        values = evaluate_terms((*equation.left, *equation.right), instance.typing, domain, arrays)
    half = len(equation.left)
    for left, right in zip(values[:half], values[half:], strict=True):
        different = np.argwhere(np.not_equal(left.residue, right.residue))
        if len(different):
            return tuple(int(i) for i in different[0][1:])
    return None


def _float_difference(
    equation: Equation, instance: Instance, generator: np.random.Generator, *, spread: bool
) -> str | None:
    """The first element that differs, or that one side alone leaves undefined."""
    domain = FloatDomain(np.float64)
    stack = 4 if spread else 2
    arrays: dict[str, Array] = {
        name: _special_values(generator, stack, _shape(type_)) for name, type_ in instance.types.items()
    }
    with np.errstate(all="ignore"):
        values = evaluate_terms((*equation.left, *equation.right), instance.typing, domain, arrays)
    half = len(equation.left)
    for index, (left, right) in enumerate(zip(values[:half], values[half:], strict=True)):
        a, b = np.broadcast_arrays(left, right)
        finite = np.isfinite(a) & np.isfinite(b)
        scale = 1 + np.nanmax(np.abs(np.where(finite, a, 0)), initial=0)
        distance = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
        wrong = (distance > RELATIVE_TOLERANCE * scale) | (np.isfinite(a) != np.isfinite(b))
        found = np.argwhere(wrong)
        if len(found):
            place = tuple(int(i) for i in found[0])
            at = f"[{', '.join(str(i) for i in place[1:])}]"
            return f"{_output(equation, index)}left{at} = {a[place]:.6g}, right{at} = {b[place]:.6g}"
    return None


def _special_values(generator: np.random.Generator, stack: int, shape: tuple[int, ...]) -> Array:
    """Small numbers of both signs; in the last of the stack zeros and ones too."""
    values = np.round(generator.normal(size=(stack, *shape)) * 2, 3)
    chosen = generator.random(shape)
    values[-1] = np.where(chosen < 0.2, 0.0, np.where(chosen > 0.9, 1.0, values[-1]))
    return values


def _output(equation: Equation, index: int) -> str:
    return f"output {index}: " if len(equation.left) > 1 else ""


def _shape(type_: TensorType) -> tuple[int, ...]:
    return cast("tuple[int, ...]", type_.array_shape)


def _has_many_cases(equation: Equation) -> bool:
    """Attribute variables and windows have more cases than ranks and sizes."""
    sides = (*equation.left, *equation.right)
    return bool(attribute_variables(*sides)) or any(t.operator in _WINDOWS for t in applications(*sides))


__all__ = ["Effort", "Refutation", "difference_in", "difference_of_types", "field_agrees", "refute"]
