"""The gate: checks that every rule marked as verified has a proof under the current axioms, operators and
verifier. Files, the database and the shipped library are treated alike: the text defines the rule, and its
certificate must replay. With the library, adjoint statements are validated on a few instances each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from superopt.axioms import AxiomSet
from superopt.equations import format_adjoint, parse_equation
from superopt.errors import InvalidFileError
from superopt.journeys.library.discovery import proof_of_verdict
from superopt.substitution_db.database import Database, open_database
from superopt.substitution_db.rules.claims import (
    UNCLAIMED,
    Claim,
    Claims,
    claim_of_proof,
    claims_of_file,
    why_not_current,
    why_not_proved,
)
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.exchange import read_text
from superopt.substitution_db.rules.recorded_claims import claims_of_database
from superopt.substitution_db.rules.shipped import shipped_library
from superopt.substitution_db.store.records import RuleStatus
from superopt.verifier import verify_many
from superopt.verifier.adjoints import QUICK, validate_adjoints
from superopt.verifier.pool import judge_all

JSON_ENDINGS = frozenset((".jsonl", ".json"))
"""Suffixes of JSON lines files; other files are text, one equation per line."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FailedRule:
    """A rule that fails the gate, and the reason."""

    id: str
    equation: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """Number of rules marked as verified, the offenders, and the number of certificates ``replayed``.

    ``unclaimed`` counts the others, which were never verified and are not used. ``adjoints`` statements were
    validated, ``wrong_adjoints`` among them fail.
    """

    rules: int
    offenders: tuple[FailedRule, ...]
    replayed: int = 0
    unclaimed: Mapping[RuleStatus, int] = field(default_factory=dict[RuleStatus, int])
    adjoints: int = 0
    wrong_adjoints: tuple[FailedRule, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are no offenders."""
        return not self.offenders and not self.wrong_adjoints


def gate_database(
    database: Database,
    currency: Currency,
    *,
    shipped: Path | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
) -> GateResult:
    """Checks the rules of a database that are or were verified, and those of the ``shipped`` library, by
    replaying their certificates in ``jobs`` processes (0: in this process).
    """
    return _judged(_claims_of(database, currency, shipped), currency, jobs, progress)


def gate_library(
    url: str | None, currency: Currency, *, jobs: int = 0, progress: Progress | None = None
) -> GateResult:
    """``gate_library_rules``, and a validation of the adjoint statements."""
    result = gate_library_rules(url, currency, jobs=jobs, progress=progress)
    axioms = currency.state.axioms
    return replace(result, adjoints=len(axioms.adjoints), wrong_adjoints=wrong_adjoints(axioms, jobs=jobs))


def gate_library_rules(
    url: str | None, currency: Currency, *, jobs: int = 0, progress: Progress | None = None
) -> GateResult:
    """``gate_database`` for the database at ``url`` and the shipped library.

    If the library cannot be loaded, it is checked alone. Raises InvalidFileError if that finds no fault.
    """
    try:
        with open_database(url) as database:
            shipped = shipped_library()
            return gate_database(database, currency, shipped=shipped, jobs=jobs, progress=progress)
    except InvalidFileError:
        result = _judged(_shipped_claims(), currency, jobs, progress)
        if result.passed:
            raise
        return result


def wrong_adjoints(axioms: AxiomSet, *, jobs: int = 0) -> tuple[FailedRule, ...]:
    """The adjoint statements with a counterexample among a few instances of each, in ``jobs`` processes."""
    results = validate_adjoints(axioms.adjoints, jobs=jobs, effort=QUICK)
    return tuple(
        FailedRule(adjoint.name, format_adjoint(adjoint), result.reason)
        for adjoint, result in zip(axioms.adjoints, results, strict=True)
        if not result.valid
    )


def compare_hashes_of_library(url: str | None, currency: Currency) -> GateResult:
    """As ``gate_library``, but only compares hashes."""
    try:
        with open_database(url) as database:
            return _compared(_claims_of(database, currency, shipped_library()), currency)
    except InvalidFileError:
        alone = _compared(_shipped_claims(), currency)
        if alone.passed:
            raise
        return alone


def gate_files(
    paths: Iterable[Path], currency: Currency, *, jobs: int = 0, progress: Progress | None = None
) -> GateResult:
    """Checks every rule of files, JSON lines or text, as ``gate_database`` does. Rules of text files are
    proved first. Raises InvalidFileError for an invalid line.
    """
    claims = Claims((), {})
    for path in paths:
        claims = claims.and_also(
            claims_of_file(path) if _is_json(path) else _proved(path, currency, jobs, progress)
        )
    return _judged(claims, currency, jobs, progress)


def compare_hashes_of_database(database: Database, currency: Currency) -> GateResult:
    """As ``gate_database``, but only compares hashes."""
    return _compared(_claims_of(database, currency, None), currency)


def compare_hashes_of_files(paths: Iterable[Path], currency: Currency) -> GateResult:
    """As ``gate_files``, but only compares hashes; rules of text files have none and fail."""
    claims = Claims((), {})
    for path in paths:
        claims = claims.and_also(claims_of_file(path) if _is_json(path) else _unproved(path))
    return _compared(claims, currency)


def _shipped_claims() -> Claims:
    path = shipped_library()
    return claims_of_file(path) if path.is_file() else Claims((), {})


def _claims_of(database: Database, currency: Currency, shipped: Path | None) -> Claims:
    stored = claims_of_database(database, currency)
    return stored if shipped is None or not shipped.is_file() else stored.and_also(claims_of_file(shipped))


def _is_json(path: Path) -> bool:
    return path.suffix.lower() in JSON_ENDINGS


def _proved(path: Path, currency: Currency, jobs: int, progress: Progress | None) -> Claims:
    """The rules of a text, with new proofs."""
    rules = [(parse_equation(rule.equation),) for rule in read_text(path)]
    verdicts = verify_many(rules, currency.state.axioms, jobs=max(1, jobs), progress=progress)
    proofs = ((equation, proof_of_verdict(equation, v, currency)) for equation, v in verdicts)
    return Claims(tuple(claim_of_proof(equation, proof) for equation, proof in proofs), {})


def _unproved(path: Path) -> Claims:
    """The rules of a text, without proofs."""
    return Claims(
        tuple(
            Claim(
                rule.id,
                rule.equation,
                (rule.operators_source, rule.operators_target),
                str(RuleStatus.VERIFIED),
                None,
                "text files have no hashes to compare; omit --quick to prove the rule",
            )
            for rule in read_text(path)
        ),
        {},
    )


def _compared(claims: Claims, currency: Currency) -> GateResult:
    reasons = [why_not_current(claim, currency) for claim in claims.claims]
    return _result(claims, reasons, 0)


def _judged(claims: Claims, currency: Currency, jobs: int, progress: Progress | None) -> GateResult:
    reasons = [why_not_current(claim, currency) for claim in claims.claims]
    left = [claim for claim, reason in zip(claims.claims, reasons, strict=True) if not reason]
    judge = partial(why_not_proved, axioms=currency.state.axioms)
    answers = iter(judge_all(judge, left, lost=_lost, jobs=jobs, progress=progress))
    return _result(claims, [reason or next(answers) for reason in reasons], len(left))


def _lost(_: Claim, reason: str) -> str:
    return f"it could not be checked: {reason}"


def _result(claims: Claims, reasons: Sequence[str], replayed: int) -> GateResult:
    offenders = tuple(
        FailedRule(claim.id, claim.equation, reason)
        for claim, reason in zip(claims.claims, reasons, strict=True)
        if reason
    )
    unclaimed = {status: claims.unclaimed[status] for status in UNCLAIMED if claims.unclaimed.get(status)}
    return GateResult(len(claims.claims), offenders, replayed, unclaimed)
