"""A chain as text: each link replaces an instance of one side of its axiom by the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.numbers import NumberExpression
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
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
from tests.verifier.second_checker.numbers import Form, divided_by, form_of, is_open, names_in, simplest

NUMBERS = ("alpha", "beta", "bias", "epsilon", "exponent", "high", "low", "value")


class WrongError(Exception):
    """The certificate proves nothing; says why."""


def instance(term: Term, link: Link) -> Term:
    """A side of an axiom with what its variables stand for, numbers in canonical form; raises WrongError."""
    terms, attributes = dict(link.terms), dict(link.attributes)

    def replaced(part: Term) -> Term:
        if isinstance(part, Variable):
            if part.name not in terms:
                raise WrongError(f"{link.axiom}: nothing for {part.name}")
            return formed(terms[part.name])
        missing = _attribute_names(part) - attributes.keys()
        if missing:
            raise WrongError(f"{link.axiom}: nothing for {min(missing)}")
        try:
            values = {name: _formed(value, attributes) for name, value in part.attributes}
            return _application(part.operator, values, *map(replaced, part.inputs))
        except IllTypedError as error:
            raise WrongError(str(error)) from error

    return replaced(term)


def formed(term: Term) -> Term:
    """The term with its calculated numbers in canonical form."""
    if isinstance(term, Variable):
        return term
    values = {name: _formed(value, {}) for name, value in term.attributes}
    return _application(term.operator, values, *map(formed, term.inputs))


def _formed(value: object, attributes: Mapping[str, object]) -> object:
    if isinstance(value, AttributeVariable) and value.name in attributes:
        value = attributes[value.name]
        return _formed(value, {}) if isinstance(value, NumberExpression) else value
    return simplest(form_of(value, attributes)) if isinstance(value, NumberExpression) else value


def _application(operator: str, values: Mapping[str, object], *inputs: Term) -> Application:
    """As other terms are made, which have no forms: a variable takes their place for that long."""
    forms = {name: value for name, value in values.items() if isinstance(value, Form)}
    if not forms.keys() <= set(NUMBERS):
        raise IllTypedError(f"{operator}: {', '.join(forms)} cannot be calculated")
    others = {name: AttributeVariable("form") if name in forms else v for name, v in values.items()}
    made = application(operator, cast("Mapping[str, AttributeTerm]", others), *inputs)
    attributes = tuple((name, forms.get(name, value)) for name, value in made.attributes)
    return Application(operator, cast("tuple[tuple[str, AttributeTerm], ...]", attributes), inputs)


def _attribute_names(part: Application) -> frozenset[str]:
    return frozenset[str]().union(*(names_in(value) for _, value in part.attributes))


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
        current = formed(start)
        for link in chain:
            axiom = axioms.get(link.axiom)
            if axiom is None:
                raise WrongError(f"no axiom {link.axiom}")
            current = _after(current, link, axiom, goal)
            parts = (link.term, *(term for _, term in link.terms))
            if any(part.operator not in known for part in applications(*parts)):
                raise WrongError("an operator that neither the rule nor its axioms have")
            if not set(variables(*parts)) <= tensors:
                raise WrongError("a variable that the rule lacks")
            if not attribute_variables(*parts) <= open_names:
                raise WrongError("an attribute variable that the rule lacks")
            if not frozenset[str]().union(*(names_in(value) for _, value in link.attributes)) <= open_names:
                raise WrongError("an attribute variable that the rule lacks")
        if current != formed(end):
            raise WrongError("the chain ends elsewhere")


def _said(goal: Equation) -> set[str]:
    """The names of which the rule's conditions speak."""
    operands = [side for each in goal.conditions for side in (each.left, each.right)]
    operands += [part for side in operands if isinstance(side, ConditionCall) for part in side.arguments]
    calculated = frozenset[str]().union(*map(names_in, operands))
    return {part.name for part in operands if isinstance(part, ConditionName)} | calculated


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
    if after != formed(link.term):
        raise WrongError(f"{link.axiom} gives another term")
    _check_numbers(link, axiom, after, goal)
    if axiom.direction is Direction.FORWARD and (link.backwards or goal.direction is not Direction.FORWARD):
        every = [*(instance(side, link) for side in axiom.terms), *dict(link.terms).values()]
        if not all(_is_total(part) for part in applications(*every)):
            raise WrongError(f"{link.axiom} loses what is defined")
    return after


def _check_numbers(link: Link, axiom: Equation, after: Term, goal: Equation) -> None:
    """Raises WrongError unless the rule says what the axiom requires of open numbers, and that nothing is 0
    by which the link divides."""
    said = tuple(_clauses(goal))
    for condition in axiom.conditions:
        if is_about_open_number(condition, axiom, link) and not _is_said(
            condition, dict(link.attributes), said
        ):
            raise WrongError(f"{link.axiom}: a condition on an open number is not among the rule's")
    values = [value for _, value in link.attributes]
    values += [value for part in applications(after) for _, value in part.attributes]
    for value in values:
        if isinstance(value, Form | NumberExpression):
            for divisor in divided_by(form_of(value)):
                if not _is_nonzero(divisor, said):
                    raise WrongError(f"{link.axiom}: {divisor} may be 0")


def is_about_open_number(condition: Condition, axiom: Equation, link: Link) -> bool:
    """Whether an axiom's condition is about a number that the rule leaves open or calculates."""
    values = dict(link.attributes)
    numbers = {
        variable
        for part in applications(*axiom.terms)
        for name, value in part.attributes
        if name in NUMBERS
        for variable in names_in(value)
    }
    named = {
        name
        for side in (condition.left, condition.right)
        for name in ((side.name,) if isinstance(side, ConditionName) else names_in(side))
    }
    return any(is_open(values[name]) for name in named & numbers)


Clause = tuple[object, str, object]
"""Both operands, numbers as forms."""


def _clauses(goal: Equation) -> Iterator[Clause]:
    """What the rule says: its conditions, and that its own terms divide by nothing that is 0."""
    for condition in goal.conditions:
        yield _operand(condition.left, {}), condition.relation, _operand(condition.right, {})
    for part in applications(*goal.terms):
        for _, value in part.attributes:
            if isinstance(value, NumberExpression):
                yield from ((divisor, "!=", form_of(0)) for divisor in divided_by(form_of(value)))


def _operand(side: ConditionTerm | None, values: Mapping[str, object]) -> object:
    match side:
        case ConditionName(name):
            value = values.get(name, AttributeVariable(name))
        case _:
            value = side
    numeric = isinstance(value, int | Fraction | AttributeVariable | NumberExpression)
    return form_of(value, values if side is value else None) if numeric else value


def _is_said(condition: Condition, values: Mapping[str, object], said: Sequence[Clause]) -> bool:
    left, right = _operand(condition.left, values), _operand(condition.right, values)
    strict = {">=": ">", "<=": "<"}.get(condition.relation, condition.relation)
    if any((left, relation, right) in said for relation in (condition.relation, strict)):
        return True
    needs_nonzero = condition.relation == "!=" and right == form_of(0)
    return needs_nonzero and isinstance(left, Form) and _is_nonzero(left, said)


def _is_nonzero(form: Form, said: Sequence[Clause]) -> bool:
    zero = form_of(0)
    return any((form, r, zero) in said or (zero, r, form) in said for r in ("!=", "<", ">"))


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


__all__ = ["NUMBERS", "WrongError", "check_text", "instance", "is_about_open_number"]
