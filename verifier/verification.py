"""Verdicts on equations: refutation, then proof, then validation; verified only if all three succeed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import z3

from superopt.axioms import AxiomSet
from superopt.errors import SuperoptError
from superopt.ir.terms import Equation
from superopt.solver_memory import require_memory
from superopt.verifier.certificates.certificate import Certificate, Grade
from superopt.verifier.generality import is_instance, with_bounded_ranks
from superopt.verifier.goal import Goal, Options
from superopt.verifier.hashes import operators_hash, operators_in, operators_of_proof, verifier_hash
from superopt.verifier.pool import Progress, judge_all
from superopt.verifier.prove.attempt import attempt
from superopt.verifier.prove.proof_search import PATIENT, QUICK, Proof, confirmation, prover_version
from superopt.verifier.prove.solver import least
from superopt.verifier.prove.specialisation import as_used
from superopt.verifier.refute.case_refutation import agreeing, counterexample_in
from superopt.verifier.refute.malformed import MOST_RANK, why_malformed, why_misapplied
from superopt.verifier.refute.refutation import BRIEF, Refutation, refute, refute_on
from superopt.verifier.refute.validation import validate_on
from superopt.verifier.seeds import chosen_seed
from superopt.verifier.verdict import CONTRADICTED, Status, Verdict

MOST_BOUNDED = 4
"""Number of axes up to which a rule with too many cases is claimed: most tensors of networks have no more."""

_MANY_CASES = "to find all cases takes more than"
"""A part of the reason for which a form with too many cases is unproved."""

_NOT_VALIDATED = "not validated"


def verify(equation: Equation, axioms: AxiomSet, *, options: Options | None = None) -> Verdict:
    """Return ``decide``, challenged: what is proved is evaluated on instances that nobody can predict."""
    return challenged(equation, decide(equation, axioms, options=options))


def decide(equation: Equation, axioms: AxiomSet, *, options: Options | None = None) -> Verdict:
    """Return the verdict on one equation; it is reproducible unless the seed is None.

    An equation without a well-typed instance is unproved, and so is one for which a step fails or reaches a
    counted limit. Raises MemoryError if there is too little memory to decide.
    """
    options = options or Options()
    misapplied = why_misapplied(equation)
    if misapplied:
        return _without_proof(Status.UNPROVED, reason=misapplied)
    try:
        return _verify(Goal(equation, axioms, options, chosen_seed(options.seed)))
    except SuperoptError as error:
        return _without_proof(Status.UNPROVED, reason=str(error))
    except OverflowError:
        reason = "a number is too large: numbers are evaluated with 64 bits, or as a double-precision float"
        return _without_proof(Status.UNPROVED, reason=reason)
    except z3.Z3Exception as error:
        require_memory(str(error))
        return _without_proof(Status.UNPROVED, reason=f"{type(error).__name__}: {error}")
    except (RecursionError, ArithmeticError) as error:
        return _without_proof(Status.UNPROVED, reason=f"{type(error).__name__}: {error}")


def challenged(equation: Equation, verdict: Verdict) -> Verdict:
    """Return the verdict, or a refutation if the equation is verified and differs on an instance drawn with
    an unpredictable seed. Such an instance is one of those for which the equation claims something, so a true
    equation is never refuted; one that cannot be evaluated is no counterexample."""
    if verdict.status is not Status.VERIFIED:
        return verdict
    try:
        counterexample = refute(equation, BRIEF, None).counterexample
    except (SuperoptError, RecursionError, ArithmeticError):
        return verdict
    return verdict if counterexample is None else _refuted(counterexample, CONTRADICTED + counterexample)


def verify_most_general(
    candidates: Sequence[Equation], axioms: AxiomSet, *, options: Options | None = None
) -> tuple[Equation, Verdict]:
    """Return the first candidate that ``decide`` verifies, most general first, and its challenged
    verdict; if there is none, the last with its verdict.

    If a special form cannot be proved, more general forms are skipped. Searches for proofs are shorter than
    those of ``verify``, because unsuccessful searches cost most; that for the most general form is repeated
    with more patience if the special form is proved. The number of cases in which a proof must hold grows
    exponentially with the number of axes: if the most general form has too many, it is claimed and proved for
    tensors of at most ``MOST_BOUNDED`` axes.
    """
    if not candidates:
        raise ValueError("expected at least one candidate")
    equation, verdict = _most_general(candidates, axioms, options)
    return equation, challenged(equation, verdict)


def _most_general(
    candidates: Sequence[Equation], axioms: AxiomSet, options: Options | None
) -> tuple[Equation, Verdict]:
    options = options or Options()
    patient, quick = (replace(options, limits=least(options.limits, most)) for most in (PATIENT, QUICK))
    *general, special = candidates
    unproved: list[Equation] = []
    for most_general in general[:1]:
        equation, verdict = _decided_in_cases(most_general, axioms, quick)
        if verdict.status is Status.VERIFIED:
            return equation, verdict
        unproved += [equation] if _may_need_patience(verdict) else []
    of_special = decide(special, axioms, options=patient)
    proved = of_special.status is Status.VERIFIED
    for equation, own in (*((e, patient) for e in unproved if proved), *((e, quick) for e in general[1:])):
        if proved or not is_instance(special, equation):
            verdict = decide(equation, axioms, options=own)
            if verdict.status is Status.VERIFIED:
                return equation, verdict
    return special, of_special


def _may_need_patience(verdict: Verdict) -> bool:
    """Whether a longer search for a proof may change the verdict."""
    return verdict.status is Status.UNPROVED and not verdict.reason.startswith(_NOT_VALIDATED)


def _decided_in_cases(equation: Equation, axioms: AxiomSet, options: Options) -> tuple[Equation, Verdict]:
    """The equation and its verdict; if it has too many cases, the equation for tensors of few axes."""
    verdict = decide(equation, axioms, options=options)
    if _MANY_CASES not in verdict.reason:
        return equation, verdict
    bounded = with_bounded_ranks(equation, MOST_BOUNDED)
    return bounded, decide(bounded, axioms, options=options)


def verify_many(
    choices: Iterable[Sequence[Equation]],
    axioms: AxiomSet,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    options: Options | None = None,
) -> Iterator[tuple[Equation, Verdict]]:
    """Yield ``verify_most_general`` for each choice, in order, over a pool of ``jobs`` processes; with
    one, in this process.

    ``progress`` is called with the numbers of completed and of all choices. If a rule kills a process of the
    pool, only that rule is unproved.
    """
    every = [tuple(candidates) for candidates in choices]
    yield from judge_all(
        partial(verify_most_general, axioms=axioms, options=options),
        every,
        lost=_lost,
        jobs=jobs if jobs > 1 else 0,
        progress=progress,
    )


def _lost(candidates: Sequence[Equation], reason: str) -> tuple[Equation, Verdict]:
    return candidates[-1], _without_proof(Status.UNPROVED, reason=reason)


def _verify(goal: Goal) -> Verdict:
    refutation = _refutation(goal)
    if refutation.counterexample is not None:
        return _refuted(refutation.counterexample)
    doubt = _doubt(refutation, goal.options)
    if doubt:
        return _without_proof(Status.UNPROVED, reason=doubt)
    if not goal.cases:
        return _without_proof(Status.UNPROVED, reason=why_malformed(goal.equation, goal.rank))
    found = attempt(goal, refutation.instances)
    if found.certificate is None:
        failing = [] if found.failure.case is None else [found.failure.case]
        counterexample = counterexample_in(goal.equation, [*failing, *goal.cases], goal.seed_of(3))
        if counterexample is not None:
            return _refuted(counterexample)
        return _without_proof(Status.UNPROVED, reason=found.reason, milliseconds=found.proof.milliseconds)
    validation = validate_on(goal.sampler, max(1, goal.options.instances_to_validate), refutation.instances)
    if validation.failure is not None:
        reason = f"{_NOT_VALIDATED}: {validation.failure}"
        return _without_proof(Status.UNPROVED, reason=reason, milliseconds=found.proof.milliseconds)
    return _verified(goal, found.proof, found.certificate, validation.validated)


def _refutation(goal: Goal) -> Refutation:
    """Refute on random instances, and on cases of the rule if these are almost none."""
    refutation = refute_on(goal.sampler, goal.options.effort, goal.seed)
    enough = refutation.well_typed >= goal.options.least_instances
    if refutation.counterexample is not None or enough:
        return refutation
    if goal.rank > MOST_RANK:
        why = f"rules that need tensors of more than {MOST_RANK} axes are not examined"
        return replace(refutation, suspicious=refutation.suspicious or why)
    try:
        cases = goal.cases
    except SuperoptError as error:
        return replace(refutation, suspicious=refutation.suspicious or str(error))
    if not cases and not refutation.instances:
        return replace(refutation, suspicious=why_malformed(goal.equation, goal.rank))
    found = agreeing(goal.equation, cases, goal.seed_of(5))
    if isinstance(found, str):
        return Refutation(found, refutation.instances)
    return replace(refutation, instances=(*refutation.instances, *found))


def _doubt(refutation: Refutation, options: Options) -> str:
    if refutation.suspicious:
        return refutation.suspicious
    if refutation.well_typed == 0:
        return "no well-typed instance was found"
    if refutation.well_typed < options.least_instances:
        return f"only {refutation.well_typed} well-typed instances were found"
    return ""


def _verified(goal: Goal, proof: Proof, certificate: Certificate, validated: tuple[str, ...]) -> Verdict:
    axioms, used = goal.axioms, certificate.axioms_used
    operators = operators_of_proof(operators_in(goal.equation), used, axioms)
    return Verdict(
        Status.VERIFIED,
        prover=proof.prover,
        version=prover_version(proof.prover),
        confirmed_by=confirmation(goal.equation, as_used(axioms.by_name, certificate), proof.prover),
        grade=Grade.REPLAYED,
        certificate=certificate,
        axioms_used=used,
        axioms_hash=axioms.hash_of(used),
        operators_hash=operators_hash(operators),
        verifier_hash=verifier_hash(),
        milliseconds=round(proof.milliseconds, 1),
        validated_shapes=validated,
    )


def _refuted(counterexample: str, reason: str = "counterexample") -> Verdict:
    return _without_proof(Status.REFUTED, counterexample=counterexample, reason=reason)


def _without_proof(
    status: Status, *, reason: str, counterexample: str | None = None, milliseconds: float = 0.0
) -> Verdict:
    return Verdict(status, counterexample=counterexample, reason=reason, milliseconds=round(milliseconds, 1))


__all__ = [
    "Options",
    "Status",
    "Verdict",
    "challenged",
    "decide",
    "verify",
    "verify_many",
    "verify_most_general",
]
