"""A chain in one case: complete terms, typed axioms, conditions that hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, islice
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.dimensions import Dimension, SymbolicDimension, floor_divide, substitute
from superopt.ir.terms import (
    Application,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    subterms,
)
from superopt.ir.types import TensorType
from superopt.ops import OPERATORS, attributes_of, normalise_attribute, operator_from_attributes
from superopt.ops.attributes import substituted
from superopt.ops.sharded.sharding import UNDIVIDED, divisions_of
from superopt.verifier.certificates.certificate import Certificate, Link
from tests.verifier.second_checker.conditions import Scope, holds
from tests.verifier.second_checker.items import application
from tests.verifier.second_checker.nodes import (
    Complete,
    Leaf,
    Node,
    Types,
    at,
    nodes_of,
    put,
    type_of,
    with_sizes,
)
from tests.verifier.second_checker.numbers import value_of
from tests.verifier.second_checker.sizes import FLEXIBLE, chosen, is_positive
from tests.verifier.second_checker.text import WrongError, is_about_open_number
from tests.verifier.second_checker.typing_state import State, every_case, new_state, same_types

MOST_WAYS = 12
"""In which the sizes that a link leaves out are completed."""


@dataclass(frozen=True)
class Case:
    """One case of a rule: types of its variables, values of attributes, what is known of sizes."""

    types: Mapping[str, TensorType]
    attributes: Mapping[str, object]
    numbers: Mapping[str, Fraction]
    left: tuple[Complete, ...]
    right: tuple[Complete, ...]
    positive: tuple[Dimension, ...]
    granted: frozenset[tuple[object, ...]]
    odd: frozenset[Dimension]
    groups: frozenset[Dimension]
    ranks: range


@dataclass(frozen=True)
class Step:
    """One link with everything complete: both sides of the axiom and all terms for its variables."""

    link: Link
    axiom: Equation
    left: tuple[Complete, ...]
    right: tuple[Complete, ...]
    terms: Mapping[str, Complete]
    after: Complete


@dataclass
class Matched:
    """What a side of an axiom and a complete term have in common."""

    terms: dict[str, Complete] = field(default_factory=dict[str, Complete])
    implicit: dict[tuple[Term, str], object] = field(default_factory=dict[tuple[Term, str], object])
    sizes: dict[str, Dimension] = field(default_factory=dict[str, Dimension])


def replay_case(axioms: Mapping[str, Equation], certificate: Certificate, case: Case) -> None:
    """Raises WrongError unless each chain of the certificate proves its output in this case."""
    for start, end, chain in zip(case.left, case.right, certificate.chains, strict=True):
        reason = "sizes that are left out are not found"
        for steps in islice(_ways(start, end, chain, axioms, case), MOST_WAYS):
            reason = _why_wrong(steps, start, end, case)
            if not reason:
                break
        if reason:
            raise WrongError(reason)


def _ways(
    start: Complete, end: Complete, chain: Sequence[Link], axioms: Mapping[str, Equation], case: Case
) -> Iterator[tuple[Step, ...]]:
    names = count()

    def go(current: Complete, number: int, done: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
        if number == len(chain):
            sizes: dict[str, Dimension] = {}
            if _unified(current, end, sizes):
                yield tuple(_resized(step, sizes) for step in done)
            return
        for step, sizes in _steps(current, chain[number], axioms[chain[number].axiom], case, names):
            before = tuple(_resized(old, sizes) for old in done)
            yield from go(step.after, number + 1, (*before, step))

    yield from go(start, 0, ())


def _steps(
    current: Complete, link: Link, axiom: Equation, case: Case, names: Iterator[int]
) -> Iterator[tuple[Step, Mapping[str, Dimension]]]:
    """Each way to complete one link, with the flexible sizes that it fixes in what came before."""
    sides = (axiom.right, axiom.left) if link.backwards else (axiom.left, axiom.right)
    attributes = {name: attribute_value(value, case) for name, value in link.attributes}
    matched = Matched()
    if not _matches(sides[0][link.output], at(current, link.path), attributes, matched):
        return
    state = new_state(case.ranks, universal=False, names=names)
    state.sizes = dict(matched.sizes)
    for name, value in attributes.items():
        state.attributes["axiom", name] = value
    for name, value in case.attributes.items():
        state.attributes["rule", name] = value
    for name, type_ in case.types.items():
        state.types["rule", Variable(name)] = type_
    own = dict(link.terms)
    for side in subterms(*axiom.left, *axiom.right):
        key = ("axiom", side)
        if isinstance(side, Application):
            state.pending.append(application(key))
            continue
        bound = matched.terms.get(side.name)
        if bound is not None:
            bound = with_sizes(bound, matched.sizes)
            state.leaves[key] = bound
            state.types[key] = type_of(bound, case.types)
        else:
            _add_term(state, key, own[side.name], f"term {side.name}")
    for (term, attribute), value in matched.implicit.items():
        state.implicit[("axiom", term), attribute] = substituted(value, matched.sizes)
    for left, right in zip(axiom.left, axiom.right, strict=True):
        state.pending.append(same_types(("axiom", left), ("axiom", right)))
    for found in every_case(state):
        yield _step(current, link, axiom, found), found.sizes


def _add_term(state: State, key: tuple[str, Term], term: Term, name: str) -> None:
    """A term of the rule's language for a variable that the other side of the axiom lacks."""
    for rule_key, value in list(state.attributes.items()):
        if rule_key[0] == "rule":
            state.attributes[name, rule_key[1]] = value
    for part in subterms(term):
        if isinstance(part, Variable):
            state.types[name, part] = state.types["rule", part]
        else:
            state.pending.append(application((name, part)))

    def item(now: State) -> bool:
        if (name, term) not in now.types:
            return False
        now.types[key] = now.types[name, term]
        return True

    state.pending.append(item)
    state.aliases[key] = (name, term)


def _step(current: Complete, link: Link, axiom: Equation, found: State) -> Step:
    sizes = found.sizes
    left = tuple(with_sizes(found.complete(("axiom", side)), sizes) for side in axiom.left)
    right = tuple(with_sizes(found.complete(("axiom", side)), sizes) for side in axiom.right)
    target = (left if link.backwards else right)[link.output]
    terms = {
        side.name: with_sizes(found.complete(("axiom", side)), sizes)
        for side in subterms(*axiom.left, *axiom.right)
        if isinstance(side, Variable)
    }
    return Step(link, axiom, left, right, terms, put(with_sizes(current, sizes), link.path, target))


def _resized(step: Step, sizes: Mapping[str, Dimension]) -> Step:
    if not sizes:
        return step
    return Step(
        step.link,
        step.axiom,
        tuple(with_sizes(side, sizes) for side in step.left),
        tuple(with_sizes(side, sizes) for side in step.right),
        {name: with_sizes(term, sizes) for name, term in step.terms.items()},
        with_sizes(step.after, sizes),
    )


def attribute_value(value: object, case: Case) -> object:
    """What an attribute of the rule's language is in this case."""
    return value_of(value, case.attributes)


def _matches(pattern: Term, term: Complete, attributes: Mapping[str, object], found: Matched) -> bool:
    if isinstance(pattern, Variable):
        known = found.terms.get(pattern.name)
        if known is None:
            found.terms[pattern.name] = term
            return True
        return _unified(known, term, found.sizes)
    if not isinstance(term, Node) or term.operator.name != pattern.operator:
        return False
    if len(term.inputs) != len(pattern.inputs):
        return False
    own = attributes_of(term.operator)
    implicit = OPERATORS[pattern.operator].implicit
    said: dict[str, object] = {}
    for name, value in pattern.attributes:
        said[name] = value_of(value, attributes)
    left_out = [name for name in implicit if name not in said]
    complete = operator_from_attributes(pattern.operator, {**said, **{name: own[name] for name in left_out}})
    if not _same_attributes(attributes_of(complete), own, found.sizes):
        return False
    for name in left_out:
        known = found.implicit.setdefault((pattern, name), own[name])
        if not _same_value(known, own[name], found.sizes):
            return False
    return all(
        _matches(child, part, attributes, found)
        for child, part in zip(pattern.inputs, term.inputs, strict=True)
    )


def _same_attributes(
    ours: Mapping[str, object], theirs: Mapping[str, object], sizes: dict[str, Dimension]
) -> bool:
    return all(
        _same_value(normalise_attribute(name, value), normalise_attribute(name, theirs[name]), sizes)
        for name, value in ours.items()
    )


def _same_value(ours: object, theirs: object, sizes: dict[str, Dimension]) -> bool:
    """Whether two attributes are equal, with flexible sizes put so that they are."""
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        one, other = cast("tuple[object, ...]", ours), cast("tuple[object, ...]", theirs)
        return len(one) == len(other) and all(
            _same_value(a, b, sizes) for a, b in zip(one, other, strict=True)
        )
    if isinstance(ours, int | SymbolicDimension) and isinstance(theirs, int | SymbolicDimension):
        left, right = substitute(ours, sizes), substitute(theirs, sizes)
        found = chosen(left, right)
        if found is None:
            return False
        for name, value in sizes.items():
            sizes[name] = substitute(value, found)
        sizes.update(found)
        return True
    return ours == theirs


def _unified(ours: Complete, theirs: Complete, sizes: dict[str, Dimension]) -> bool:
    if isinstance(ours, Leaf) or isinstance(theirs, Leaf):
        return ours == theirs
    return (
        type(ours.operator) is type(theirs.operator)
        and len(ours.inputs) == len(theirs.inputs)
        and _same_attributes(attributes_of(ours.operator), attributes_of(theirs.operator), sizes)
        and all(_unified(a, b, sizes) for a, b in zip(ours.inputs, theirs.inputs, strict=True))
    )


def _why_wrong(steps: Sequence[Step], start: Complete, end: Complete, case: Case) -> str:
    """Goes through a chain in which everything is complete; nothing is solved here."""
    wanted = type_of(start, case.types)
    current = start
    for step in steps:
        name = step.link.axiom
        sides = (step.right, step.left) if step.link.backwards else (step.left, step.right)
        if at(current, step.link.path) != sides[0][step.link.output]:
            return f"{name} is not about what stands there"
        current = put(current, step.link.path, sides[1][step.link.output])
        if current != step.after:
            return f"{name} gives another term"
        try:
            reason = _why_not_typed(step, case) or _why_not_here(step, case)
            if reason:
                return f"{name}: {reason}"
            if type_of(current, case.types) != wanted:
                return f"{name} gives another type"
        except IllTypedError as error:
            return f"{name}: {error}"
    return "" if current == end else "the chain ends elsewhere"


def _why_not_typed(step: Step, case: Case) -> str:
    for left, right in zip(step.left, step.right, strict=True):
        if type_of(left, case.types) != type_of(right, case.types):
            return "the sides have different types"
    for term in (*step.left, *step.right, step.after):
        for node in nodes_of(term):
            type_ = type_of(node, case.types)
            for size in type_.shape:
                if not isinstance(size, int) and any(name.startswith(FLEXIBLE) for name in size.symbols):
                    return f"the size {size} stays open"
                if not is_positive(size, case.positive):
                    return f"the size {size} may not be positive"
            if not isinstance(node, Node):
                continue
            unseen = node.operator.unseen(*(type_of(child, case.types) for child in node.inputs))
            if not unseen <= case.granted:
                return f"{node.operator.name} takes for granted {set(unseen - case.granted)}"
            if may_be_one_group(node, case.types) - case.groups:
                return f"{node.operator.name} of divided tensors may have one group"
    return ""


def may_be_one_group(node: Node, types: Types) -> frozenset[Dimension]:
    """The number of groups of an operator on tensors divided along channels or outputs, where it is a product
    of symbols. Samples and replicas are divided alike for one group and for more."""
    inputs = tuple(type_of(child, types) for child in node.inputs)
    grouped = node.operator.grouped(*inputs)
    axes = [division for type_ in inputs for division in divisions_of(type_)]
    samples = len(inputs) > 1 and inputs[0].rank == inputs[1].rank
    if grouped is None or all(division == UNDIVIDED for division in axes[int(samples) :]):
        return frozenset()
    groups = floor_divide(grouped[0], grouped[1])
    return frozenset() if isinstance(groups, int) else frozenset((groups,))


def _why_not_here(step: Step, case: Case) -> str:
    attributes = dict(step.link.attributes)
    types = {name: type_of(term, case.types) for name, term in step.terms.items()}
    values = {name: attribute_value(value, case) for name, value in attributes.items()}
    scope = Scope(lambda name: types[name], lambda name: _normal(step.axiom, name, values[name]))
    for condition in step.axiom.conditions:
        if is_about_open_number(condition, step.axiom, step.link):
            continue  # the text of the rule says it
        if not holds(condition, scope, case.positive, set(case.odd)):
            return "a condition of the axiom does not hold"
    return ""


def _normal(axiom: Equation, name: str, value: object) -> object:
    """``kernel=3`` as (3, 3), by the attribute that the variable stands for."""
    for part in subterms(*axiom.left, *axiom.right):
        if isinstance(part, Application):
            for attribute, own in part.attributes:
                if own == AttributeVariable(name):
                    return normalise_attribute(attribute, value)
    return value


__all__ = ["Case", "may_be_one_group", "replay_case"]
