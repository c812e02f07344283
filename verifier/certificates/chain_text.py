"""Syntactic check of certificates: each link replaces an instance of one side of its axiom by the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import cast

from superopt.equations import format_condition, format_term
from superopt.errors import IllTypedError
from superopt.ir.numbers import (
    AttributeVariable,
    NumberExpression,
    divisors,
    names_of,
    number_text,
    substituted_number,
)
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    variables,
)
from superopt.ops.attributes import NUMBERS
from superopt.ops.terms import application
from superopt.verifier.certificates.attribute_cases import numbers_of, represented_variables
from superopt.verifier.certificates.certificate import Certificate, Link
from superopt.verifier.certificates.declared_conditions import excludes_zero, is_stated, stated
from superopt.verifier.certificates.definedness import why_undefined
from superopt.verifier.certificates.degree_cases import open_degrees


def require_text(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> None:
    """Raise IllTypedError unless the text of each link follows from that of the previous one."""
    expected, got = len(goal.left), len(certificate.chains)
    require(expected == got, f"expected {expected} chains, got {got}")
    _require_known_operators(goal, axioms, certificate)
    for output, chain in enumerate(certificate.chains):
        _require_written(goal, output, chain, axioms)


def _require_known_operators(
    goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate
) -> None:
    """Raise IllTypedError if a chain has an operator that occurs neither in the rule nor in its axioms,
    because the hashes of the proof do not cover such an operator."""
    used = [axioms[name] for name in certificate.axioms_used if name in axioms]
    known = {term.operator for each in (goal, *used) for term in each.applications}
    links = (link for chain in certificate.chains for link in chain)
    met = {term.operator for link in links for term in applications(link.term)}
    require(met <= known, f"neither the rule nor its axioms have {', '.join(sorted(met - known))}")


def _require_written(
    goal: Equation, output: int, chain: Sequence[Link], axioms: Mapping[str, Equation]
) -> None:
    """Raise IllTypedError unless the text of each link of one chain follows from the previous text."""
    given = stated(goal)
    current, right, where = goal.left[output], goal.right[output], f"output {output}"
    for number, link in enumerate(chain, 1):
        place = f"{where}, link {number} ({link.axiom})"
        axiom = axioms.get(link.axiom)
        if axiom is None:
            raise IllTypedError(f"{place}: there is no such axiom")
        require(0 <= link.output < len(axiom.left), f"{place}: the axiom has no pair {link.output}")
        sides = axiom.terms
        terms, values = dict(link.terms), dict(link.attributes)
        named = terms.keys() == set(variables(*sides)) and values.keys() == attribute_variables(*sides)
        require(named, f"{place}: expected a value for each variable of the axiom and for no other name")
        written = all(map(_is_as_parsed, values.values()))
        require(written, f"{place}: expected attributes as equations have them")
        _require_numbers_in_place(goal, axiom, link, place)
        numeric = represented_variables(axiom)
        for condition in axiom.conditions:
            said = is_stated(condition, numeric, {**values, **terms}, given)
            require(said, f"{place}: the rule does not say {format_condition(condition)}")
        ways = (link.backwards,) if goal.direction is Direction.FORWARD else (False, True)
        undefined = [reason for way in ways if (reason := why_undefined(axiom, way, terms, values))]
        require(not undefined, f"{place}: {'; '.join(undefined)}")
        source, target = (fill(side, terms, values) for side in sides_of(axiom, link))
        part: Term | None = current
        for index in link.path:
            inputs = part.inputs if isinstance(part, Application) else ()
            part = inputs[index] if 0 <= index < len(inputs) else None
        if part != source:
            raise IllTypedError(f"{place}: expected {format_term(source)} at {link.path}")
        _require_nonzero_divisors(given, (*values.values(), *_attribute_values(target)), place)
        current = _put(current, link.path, target)
        if current != link.term:
            raise IllTypedError(f"{place}: what follows is {format_term(current)}")
    if current != right:
        raise IllTypedError(f"{where}: the chain does not end at {format_term(right)}")


def _is_as_parsed(value: object) -> bool:
    """Whether the value is of a class that the parser makes of it: what looks for ranks and axes among whole
    numbers does not see 0/1."""
    if isinstance(value, tuple):
        return all(map(_is_as_parsed, cast("tuple[object, ...]", value)))
    if isinstance(value, Fraction):
        return value.denominator != 1
    return type(value) in (int, str, AttributeVariable, NumberExpression)


def _require_numbers_in_place(goal: Equation, axiom: Equation, link: Link, place: str) -> None:
    """Raise IllTypedError if a number of the rule, which may be any, stands for an attribute that types need,
    or a degree for one that is neither a degree nor a number: one value stands for all of them, and is not an
    axis or a size."""
    own = numbers_of(axiom)
    for of_goal, of_axiom, fitting, kind in (
        (numbers_of(goal), own, NUMBERS, "number"),
        (open_degrees(goal), own | open_degrees(axiom), {"degree", *NUMBERS}, "degree"),
    ):
        for name, value in link.attributes:
            fits = name in of_axiom or not names_of(value) & of_goal
            require(fits, f"{place}: {name} is no {kind} like others")
        for term in applications(*(term for _, term in link.terms)):
            for name, value in term.attributes:
                fits = name in fitting or not names_of(value) & of_goal
                require(fits, f"{place}: {term.operator}: {name} is no {kind} like others")


def _require_nonzero_divisors(given: Sequence[Condition], values: Iterable[object], place: str) -> None:
    """Raise IllTypedError if a number divides by what the rule allows to be 0."""
    for divisor in (each for value in values for each in divisors(value)):
        require(excludes_zero(given, divisor), f"{place}: the rule does not say {number_text(divisor)} != 0")


def _attribute_values(*terms: Term) -> Iterator[object]:
    return (value for term in applications(*terms) for _, value in term.attributes)


def sides_of(axiom: Equation, link: Link) -> tuple[Term, Term]:
    """Return the side of the axiom that the link replaces, and its replacement."""
    left, right = axiom.left[link.output], axiom.right[link.output]
    return (right, left) if link.backwards else (left, right)


def fill(term: Term, terms: Mapping[str, Term], values: Mapping[str, AttributeTerm]) -> Term:
    """Substitute terms and attribute values for the variables of a term."""
    if isinstance(term, Variable):
        return terms.get(term.name, term)
    attributes = {name: value_of(value, values) for name, value in term.attributes}
    return application(term.operator, attributes, *(fill(child, terms, values) for child in term.inputs))


def value_of(value: AttributeTerm, values: Mapping[str, AttributeTerm]) -> AttributeTerm:
    """Return the attribute with values for its variables; raises IllTypedError if one has none."""
    missing = names_of(value) - values.keys()
    if missing:
        raise IllTypedError(f"the attribute {min(missing)} has no value")
    return cast("AttributeTerm", substituted_number(value, values))


def _put(whole: Term, path: tuple[int, ...], part: Term) -> Term:
    if not path or isinstance(whole, Variable):
        return part
    inputs = list(whole.inputs)
    inputs[path[0]] = _put(inputs[path[0]], path[1:], part)
    return Application(whole.operator, whole.attributes, tuple(inputs))


def require(fulfilled: object, otherwise: str) -> None:
    if not fulfilled:
        raise IllTypedError(otherwise)


__all__ = ["fill", "require", "require_text", "sides_of", "value_of"]
