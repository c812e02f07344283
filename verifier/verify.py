"""Verdicts on equations: refutation, then proof, then validation; verified only if all three succeed."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

import z3

from superopt.axioms import AxiomSet, cuts
from superopt.errors import IllTypedError, SuperoptError
from superopt.ir.terms import Equation
from superopt.verifier.certificates.cases import UndecidedCasesError, cases_of
from superopt.verifier.certificates.certificate import Certificate, Grade
from superopt.verifier.certificates.rank_bound import largest_rank
from superopt.verifier.certificates.replay import Failure, first_failure
from superopt.verifier.generality import is_instance
from superopt.verifier.hashes import operators_hash, operators_in, operators_of_proof, verifier_hash
from superopt.verifier.instances.instance import Instance
from superopt.verifier.instances.sampler import InstanceSampler
from superopt.verifier.pool import Progress, judge_all
from superopt.verifier.prove.chain import ChainChecker
from superopt.verifier.prove.explanation import explain
from superopt.verifier.prove.proof_search import PATIENT, QUICK, Proof, confirmation, prove, prover_version
from superopt.verifier.prove.solver import AxiomInstance, SolverLimits, least
from superopt.verifier.prove.specialisation import as_used
from superopt.verifier.refute.case_refutation import agreeing, counterexample_in
from superopt.verifier.refute.malformed import MALFORMED, MOST_RANK, why_malformed
from superopt.verifier.refute.refutation import BRIEF, Effort, Refutation, refute, refute_on
from superopt.verifier.refute.validation import validate_on
from superopt.verifier.seeds import chosen_seed, seed_of


class Status(enum.StrEnum):
    """The verdict on an equation."""

    VERIFIED = "verified"
    REFUTED = "refuted"
    UNPROVED = "unproved"


@dataclass(frozen=True)
class Options:
    """How hard to try. On ``least_instances`` well-typed instances evaluation must have agreed.

    ``seed`` chooses the inputs and instances to evaluate on; None asks the operating system for one, so that
    nobody can write an equation for which they happen to agree.
    """

    effort: Effort = field(default_factory=Effort)
    limits: SolverLimits = field(default_factory=SolverLimits)
    least_instances: int = 3
    concrete_instances: int = 6
    symbolic_instances: int = 6
    searches: int = 4
    instances_to_validate: int = 2
    seed: int | None = 0


@dataclass(frozen=True)
class Verdict:
    """The answer and what it rests on; hashes are of what the proof used, and empty without a proof.

    ``confirmed_by`` is a second prover, with its version, that derives the rule from the axioms used.
    """

    status: Status
    prover: str = ""
    version: str = ""
    confirmed_by: str = ""
    grade: Grade | None = None
    certificate: Certificate | None = None
    axioms_used: tuple[str, ...] = ()
    axioms_hash: str = ""
    operators_hash: str = ""
    verifier_hash: str = ""
    milliseconds: float = 0.0
    validated_shapes: tuple[str, ...] = ()
    counterexample: str | None = None
    reason: str = ""


def verify(equation: Equation, axioms: AxiomSet, *, options: Options | None = None) -> Verdict:
    """The verdict on one equation, the same whenever and wherever it is asked unless the seed is None.

    An equation without a well-typed instance is unproved, and so is one on which anything fails or takes
    too long.
    """
    options = options or Options()
    try:
        return _verify(equation, axioms, options)
    except UndecidedCasesError as error:
        return _without_proof(Status.UNPROVED, reason=str(error))
    except (SuperoptError, RecursionError, MemoryError, ArithmeticError, z3.Z3Exception) as error:
        return _without_proof(Status.UNPROVED, reason=f"{type(error).__name__}: {error}")


def verify_most_general(
    candidates: Sequence[Equation], axioms: AxiomSet, *, options: Options | None = None
) -> tuple[Equation, Verdict]:
    """The first of the candidates, most general first, that is verified; else the last with its verdict.

    What cannot be shown of a rule cannot be shown of a more general one, and no effort is made to. Searches
    for proofs are shorter than those of ``verify``, which cost most where there is none.
    """
    if not candidates:
        raise ValueError("expected at least one candidate")
    options = options or Options()
    patient, quick = (replace(options, limits=least(options.limits, most)) for most in (PATIENT, QUICK))
    *general, special = candidates
    for equation in general[:1]:
        verdict = verify(equation, axioms, options=quick)
        if verdict.status is Status.VERIFIED:
            return equation, verdict
    of_special = verify(special, axioms, options=patient)
    for equation in general[1:]:
        if of_special.status is Status.VERIFIED or not is_instance(special, equation):
            verdict = verify(equation, axioms, options=quick)
            if verdict.status is Status.VERIFIED:
                return equation, verdict
    return special, of_special


def verify_many(
    choices: Iterable[Sequence[Equation]],
    axioms: AxiomSet,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
    options: Options | None = None,
) -> Iterator[tuple[Equation, Verdict]]:
    """``verify_most_general`` for each of many, in the order given, over a pool of ``jobs`` processes.

    ``progress`` is told how many of how many are done. What kills a process is unproved, and nothing else is.
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


def _verify(equation: Equation, axioms: AxiomSet, options: Options) -> Verdict:
    seed = chosen_seed(options.seed)
    sampler = InstanceSampler(equation, seed_of(equation, 0, seed))
    refutation = refute_on(sampler, options.effort, seed)
    if refutation.counterexample is not None:
        return _without_proof(
            Status.REFUTED, counterexample=refutation.counterexample, reason="counterexample"
        )
    if refutation.well_typed < options.least_instances:
        refutation = _of_cases(equation, refutation, seed)
        if refutation.counterexample is not None:
            return _without_proof(
                Status.REFUTED, counterexample=refutation.counterexample, reason="counterexample"
            )
    doubt = _doubt(refutation, options)
    if doubt:
        return _without_proof(Status.UNPROVED, reason=doubt)
    rank = largest_rank(equation)
    cases = list(cases_of(equation, rank))
    if not cases:
        return _without_proof(Status.UNPROVED, reason=why_malformed(equation, rank))
    instances = _instances(cases, refutation.instances, options)
    proof, certificate = _proved(equation, axioms, axioms.usual, instances, options)
    if (not proof.proved or isinstance(certificate, Failure)) and _is_about(equation, axioms.uncut, axioms):
        short = replace(options, limits=least(options.limits, QUICK))
        again = _proved(equation, axioms, axioms.of_whole_tensors, instances, short)
        proof, certificate = again if isinstance(again[1], Certificate) else (proof, certificate)
    if not proof.proved or isinstance(certificate, Failure):
        failing = [certificate.case] if isinstance(certificate, Failure) and certificate.case else []
        counterexample = counterexample_in(equation, [*failing, *cases], seed_of(equation, 3, seed))
        if counterexample is not None:
            return _without_proof(Status.REFUTED, counterexample=counterexample, reason="counterexample")
    if not proof.proved:
        return _without_proof(
            Status.UNPROVED, reason=f"no proof: {proof.reason}", milliseconds=proof.milliseconds
        )
    if isinstance(certificate, Failure):
        reason = f"no proof: no chain of the axioms used holds in all cases: {certificate.reason}"
        return _without_proof(Status.UNPROVED, reason=reason, milliseconds=proof.milliseconds)
    validation = validate_on(sampler, max(1, options.instances_to_validate), refutation.instances)
    if validation.failure is not None:
        reason = f"not validated: {validation.failure}"
        return _without_proof(Status.UNPROVED, reason=reason, milliseconds=proof.milliseconds)
    unforeseen = refute(equation, BRIEF, None).counterexample
    if unforeseen is not None:
        return _without_proof(Status.REFUTED, counterexample=unforeseen, reason="counterexample")
    return _verified(equation, proof, certificate, axioms, validation.validated)


def _of_cases(equation: Equation, refutation: Refutation, seed: int) -> Refutation:
    """What the cases of a rule say of which sampling has found next to no instance."""
    rank = largest_rank(equation)
    if rank > MOST_RANK:
        return refutation
    try:
        cases = list(cases_of(equation, rank))
    except IllTypedError:
        return refutation
    if not cases and not refutation.instances:
        return replace(refutation, suspicious=why_malformed(equation, rank))
    found = agreeing(equation, cases, seed_of(equation, 5, seed))
    if isinstance(found, str):
        return Refutation(found, refutation.instances)
    return replace(refutation, instances=(*refutation.instances, *found))


def _instances(
    cases: Sequence[Instance], sampled: Sequence[Instance], options: Options
) -> tuple[Sequence[Instance], Sequence[Instance]]:
    """Instances that every proof is looked for under, cases of the rule among them, and the others."""
    concrete = representative(sampled, options.concrete_instances)
    chosen = {id(instance) for instance in concrete}
    further = [instance for instance in sampled if id(instance) not in chosen]
    count = min(len(cases), options.symbolic_instances)
    spread = [cases[number * len(cases) // count] for number in range(count)]
    return (*concrete, *spread), further


def _is_about(equation: Equation, names: Iterable[str], axioms: AxiomSet) -> bool:
    """Whether one of the axioms could take part in a proof, and none about halves need do."""
    operators = operators_in(equation)
    return not cuts(equation) and any(operators_in(axioms.by_name[name]) <= operators for name in names)


def _proved(
    equation: Equation,
    axioms: AxiomSet,
    usable: Sequence[Equation],
    instances: tuple[Sequence[Instance], Sequence[Instance]],
    options: Options,
) -> tuple[Proof, Certificate | Failure]:
    """A proof with a certificate that replays in all cases; where one does not, the search starts again with
    the case in which it fails among the instances."""
    essential, further = instances
    certificate: Certificate | Failure = Failure("no chain connects the sides")
    proof = Proof(proved=False, steps=(), reason="nothing was asked", milliseconds=0.0)
    for _ in range(options.searches):
        proof = prove(equation, usable, essential, further, limits=options.limits)
        if not proof.proved:
            return proof, certificate
        certificate = _certificate(equation, axioms, proof.steps, (*essential, *further))
        if isinstance(certificate, Certificate) or certificate.case is None:
            return proof, certificate
        essential = (*essential, certificate.case)
    return proof, certificate


def _certificate(
    equation: Equation, axioms: AxiomSet, steps: Sequence[AxiomInstance], instances: Sequence[Instance]
) -> Certificate | Failure:
    """A certificate that replays in all cases; if need be, of steps that are sound under all instances."""
    certificate = explain(equation, axioms.by_name, steps)
    failure = _failure(equation, axioms, certificate)
    if failure is None:
        return cast("Certificate", certificate)
    if failure.case is not None:
        instances = (*instances, failure.case)
    checkers = [ChainChecker(equation, axioms.by_name, instance) for instance in instances]
    everywhere = [step for step in steps if all(checker.typed(step) for checker in checkers)]
    certificate = explain(equation, axioms.by_name, everywhere)
    return failure if _failure(equation, axioms, certificate) else cast("Certificate", certificate)


def _failure(equation: Equation, axioms: AxiomSet, certificate: Certificate | None) -> Failure | None:
    if certificate is None:
        return Failure("no chain connects the sides")
    return first_failure(equation, axioms.by_name, certificate)


def representative(instances: Sequence[Instance], count: int) -> tuple[Instance, ...]:
    """Instances of different ranks and attribute values, and among equals those with most elements."""
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


def _doubt(refutation: Refutation, options: Options) -> str:
    if refutation.suspicious and refutation.suspicious.startswith(MALFORMED):
        return refutation.suspicious
    if refutation.well_typed == 0:
        return "no well-typed instance was found"
    if refutation.well_typed < options.least_instances:
        return f"only {refutation.well_typed} well-typed instances were found"
    return refutation.suspicious or ""


def _verified(
    equation: Equation,
    proof: Proof,
    certificate: Certificate,
    axioms: AxiomSet,
    validated: tuple[str, ...],
) -> Verdict:
    used = certificate.axioms_used
    return Verdict(
        Status.VERIFIED,
        prover=proof.prover,
        version=prover_version(proof.prover),
        confirmed_by=confirmation(equation, as_used(axioms.by_name, certificate), proof.prover),
        grade=Grade.REPLAYED,
        certificate=certificate,
        axioms_used=used,
        axioms_hash=axioms.hash_of(used),
        operators_hash=operators_hash(operators_of_proof(operators_in(equation), used, axioms)),
        verifier_hash=verifier_hash(),
        milliseconds=round(proof.milliseconds, 1),
        validated_shapes=validated,
    )


def _without_proof(
    status: Status, *, reason: str, counterexample: str | None = None, milliseconds: float = 0.0
) -> Verdict:
    return Verdict(status, counterexample=counterexample, reason=reason, milliseconds=round(milliseconds, 1))


__all__ = [
    "Options",
    "Status",
    "Verdict",
    "representative",
    "verify",
    "verify_many",
    "verify_most_general",
]
