"""The checker of certificates: replays each link under an instance of the rule, typing every term anew.

No prover takes part. A term is *resolved*: every operator with all its attributes, sizes included, so that
``ones`` of one shape is not ``ones`` of another. Types come from the operators' own ``infer`` alone. Sizes may
be symbols: equal sizes are then equal polynomials, and no symbol of the rule is solved for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from superopt.equations import format_condition, format_term
from superopt.errors import IllTypedError, SuperoptError
from superopt.ir.dimensions import Dimension, symbols_of
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
    goal: Equation,
    axioms: Mapping[str, Equation],
    certificate: Certificate,
    instances: Sequence[Instance],
) -> str:
    """Empty when the certificate proves the goal under every instance, else exactly why it does not."""
    if not instances:
        return "no instance to replay under"
    if len(certificate.chains) != len(goal.left):
        return f"expected {len(goal.left)} chains, got {len(certificate.chains)}"
    for instance in instances:
        place = f"under {instance}"
        try:
            replayer = _Replayer(goal, axioms, instance)
            for output, chain in enumerate(certificate.chains):
                current = replayer.side(goal.left[output])
                for number, link in enumerate(chain, 1):
                    place = f"output {output}, link {number} ({link.axiom}), under {instance}"
                    current = replayer.after(current, link)
                place = f"output {output}, end of the chain, under {instance}"
                if current is not replayer.side(goal.right[output]):
                    raise IllTypedError(f"the chain does not end at {format_term(goal.right[output])}")
        except (SuperoptError, ArithmeticError, RecursionError) as error:
            return f"{place}: {error}"
    return ""


class _Replayer:
    """One goal under one instance."""

    def __init__(self, goal: Equation, axioms: Mapping[str, Equation], instance: Instance) -> None:
        self._axioms = axioms
        self._values = cast("Mapping[str, AttributeTerm]", instance.attributes)
        self._types = instance.types
        self._typing = instance.typing
        self._nodes: dict[tuple[object, ...], _Resolved] = {}
        terms = tuple(subterms(*goal.left, *goal.right))
        self._sizes = PositiveSizes(_own_sizes(terms, instance.typing))
        self._own = {self._valued(term): instance.typing.types[term] for term in terms}
        self._fixed = frozenset[str]().union(*(type_.symbols for type_ in self._own.values()))
        if not as_declared(goal.types, instance.types):
            raise IllTypedError("the instance is not as the rule declares")
        for condition in goal.conditions:
            if not holds(condition, instance.types, instance.attributes):
                raise IllTypedError(f"the instance breaks {format_condition(condition)}")

    def side(self, term: Term) -> _Resolved:
        """A term of the goal, resolved as the instance says and typed anew."""
        leaves = {name: self._node(name, ()) for name in variables(term)}
        return self._resolved(self._valued(term), term, self._typing, leaves)

    def after(self, whole: _Resolved, link: Link) -> _Resolved:
        """The term after one link; raises IllTypedError where the link is no step from ``whole``."""
        axiom = self._axioms.get(link.axiom)
        if axiom is None:
            raise IllTypedError(f"there is no axiom {link.axiom}")
        if not 0 <= link.output < len(axiom.left):
            raise IllTypedError(f"the axiom has no pair {link.output}")
        part = whole
        for index in link.path:
            if not 0 <= index < len(part.inputs):
                raise IllTypedError(f"there is no subterm at {link.path}")
            part = part.inputs[index]
        changed = self._with(whole, link.path, self._other_side(axiom, link, part))
        if changed.type != whole.type:
            raise IllTypedError(f"the type changes from {whole.type} to {changed.type}")
        if not self._reads(link.term, changed):
            raise IllTypedError(f"the term afterwards is not {format_term(link.term)}")
        return changed

    def _other_side(self, axiom: Equation, link: Link, part: _Resolved) -> _Resolved:
        """What the axiom makes of the subterm: its instance is typed, its conditions hold, one side fits."""
        sides = (*axiom.left, *axiom.right)
        terms, attributes = dict(link.terms), {n: self._value(v) for n, v in link.attributes}
        if terms.keys() != set(variables(*sides)) or attributes.keys() != attribute_variables(*sides):
            raise IllTypedError("expected a value for each variable of the axiom and for nothing else")
        pair = (axiom.left[link.output], axiom.right[link.output])
        source, target = reversed(pair) if link.backwards else pair
        matched: list[tuple[Term, _Resolved]] = []
        _match(source, part, matched)
        bound: dict[str, _Resolved] = {}
        for term, node in matched:
            if isinstance(term, Variable) and bound.setdefault(term.name, node) is not node:
                raise IllTypedError(f"{term.name} of the axiom stands for two terms")
        for name, node in bound.items():
            if not self._reads(terms[name], node):
                raise IllTypedError(f"{name} of the axiom is not {format_term(terms[name])}")
        stand_ins = {name: Variable(f"{name} of the axiom") for name in bound}
        mixed = {name: stand_ins.get(name, self._valued(term)) for name, term in terms.items()}
        typing = self._axiom_typing(axiom, mixed, attributes, matched, bound, terms)
        types = {name: typing.types[term] for name, term in mixed.items()}
        if not as_declared(axiom.types, types):
            raise IllTypedError("the types are not as the axiom declares")
        for condition in axiom.conditions:
            if not holds(condition, types, attributes):
                raise IllTypedError(f"the axiom needs {format_condition(condition)}")
        leaves = {name: self._node(name, ()) for term in mixed.values() for name in variables(term)
                  if name in self._types}
        leaves |= {stand_ins[name].name: node for name, node in bound.items()}
        # unfinished
        raise NotImplementedError
