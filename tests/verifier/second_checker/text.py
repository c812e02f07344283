"""A chain as text: each link replaces an instance of one side of its axiom by the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    ConditionCall,
    ConditionName,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    variables,
)
from superopt.ops import OPERATORS
from superopt.ops.terms import application
from superopt.verifier.certificates.certificate import Certificate, Link


class WrongError(Exception):
    """The certificate proves nothing; says why."""


def instance(term: Term, link: Link) -> Term:
    """A side of an axiom with what its variables stand for; raises WrongError."""
    terms, attributes = dict(link.terms), dict(link.attributes)

    def replaced(part: Term) -> Term:
        if isinstance(part, Variable):
            if part.name not in terms:
                raise WrongError(f"{link.axiom}: nothing for {part.name}")
            return terms[part.name]
        values: dict[str, AttributeTerm] = {}
        for name, value in part.attributes:
            if isinstance(value, AttributeVariable):
                if value.name not in attributes:
                    raise WrongError(f"{link.axiom}: nothing for {value.name}")
                values[name] = attributes[value.name]
            else:
                values[name] = value
        try:
            return application(part.operator, values, *map(replaced, part.inputs))
        except IllTypedError as error:
            raise WrongError(str(error)) from error

    return replaced(term)


def check_text(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> None:
    """Raises WrongError unless the chains lead from left to right."""
    if len(certificate.chains) != len(goal.left):
        raise WrongError("not one chain for each output")
    used = [axioms[name] for name in certificate.axioms_used if name in axioms]
    known = {part.operator for equation in (goal, *used) for part in equation.applications}
    open_names = goal.attribute_variables
    tensors = set(goal.variables)
    if not _said(goal) <= tensors | open_names:
        raise WrongError("a condition on what the rule lacks")
    for start, end, chain in zip(goal.left, goal.right, certificate.chains, strict=True):
        current = start
        for link in chain:
            axiom = axioms.get(link.axiom)
            if axiom is None:
                raise WrongError(f"no axiom {link.axiom}")
            current = _after(current, link, axiom, goal)
            parts = (current, *(term for _, term in link.terms))
            if any(part.operator not in known for part in applications(*parts)):
                raise WrongError("an operator that neither the rule nor its axioms have")
            if not set(variables(*parts)) <= tensors:
                raise WrongError("a variable that the rule lacks")
            if not attribute_variables(*parts) <= open_names:
                raise WrongError("an attribute variable that the rule lacks")
        if current != end:
            raise WrongError("the chain ends elsewhere")


def _said(goal: Equation) -> set[str]:
    """The names of which the rule's conditions speak."""
    operands = [side for each in goal.conditions for side in (each.left, each.right)]
    operands += [part for side in operands if isinstance(side, ConditionCall) for part in side.arguments]
    return {part.name for part in operands if isinstance(part, ConditionName)}


def _after(current: Term, link: Link, axiom: Equation, goal: Equation) -> Term:
    if link.output >= len(axiom.left):
        raise WrongError("no such output")
    left, right = instance(axiom.left[link.output], link), instance(axiom.right[link.output], link)
    for side in axiom.terms:
        instance(side, link)
    source, target = (right, left) if link.backwards else (left, right)
    if _part(current, link.path) != source:
        raise WrongError(f"{link.axiom} is not about what stands there")
    after = _put(current, link.path, target)
    if after != link.term:
        raise WrongError(f"{link.axiom} gives another term")
    if axiom.direction is Direction.FORWARD and (link.backwards or goal.direction is not Direction.FORWARD):
        every = [*(instance(side, link) for side in axiom.terms), *dict(link.terms).values()]
        if not all(_is_total(part) for part in applications(*every)):
            raise WrongError(f"{link.axiom} loses what is defined")
    return after


def _is_total(part: Application) -> bool:
    return OPERATORS[part.operator].is_total(cast("Mapping[str, object]", dict(part.attributes)))


def _part(term: Term, path: Sequence[int]) -> Term:
    for index in path:
        if isinstance(term, Variable) or index >= len(term.inputs):
            raise WrongError("no such place")
        term = term.inputs[index]
    return term


def _put(term: Term, path: Sequence[int], part: Term) -> Term:
    if not path:
        return part
    assert isinstance(term, Application)
    inputs = list(term.inputs)
    inputs[path[0]] = _put(inputs[path[0]], path[1:], part)
    return Application(term.operator, term.attributes, tuple(inputs))


__all__ = ["WrongError", "check_text", "instance"]
