"""How certificates are forged: each kind changes the rule, its chain, or both alike."""

# ruff: noqa: ARG001 (every forgery has the same signature)

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from superopt.axioms import load_axioms
from superopt.equations import parse_term
from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Direction,
    Equation,
    Term,
    Variable,
    variables,
)
from superopt.ops.terms import application
from superopt.verifier.certificates.certificate import Certificate, Link
from tests.verifier.adversary import alterations
from tests.verifier.adversary.rewriting import mapped, with_terms, with_values


@dataclass(frozen=True)
class Claim:
    """A rule with a certificate that may prove it or not."""

    equation: Equation
    certificate: Certificate


DETOURS = (
    "sqrt(x)",
    "div(x, x)",
    "div(x, sub(x, full[value=1234567/1000]()))",
    "sqrt(add(x, full[value=1000000]()))",
    "matmul(sqrt(x), identity_matrix())",
)
Forgery = Callable[[Claim, random.Random, Sequence[Claim]], "Claim | None"]


def _some_link(claim: Claim, chooser: random.Random) -> tuple[int, int] | None:
    places = [(n, m) for n, chain in enumerate(claim.certificate.chains) for m in range(len(chain))]
    return chooser.choice(places) if places else None


def _with_chain(claim: Claim, output: int, chain: Sequence[Link]) -> Claim:
    chains = list(claim.certificate.chains)
    chains[output] = tuple(chain)
    return replace(claim, certificate=replace(claim.certificate, chains=tuple(chains)))


def _at_link(change: Callable[[Link, random.Random], Link | None]) -> Forgery:
    def forged(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
        place = _some_link(claim, chooser)
        if place is None:
            return None
        output, number = place
        chain = list(claim.certificate.chains[output])
        new = change(chain[number], chooser)
        if new is None:
            return None
        chain[number] = new
        return _with_chain(claim, output, chain)

    return forged


def _spliced(change: Callable[[list[Link], int, random.Random], Sequence[Link]]) -> Forgery:
    def forged(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
        place = _some_link(claim, chooser)
        if place is None:
            return None
        output, number = place
        return _with_chain(claim, output, change(list(claim.certificate.chains[output]), number, chooser))

    return forged


def _swapped(chain: list[Link], number: int, chooser: random.Random) -> list[Link]:
    other = chooser.randrange(len(chain))
    chain[number], chain[other] = chain[other], chain[number]
    return chain


def _other_axiom(link: Link, chooser: random.Random) -> Link:
    return replace(link, axiom=chooser.choice([*load_axioms().by_name]))


def _other_path(link: Link, chooser: random.Random) -> Link:
    path = (*link.path, chooser.randrange(2)) if chooser.random() < 0.5 else link.path[:-1]
    return replace(link, path=path)


def _other_substitution(link: Link, chooser: random.Random) -> Link | None:
    if not link.terms:
        return None
    terms = dict(link.terms)
    terms[chooser.choice([*terms])] = chooser.choice([*terms.values(), Variable("x"), Variable("y")])
    return replace(link, terms=tuple(terms.items()))


def _other_value(link: Link, chooser: random.Random) -> Link | None:
    if not link.attributes:
        return None
    values = dict(link.attributes)
    name = chooser.choice([*values])
    values[name] = _changed_value(values[name], chooser)
    return replace(link, attributes=tuple(values.items()))


def _changed_value(value: AttributeTerm, chooser: random.Random) -> AttributeTerm:
    match value:
        case int():
            return chooser.choice((value + 1, value - 1, -value, value - 3, value + 4))
        case tuple():
            return tuple(chooser.sample(value, len(value)))
        case _:
            return chooser.choice((0, 1, -1, (1, 1), (2, 2), "same", "valid", "relu", AttributeVariable("a")))


def _other_term(link: Link, chooser: random.Random) -> Link | None:
    changed = alterations.replaced_at(
        Equation((link.term,), (link.term,)), chooser, lambda _: True, lambda term: _broken(term, chooser)
    )
    if changed is None:
        return None
    return replace(link, term=changed.left[0] if changed.left[0] != link.term else changed.right[0])


def _broken(term: Application, chooser: random.Random) -> Term:
    if len(term.inputs) > 1 and chooser.random() < 0.6:
        return replace(term, inputs=term.inputs[::-1])
    return term.inputs[0] if term.inputs else Variable("x")


def _of_another(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim:
    return replace(claim, certificate=chooser.choice(others).certificate)


def _of_similar(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
    """The certificate of a rule with the same left side."""
    alike = [
        each
        for each in others
        if each.equation.left == claim.equation.left and each.equation != claim.equation
    ]
    return replace(claim, certificate=chooser.choice(alike).certificate) if alike else None


def _reversed(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim:
    """The rule from right to left, with its chain read backwards."""
    chains = tuple(
        backwards(start, chain)
        for start, chain in zip(claim.equation.left, claim.certificate.chains, strict=True)
    )
    equation = replace(claim.equation.reversed(), direction=Direction.FORWARD)
    return Claim(equation, replace(claim.certificate, chains=chains))


def backwards(start: Term, chain: Sequence[Link]) -> tuple[Link, ...]:
    """A chain from its end to its start."""
    before = [start, *(link.term for link in chain[:-1])]
    pairs = zip(reversed(chain), reversed(before), strict=True)
    return tuple(replace(link, backwards=not link.backwards, term=term) for link, term in pairs)


def _both_ways(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
    if claim.equation.direction is not Direction.FORWARD:
        return None
    return replace(claim, equation=replace(claim.equation, direction=Direction.BOTH))


def _of_rule(change: Callable[[Equation, random.Random], Equation | None]) -> Forgery:
    """The rule changed, its chain as it was."""

    def forged(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
        changed = change(claim.equation, chooser)
        return None if changed is None else replace(claim, equation=changed)

    return forged


def _without_types(equation: Equation, chooser: random.Random) -> Equation | None:
    return replace(equation, types=()) if equation.types else None


def _another_clause(equation: Equation, chooser: random.Random) -> Equation | None:
    if not equation.conditions:
        return None
    old = chooser.choice(equation.conditions)
    new = replace(old, relation=chooser.choice(("!=", ">=", "<=", "="))) if old.right is not None else old
    return replace(equation, conditions=tuple(new if each == old else each for each in equation.conditions))


def everywhere(
    claim: Claim, change: Callable[[Term], Term], values: Callable[[AttributeTerm], AttributeTerm]
) -> Claim:
    """The rule and every term of its chain changed alike."""
    equation = replace(
        claim.equation,
        left=tuple(map(change, claim.equation.left)),
        right=tuple(map(change, claim.equation.right)),
    )
    chains = tuple(
        tuple(
            replace(
                link,
                term=change(link.term),
                terms=tuple((name, change(term)) for name, term in link.terms),
                attributes=tuple((name, values(value)) for name, value in link.attributes),
            )
            for link in chain
        )
        for chain in claim.certificate.chains
    )
    return Claim(equation, replace(claim.certificate, chains=chains))


def _values_everywhere(
    names: frozenset[str], choose: Callable[[AttributeTerm, random.Random], AttributeTerm]
) -> Forgery:
    """One value of some attribute, another one wherever it stands."""

    def forged(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
        found = sorted(
            {
                (name, str(value)): (name, value)
                for term in claim.equation.applications
                for name, value in term.attributes
                if name in names and not isinstance(value, AttributeVariable)
            }.values(),
            key=str,
        )
        if not found:
            return None
        name, old = chooser.choice(found)
        new = choose(old, chooser)
        if (
            chooser.random() < 0.3
            and isinstance(new, AttributeVariable)
            and new.name in _open(claim.equation)
        ):
            return None

        def change(each: Application) -> Term:
            own = {key: new if key == name and value == old else value for key, value in each.attributes}
            return application(each.operator, own, *each.inputs)

        try:
            return everywhere(
                claim, lambda t: mapped(t, change), lambda value: new if value == old else value
            )
        except IllTypedError:
            return None

    return forged


def _open(equation: Equation) -> frozenset[str]:
    return equation.attribute_variables


def _as_variable(value: AttributeTerm, chooser: random.Random) -> AttributeTerm:
    return AttributeVariable(chooser.choice(("a9", "a", "k", "s")))


def _as_literal(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
    """Open axes as numbers of either sign, in the rule and in its chain; clauses about axes dropped."""
    names = sorted(
        {
            value.name
            for term in claim.equation.applications
            for key, value in term.attributes
            if key == "axis" and isinstance(value, AttributeVariable)
        }
    )
    if not names:
        return None
    rank = chooser.choice((3, 6, 7, 8, 9))
    place = chooser.randrange(rank)
    values = {name: chooser.choice((place, place - rank)) for name in names}
    if len(names) > 1 and chooser.random() < 0.6:
        first, second = chooser.sample(names, 2)
        values |= {first: place, second: place - rank}

    def of(value: AttributeTerm) -> AttributeTerm:
        return values.get(value.name, value) if isinstance(value, AttributeVariable) else value

    changed = everywhere(claim, lambda term: with_values(term, values), of)
    return replace(changed, equation=replace(changed.equation, conditions=()))


def _with_partial(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
    """A term that is not defined everywhere for a variable, in the rule and in its chain."""
    names = variables(*claim.equation.left)
    if not names:
        return None
    chosen = chooser.choice(names)
    x, y = Variable(chosen), Variable(f"{chosen}1")
    term = chooser.choice(
        (application("sqrt", {}, x), application("div", {}, x, y), application("power", {"exponent": -1}, x))
    )
    return everywhere(claim, lambda each: with_terms(each, {chosen: term}), lambda value: value)


def _detour(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
    """There with a variable that the target forgets, and back with a term that is undefined somewhere."""
    if len(claim.equation.left) != 1:
        return None
    forgotten = [n for n in variables(*claim.equation.left) if n not in variables(*claim.equation.right)]
    if not forgotten:
        return None
    name = chooser.choice(forgotten)
    term = with_terms(parse_term(chooser.choice(DETOURS)), {"x": Variable(name)})
    other = everywhere(claim, lambda each: with_terms(each, {name: term}), lambda value: value)
    (chain,), (more,) = claim.certificate.chains, other.certificate.chains
    back = backwards(other.equation.left[0], more)
    equation = replace(claim.equation, right=other.equation.left, direction=Direction.FORWARD)
    return Claim(equation, replace(claim.certificate, chains=((*chain, *back),)))


def _merged(claim: Claim, chooser: random.Random, others: Sequence[Claim]) -> Claim | None:
    names = variables(*claim.equation.left)
    if len(names) < 2:
        return None
    kept, gone = chooser.sample(names, 2)
    return everywhere(claim, lambda each: with_terms(each, {gone: Variable(kept)}), lambda value: value)


def _there_and_back(chain: list[Link], number: int, chooser: random.Random) -> Sequence[Link]:
    """A link, its inverse and it again: the chain still leads where it did."""
    link = chain[number]
    before = chain[number - 1].term if number else None
    if before is None:
        return [*chain, chain[-1]]
    return [*chain[: number + 1], replace(link, backwards=not link.backwards, term=before), *chain[number:]]


FORGERIES: Mapping[str, Forgery] = {
    "link dropped": _spliced(lambda chain, n, _: [*chain[:n], *chain[n + 1 :]]),
    "link doubled": _spliced(lambda chain, n, _: [*chain[: n + 1], *chain[n:]]),
    "there and back": _spliced(_there_and_back),
    "links swapped": _spliced(_swapped),
    "chain cut": _spliced(lambda chain, n, _: chain[:n]),
    "link reversed": _at_link(lambda link, _: replace(link, backwards=not link.backwards)),
    "other axiom": _at_link(_other_axiom),
    "other path": _at_link(_other_path),
    "other output": _at_link(
        lambda link, chooser: replace(link, output=link.output + chooser.choice((1, 2)))
    ),
    "other substitution": _at_link(_other_substitution),
    "other value in a link": _at_link(_other_value),
    "other intermediate term": _at_link(_other_term),
    "certificate of another rule": _of_another,
    "certificate of a similar rule": _of_similar,
    "rule reversed with its chain": _reversed,
    "rule both ways": _both_ways,
    "clause dropped": _of_rule(alterations.without_clauses),
    "clause changed": _of_rule(_another_clause),
    "types dropped": _of_rule(_without_types),
    "target changed": _of_rule(alterations.as_published("wrong axis")),
    "types declared, clauses dropped": _of_rule(
        lambda e, chooser: (d := alterations.declared(e, chooser)) and replace(d, conditions=())
    ),
    "literal opened everywhere": _values_everywhere(
        frozenset(
            ("axis", "kernel", "stride", "padding", "degree", "size", "value", "exponent", "dilation", "perm")
        ),
        _as_variable,
    ),
    "axis changed everywhere": _values_everywhere(frozenset(("axis",)), _changed_value),
    "number changed everywhere": _values_everywhere(
        frozenset(("value", "exponent", "alpha", "beta", "degree", "size", "epsilon")), _changed_value
    ),
    "window changed everywhere": _values_everywhere(
        frozenset(("kernel", "stride", "padding", "dilation", "perm")), _changed_value
    ),
    "axes as numbers": _as_literal,
    "partial term for a variable": _with_partial,
    "variables merged": _merged,
    "detour": _detour,
}
__all__ = ["FORGERIES", "Claim", "Forgery", "backwards", "everywhere"]
