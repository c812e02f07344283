"""Attempt: a search for a proof of a goal, and a certificate of it that replays in every case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from superopt.axioms import cuts
from superopt.instances.instance import Instance
from superopt.ir.terms import Application, Direction, Equation, applications
from superopt.ops.base import OPERATORS
from superopt.verifier.certificates.certificate import Certificate
from superopt.verifier.certificates.replay import Failure, first_failure
from superopt.verifier.goal import Goal
from superopt.verifier.hashes import operators_in
from superopt.verifier.prove.chain import ChainChecker
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.proof_search import QUICK, Proof, prove
from superopt.verifier.prove.solver import AxiomInstance, least

_UNKNOWN = "unknown: "
_CANCELED = "canceled"
"""Reason of Z3 at its limit of resources."""

_NO_CHAIN = Failure("no chain connects the sides")


@dataclass(frozen=True)
class Attempt:
    """What the search found. The certificate replays in all cases; without one, ``failure`` says where the
    last one did not."""

    proof: Proof
    certificate: Certificate | None
    failure: Failure = _NO_CHAIN

    @property
    def reason(self) -> str:
        """Why there is no certificate."""
        if not self.proof.proved:
            return f"no proof: {_in_words(self.proof.reason)}"
        return f"no proof: no chain of the axioms used holds in all cases: {self.failure.reason}"


def _in_words(reason: str) -> str:
    """A solver's answer with what it means; other reasons as they are."""
    if reason == "sat":
        return "the axioms do not give it (sat)"
    if reason.startswith(_UNKNOWN):
        cause = reason.removeprefix(_UNKNOWN)
        limited = "resource" in cause or cause == _CANCELED
        return "the search ended at its limits" if limited else f"the search ended without one ({cause})"
    return reason


def attempt(goal: Goal, sampled: Sequence[Instance]) -> Attempt:
    """Search with the usual axioms but the late ones; then with those that contradict some of them on terms
    without shapes, and without these; then with the late ones; each time if they could take part.

    ``sampled`` are instances of the goal on which its sides agree.
    """
    instances, axioms = _instances(goal, sampled), goal.axioms
    first = _attempt(goal, axioms.early(axioms.usual), instances)
    if first.certificate is not None:
        return first
    further: list[Sequence[Equation]] = []
    if _uncut_matter(goal):
        others = axioms.of_rejoined_halves if cuts(goal.equation) else axioms.of_whole_tensors
        further.append(axioms.early(others))
    if any(_may_apply(axioms.by_name[name], goal.equation) for name in axioms.late):
        further.append(axioms.usual)
    short = replace(goal, options=replace(goal.options, limits=least(goal.options.limits, QUICK)))
    for usable in further:
        found = _attempt(short, usable, instances)
        if found.certificate is not None:
            return found
    return first


def _attempt(
    goal: Goal, usable: Sequence[Equation], instances: tuple[Sequence[Instance], Sequence[Instance]]
) -> Attempt:
    """Repeat the search with the case in which a certificate fails among the instances."""
    essential, further = instances
    tried = Attempt(Proof(proved=False, steps=(), reason="nothing was asked", milliseconds=0.0), None)
    for _ in range(goal.options.searches):
        proof = prove(goal.equation, usable, essential, further, limits=goal.options.limits)
        if not proof.proved:
            return replace(tried, proof=proof)
        tried = _with_certificate(goal, proof, (*essential, *further))
        if tried.certificate is not None or tried.failure.case is None:
            return tried
        essential = (*essential, tried.failure.case)
    return tried


def _with_certificate(goal: Goal, proof: Proof, instances: Sequence[Instance]) -> Attempt:
    """Find a certificate that replays; if necessary, from the steps that are sound under all instances."""
    first = _explained(goal, proof, proof.steps)
    if first.certificate is not None:
        return first
    if first.failure.case is not None:
        instances = (*instances, first.failure.case)
    checkers = [ChainChecker(goal.equation, goal.axioms.by_name, instance) for instance in instances]
    everywhere = [step for step in proof.steps if all(checker.typed(step) for checker in checkers)]
    second = _explained(goal, proof, everywhere)
    return first if second.certificate is None else second


def _explained(goal: Goal, proof: Proof, steps: Sequence[AxiomInstance]) -> Attempt:
    certificate = explain(goal.equation, goal.axioms.by_name, steps)
    if certificate is None:
        return Attempt(proof, None)
    failure = first_failure(goal.equation, goal.axioms.by_name, certificate)
    return Attempt(proof, certificate) if failure is None else Attempt(proof, None, failure)


def _uncut_matter(goal: Goal) -> bool:
    """Whether one of the axioms that are not used beside those about halves of joined tensors is about the
    equation's operators only. If the equation has halves, it must also join what is joined already."""
    axioms, operators = goal.axioms, operators_in(goal.equation)
    return any(operators_in(axioms.by_name[name]) <= operators for name in axioms.uncut) and (
        not cuts(goal.equation) or any(map(_joins_joined, goal.equation.applications))
    )


def _may_apply(axiom: Equation, equation: Equation) -> bool:
    """Whether the equation has all operators of a side of the axiom that is claimed to be replaced, but for
    constants, or one of them that is not a function of a ring."""
    own = operators_in(equation)
    sides = (axiom.left,) if axiom.direction is Direction.FORWARD else (axiom.left, axiom.right)
    for side in sides:
        needed = {term.operator for term in applications(*side) if term.inputs}
        if needed & own and (needed <= own or any(not OPERATORS[n].polynomial for n in needed & own)):
            return True
    return False


def _joins_joined(term: Application) -> bool:
    """Whether the term joins tensors, and there is another join inside it."""
    inside = applications(*term.inputs)
    return OPERATORS[term.operator].joins and any(OPERATORS[each.operator].joins for each in inside)


def _instances(goal: Goal, sampled: Sequence[Instance]) -> tuple[Sequence[Instance], Sequence[Instance]]:
    """Return the instances under which every proof is searched, including cases of the rule, and the
    others."""
    cases = goal.cases
    concrete = representative(sampled, goal.options.concrete_instances)
    chosen = {id(instance) for instance in concrete}
    further = [instance for instance in sampled if id(instance) not in chosen]
    count = min(len(cases), goal.options.symbolic_instances)
    spread = [cases[number * len(cases) // count] for number in range(count)]
    return (*concrete, *spread), further


def representative(instances: Sequence[Instance], count: int) -> tuple[Instance, ...]:
    """Return instances with different ranks and attribute values; among equals, those with the most
    elements."""
    by_kind: dict[object, Instance] = {}
    for instance in sorted(instances, key=_total_elements, reverse=True):
        by_kind.setdefault(tuple(type_.rank for _, type_ in sorted(instance.types.items())), instance)
    kinds = list(by_kind.values())
    known = {id(instance) for instance in kinds}
    others = [instance for instance in instances if id(instance) not in known]
    stride = max(1, len(others) // max(1, count))
    return tuple([*kinds[:count], *others[::stride]][:count])


def _total_elements(instance: Instance) -> int:
    return sum(type_.elements for type_ in instance.types.values() if isinstance(type_.elements, int))


__all__ = ["Attempt", "attempt", "representative"]
