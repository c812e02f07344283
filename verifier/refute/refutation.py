"""Refutation: exact evaluation of both sides on many edge-case instances, with readable counterexamples.

The prime field decides equality exactly (a false equation of degree d survives one evaluation with
probability d / 2^31) unless the evaluation divides by 0 or takes the root of a non-square, or evaluates a
function that has laws over the reals and is arbitrary there (``log``, ``erf``, powers), or has no sign
(``sqrt``). Partial real numbers confirm a difference, display it, and find elements that the target leaves
undefined although the source defines them. Where the source is undefined, nothing is claimed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from superopt.domains import FieldArray
from superopt.errors import IllTypedError
from superopt.instances.channels import Sizes
from superopt.instances.drawn import DrawnInstances
from superopt.instances.instance import Instance
from superopt.instances.sampler import InstanceSampler
from superopt.ir.terms import Equation, applications, attribute_variables
from superopt.ir.types import TensorType
from superopt.ops.traits import named
from superopt.rewriting.evaluation import evaluate_terms
from superopt.verifier.refinement import awkward_inputs, difference_between
from superopt.verifier.refute.watched_field import WatchedField
from superopt.verifier.seeds import chosen_seed, seed_of

_IN_FLOATS = 12
"""Number of instances on which real numbers are also compared. A constant that has another value modulo the
prime shows in any of them. Later instances compare real numbers only if something may be undefined."""

_FEWEST, _ELEMENTS_IN_ALL = 3, 1_000_000
"""Minimum number of instances, and maximum number of elements in all of them, for rules with large
tensors."""

_WINDOWS = named(lambda operator: operator.windowed or operator.kernel_input is not None)
SIZES = Sizes(image=(1, 2, 3, 4, 5, 6, 7))
"""Sizes of the additional small instances."""


@dataclass(frozen=True)
class Effort:
    """Number of schemes (ranks and attribute values), of sizes for each, of instances in total, and of
    additional small instances. Schemes and instances are doubled for equations with attribute variables or
    windows.

    ``stack`` inputs are evaluated at once.
    """

    schemes: int = 24
    per_scheme: int = 3
    instances: int = 48
    drawn: int = 60
    stack: int = 3


BRIEF = Effort(schemes=4, per_scheme=1, instances=4, drawn=4, stack=1)
"""Effort for unpredictable seeds: about 10 instances in 30 ms. The instances differ each time, so a rule
cannot be designed to pass on them."""


@dataclass(frozen=True)
class Refutation:
    """Result of evaluation: a counterexample, or the number of instances on which both sides agreed."""

    counterexample: str | None
    instances: tuple[Instance, ...]
    suspicious: str | None = None

    @property
    def well_typed(self) -> int:
        """The number of instances on which both sides agreed."""
        return len(self.instances)


def refute(equation: Equation, effort: Effort = Effort(), seed: int | None = 0) -> Refutation:
    """Search for a well-typed instance on which the sides have different types, or the equation fails in a
    claimed direction.

    ``suspicious`` names an instance on which the field differs and real numbers do not, so that the result is
    open; where a function is arbitrary in the field, real numbers decide. With ``seed`` None, choices are
    unpredictable.
    """
    seed = chosen_seed(seed)
    return refute_on(InstanceSampler(equation, seed_of(equation, 0, seed)), effort, seed)


def refute_on(sampler: InstanceSampler, effort: Effort, seed: int = 0) -> Refutation:
    """Run ``refute`` for the equation and the instances of a sampler."""
    equation = sampler.equation
    generator = np.random.default_rng(seed_of(equation, 1, seed))
    agreed: list[Instance] = []
    suspicious: str | None = None
    more = 2 if _has_many_cases(equation) else 1
    instances = sampler.instances(effort.schemes * more, effort.per_scheme)
    affordable = max(_FEWEST, _ELEMENTS_IN_ALL // (1 + sampler.declared_elements))
    tried = itertools.islice(instances, min(effort.instances * more, affordable))
    further = DrawnInstances(equation, SIZES, seed_of(equation, 0, seed)).instances(effort.drawn)
    for instance in itertools.chain(tried, further):
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
    """Return how the sides differ on an instance, in type or in value; None if no difference is found."""
    difference = difference_of_types(equation, instance)
    if difference is None:
        difference, _ = _difference_of_values(equation, instance, generator, Effort().stack, in_floats=True)
    return difference


def difference_of_types(equation: Equation, instance: Instance) -> str | None:
    """Return the first pair of outputs with different types, or None."""
    for index, (left, right) in enumerate(zip(equation.left, equation.right, strict=True)):
        a, b = instance.typing.types[left], instance.typing.types[right]
        if a != b:
            return f"{_output(equation, index)}left has type {a}, right has type {b}"
    return None


def _difference_of_values(
    equation: Equation, instance: Instance, generator: np.random.Generator, stack: int, *, in_floats: bool
) -> tuple[str | None, str | None]:
    domain = WatchedField()
    try:
        in_field = _field_difference(equation, instance, generator, stack, domain)
    except IllTypedError as error:
        return None, f"{instance}: {error}"
    if in_field is None and domain.is_ring and not in_floats:
        return None, None
    inputs = awkward_inputs(generator, 2 if in_field is None else 4, instance.types)
    found = difference_between(equation, instance.typing, inputs)
    if found is not None:
        return f"{_output(equation, found.output)}{found}", None
    if in_field is not None and not domain.has_arbitrary_functions:
        return None, f"{instance}: the sides differ in a prime field but not over real numbers, at {in_field}"
    return None, None


def _field_difference(
    equation: Equation,
    instance: Instance,
    generator: np.random.Generator,
    stack: int,
    domain: WatchedField,
) -> tuple[int, ...] | None:
    """Return the first element that differs and that the field decides on both sides, or None."""
    arrays: Mapping[str, FieldArray] = {
        name: domain.random(generator, stack, _shape(type_)) for name, type_ in instance.types.items()
    }
    with np.errstate(all="ignore"):
        values = evaluate_terms(equation.terms, instance.typing, domain, arrays)
    half = len(equation.left)
    for left, right in zip(values[:half], values[half:], strict=True):
        decided = domain.decided(left) & domain.decided(right)
        different = np.argwhere(np.not_equal(left.residue, right.residue) & decided)
        if len(different):
            return tuple(int(i) for i in different[0][1:])
    return None


def _output(equation: Equation, index: int) -> str:
    return f"output {index}: " if len(equation.left) > 1 else ""


def _shape(type_: TensorType) -> tuple[int, ...]:
    return cast("tuple[int, ...]", type_.array_shape)


def _has_many_cases(equation: Equation) -> bool:
    """Whether the equation has attribute variables or windows, and thus more cases than ranks and sizes."""
    sides = equation.terms
    return bool(attribute_variables(*sides)) or any(t.operator in _WINDOWS for t in applications(*sides))


__all__ = ["Effort", "Refutation", "difference_in", "difference_of_types", "refute"]
