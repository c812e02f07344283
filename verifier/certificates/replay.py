"""The checker of certificates: each link is replaced in the text, then typed under instances of the rule.

No prover takes part. First the chain is checked as it is written, attribute variables as such. Then it is
replayed under each instance on *resolved* terms: every operator with all its attributes, sizes included, so
that ``ones`` of one shape is not ``ones`` of another. Types come from the operators' own ``infer`` alone.
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
from superopt.rewriting.typing import Typing, infer_terms, leaves_sizes_out
from superopt.verifier.certificates.cases import cases_of
from superopt.verifier.certificates.certificate import Certificate, Link
from superopt.verifier.certificates.chain_text import fill, require, require_text, sides_of, value_of
from superopt.verifier.certificates.positivity import PositiveSizes
from superopt.verifier.certificates.rank_bound import largest_rank


@dataclass(frozen=True, eq=False)
class _Resolved:
    """A variable (its name) or an operator applied to resolved terms; equal ones are one object."""

    head: str | Operator
    inputs: tuple[_Resolved, ...]
    type: TensorType


@dataclass(frozen=True)
class Failure:
    """Why a certificate does not prove its rule, and the case of the rule in which it does not."""

    reason: str
    case: Instance | None = None


def replay(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> str:
    """Empty when the certificate proves the goal in all cases, else exactly why it does not."""
    failure = first_failure(goal, axioms, certificate)
    return "" if failure is None else failure.reason


def first_failure(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate) -> Failure | None:
    """None when the certificate proves the goal in all cases, else the first in which it does not."""
    number = 0
    try:
        require_text(goal, axioms, certificate)
        bound = largest_rank(
            goal,
            [axioms[name] for name in certificate.axioms_used],
            [link.term for chain in certificate.chains for link in chain],
        )
        for number, case in enumerate(cases_of(goal, bound), 1):  # noqa: B007
            reason = _failing(goal, axioms, certificate, case)
            if reason:
                return Failure(reason, case)
    except (SuperoptError, ArithmeticError, RecursionError) as error:
        return Failure(str(error))
    return None if number else Failure("there is no case in which both sides are well-typed")


def replay_in(
    goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate, case: Instance
) -> str:
    """Empty when the certificate proves the goal in that one case, else exactly why it does not."""
    try:
        require_text(goal, axioms, certificate)
    except (SuperoptError, RecursionError) as error:
        return str(error)
    return _failing(goal, axioms, certificate, case)


def _failing(goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate, case: Instance) -> str:
    """Where the certificate fails in one case; empty when it does not."""
    place = "the rule"
    try:
        replayer = _Replayer(goal, axioms, case)
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
    """One goal under one instance; the chains are known to be right as they are written."""

    def __init__(self, goal: Equation, axioms: Mapping[str, Equation], instance: Instance) -> None:
        self._goal = goal
        self._axioms = axioms
        self._instance = instance
        self._values = cast("Mapping[str, AttributeTerm]", instance.attributes)
        self._nodes: dict[tuple[object, ...], _Resolved] = {}
        self._sizes = PositiveSizes(_own_sizes(instance.typing))
        self._assumed = assumed(goal, instance)
        require(as_declared(goal.types, instance.types), "the instance is not as the rule declares")
        for condition in goal.conditions:
            met = decide(condition, instance.types, instance.attributes)
            require(
                met in (Decision.HOLDS, Decision.ASSUMED),
                f"the instance breaks {format_condition(condition)}",
            )

    @cached_property
    def _own(self) -> Mapping[Term, TensorType]:
        """The types of the rule's own terms, as they are written."""
        terms = subterms(*self._goal.left, *self._goal.right)
        return {fill(term, {}, self._values): self._instance.typing.types[term] for term in terms}

    def side(self, term: Term) -> _Resolved:
        """A term of the goal, resolved as the instance says and typed anew."""
        return self._resolved(term, self._instance.typing.operators, {}, self._values)

    def after(self, whole: _Resolved, link: Link) -> _Resolved:
        """The term after one link; raises IllTypedError where the axiom does not say that it is equal."""
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
        """What the axiom makes of a subterm: a side fits, all sides are well-typed, its conditions hold."""
        source, target = sides_of(axiom, link)
        matched = list(_matched(source, node))
        bound: dict[str, _Resolved] = {}
        for term, part in matched:
            if isinstance(term, Variable):
                same = bound.setdefault(term.name, part) is part
                require(same, f"{term.name} stands for two terms, whose sizes differ")
        values = {name: value_of(value, self._values) for name, value in link.attributes}
        terms = (*axiom.left, *axiom.right, *(term for name, term in link.terms if name not in bound))
        if any(map(leaves_sizes_out, terms)):
            sides, parts = self._sized(axiom, link, values, matched, bound)
        else:
            new = {name: term for name, term in link.terms if name not in bound}
            parts = bound | {name: self._resolved(t, {}, {}, self._values) for name, t in new.items()}
            sides = {t: self._resolved(t, {}, parts, values) for t in (*axiom.left, *axiom.right)}

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
        """The sides of an axiom, and what its variables stand for, with the sizes that are left out."""
        terms = {name: fill(term, {}, self._values) for name, term in link.terms}
        parts = {f"{name} of the axiom": part for name, part in bound.items()}
        mixed = {n: Variable(f"{n} of the axiom") if n in bound else term for n, term in terms.items()}
        filled = {side: fill(side, mixed, values) for side in (*axiom.left, *axiom.right)}
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
        """The operators with the sizes that the text leaves out; where any would do, those of the rule.

        ``written`` says how each term of the axiom's instance is written with the rule's own variables.
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
        """Types of terms as they are written: in the rule; none; where a half of a concat shows its cut."""
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
        """The one object for this term; made only when it is well-typed and all its sizes are positive."""
        key = (type(head), head, *map(id, inputs))
        node = self._nodes.get(key)
        if node is None:
            types = tuple(part.type for part in inputs)
            type_ = self._instance.types.get(head) if isinstance(head, str) else _only(head.infer(*types))
            if type_ is None:
                what = f"variable {head}" if isinstance(head, str) else f"one tensor that is a {head.name}"
                raise IllTypedError(f"there is no {what}")
            if not all(map(self._sizes.is_positive, (*type_.shape, *_halves(head, types)))):
                raise IllTypedError(f"{type_} may be empty")
            if not isinstance(head, str) and not head.unseen(*types) <= self._assumed:
                raise IllTypedError(f"{head.name} may be ill-typed, depending on sizes")
            node = self._nodes[key] = _Resolved(head, inputs, type_)
        return node


def _only(types: tuple[TensorType, ...]) -> TensorType | None:
    """The type of an operator with one output: terms are of no other."""
    return types[0] if len(types) == 1 else None


def _matched(pattern: Term, node: _Resolved) -> Iterator[tuple[Term, _Resolved]]:
    """Each subterm of an axiom's side with what stands in its place."""
    yield pattern, node
    if isinstance(pattern, Application):
        for child, part in zip(pattern.inputs, node.inputs, strict=True):
            yield from _matched(child, part)


def _own_sizes(typing: Typing) -> Iterator[Dimension]:
    """The sizes of a rule's own terms, positive where both sides are well-typed; and the symbols."""
    for type_ in typing.types.values():
        yield from type_.shape
        yield from map(symbol, type_.symbols)
    for term, operator in typing.operators.items():
        yield from _halves(operator, tuple(typing.types[child] for child in term.inputs))


def _halves(head: str | Operator, types: tuple[TensorType, ...]) -> tuple[Dimension, ...]:
    """The sizes of both halves where one is taken: neither may be empty."""
    return (head.size, types[0].shape[head.axis] - head.size) if isinstance(head, Half) else ()


__all__ = ["Failure", "first_failure", "replay", "replay_in"]
