"""Certificates and rules that are changed a little: most prove nothing then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Condition,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    subterms,
    variables,
)
from superopt.ops.terms import application
from superopt.verifier.certificates.certificate import Certificate, Link

Proof: TypeAlias = "tuple[Equation, Certificate]"
Entry = TypeVar("Entry")

VALUES: Mapping[str, tuple[AttributeTerm, ...]] = {
    "axis": (0, 1, 2, -1, -2, -3),
    "degree": (2, 3, 4, 6),
    "kernel": ((1, 1), (3, 3), (2, 2)),
    "stride": ((1, 1), (2, 2), (1, 3)),
    "dilation": ((1, 1), (2, 2)),
    "padding": ("valid", "same", "same_upper", "same_lower", (1, 1, 1, 1)),
    "activation": ("none", "relu", "sigmoid", "tanh"),
    "includes_padding": (0, 1),
    "perm": ((), (1, 0), (0, 2, 1), (1, 0, 2)),
    "value": (0, 1, -1, 2),
    "exponent": (2, -1, 3),
}


@dataclass(frozen=True)
class Given:
    """A proof to alter, the others there are, the axioms, and what is drawn from."""

    proof: Proof
    others: Sequence[Proof]
    axioms: Mapping[str, Equation]
    draw: random.Random


def drop_link(given: Given) -> Proof | None:
    """One link less."""
    return _with_chain(given, lambda chain, n: [*chain[:n], *chain[n + 1 :]])


def reverse_link(given: Given) -> Proof | None:
    """The other direction of an axiom."""
    return _with_link(given, lambda link: replace(link, backwards=not link.backwards))


def reverse_proof(given: Given) -> Proof | None:
    """The rule and its chains from right to left."""
    goal, certificate = given.proof
    chains: list[tuple[Link, ...]] = []
    for start, chain in zip(goal.left, certificate.chains, strict=True):
        befores = [start, *(link.term for link in chain[:-1])]
        back = [
            replace(link, backwards=not link.backwards, term=before)
            for link, before in zip(chain, befores, strict=True)
        ]
        chains.append(tuple(reversed(back)))
    return goal.reversed(), Certificate(tuple(chains))


def claim_both(given: Given) -> Proof | None:
    """A rule in both directions."""
    goal, certificate = given.proof
    return replace(goal, direction=Direction.BOTH), certificate


def other_axiom(given: Given) -> Proof | None:
    """Another axiom of the same variables."""

    def changed(link: Link) -> Link:
        own = _names(given.axioms[link.axiom]) if link.axiom in given.axioms else None
        similar = [
            name for name, axiom in given.axioms.items() if _names(axiom) == own and name != link.axiom
        ]
        return replace(link, axiom=given.draw.choice(sorted(similar))) if similar else link

    return _with_link(given, changed)


def other_substitution(given: Given) -> Proof | None:
    """Something else for a variable of an axiom."""
    goal, _certificate = given.proof

    def changed(link: Link) -> Link:
        others = sorted({*subterms(*goal.terms)}, key=str)
        return replace(link, terms=_with_one(given, link.terms, others))

    return _with_link(given, changed)


def other_link_attribute(given: Given) -> Proof | None:
    """Another value of an attribute of an axiom."""

    def changed(link: Link) -> Link:
        return replace(link, attributes=_with_one(given, link.attributes, (0, 1, -1, 2, "same", (1, 1))))

    return _with_link(given, changed)


def drop_conditions(given: Given) -> Proof | None:
    """A rule without one of its conditions."""
    goal, certificate = given.proof
    if not goal.conditions:
        return None
    position = given.draw.randrange(len(goal.conditions))
    kept = (*goal.conditions[:position], *goal.conditions[position + 1 :])
    return replace(goal, conditions=kept), certificate


def other_condition(given: Given) -> Proof | None:
    """A condition of another relation."""
    goal, certificate = given.proof
    if not goal.conditions:
        return None
    position = given.draw.randrange(len(goal.conditions))
    old = goal.conditions[position]
    if not old.relation:
        return None
    new = Condition(
        old.left, given.draw.choice([r for r in ("=", "!=", "<", ">=") if r != old.relation]), old.right
    )
    changed = (*goal.conditions[:position], new, *goal.conditions[position + 1 :])
    return replace(goal, conditions=changed), certificate


def open_literal(given: Given) -> Proof | None:
    """A number or word of the rule, a variable everywhere instead."""
    found = _literals(given.proof[0])
    if not found:
        return None
    name, value = given.draw.choice(found)
    return _with_attributes(
        given.proof, lambda key, own: AttributeVariable("open") if (key, own) == (name, value) else own
    )


def other_literal(given: Given) -> Proof | None:
    """A number or word of the rule, another one everywhere instead."""
    found = [(name, value) for name, value in _literals(given.proof[0]) if name in VALUES]
    if not found:
        return None
    name, value = given.draw.choice(found)
    new = given.draw.choice([v for v in VALUES[name] if v != value])
    return _with_attributes(given.proof, lambda key, own: new if (key, own) == (name, value) else own)


def close_variable(given: Given) -> Proof | None:
    """A value for an attribute variable of the rule: a special case, if the value is one."""
    found = _open(given.proof[0])
    if not found:
        return None
    name, variable = given.draw.choice(found)
    new = given.draw.choice(VALUES[name])
    return _with_attributes(given.proof, lambda _, own: new if own == variable else own)


def merge_variables(given: Given) -> Proof | None:
    """Two attribute variables of one kind become one."""
    found = _open(given.proof[0])
    pairs = [(a, b) for name, a in found for other, b in found if name == other and a != b]
    if not pairs:
        return None
    kept, gone = given.draw.choice(pairs)
    return _with_attributes(given.proof, lambda _, own: kept if own == gone else own)


def negate_axis(given: Given) -> Proof | None:
    """An axis counted from the other end."""
    found = [value for name, value in _literals(given.proof[0]) if name == "axis" and isinstance(value, int)]
    if not found:
        return None
    axis = given.draw.choice(found)
    return _with_attributes(given.proof, lambda key, own: -axis - 1 if (key, own) == ("axis", axis) else own)


def other_chain(given: Given) -> Proof | None:
    """The chains of another rule."""
    return given.proof[0], given.draw.choice(given.others)[1]


def merge_tensors(given: Given) -> Proof | None:
    """Two variables of the rule become one: a special case."""
    names = variables(*given.proof[0].left, *given.proof[0].right)
    if len(names) < 2:
        return None
    kept, gone = given.draw.sample(names, 2)
    return _everywhere(given.proof, lambda term: Variable(kept) if term == Variable(gone) else term)


def swap_operator(given: Given) -> Proof | None:
    """Another operator of the same shape everywhere."""
    swaps = {
        "add": "sub",
        "sub": "add",
        "mul": "add",
        "relu": "sigmoid",
        "split0": "split1",
        "split1": "split0",
    }
    found = sorted({p.operator for p in applications(*given.proof[0].left) if p.operator in swaps})
    if not found:
        return None
    old = given.draw.choice(found)

    def changed(term: Term) -> Term:
        if isinstance(term, Application) and term.operator == old:
            return Application(swaps[old], term.attributes, term.inputs)
        return term

    return _everywhere(given.proof, changed)


ALTERATIONS: tuple[Callable[[Given], Proof | None], ...] = (
    drop_link,
    reverse_link,
    reverse_proof,
    claim_both,
    other_axiom,
    other_substitution,
    other_link_attribute,
    drop_conditions,
    other_condition,
    open_literal,
    other_literal,
    close_variable,
    merge_variables,
    negate_axis,
    other_chain,
    merge_tensors,
    swap_operator,
)


def altered(
    proofs: Sequence[Proof], axioms: Mapping[str, Equation], number: int, seed: int
) -> Iterator[tuple[str, Proof]]:
    """So many changed proofs, with what was done: kinds take turns."""
    draw = random.Random(seed)
    made = 0
    seen: set[tuple[Equation, Certificate]] = set()
    for attempt in range(number * 20):
        kind = ALTERATIONS[attempt % len(ALTERATIONS)]
        proof = draw.choice(proofs)
        try:
            new = kind(Given(proof, proofs, axioms, draw))
        except IllTypedError:
            continue
        if new is None or new == proof or new in seen:
            continue
        seen.add(new)
        yield kind.__name__, new
        made += 1
        if made == number:
            return


def _names(axiom: Equation) -> tuple[object, ...]:
    sides = axiom.terms
    return frozenset(variables(*sides)), attribute_variables(*sides)


def _with_chain(given: Given, change: Callable[[tuple[Link, ...], int], Sequence[Link]]) -> Proof | None:
    goal, certificate = given.proof
    places = [(o, n) for o, chain in enumerate(certificate.chains) for n in range(len(chain))]
    if not places:
        return None
    output, number = given.draw.choice(places)
    chains = list(certificate.chains)
    chains[output] = tuple(change(chains[output], number))
    return goal, Certificate(tuple(chains))


def _with_link(given: Given, change: Callable[[Link], Link]) -> Proof | None:
    return _with_chain(given, lambda chain, n: [*chain[:n], change(chain[n]), *chain[n + 1 :]])


def _with_one(
    given: Given, entries: tuple[tuple[str, Entry], ...], others: Sequence[Entry]
) -> tuple[tuple[str, Entry], ...]:
    """The entries, one of them with another value."""
    if not entries:
        return entries
    position = given.draw.randrange(len(entries))
    changed = (entries[position][0], given.draw.choice(others))
    return (*entries[:position], changed, *entries[position + 1 :])


def _literals(goal: Equation) -> list[tuple[str, AttributeTerm]]:
    return sorted(
        {
            (name, value)
            for part in goal.applications
            for name, value in part.attributes
            if not isinstance(value, AttributeVariable)
        },
        key=str,
    )


def _open(goal: Equation) -> list[tuple[str, AttributeVariable]]:
    return sorted(
        {
            (name, value)
            for part in goal.applications
            for name, value in part.attributes
            if isinstance(value, AttributeVariable) and name in VALUES
        },
        key=str,
    )


def _with_attributes(proof: Proof, change: Callable[[str, AttributeTerm], AttributeTerm]) -> Proof:
    """The rule and its chains with other attributes, where they stand in terms and in what links say."""

    def changed(term: Term) -> Term:
        if isinstance(term, Variable):
            return term
        return application(
            term.operator, {name: change(name, value) for name, value in term.attributes}, *term.inputs
        )

    return _everywhere(proof, changed, change)


def _everywhere(
    proof: Proof,
    change: Callable[[Term], Term],
    attribute: Callable[[str, AttributeTerm], AttributeTerm] = lambda _, value: value,
) -> Proof:
    goal, certificate = proof

    def rebuilt(term: Term) -> Term:
        if isinstance(term, Application):
            term = Application(term.operator, term.attributes, tuple(map(rebuilt, term.inputs)))
        return change(term)

    chains = tuple(
        tuple(
            replace(
                link,
                terms=tuple((name, rebuilt(term)) for name, term in link.terms),
                attributes=tuple((name, _changed_value(value, attribute)) for name, value in link.attributes),
                term=rebuilt(link.term),
            )
            for link in chain
        )
        for chain in certificate.chains
    )
    left, right = tuple(map(rebuilt, goal.left)), tuple(map(rebuilt, goal.right))
    return replace(goal, left=left, right=right), Certificate(chains)


def _changed_value(
    value: AttributeTerm, change: Callable[[str, AttributeTerm], AttributeTerm]
) -> AttributeTerm:
    """What a link says of an axiom's variable changes if one of the attributes of that value does."""
    for kind in VALUES:
        new = change(kind, value)
        if new != value:
            return new
    return value


__all__ = ["ALTERATIONS", "Proof", "altered"]
