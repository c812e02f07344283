"""Certificate checker: checks the text of each link, then types it in every case of the rule.

No prover is involved. First the chain is checked as text, with attribute variables as they are. Then it is
replayed in each case on *resolved* terms: every operator has all its attributes, including sizes, so that
``ones`` of one shape differs from ``ones`` of another. Types come from the operators' own ``infer`` alone.
Sizes may be symbols: equal sizes are then equal polynomials, and no symbol of the rule is solved for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from superopt.equations import format_condition
from superopt.errors import IllTypedError, SuperoptError
from superopt.instances.instance import Instance, assumed
from superopt.ir.dimensions import Dimension, symbol
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Equation,
    Term,
    Variable,
    subterms,
)
from superopt.ir.types import TensorType
from superopt.ops.base import Operator, known_operator
from superopt.ops.shape import Half
from superopt.rewriting.conditions import Decision, as_declared, decide, holds
from superopt.rewriting.divisions import DIVIDING
from superopt.rewriting.typing import Typing, infer_terms, leaves_sizes_out
from superopt.verifier.certificates.cases import cases_of
from superopt.verifier.certificates.certificate import Certificate, Link
from superopt.verifier.certificates.chain_text import fill, require, require_text, sides_of, value_of
from superopt.verifier.certificates.degree_cases import OpenDegrees
from superopt.verifier.certificates.groups import groups_of
from superopt.verifier.certificates.positivity import PositiveSizes
from superopt.verifier.certificates.rank_bound import largest_rank


@dataclass(frozen=True, eq=False)
class _Resolved:
    """A variable (its name) or an operator applied to resolved terms; equal terms are one object."""

    head: str | Operator
    inputs: tuple[_Resolved, ...]
    type: TensorType


@dataclass(frozen=True)
class Failure:
    """Reason why a certificate does not prove its rule, and the case of the rule in which it fails."""

    reason: str
    case: Instance | None = None


def replay(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> str:
    """Return an empty string if the certificate proves the goal in all cases, otherwise the reason."""
    failure = first_failure(goal, axioms, certificate)
    return "" if failure is None else failure.reason


def first_failure(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> Failure | None:
    """Return None if the certificate proves the goal in all cases, otherwise the first failing case."""
    number = 0
    try:
        require_text(goal, axioms, certificate)
        links = [link for chain in certificate.chains for link in chain]
        degrees = OpenDegrees(goal, [term for link in links for term in _typed_for(link, axioms)])
        degrees.require_above()
        used = [axioms[name] for name in certificate.axioms_used]
        bound = largest_rank(goal, used, [link.term for link in links])
        for number, case in enumerate(cases_of(goal, bound, degrees=degrees), 1):  # noqa: B007
            reason = _failing(goal, axioms, certificate, case, degrees)
            if reason:
                return Failure(reason, case)
    except (SuperoptError, ArithmeticError, RecursionError) as error:
        return Failure(str(error))
    return None if number else Failure("there is no case in which both sides are well-typed")


def _typed_for(link: Link, axioms: Mapping[str, Equation]) -> Iterator[Term]:
    """Yield the terms that must be well-typed for a link: the whole, and all sides of the axiom."""
    yield link.term
    for side in axioms[link.axiom].terms:
        yield fill(side, dict(link.terms), dict(link.attributes))


def replay_in(
    goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate, case: Instance
) -> str:
    """Return an empty string if the certificate proves the goal in this case, otherwise the reason."""
    try:
        require_text(goal, axioms, certificate)
    except (SuperoptError, RecursionError) as error:
        return str(error)
    return _failing(goal, axioms, certificate, case, OpenDegrees(goal))


def _failing(
    goal: Equation,
    axioms: Mapping[str, Equation],
    certificate: Certificate,
    case: Instance,
    degrees: OpenDegrees,
) -> str:
    """Return the position at which the certificate fails in one case; empty if it does not."""
    place = "the rule"
    try:
        replayer = _Replayer(goal, axioms, case, degrees)
        for output, chain in enumerate(certificate.chains):
            place = f"output {output}"
            current = replayer.side(goal.left[output])
            for number, link in enumerate(chain, 1):
                place = f"output {output}, link {number} ({link.axiom})"
                current = replayer.after(current, link)
            place = f"output {output}, end"
            same = current is replayer.side(goal.right[output])
            require(same, "the last term has other sizes than the right side")
    except (SuperoptError, ArithmeticError, RecursionError) as error:
        return f"{place}: {error} (under {case})"
    return ""


class _Replayer:
    """Replays one goal in one case; the text of the chains has already been checked."""

    def __init__(
        self, goal: Equation, axioms: Mapping[str, Equation], instance: Instance, degrees: OpenDegrees
    ) -> None:
        self._goal = goal
        self._axioms = axioms
        self._instance = instance
        self._values = cast("Mapping[str, AttributeTerm]", instance.attributes)
        self._nodes: dict[tuple[object, ...], _Resolved] = {}
        self._sizes = PositiveSizes(_own_sizes(instance.typing))
        self._assumed = assumed(goal, instance)
        self._divides = any(term.operator in DIVIDING for term in goal.applications)
        self._degrees = degrees
        types, operators = instance.typing.types, instance.typing.operators
        self._groups = {
            groups.number
            for term, operator in (operators.items() if self._divides else ())
            if (groups := groups_of(operator, [types[child] for child in term.inputs]))
        }
        require(as_declared(goal.types, instance.types), "the instance is not as the rule declares")
        for condition in goal.conditions:
            met = decide(condition, instance.types, instance.attributes)
            may_hold = met in (Decision.HOLDS, Decision.OPEN)
            require(may_hold, f"the instance breaks {format_condition(condition)}")

    @cached_property
    def _own(self) -> Mapping[Term, TensorType]:
        """The types of the rule's own terms, by their text."""
        terms = subterms(*self._goal.terms)
        return {fill(term, {}, self._values): self._instance.typing.types[term] for term in terms}

    def side(self, term: Term) -> _Resolved:
        """Resolve a term of the goal in this case and type it."""
        return self._resolved(term, self._instance.typing.operators, {}, self._values)

    def after(self, whole: _Resolved, link: Link) -> _Resolved:
        """Return the term after one link; raises IllTypedError if the axiom does not justify the step."""
        changed = self._changed(whole, link.path, link)
        require(changed.type == whole.type, "the type of the whole term changes")
        return changed

    def _changed(self, node: _Resolved, path: tuple[int, ...], link: Link) -> _Resolved:
        if not path:
            return self._other_side(node, self._axioms[link.axiom], link)
        inputs = list(node.inputs)
        inputs[path[0]] = self._changed(inputs[path[0]], path[1:], link)
        return self._node(node.head, tuple(inputs))

    def _other_side(self, node: _Resolved, axiom: Equation, link: Link) -> _Resolved:
        """Apply the axiom to a subterm: one side must match, all sides must be well-typed, conditions must
        hold."""
        source, target = sides_of(axiom, link)
        matched = list(_matched(source, node))
        bound: dict[str, _Resolved] = {}
        for term, part in matched:
            if isinstance(term, Variable):
                same = bound.setdefault(term.name, part) is part
                require(same, f"{term.name} stands for two terms, whose sizes differ")
        values = {name: value_of(value, self._values) for name, value in link.attributes}
        terms = (*axiom.terms, *(term for name, term in link.terms if name not in bound))
        if any(map(leaves_sizes_out, terms)):
            sides, parts = self._sized(axiom, link, values, matched, bound)
        else:
            new = {name: term for name, term in link.terms if name not in bound}
            parts = bound | {name: self._resolved(t, {}, {}, self._values) for name, t in new.items()}
            sides = {t: self._resolved(t, {}, parts, values) for t in axiom.terms}

        for left, right in zip(axiom.left, axiom.right, strict=True):
            require(sides[left].type == sides[right].type, "the sides of the axiom differ in type")
        types = {name: part.type for name, part in parts.items()}
        require(as_declared(axiom.types, types), "the types are not as the axiom declares")
        for condition in axiom.conditions:
            if not holds(condition, types, values):
                raise IllTypedError(f"the axiom needs {format_condition(condition)}")
        require(sides[source] is node, "the axiom speaks of other sizes")
        return sides[target]

    def _sized(
        self,
        axiom: Equation,
        link: Link,
        values: Mapping[str, AttributeTerm],
        matched: Sequence[tuple[Term, _Resolved]],
        bound: Mapping[str, _Resolved],
    ) -> tuple[Mapping[Term, _Resolved], Mapping[str, _Resolved]]:
        """Return the sides of an axiom and the values of its variables, with omitted sizes filled in."""
        terms = {name: fill(term, {}, self._values) for name, term in link.terms}
        parts = {f"{name} of the axiom": part for name, part in bound.items()}
        mixed = {n: Variable(f"{n} of the axiom") if n in bound else term for n, term in terms.items()}
        filled = {side: fill(side, mixed, values) for side in axiom.terms}
        pairs = [(filled[left], filled[right]) for left, right in zip(axiom.left, axiom.right, strict=True)]
        pinned = [(fill(term, mixed, values), part.type) for term, part in matched]
        written = {fill(t, mixed, values): fill(t, terms, values) for t in subterms(*filled)}
        written |= {term: term for term in subterms(*mixed.values()) if term not in written}
        operators = self._operators(pairs, pinned, written, parts)
        resolved = {side: self._resolved(term, operators, parts, {}) for side, term in filled.items()}
        return resolved, {n: self._resolved(term, operators, parts, {}) for n, term in mixed.items()}

    def _operators(
        self,
        pairs: Sequence[tuple[Term, Term]],
        pinned: Sequence[tuple[Term, TensorType]],
        written: Mapping[Term, Term],
        parts: Mapping[str, _Resolved],
    ) -> Mapping[Application, Operator]:
        """Return the operators with the sizes that the text omits; if any sizes fit, those of the rule.

        ``written`` gives the text of each term of the axiom's instance in the rule's own variables.
        """
        sides = tuple(term for pair in pairs for term in pair)
        types = {**self._instance.types, **{name: part.type for name, part in parts.items()}}
        reason = ""
        for known in self._suggestions([(written[left], written[right]) for left, right in pairs]):
            chosen = [(term, known[own]) for term, own in written.items() if own in known]
            try:
                typing = infer_terms(
                    sides, types, equal=[*pairs, *pinned, *chosen], fixed=self._instance.symbols
                )
            except IllTypedError as error:
                reason = str(error)
            else:
                if not typing.unresolved:
                    return typing.operators
                reason = "the sizes of a term that comes in may be any"
        raise IllTypedError(reason)

    def _suggestions(self, pairs: Sequence[tuple[Term, Term]]) -> Iterator[Mapping[Term, TensorType]]:
        """Yield candidate types of terms by their text: those of the rule, none, and those with the cut that
        a half of a concat implies."""
        yield self._own
        yield {}
        sides = tuple(term for pair in pairs for term in pair)
        yield infer_terms(sides, self._instance.types, equal=pairs, fixed=self._instance.symbols).types

    def _resolved(
        self,
        term: Term,
        operators: Mapping[Application, Operator],
        parts: Mapping[str, _Resolved],
        values: Mapping[str, AttributeTerm],
    ) -> _Resolved:
        if isinstance(term, Variable):
            return parts.get(term.name) or self._node(term.name, ())
        inputs = tuple(self._resolved(child, operators, parts, values) for child in term.inputs)
        attributes = tuple((name, value_of(value, values)) for name, value in term.attributes)
        operator = operators.get(term)
        if operator is not None and operator.implicit:
            given = {name for name, _ in attributes}
            attributes += tuple((n, getattr(operator, n)) for n in operator.implicit if n not in given)
        return self._node(known_operator(term.operator, attributes), inputs)

    def _node(self, head: str | Operator, inputs: tuple[_Resolved, ...]) -> _Resolved:
        """Return the unique object for this term, after checking that it is well-typed with positive
        sizes."""
        key = (type(head), head, *map(id, inputs))
        node = self._nodes.get(key)
        if node is None:
            types = tuple(part.type for part in inputs)
            type_ = self._instance.types.get(head) if isinstance(head, str) else _only(head.infer(*types))
            if type_ is None:
                what = f"variable {head}" if isinstance(head, str) else f"one tensor that is a {head.name}"
                raise IllTypedError(f"there is no {what}")
            self._degrees.require_known_divisions(type_, self._instance.attributes)
            if not all(map(self._sizes.is_positive, (*type_.shape, *_halves(head, types)))):
                raise IllTypedError(f"{type_} may be empty")
            if not isinstance(head, str) and not head.unseen(*types) <= self._assumed:
                raise IllTypedError(f"{head.name} may be ill-typed, depending on sizes")
            if not isinstance(head, str) and self._may_have_one_group(head, types):
                raise IllTypedError(
                    f"{head.name} may have one group, for which tensors are divided otherwise"
                )
            node = self._nodes[key] = _Resolved(head, inputs, type_)
        return node

    def _may_have_one_group(self, head: Operator, types: Sequence[TensorType]) -> bool:
        """Whether tensors are divided, and the groups are a symbol that the rule's own terms do not have: it
        is not a case of its own that this is 1."""
        groups = groups_of(head, types) if self._divides else None
        return groups is not None and bool(groups.one_group) and groups.number not in self._groups


def _only(types: tuple[TensorType, ...]) -> TensorType | None:
    """Return the type of an operator with one output; terms have no other operators."""
    return types[0] if len(types) == 1 else None


def _matched(pattern: Term, node: _Resolved) -> Iterator[tuple[Term, _Resolved]]:
    """Yield each subterm of an axiom's side with the term that it matches."""
    yield pattern, node
    if isinstance(pattern, Application):
        for child, part in zip(pattern.inputs, node.inputs, strict=True):
            yield from _matched(child, part)


def _own_sizes(typing: Typing) -> Iterator[Dimension]:
    """Yield the symbols and the sizes of a rule's own terms, which are positive if both sides are
    well-typed."""
    for type_ in typing.types.values():
        yield from type_.shape
        yield from map(symbol, type_.symbols)
    for term, operator in typing.operators.items():
        yield from _halves(operator, tuple(typing.types[child] for child in term.inputs))


def _halves(head: str | Operator, types: tuple[TensorType, ...]) -> tuple[Dimension, ...]:
    """Return the sizes of both halves if a half is taken; both must be positive."""
    return (head.size, types[0].shape[head.axis] - head.size) if isinstance(head, Half) else ()


__all__ = ["Failure", "first_failure", "replay", "replay_in"]
