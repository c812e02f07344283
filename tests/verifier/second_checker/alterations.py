"""Certificates and rules that are changed a little: most prove nothing then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

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
from verifier.certificate import Certificate, Link

Proof: TypeAlias = "tuple[Equation, Certificate]"
Altering: TypeAlias = (
    "Callable[[Proof, Sequence[Proof], Mapping[str, Equation], random.Random], Proof | None]"
)

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


def drop_link(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """One link less."""
    del axioms
    return _with_chain(proof, draw, lambda chain, n: [*chain[:n], *chain[n + 1 :]])


def reverse_link(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """The other direction of an axiom."""
    del axioms
    return _with_link(proof, draw, lambda link: replace(link, backwards=not link.backwards))


def reverse_proof(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """The rule and its chains from right to left."""
    del axioms, draw
    goal, certificate = proof
    chains: list[tuple[Link, ...]] = []
    for start, chain in zip(goal.left, certificate.chains, strict=True):
        befores = [start, *(link.term for link in chain[:-1])]
        back = [
            replace(link, backwards=not link.backwards, term=before)
            for link, before in zip(chain, befores, strict=True)
        ]
        chains.append(tuple(reversed(back)))
    return goal.reversed(), Certificate(tuple(chains))


def claim_both(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """A rule in both directions."""
    del axioms, draw
    goal, certificate = proof
    return replace(goal, direction=Direction.BOTH), certificate


def other_axiom(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """Another axiom of the same variables."""

    def changed(link: Link) -> Link:
        own = _names(axioms[link.axiom]) if link.axiom in axioms else None
        similar = [name for name, axiom in axioms.items() if _names(axiom) == own and name != link.axiom]
        return replace(link, axiom=draw.choice(sorted(similar))) if similar else link

    return _with_link(proof, draw, changed)


def other_substitution(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """Something else for a variable of an axiom."""
    del axioms
    goal, _certificate = proof

    def changed(link: Link) -> Link:
        if not link.terms:
            return link
        position = draw.randrange(len(link.terms))
        terms = list(link.terms)
        others = sorted({*subterms(*goal.left, *goal.right)}, key=str)
        terms[position] = (terms[position][0], draw.choice(others))
        return replace(link, terms=tuple(terms))

    return _with_link(proof, draw, changed)


def other_link_attribute(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """Another value of an attribute of an axiom."""
    del axioms

    def changed(link: Link) -> Link:
        if not link.attributes:
            return link
        position = draw.randrange(len(link.attributes))
        attributes = list(link.attributes)
        attributes[position] = (attributes[position][0], draw.choice((0, 1, -1, 2, "same", (1, 1))))
        return replace(link, attributes=tuple(attributes))

    return _with_link(proof, draw, changed)


def drop_conditions(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """A rule without one of its conditions."""
    del axioms
    goal, certificate = proof
    if not goal.conditions:
        return None
    position = draw.randrange(len(goal.conditions))
    kept = (*goal.conditions[:position], *goal.conditions[position + 1 :])
    return replace(goal, conditions=kept), certificate


def other_condition(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """A condition of another relation."""
    del axioms
    goal, certificate = proof
    if not goal.conditions:
        return None
    position = draw.randrange(len(goal.conditions))
    old = goal.conditions[position]
    if not old.relation:
        return None
    new = Condition(
        old.left, draw.choice([r for r in ("=", "!=", "<", ">=") if r != old.relation]), old.right
    )
    changed = (*goal.conditions[:position], new, *goal.conditions[position + 1 :])
    return replace(goal, conditions=changed), certificate


def open_literal(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """A number or word of the rule, a variable everywhere instead."""
    del axioms
    found = _literals(proof[0])
    if not found:
        return None
    name, value = draw.choice(found)
    return _with_attributes(
        proof, lambda key, own: AttributeVariable("open") if (key, own) == (name, value) else own
    )


def other_literal(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """A number or word of the rule, another one everywhere instead."""
    del axioms
    found = [(name, value) for name, value in _literals(proof[0]) if name in VALUES]
    if not found:
        return None
    name, value = draw.choice(found)
    new = draw.choice([v for v in VALUES[name] if v != value])
    return _with_attributes(proof, lambda key, own: new if (key, own) == (name, value) else own)


def close_variable(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """A value for an attribute variable of the rule: a special case, if the value is one."""
    del axioms
    found = _open(proof[0])
    if not found:
        return None
    name, variable = draw.choice(found)
    new = draw.choice(VALUES[name])
    return _with_attributes(proof, lambda _, own: new if own == variable else own)


def merge_variables(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """Two attribute variables of one kind become one."""
    del axioms
    found = _open(proof[0])
    pairs = [(a, b) for name, a in found for other, b in found if name == other and a != b]
    if not pairs:
        return None
    kept, gone = draw.choice(pairs)
    return _with_attributes(proof, lambda _, own: kept if own == gone else own)


def negate_axis(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """An axis counted from the other end."""
    del axioms
    found = [value for name, value in _literals(proof[0]) if name == "axis" and isinstance(value, int)]
    if not found:
        return None
    axis = draw.choice(found)
    return _with_attributes(proof, lambda key, own: -axis - 1 if (key, own) == ("axis", axis) else own)


def other_chain(
    proof: Proof, others: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """The chains of another rule."""
    del axioms
    return proof[0], draw.choice(others)[1]


def merge_tensors(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """Two variables of the rule become one: a special case."""
    del axioms
    names = variables(*proof[0].left, *proof[0].right)
    if len(names) < 2:
        return None
    kept, gone = draw.sample(names, 2)
    return _everywhere(proof, lambda term: Variable(kept) if term == Variable(gone) else term, gone)


def swap_operator(
    proof: Proof, _: Sequence[Proof], axioms: Mapping[str, Equation], draw: random.Random
) -> Proof | None:
    """Another operator of the same shape everywhere."""
    del axioms
    swaps = {
        "add": "sub",
        "sub": "add",
        "mul": "add",
        "relu": "sigmoid",
        "split0": "split1",
        "split1": "split0",
    }
    found = sorted({p.operator for p in applications(*proof[0].left) if p.operator in swaps})
    if not found:
        return None
    old = draw.choice(found)

    def changed(term: Term) -> Term:
        if isinstance(term, Application) and term.operator == old:
            return Application(swaps[old], term.attributes, term.inputs)
        return term

    return _everywhere(proof, changed, "")


ALTERATIONS: tuple[Altering, ...] = (
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
            new = kind(proof, proofs, axioms, draw)
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
    sides = (*axiom.left, *axiom.right)
    return frozenset(variables(*sides)), attribute_variables(*sides)


def _with_chain(
    proof: Proof, draw: random.Random, change: Callable[[tuple[Link, ...], int], Sequence[Link]]
) -> Proof | None:
    goal, certificate = proof
    places = [(o, n) for o, chain in enumerate(certificate.chains) for n in range(len(chain))]
    if not places:
        return None
    output, number = draw.choice(places)
    chains = list(certificate.chains)
    chains[output] = tuple(change(chains[output], number))
    return goal, Certificate(tuple(chains))


def _with_link(proof: Proof, draw: random.Random, change: Callable[[Link], Link]) -> Proof | None:
    return _with_chain(proof, draw, lambda chain, n: [*chain[:n], change(chain[n]), *chain[n + 1 :]])


def _literals(goal: Equation) -> list[tuple[str, AttributeTerm]]:
    return sorted(
        {
            (name, value)
            for part in applications(*goal.left, *goal.right)
            for name, value in part.attributes
            if not isinstance(value, AttributeVariable)
        },
        key=str,
    )


def _open(goal: Equation) -> list[tuple[str, AttributeVariable]]:
    return sorted(
        {
            (name, value)
            for part in applications(*goal.left, *goal.right)
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

    return _everywhere(proof, changed, "", change)


def _everywhere(
    proof: Proof,
    change: Callable[[Term], Term],
    gone: str,
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
                attributes=tuple((name, _kind(name, value, attribute)) for name, value in link.attributes),
                term=rebuilt(link.term),
            )
            for link in chain
        )
        for chain in certificate.chains
    )
    del gone
    left, right = tuple(map(rebuilt, goal.left)), tuple(map(rebuilt, goal.right))
    return replace(goal, left=left, right=right), Certificate(chains)


def _kind(
    name: str, value: AttributeTerm, change: Callable[[str, AttributeTerm], AttributeTerm]
) -> AttributeTerm:
    """What a link says of an axiom's variable changes if one of the attributes of that value does."""
    del name
    for kind in VALUES:
        new = change(kind, value)
        if new != value:
            return new
    return value


__all__ = ["ALTERATIONS", "Proof", "altered"]
