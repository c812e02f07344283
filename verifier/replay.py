"""The checker of certificates: replays each link under an instance of the rule, typing every term anew.

No prover takes part. A term is *resolved*: every operator with all its attributes, sizes included, so that
``ones`` of one shape is not ``ones`` of another. Types come from the operators' own ``infer`` alone. Sizes
may be symbols: equal sizes are then equal polynomials, and no symbol of the rule is solved for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from superopt.equations import format_condition, format_term
from superopt.errors import IllTypedError, SuperoptError
from superopt.ir.dimensions import Dimension
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Equation,
    Term,
    Variable,
    attribute_variables,
    subterms,
    variables,
)
from superopt.ir.types import TensorType
from superopt.ops.base import OPERATORS, Operator, operator_from_attributes
from superopt.ops.shape import Half
from superopt.ops.terms import application
from superopt.rewriting.conditions import as_declared, holds
from superopt.rewriting.typing import Typing, infer_terms
from verifier.certificate import Certificate, Link
from verifier.instances import Instance
from verifier.positivity import PositiveSizes


@dataclass(frozen=True, eq=False)
class _Resolved:
    """A variable (its name) or an operator applied to resolved terms; equal ones are one object."""

    head: str | Operator
    inputs: tuple[_Resolved, ...]
    type: TensorType


def replay(
    goal: Equation, axioms: Mapping[str, Equation], certificate: Certificate, instances: Sequence[Instance]
) -> str:
    """Empty when the certificate proves the goal under every instance, else exactly why it does not."""
    if not instances:
        return "no instance to replay under"
    if len(certificate.chains) != len(goal.left):
        return f"expected {len(goal.left)} chains, got {len(certificate.chains)}"
    for instance in instances:
        place = "the rule"
        try:
            replayer = _Replayer(goal, axioms, instance)
            for output, chain in enumerate(certificate.chains):
                place = f"output {output}"
                current = replayer.side(goal.left[output])
                for number, link in enumerate(chain, 1):
                    place = f"output {output}, link {number} ({link.axiom})"
                    current = replayer.after(current, link)
                if current is not replayer.side(goal.right[output]):
                    end = format_term(goal.right[output])
                    raise IllTypedError(f"the chain does not end at {end}, sizes included")
        except (SuperoptError, ArithmeticError, RecursionError) as error:
            return f"{place}: {error} (under {instance})"
    return ""


class _Replayer:
    """One goal under one instance."""

    def __init__(self, goal: Equation, axioms: Mapping[str, Equation], instance: Instance) -> None:
        self._axioms = axioms
        self._instance = instance
        self._values = cast("Mapping[str, AttributeTerm]", instance.attributes)
        self._nodes: dict[tuple[object, ...], _Resolved] = {}
        terms = tuple(subterms(*goal.left, *goal.right))
        self._own = {_filled(term, {}, self._values): instance.typing.types[term] for term in terms}
        self._fixed = frozenset[str]().union(*(type_.symbols for type_ in self._own.values()))
        self._sizes = PositiveSizes(_own_sizes(instance.typing))
        _require(as_declared(goal.types, instance.types), "the instance is not as the rule declares")
        for condition in goal.conditions:
            met = holds(condition, instance.types, instance.attributes)
            _require(met, f"the instance breaks {format_condition(condition)}")

    def side(self, term: Term) -> _Resolved:
        """A term of the goal, resolved as the instance says and typed anew."""
        return self._resolved(term, self._instance.typing.operators, {})

    def after(self, whole: _Resolved, link: Link) -> _Resolved:
        """The term after one link; raises IllTypedError where the link is no step from ``whole``."""
        changed = self._changed(whole, link.path, link)
        _require(changed.type == whole.type, "the type of the whole term changes")
        if not self._says(link.term, changed):
            raise IllTypedError(f"what follows is not {format_term(link.term)}")
        return changed

    def _changed(self, node: _Resolved, path: tuple[int, ...], link: Link) -> _Resolved:
        if not path:
            return self._other_side(node, link)
        _require(0 <= path[0] < len(node.inputs), f"there is no subterm at {link.path}")
        inputs = list(node.inputs)
        inputs[path[0]] = self._changed(inputs[path[0]], path[1:], link)
        return self._node(node.head, tuple(inputs))

    def _other_side(self, node: _Resolved, link: Link) -> _Resolved:
        """What the axiom makes of a subterm: a side fits, all sides are well-typed, its conditions hold."""
        axiom = self._axioms.get(link.axiom)
        if axiom is None:
            raise IllTypedError("there is no such axiom")
        _require(0 <= link.output < len(axiom.left), f"the axiom has no pair {link.output}")
        sides = (*axiom.left, *axiom.right)
        terms = {name: _filled(term, {}, self._values) for name, term in link.terms}
        values = {name: _value(value, self._values) for name, value in link.attributes}
        named = terms.keys() == set(variables(*sides)) and values.keys() == attribute_variables(*sides)
        _require(named, "expected a value for each variable of the axiom and for no other name")
        source = (axiom.right if link.backwards else axiom.left)[link.output]
        target = (axiom.left if link.backwards else axiom.right)[link.output]

        matched = list(_matched(source, node))
        bound: dict[str, _Resolved] = {}
        for term, part in matched:
            if isinstance(term, Variable):
                _require(bound.setdefault(term.name, part) is part, f"{term.name} stands for two terms")
                _require(self._says(terms[term.name], part), f"{term.name} stands for another term")
        parts = {f"{name} of the axiom": part for name, part in bound.items()}
        mixed = {n: Variable(f"{n} of the axiom") if n in bound else term for n, term in terms.items()}
        filled = {side: _filled(side, mixed, values) for side in sides}
        operators: Mapping[Application, Operator] = {}
        if any(map(_leaves_sizes_out, subterms(*filled.values()))):
            equal = [
                (filled[left], filled[right]) for left, right in zip(axiom.left, axiom.right, strict=True)
            ]
            pinned = [(_filled(term, mixed, values), part.type) for term, part in matched]
            written = {_filled(t, mixed, values): _filled(t, terms, values) for t in subterms(*sides)}
            written |= {term: term for term in subterms(*mixed.values()) if term not in written}
            operators = self._operators(equal, pinned, written, parts)

        resolved = {side: self._resolved(term, operators, parts) for side, term in filled.items()}
        for left, right in zip(axiom.left, axiom.right, strict=True):
            _require(resolved[left].type == resolved[right].type, "the sides of the axiom differ in type")
        types = {name: self._resolved(term, operators, parts).type for name, term in mixed.items()}
        _require(as_declared(axiom.types, types), "the types are not as the axiom declares")
        for condition in axiom.conditions:
            if not holds(condition, types, values):
                raise IllTypedError(f"the axiom needs {format_condition(condition)}")
        if resolved[source] is not node:
            raise IllTypedError(f"{format_term(source)} is another term here")
        return resolved[target]

    def _operators(
        self,
        equal: Sequence[tuple[Term, Term]],
        pinned: Sequence[tuple[Term, TensorType]],
        written: Mapping[Term, Term],
        parts: Mapping[str, _Resolved],
    ) -> Mapping[Application, Operator]:
        """The operators with the sizes that the text leaves out; where any would do, those of the rule.

        ``written`` says how each term of the axiom's instance is written with the rule's own variables.
        """
        terms = tuple(term for pair in equal for term in pair)
        types = {**self._instance.types, **{name: part.type for name, part in parts.items()}}
        reason = ""
        for known in self._suggestions(equal, written):
            chosen = [(term, known[own]) for term, own in written.items() if own in known]
            try:
                typing = infer_terms(terms, types, equal=[*equal, *pinned, *chosen], fixed=self._fixed)
            except IllTypedError as error:
                reason = str(error)
            else:
                if not typing.unresolved:
                    return typing.operators
                reason = "sizes of the term that comes in may be any"
        raise IllTypedError(reason)

    def _suggestions(
        self, equal: Sequence[tuple[Term, Term]], written: Mapping[Term, Term]
    ) -> Iterator[Mapping[Term, TensorType]]:
        """Types of terms as they are written: in the rule; none; where a half of a concat shows its cut."""
        yield self._own
        yield {}
        sides = [(written[left], written[right]) for left, right in equal]
        terms = tuple(term for pair in sides for term in pair)
        yield infer_terms(terms, self._instance.types, equal=sides, fixed=self._fixed).types

    def _resolved(
        self, term: Term, operators: Mapping[Application, Operator], parts: Mapping[str, _Resolved]
    ) -> _Resolved:
        if isinstance(term, Variable):
            return parts.get(term.name) or self._node(term.name, ())
        inputs = tuple(self._resolved(child, operators, parts) for child in term.inputs)
        operator = operators.get(term)
        if operator is None:
            operator = _operator(term.operator, term.attributes)
        elif not self._is(term, operator):
            raise IllTypedError(f"{format_term(term)} is typed as {operator}")
        return self._node(operator, inputs)

    def _node(self, head: str | Operator, inputs: tuple[_Resolved, ...]) -> _Resolved:
        """The one object for this term; made only when it is well-typed and all sizes are positive."""
        key = (type(head), head, *map(id, inputs))
        node = self._nodes.get(key)
        if node is None:
            types = tuple(part.type for part in inputs)
            outputs = (self._instance.types.get(head),) if isinstance(head, str) else head.infer(*types)
            (type_,) = outputs
            if type_ is None:
                raise IllTypedError(f"there is no variable {head}")
            sizes = [*type_.shape, *_rest_of_half(head, types)]
            if not all(map(self._sizes.is_positive, sizes)):
                raise IllTypedError(f"{type_} may be empty")
            node = self._nodes[key] = _Resolved(head, inputs, type_)
        return node

    def _says(self, term: Term, node: _Resolved) -> bool:
        """Whether the text of a term, which leaves sizes out, is that of the resolved one."""
        if isinstance(term, Variable) or isinstance(node.head, str):
            return isinstance(term, Variable) and term.name == node.head
        return (
            self._is(term, node.head)
            and len(term.inputs) == len(node.inputs)
            and all(self._says(child, part) for child, part in zip(term.inputs, node.inputs, strict=True))
        )

    def _is(self, term: Application, operator: Operator) -> bool:
        """Whether the operator has the name and attributes of the term; sizes left out may be any."""
        if term.operator != operator.name:
            return False
        given = tuple((name, _value(value, self._values)) for name, value in term.attributes)
        left_out = tuple((n, getattr(operator, n)) for n in operator.implicit if term.attribute(n) is None)
        return _operator(term.operator, (*given, *left_out)) == operator


@lru_cache(maxsize=4096)
def _operator(name: str, attributes: tuple[tuple[str, AttributeTerm], ...]) -> Operator:
    return operator_from_attributes(name, dict(attributes))


def _matched(pattern: Term, node: _Resolved) -> Iterator[tuple[Term, _Resolved]]:
    """Each subterm of an axiom's side with what stands in its place; raises IllTypedError."""
    yield pattern, node
    if isinstance(pattern, Variable):
        return
    name = node.head if isinstance(node.head, str) else node.head.name
    fits = not isinstance(node.head, str) and pattern.operator == name
    if not fits or len(pattern.inputs) != len(node.inputs):
        raise IllTypedError(f"expected {pattern.operator}, got {name}")
    for child, part in zip(pattern.inputs, node.inputs, strict=True):
        yield from _matched(child, part)


def _filled(term: Term, terms: Mapping[str, Term], values: Mapping[str, AttributeTerm]) -> Term:
    """The term with terms and values for its variables."""
    if isinstance(term, Variable):
        return terms.get(term.name, term)
    attributes = {name: _value(value, values) for name, value in term.attributes}
    return application(term.operator, attributes, *(_filled(child, terms, values) for child in term.inputs))


def _value(value: AttributeTerm, values: Mapping[str, AttributeTerm]) -> AttributeTerm:
    if not isinstance(value, AttributeVariable):
        return value
    if value.name not in values:
        raise IllTypedError(f"the attribute {value.name} has no value")
    return values[value.name]


def _leaves_sizes_out(term: Term) -> bool:
    """Whether the operator has attributes that only types determine."""
    return isinstance(term, Application) and any(
        term.attribute(name) is None for name in OPERATORS[term.operator].implicit
    )


def _own_sizes(typing: Typing) -> Iterator[Dimension]:
    """The sizes of a rule's own terms: where both sides are well-typed they are positive."""
    for type_ in typing.types.values():
        yield from type_.shape
    for term, operator in typing.operators.items():
        yield from _rest_of_half(operator, tuple(typing.types[child] for child in term.inputs))


def _rest_of_half(head: str | Operator, types: tuple[TensorType, ...]) -> tuple[Dimension, ...]:
    """The sizes of both halves where one is taken: neither may be empty."""
    return (head.size, types[0].shape[head.axis] - head.size) if isinstance(head, Half) else ()


def _require(fulfilled: object, otherwise: str) -> None:
    if not fulfilled:
        raise IllTypedError(otherwise)


__all__ = ["replay"]
