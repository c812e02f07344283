"""Agreement of both sides at one instance, over a prime field or partial real numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from superopt.domains import FieldArray
from superopt.errors import IllTypedError
from superopt.instances.drawn import DrawnInstance
from superopt.ir.terms import Equation
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS
from superopt.rewriting.evaluation import evaluate_terms
from superopt.rewriting.typing import Typing
from superopt.verifier.certificates.definedness import is_total
from superopt.verifier.refinement import awkward_inputs, difference_between
from superopt.verifier.refute.watched_field import WatchedField

_INPUTS = 2
_INPUTS_IN_ALL_ORDERS = 24
"""Stack size; an element of random sign is then equal before and after relu with probability 2^-24."""


def sides_agree(equation: Equation, instance: DrawnInstance, generator: np.random.Generator) -> bool | None:
    """Whether types and values of both sides agree, for any omitted sizes; None if not known.

    It is not known if an output is 0 for all inputs, because the sides then agree by accident, for instance
    because every window lies in the padding. Nor is it known if the field differs and real numbers do not,
    but for functions that are arbitrary in the field.
    """
    unknown = False
    for typing in instance.typings:
        agrees = _agree(equation, typing, instance, generator)
        if agrees is False:
            return False
        unknown = unknown or agrees is None
    return None if unknown else True


def _agree(
    equation: Equation, typing: Typing, instance: DrawnInstance, generator: np.random.Generator
) -> bool | None:
    pairs = zip(equation.left, equation.right, strict=True)
    if any(typing.types[left] != typing.types[right] for left, right in pairs):
        return False
    shapes = {name: _shape(type_.shape) for name, type_ in instance.types.items()}
    stack = _INPUTS_IN_ALL_ORDERS if _depends_on_order(equation) else _INPUTS
    try:
        with np.errstate(all="ignore"):
            domain = WatchedField()
            agrees = _agree_in_field(equation, typing, shapes, stack, generator, domain)
            if agrees is not False and is_total(*equation.terms):
                return agrees
            if _differ_in_reals(equation, typing, instance.types, stack, generator):
                return False
            return (domain.has_arbitrary_functions or None) if agrees is False else agrees
    except IllTypedError:
        return None


def _agree_in_field(
    equation: Equation,
    typing: Typing,
    shapes: dict[str, tuple[int, ...]],
    stack: int,
    generator: np.random.Generator,
    domain: WatchedField,
) -> bool | None:
    half = len(equation.left)
    arrays = {name: domain.random(generator, stack, shape) for name, shape in shapes.items()}
    values = evaluate_terms(equation.terms, typing, domain, arrays)
    if not all(map(_same_residues, values[:half], values[half:])):
        return False
    return None if any(not np.any(value.residue) for value in values[:half]) else True


def _differ_in_reals(
    equation: Equation,
    typing: Typing,
    types: Mapping[str, TensorType],
    stack: int,
    generator: np.random.Generator,
) -> bool:
    """Whether the equation fails on real numbers in a claimed direction."""
    inputs = awkward_inputs(generator, stack, types)
    return difference_between(equation, typing, inputs) is not None


def _same_residues(left: FieldArray, right: FieldArray) -> bool:
    return bool(np.all(np.equal(left.residue, right.residue)))


def _depends_on_order(equation: Equation) -> bool:
    """Whether an operator compares numbers; an open activation may."""
    terms = equation.applications
    return any(OPERATORS[term.operator].compares(dict(term.attributes)) for term in terms)


def _shape(shape: tuple[object, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int))
