"""Specialisation of axioms that compute attributes or respell axes: one instance per value, for provers.

Provers treat attributes as names. They cannot compose permutations, multiply degrees, calculate numbers, or
see that at rank 4 the axes -1 and 3 are the same. So such axioms are instantiated with the values in a goal,
and with values derived from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import cast

from superopt.errors import IllTypedError
from superopt.instances.instance import Instance
from superopt.ir.numbers import (
    AttributeVariable,
    Number,
    NumberExpression,
    names_of,
    over,
    parts_of,
    plus,
    substituted_number,
    times,
)
from superopt.ir.terms import (
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    calculated,
    subterms,
)
from superopt.ops.attributes import NUMBERS
from superopt.ops.terms import application
from superopt.rewriting.conditions import computed, holds, is_computation, names_in
from superopt.verifier.certificates.attribute_cases import numbers_of
from superopt.verifier.certificates.certificate import Certificate
from superopt.verifier.certificates.declared_conditions import is_stated, stated
from superopt.verifier.prove.smtlib import of_goal
from superopt.verifier.prove.solver import AxiomInstance

_MOST_VALUES = 24
"""All permutations of four axes; more values of one attribute are not combined."""

_MOST_CONSTANTS = 4
_IDENTITIES = frozenset((0, 1))
"""Other axioms say what these do."""

_Values = tuple[tuple[str, AttributeTerm], ...]


@dataclass(frozen=True)
class Specialised:
    """Axioms for a prover; ``origins`` maps specialised axioms to the original axiom and its values."""

    axioms: tuple[Equation, ...]
    origins: Mapping[str, tuple[str, _Values]]

    def original(self, step: AxiomInstance) -> AxiomInstance:
        """Return the step as a step of the original axiom."""
        if step.axiom not in self.origins:
            return step
        name, values = self.origins[step.axiom]
        return AxiomInstance(name, step.terms, tuple(sorted((*values, *step.attributes))))


def specialised(axioms: Sequence[Equation], goal: Equation, instances: Iterable[Instance]) -> Specialised:
    """Return the axioms, instantiated if necessary with all values that are relevant to the goal in these
    instances."""
    found: list[Equation] = []
    origins: dict[str, tuple[str, _Values]] = {}
    ranks: Sequence[int] | None = None
    mentioned: frozenset[int] = frozenset()
    numbers, given = _numbers_in(goal), stated(goal)
    for axiom in axioms:
        if names := _calculated_names(axiom):
            choices = _calculated_values(axiom, names, numbers, given)
        elif _computed_names(axiom):
            choices = _computed_values(axiom, goal)
        elif (axes := _spelled(axiom)) is not None:
            if ranks is None:
                ranks = _fixed_ranks(goal, instances)
                mentioned = frozenset(_axes(axioms)) if ranks else frozenset()
            choices = _spellings(axes, frozenset(_axes((goal,))), mentioned, ranks)
        else:
            found.append(axiom)
            continue
        for values in choices:
            own = with_values(axiom, values)
            found.append(own)
            origins[own.name] = (axiom.name, values)
    return Specialised(tuple(found), origins)


def as_used(axioms: Mapping[str, Equation], certificate: Certificate) -> tuple[Equation, ...]:
    """Return the axioms of a certificate as another prover takes them: instantiated with its values."""
    found: dict[str, Equation] = {}
    for chain in certificate.chains:
        for link in chain:
            axiom, names = axioms[link.axiom], needs_values(axioms[link.axiom])
            values = tuple((name, value) for name, value in link.attributes if name in names)
            own = with_values(axiom, values) if values else axiom
            found[own.name] = own
    return tuple(found.values())


def with_values(axiom: Equation, values: _Values) -> Equation:
    """Substitute values for some attribute variables of an axiom, and append them to its name."""
    known = {n: of_goal(value) for n, value in values}
    name = f"{axiom.name} {', '.join(f'{n}={v}' for n, v in values)}"
    left, right = (tuple(_filled(term, known) for term in side) for side in (axiom.left, axiom.right))
    return replace(axiom, name=name, left=left, right=right)


def needs_values(axiom: Equation) -> tuple[str, ...]:
    """Return the attribute variables that must have values for a prover."""
    return _calculated_names(axiom) or _computed_names(axiom) or _spelled(axiom) or ()


def _calculated(axiom: Equation) -> list[NumberExpression]:
    """Return the numbers that an axiom calculates."""
    return [number for _, _, number in calculated(*axiom.terms)]


def _calculated_names(axiom: Equation) -> tuple[str, ...]:
    """Return the attribute variables in the numbers that an axiom calculates, and those that are numbers with
    conditions: provers know no order."""
    in_numbers = frozenset[str]().union(*map(names_of, _calculated(axiom)))
    in_conditions = frozenset[str]().union(*map(names_in, axiom.conditions)) & numbers_of(axiom)
    return tuple(sorted(in_numbers | in_conditions))


def _numbers_in(goal: Equation) -> list[Number]:
    """Return the numbers in the goal with all parts of what it calculates, inverses of its constants, their
    sums and products from which one more step leads to another constant; and those numbers
    without which no difference is written as a sum."""
    values = (value for term in goal.applications for name, value in term.attributes if name in NUMBERS)
    own = list(dict.fromkeys(part for value in values for part in parts_of(value)))
    constants = [n for n in own if isinstance(n, int | Fraction) and abs(n) not in (0, 1)][:_MOST_CONSTANTS]
    pairs = product(constants, repeat=2)
    between = (number for one, other in pairs for number in (times(one, other), plus(one, other)))
    given = [number for number in between if _leads_to(number, constants)]
    return list(dict.fromkeys((0, 1, -1, *own, *(over(1, each) for each in constants), *given)))


def _leads_to(number: Number, constants: Sequence[Number]) -> bool:
    """Whether the sum or product with one of the constants is another of them."""
    return any(
        result != each and result in constants
        for each in constants
        for result in (times(number, each), plus(number, each))
    )


def _calculated_values(
    axiom: Equation, names: Sequence[str], numbers: Sequence[Number], given: Sequence[Condition]
) -> Iterator[_Values]:
    """Yield numbers for the names, such that the results are other numbers among these, and conditions on
    them are ``given`` or hold."""
    tables = [_results(number, numbers) for number in _calculated(axiom)]
    for chosen in product(numbers, repeat=len(names)):
        values = dict(zip(names, chosen, strict=True))
        found = [table.get(tuple(values[name] for name in own)) for own, table in tables]
        if None in found:
            continue
        if any(number in chosen for number in found) or (tables and not _IDENTITIES.isdisjoint(chosen)):
            continue
        if all(_is_met(condition, values, given) for condition in axiom.conditions):
            yield tuple(sorted(values.items()))


def _is_met(condition: Condition, values: Mapping[str, Number], given: Sequence[Condition]) -> bool:
    """Whether a condition holds, as far as it is about these numbers alone."""
    about = names_in(condition)
    if not about <= values.keys():
        return True
    if any(names_of(values[name]) for name in about):
        return is_stated(condition, about, values, given)
    return holds(condition, {}, values)


def _results(
    expression: NumberExpression, numbers: Sequence[Number]
) -> tuple[tuple[str, ...], Mapping[tuple[Number, ...], Number]]:
    """Return the names in an expression, and its results that are among the numbers, by values of these
    names among the numbers. An axiom may have more names than each of its expressions."""
    names, known = tuple(sorted(names_of(expression))), frozenset(numbers)
    found: dict[tuple[Number, ...], Number] = {}
    for chosen in product(numbers, repeat=len(names)):
        with suppress(IllTypedError):  # it divides by 0
            result = cast("Number", substituted_number(expression, dict(zip(names, chosen, strict=True))))
            if result in known:
                found[chosen] = result
    return names, found


def _computed_names(axiom: Equation) -> tuple[str, ...]:
    """Return the names in a clause that computes an attribute: the result and its operands."""
    for clause in axiom.conditions:
        match clause:
            case Condition(
                ConditionName(name), "=", ConditionCall(_, (ConditionName(one), ConditionName(other)))
            ) if is_computation(clause):
                return name, one, other
            case _:
                pass
    return ()


def _spelled(axiom: Equation) -> tuple[str, str] | None:
    """Return the two names of one axis, in a clause ``axis(x, a) = axis(x, b)``."""
    for clause in axiom.conditions:
        match clause:
            case Condition(
                ConditionCall("axis", (_, ConditionName(one))),
                "=",
                ConditionCall("axis", (_, ConditionName(other))),
            ):
                return one, other
            case _:
                pass
    return None


def _computed_values(axiom: Equation, goal: Equation) -> Iterator[_Values]:
    """Yield values of the operands that occur in the goal or are results of these, with the result."""
    result, one, other = _computed_names(axiom)
    own = set(_literals(axiom, goal, one, other))
    values = sorted(own, key=repr)
    while True:
        pairs = product(values, repeat=2)
        results = {computed(axiom.conditions, {one: a, other: b}).get(result) for a, b in pairs}
        new = sorted((r for r in results - set(values) - {None} if _matters(r, own)), key=repr)
        if not new or len(values) + len(new) > _MOST_VALUES:
            break
        values = [*values, *new]
    for a, b in product(values, repeat=2):
        value = computed(axiom.conditions, {one: a, other: b}).get(result)
        if value in values:
            chosen = {one: a, other: b, result: value}
            yield tuple(sorted(cast("Mapping[str, AttributeTerm]", chosen).items()))


def _literals(axiom: Equation, goal: Equation, *names: str) -> Iterator[object]:
    """Yield the values in the goal at the attributes of these variables, and swaps of the last two axes."""
    wanted = {AttributeVariable(name) for name in names}
    places = {
        (term.operator, attribute)
        for term in axiom.applications
        for attribute, value in term.attributes
        if isinstance(value, AttributeVariable) and value in wanted
    }
    for operator, attribute in places:
        met = [term.attribute(attribute) for term in goal.applications if term.operator == operator]
        given = [value for value in met if not isinstance(value, AttributeVariable)]
        yield from (value for value in given if value not in (None, ()))
        if attribute == "perm" and len(given) > sum(value not in (None, ()) for value in given):
            lengths = {len(value) for value in given if isinstance(value, tuple) and value}
            yield from ((*range(n - 2), n - 1, n - 2) for n in lengths if n > 1)


def _matters(value: object, own: Iterable[object]) -> bool:
    """Whether a result may be a part of a value in the goal: a permutation, or a divisor of a number."""
    if isinstance(value, int):
        return any(isinstance(each, int) and each % value == 0 for each in own)
    if isinstance(value, tuple) and 0 not in value:
        parts = cast("tuple[int, ...]", value)
        wholes = [cast("tuple[int, ...]", each) for each in own if isinstance(each, tuple)]
        return any(all(b % a == 0 for a, b in zip(parts, each, strict=False)) for each in wholes)
    return isinstance(value, tuple)


def _fixed_ranks(goal: Equation, instances: Iterable[Instance]) -> Sequence[int]:
    """Return the ranks that a term of the goal has under all instances."""
    terms = tuple(subterms(*goal.terms))
    ranks: list[set[int]] = [set() for _ in terms]
    for instance in instances:
        for met, term in zip(ranks, terms, strict=True):
            met.add(instance.typing.types[term].rank)
    return sorted({next(iter(met)) for met in ranks if len(met) == 1})


def _axes(equations: Iterable[Equation]) -> Iterator[int]:
    for equation in equations:
        for term in equation.applications:
            axis = term.attribute("axis")
            if isinstance(axis, int):
                yield axis


def _spellings(
    names: tuple[str, str], own: frozenset[int], mentioned: frozenset[int], ranks: Iterable[int]
) -> Iterator[_Values]:
    """Yield pairs of spellings of an axis: one occurs in the goal, the other in the goal or an axiom."""
    for rank in ranks:
        for axis in range(rank):
            pair = {axis, axis - rank}
            if pair & own and pair <= own | mentioned:
                chosen = dict(zip(names, (axis, axis - rank), strict=True))
                yield tuple(sorted(cast("Mapping[str, AttributeTerm]", chosen).items()))


def _filled(term: Term, values: Mapping[str, AttributeTerm]) -> Term:
    if isinstance(term, Variable):
        return term
    return application(
        term.operator,
        {name: cast("AttributeTerm", substituted_number(value, values)) for name, value in term.attributes},
        *(_filled(child, values) for child in term.inputs),
    )


__all__ = ["Specialised", "as_used", "specialised"]
