"""The gate: every rule that claims to be verified must be so under the present axioms, operators and
verifier. Files, the database and the shipped library are judged alike: a rule is what its text says, and is
proved by a certificate that replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from superopt.equations import parse_equation
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
from superopt.verifier.pool import judge_all

JSON_ENDINGS = frozenset((".jsonl", ".json"))
"""Files of JSON lines; every other file is text, one equation per line."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Offender:
    """A rule that must not pass, and why."""

    id: str
    equation: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """How many rules claim to be verified, which may not pass, and how many certificates were ``replayed``.

    ``unclaimed`` counts the others: they were never verified, so that nothing uses them.
    """

    rules: int
    offenders: tuple[Offender, ...]
    replayed: int = 0
    unclaimed: Mapping[RuleStatus, int] = field(default_factory=dict[RuleStatus, int])

    @property
    def passed(self) -> bool:
        """Whether there is no offender."""
        return not self.offenders


def gate_database(
    database: Database,
    currency: Currency,
    *,
    shipped: Path | None = None,
    jobs: int = 0,
    progress: Progress | None = None,
) -> GateResult:
    """Judges the rules of the library that are, or were, verified, and those of the ``shipped`` one that
    fills databases, by replaying their certificates in ``jobs`` processes, or in this one with 0."""
    return _judged(_claims_of(database, currency, shipped), currency, jobs, progress)


def gate_library(
    url: str | None, currency: Currency, *, jobs: int = 0, progress: Progress | None = None
) -> GateResult:
    """``gate_database`` of the database at ``url`` with the library that fills databases.

    Where that does not even load, it is judged alone; raises InvalidFileError where nothing is wrong with it.
    """
    try:
        with open_database(url) as database:
            return gate_database(database, currency, shipped=shipped_library(), jobs=jobs, progress=progress)
    except InvalidFileError:
        alone = _judged(_shipped_claims(), currency, jobs, progress)
        if alone.passed:
            raise
        return alone


def compare_hashes_of_library(url: str | None, currency: Currency) -> GateResult:
    """As ``gate_library``, but only the hashes are compared, and nothing is replayed."""
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
    """Judges every rule of files, JSON lines or text, as ``gate_database`` does. Text brings no proofs: its
    rules are proved first. Raises InvalidFileError for a line that is no rule.
    """
    claims = Claims((), {})
    for path in paths:
        claims = claims.and_also(
            claims_of_file(path) if _is_json(path) else _proved(path, currency, jobs, progress)
        )
    return _judged(claims, currency, jobs, progress)


def compare_hashes_of_database(database: Database, currency: Currency) -> GateResult:
    """Compares the hashes that ``gate_database`` compares, and replays nothing."""
    return _compared(_claims_of(database, currency, None), currency)


def compare_hashes_of_files(paths: Iterable[Path], currency: Currency) -> GateResult:
    """Compares the hashes in files, and replays nothing: a rule of a text brings none to compare."""
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
    """The rules of a text with the proofs that are found for them now."""
    rules = [(parse_equation(rule.equation),) for rule in read_text(path)]
    verdicts = verify_many(rules, currency.state.axioms, jobs=max(1, jobs), progress=progress)
    proofs = ((equation, proof_of_verdict(equation, v, currency)) for equation, v in verdicts)
    return Claims(tuple(claim_of_proof(equation, proof) for equation, proof in proofs), {})


def _unproved(path: Path) -> Claims:
    """The rules of a text as they are."""
    return Claims(
        tuple(
            Claim(
                rule.id,
                rule.equation,
                (rule.operators_source, rule.operators_target),
                str(RuleStatus.VERIFIED),
                None,
                "it is text, which brings no hashes to compare: without --quick it is proved",
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
    return f"it could not be judged: {reason}"


def _result(claims: Claims, reasons: Sequence[str], replayed: int) -> GateResult:
    offenders = tuple(
        Offender(claim.id, claim.equation, reason)
        for claim, reason in zip(claims.claims, reasons, strict=True)
        if reason
    )
    unclaimed = {status: claims.unclaimed[status] for status in UNCLAIMED if claims.unclaimed.get(status)}
    return GateResult(len(claims.claims), offenders, replayed, unclaimed)
