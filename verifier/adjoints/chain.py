"""The chain rule: whether the gradient of an operator follows from its definition by others.

Where an axiom defines an operator, the adjoint statements of the operators of the definition give its
gradient, one after another from the result to the operand. Over floats that is compared with the
vector-Jacobian product of the operator itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from superopt.axioms import AxiomSet
from superopt.domains import FloatDomain
from superopt.domains.arrays import Array
from superopt.equations import Adjoint
from superopt.errors import IllTypedError
from superopt.instances.gradients import gradient_instance
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, AttributeTerm, Equation, Term, Variable, applications
from superopt.ir.types import ElementType, TensorType
from superopt.ops import OPERATORS, Operator, normalise_attribute
from superopt.ops.base import attribute_defaults, attributes_of
from superopt.ops.terms import application, instantiate
from superopt.rewriting.evaluation import evaluate_terms
from superopt.rewriting.typing import Typing, infer_terms
from superopt.verifier.adjoints.products import vector_jacobian_product
from superopt.verifier.adjoints.samples import floats

RELATIVE_TOLERANCE = 1e-9
_SAMPLES = 8
_DOMAIN = FloatDomain(np.float64)


def definition_with_gradient(
    operator: Operator, operand: int, shapes: Sequence[tuple[int, ...]], axioms: AxiomSet
) -> str:
    """The axiom that defines the operator by others, where their adjoint statements give its gradient with
    respect to an operand, counted from 0, at operands of these shapes; empty where there is none."""
    names = [f"x{index}" for index in range(operator.inputs)]
    types = {n: TensorType(ElementType.FLOAT, shape) for n, shape in zip(names, shapes, strict=True)}
    (result,) = operator.infer(*types.values())
    explicit = {n: v for n, v in attributes_of(operator).items() if n not in operator.implicit}
    own = application(operator.name, cast("dict[str, AttributeTerm]", explicit), *map(Variable, names))
    random = np.random.default_rng(operand)
    arrays = {name: floats(random, _SAMPLES, shape) for name, shape in zip(names, shapes, strict=True)}
    cotangent = floats(random, _SAMPLES, cast("tuple[int, ...]", result.shape))
    inputs = tuple(arrays.values())
    wanted = vector_jacobian_product(operator, operand, _DOMAIN, inputs, cotangent)
    for name, term in _definitions(own, axioms.equations):
        try:
            typing = infer_terms((term,), types, equal=((term, result),))
            found = _Reverse(term, typing, arrays, axioms.adjoints).gradient(
                Variable(names[operand]), cotangent
            )
        except IllTypedError:
            continue
        scale = np.abs(wanted).max(initial=1)
        if found is not None and bool((np.abs(found - wanted) <= RELATIVE_TOLERANCE * scale).all()):
            return name
    return ""


@dataclass(frozen=True)
class _Reverse:
    """Reverse-mode differentiation of a term at arrays."""

    term: Term
    typing: Typing
    arrays: Mapping[str, Array]
    adjoints: Sequence[Adjoint]

    def gradient(self, operand: Variable, cotangent: Array) -> Array | None:
        """The gradient with respect to a variable; None where a statement is missing."""
        order = tuple(applications(self.term))
        values = dict(zip(order, evaluate_terms(order, self.typing, _DOMAIN, self.arrays), strict=True))
        known: dict[Term, Array] = {
            **{Variable(name): array for name, array in self.arrays.items()},
            **values,
        }
        cotangents: dict[Term, Array] = {self.term: cotangent}
        for own in reversed(order):
            if own not in cotangents:
                continue
            for index, child in enumerate(own.inputs):
                if index in OPERATORS[own.operator].conditions or not _contains(child, operand):
                    continue
                found = self._applied(own, index, known, cotangents[own])
                if found is None:
                    return None
                cotangents[child] = cotangents[child] + found if child in cotangents else found
        return cotangents.get(operand)

    def _applied(
        self, own: Application, index: int, known: Mapping[Term, Array], cotangent: Array
    ) -> Array | None:
        """The first statement that claims something for the application."""
        types = [self._type(child) for child in own.inputs]
        for adjoint in self.adjoints:
            bound = _bound(adjoint.application, own) if adjoint.input == index else None
            if bound is None:
                continue
            try:
                instance = gradient_instance(adjoint, types, self._type(own), bound[1])
            except IllTypedError:
                continue
            arrays = {name: known[child] for name, child in bound[0].items()}
            arrays[adjoint.cotangent.name] = cotangent
            (found,) = evaluate_terms((adjoint.gradient,), instance.typing, _DOMAIN, arrays)
            return found
        return None

    def _type(self, term: Term) -> TensorType:
        return self.typing.types[term]


def _definitions(own: Application, equations: Iterable[Equation]) -> Iterable[tuple[str, Term]]:
    """Equations without conditions whose one side is the operator applied to distinct variables, and whose
    other side does without it: their names, and that side for the operands of ``own``."""
    for equation in equations:
        if equation.conditions or equation.types or len(equation.left) != 1:
            continue
        left, right = equation.left[0], equation.right[0]
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Variable) or any(a.operator == own.operator for a in applications(other)):
                continue
            bound = _bound(one, own)
            if bound is not None:
                yield equation.name, instantiate(other, *bound)


def _bound(
    pattern: Application, term: Application
) -> tuple[dict[str, Term], dict[str, AttributeTerm]] | None:
    """The terms and attribute values for which the pattern, an operator applied to distinct variables, is the
    term."""
    names = [child.name for child in pattern.inputs if isinstance(child, Variable)]
    if pattern.operator != term.operator or len({*names}) != len(term.inputs):
        return None
    given = _attributes(term)
    attributes: dict[str, AttributeTerm] = {}
    for name, wanted in _attributes(pattern).items():
        if isinstance(wanted, AttributeVariable) and name in given:
            if attributes.setdefault(wanted.name, given[name]) != given[name]:
                return None
        elif given.get(name) != wanted:
            return None
    return dict(zip(names, term.inputs, strict=True)), attributes


def _attributes(term: Application) -> dict[str, AttributeTerm]:
    """The attributes with defaults written out."""
    defaults = attribute_defaults(term.operator).items()
    written = {name: cast("AttributeTerm", normalise_attribute(name, value)) for name, value in defaults}
    return {**written, **dict(term.attributes)}


def _contains(term: Term, operand: Variable) -> bool:
    return term == operand or (
        isinstance(term, Application) and any(_contains(child, operand) for child in term.inputs)
    )


__all__ = ["definition_with_gradient"]
