"""Offline discovery: generates candidates, verifies them, records verdicts; every step is resumable.

A candidate is verified in its most general form that holds, which then replaces it. Rules with a valid
verdict are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from superopt import generator
from superopt.axioms import load_axioms
from superopt.equations import format_equation, parse_equation, rule_id, spelled
from superopt.errors import InvalidEquationError
from superopt.generator import Checkpoint, Generation, Preset, Workers
from superopt.ir.terms import Equation
from superopt.rewriting import substitutions_of
from superopt.substitution_db.database import Database
from superopt.substitution_db.rules.certificates import stored_certificate
from superopt.substitution_db.rules.claims import claim_of_rule, why_not_proved
from superopt.substitution_db.rules.currency import Currency, current
from superopt.substitution_db.rules.recording import Recording
from superopt.substitution_db.rules.repository import CandidateRule
from superopt.substitution_db.store.records import Added, Outcome, Proof, Rule
from superopt.substitution_db.store.rows import equation_of
from superopt.verifier import Verdict
from superopt.verifier.conditions.inference import verify_or_condition_many
from superopt.verifier.generality import with_matrix_axes
from superopt.verifier.pool import judge_as_they_come

VerifyProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Verification:
    """Counts of verified rules by verdict, and of those superseded by verified ones.

    ``renewed`` of the verified rules kept their certificates, which the checker accepts; the others were
    proved anew.
    ``conditional`` counts refuted rules that were stored again with a condition under which they hold.
    ``contradicted`` are equations that were proved, and then refuted by an unpredictable instance: an axiom
    is false, or the verifier has an error. They are stored as refuted.
    """

    judged: int
    verified: int
    refuted: int
    unproved: int
    superseded: int
    conditional: int = 0
    renewed: int = 0
    contradicted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovery:
    """The results of a whole run."""

    generation: Generation
    added: Added
    verification: Verification


def discover(
    database: Database,
    preset: Preset,
    *,
    max_ops: int | None = None,
    operators: Sequence[str] | None = None,
    jobs: int = 1,
    generate_progress: Callable[[generator.Progress], None] | None = None,
    verify_progress: VerifyProgress | None = None,
) -> Discovery:
    """``generate`` and then ``verify_pending``."""
    generation, added = generate(
        database, preset, max_ops=max_ops, operators=operators, progress=generate_progress
    )
    return Discovery(generation, added, verify_pending(database, jobs=jobs, progress=verify_progress))


def generate(
    database: Database,
    preset: Preset,
    *,
    max_ops: int | None = None,
    operators: Sequence[str] | None = None,
    workers: Workers | None = None,
    checkpoints: Callable[[str], Checkpoint] | None = None,
    progress: Callable[[generator.Progress], None] | None = None,
) -> tuple[Generation, Added]:
    """Generates candidates and stores those that are not instances of verified rules.

    Parameters and exceptions as for ``generator.generate``.
    """
    generation = generator.generate(
        preset,
        max_ops=max_ops,
        operators=operators,
        workers=workers,
        checkpoints=checkpoints,
        progress=progress,
    )
    verified = _verified_ids(database, current())
    candidates = [
        CandidateRule(spelled(found.equation), found.provenance, tuple(map(spelled, found.generalizations)))
        for found in generation.candidates
        if verified.isdisjoint(map(rule_id, found.generalizations))
    ]
    return generation, database.rules.add_candidates(candidates)


def verify_pending(
    database: Database, *, jobs: int = 1, progress: VerifyProgress | None = None
) -> Verification:
    """Verifies every rule without a valid verdict, in ``jobs`` processes.

    A rule that is stale only because the checker has changed keeps its certificate if that passes the present
    checker; for the others, proofs are searched. Every verdict is stored at once; a killed run loses only the
    rules in progress.
    """
    database.rules.refresh(current())
    return _verify(database, database.rules.undecided(current()), jobs, progress)


def verify_all(
    database: Database, *, jobs: int = 1, progress: VerifyProgress | None = None, anew: bool = False
) -> Verification:
    """Verifies every rule again, as ``verify_pending``; ``anew``: searches for every proof."""
    database.rules.refresh(current())
    return _verify(database, database.rules.list(), jobs, progress, anew=anew)


def proof_of_verdict(equation: Equation, verdict: Verdict, currency: Currency) -> Proof:
    """The verdict on an equation as a stored proof; a verdict without a proof depends on all axioms."""
    return Proof(
        verdict=Outcome(verdict.status),
        prover=verdict.prover,
        version=verdict.version,
        axioms_used=verdict.axioms_used,
        hashes=currency.hashes_of(verdict),
        milliseconds=verdict.milliseconds,
        validated_shapes=verdict.validated_shapes,
        counterexample=verdict.counterexample,
        reason=verdict.reason,
        grade=str(verdict.grade or ""),
        confirmed_by=verdict.confirmed_by,
        certificate=None
        if verdict.certificate is None
        else stored_certificate(equation, verdict.certificate),
    )


def _verify(
    database: Database,
    rules: Sequence[Rule],
    jobs: int,
    progress: VerifyProgress | None,
    *,
    anew: bool = False,
) -> Verification:
    currency = current()
    recording = Recording(database.rules, database.rules.list())
    renewed = set[int]() if anew else _renew(recording, rules, currency, jobs, progress)
    pending, superseded = _to_judge(database, rules, renewed, currency)
    counts = {**dict.fromkeys(Outcome, 0), Outcome.VERIFIED: len(renewed)}
    conditional = 0
    contradicted: list[str] = []
    judgements = verify_or_condition_many(
        [forms for _, _, forms in pending],
        load_axioms(),
        jobs=jobs,
        progress=progress and _after(progress, len(renewed)),
    )
    for position, (equation, verdict, under) in judgements:
        number, rule, _ = pending[position]
        proof = proof_of_verdict(equation, verdict, currency)
        counts[proof.verdict] += 1
        recording.store(number, rule, equation, proof)
        if verdict.is_contradicted:
            contradicted.append(format_equation(equation))
        if under is not None and under.proved and any(_usable((under.equation,))):
            of_condition = proof_of_verdict(under.equation, under.verdict, currency)
            recording.store(number, rule, under.equation, of_condition)
            conditional += 1
    return Verification(
        judged=len(renewed) + len(pending),
        verified=counts[Outcome.VERIFIED],
        refuted=counts[Outcome.REFUTED],
        unproved=counts[Outcome.UNPROVED],
        superseded=superseded,
        conditional=conditional,
        renewed=len(renewed),
        contradicted=tuple(sorted(contradicted)),
    )


def _renew(
    recording: Recording,
    rules: Sequence[Rule],
    currency: Currency,
    jobs: int,
    progress: VerifyProgress | None,
) -> set[int]:
    """Stores the proofs of rules whose certificates still pass the checker; the numbers of these rules."""
    renewed: set[int] = set()
    for number, proof in _renewals(rules, currency, jobs):
        rule = rules[number]
        recording.store(number, rule, equation_of(rule.id, rule.equation), proof)
        renewed.add(number)
        if progress:
            progress(len(renewed), len(rules))
    return renewed


def _to_judge(
    database: Database, rules: Sequence[Rule], renewed: Container[int], currency: Currency
) -> tuple[list[tuple[int, Rule, tuple[Equation, ...]]], int]:
    """The other rules with their numbers and forms, without the candidates that a verified form supersedes,
    which are dropped; and the number of those."""
    verified = _verified_ids(database, currency)
    pending: list[tuple[int, Rule, tuple[Equation, ...]]] = []
    superseded = 0
    for number, rule in enumerate(rules):
        if number in renewed:
            continue
        forms = _forms(rule)
        if rule.proof is None and any(rule_id(form) in verified for form in forms[:-1]):
            database.rules.drop_candidate(rule.id)
            superseded += 1
        else:
            pending.append((number, rule, forms))
    return pending, superseded


def _renewals(rules: Sequence[Rule], currency: Currency, jobs: int) -> Iterator[tuple[int, Proof]]:
    """The numbers of the rules whose stored certificates pass the checker, and their proofs with its hash.
    Certificates under other axioms or operators than today's are not tried."""
    proofs: dict[int, Proof] = {}
    for number, rule in enumerate(rules):
        renewed = None if rule.proof is None else currency.renewed(rule.operators, rule.proof)
        if renewed is not None:
            proofs[number] = renewed
    numbers = list(proofs)
    reasons = judge_as_they_come(
        partial(why_not_proved, axioms=currency.state.axioms),
        [claim_of_rule(replace(rules[number], proof=proofs[number])) for number in numbers],
        lost=lambda _, reason: reason,
        jobs=jobs if jobs > 1 else 0,
    )
    for position, reason in reasons:
        if not reason:
            yield numbers[position], proofs[numbers[position]]


def _after(progress: VerifyProgress, before: int) -> VerifyProgress:
    """Progress of what follows ``before`` items that are done."""
    return lambda done, total: progress(before + done, before + total)


def _forms(rule: Rule) -> tuple[Equation, ...]:
    """The general forms of a rule that are valid as rules, then the rule itself."""
    own = equation_of(rule.id, rule.equation)
    general = dict.fromkeys((*map(parse_equation, rule.generalizations), with_matrix_axes(own)))
    return (*_usable(form for form in general if form is not None), own)


def _usable(equations: Iterable[Equation]) -> Iterator[Equation]:
    for equation in equations:
        try:
            substitutions_of(equation, rule_id(equation))
        except InvalidEquationError:
            continue
        yield equation


def _verified_ids(database: Database, currency: Currency) -> frozenset[str]:
    return frozenset(rule.id for rule in database.rules.verified_rules(currency))
