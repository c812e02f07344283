"""The gate: every rule that claims to be verified must be so under the present axioms, operators and
verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from axioms import AxiomSet
from substitution_db.certificates import why_not_replayed
from substitution_db.currency import Currency
from substitution_db.database import Database
from substitution_db.exchange import LibraryLine, read_json_lines, read_text
from substitution_db.records import Outcome, Proof, RuleStatus
from substitution_db.rules import RuleFilter
from superopt.equations import parse_equation
from verifier import Status, Verdict, verify_many
from verifier.certificate import Grade

JSON_ENDINGS = frozenset((".jsonl", ".json"))
"""Files of JSON lines; every other file is text, one equation per line."""

_UNCLAIMED = (RuleStatus.CANDIDATE, RuleStatus.REFUTED, RuleStatus.UNPROVED)


@dataclass(frozen=True, slots=True)
class Offender:
    """A rule that must not pass, and why."""

    id: str
    equation: str
    reason: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """How many rules were looked at, and which may not pass.

    ``unclaimed`` counts the others: they were never verified, so that nothing uses them.
    """

    rules: int
    offenders: tuple[Offender, ...]
    unclaimed: Mapping[RuleStatus, int] = field(default_factory=dict[RuleStatus, int])

    @property
    def passed(self) -> bool:
        """Whether there is no offender."""
        return not self.offenders


def gate_database(database: Database, currency: Currency) -> GateResult:
    """Looks at the rules of the library that are, or were, verified; candidates and the like claim
    nothing.
    """
    database.rules.refresh(currency)
    passing = {rule.id for rule in database.rules.verified_rules(currency)}
    claimed = (database.rules.list(RuleFilter(status=s)) for s in (RuleStatus.VERIFIED, RuleStatus.STALE))
    rules = [rule for group in claimed for rule in group]
    offenders = (
        Offender(rule.id, rule.equation, currency.reason(Outcome.VERIFIED, rule.operators, rule.proof))
        for rule in rules
        if rule.id not in passing
    )
    counts = database.rules.statistics().by_status
    unclaimed = {status: counts[status] for status in _UNCLAIMED if counts.get(status)}
    return GateResult(len(rules), tuple(offenders), unclaimed)


def strict_gate_database(
    database: Database, currency: Currency, *, progress: Callable[[int, int], None] | None = None
) -> GateResult:
    """As ``gate_database``; and every proof must have a certificate, which is replayed."""
    result = gate_database(database, currency)
    stopped = {offender.id for offender in result.offenders}
    passing = [rule for rule in database.rules.verified_rules(currency) if rule.id not in stopped]
    weak: list[Offender] = []
    for done, rule in enumerate(passing, 1):
        reason = _weakness(rule.id, rule.proof, currency.state.axioms)
        if reason:
            weak.append(Offender(rule.id, rule.equation, reason))
        if progress:
            progress(done, len(passing))
    return replace(result, offenders=(*result.offenders, *weak))


def gate_files(
    paths: Iterable[Path],
    currency: Currency,
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> GateResult:
    """Looks at every rule of files, JSON lines or text, and proves anew what claims to be verified: a file
    can say anything. A certificate that a file has must replay. Raises InvalidFileError for a line that is
    no rule.
    """
    return _gate_files(paths, currency, _reason, _denied, jobs, progress)


def strict_gate_files(
    paths: Iterable[Path],
    currency: Currency,
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> GateResult:
    """As ``gate_files``; and every rule must have a certificate, in the file and proved anew."""
    return _gate_files(paths, currency, _strict_reason, _strictly_denied, jobs, progress)


def _gate_files(
    paths: Iterable[Path],
    currency: Currency,
    reason: Callable[[LibraryLine, Currency], str],
    denied: Callable[[Verdict], str],
    jobs: int,
    progress: Callable[[int, int], None] | None,
) -> GateResult:
    judged = [rule for path in paths for rule in _claims(path, currency, reason)]
    choices = [(parse_equation(rule.equation),) for rule in judged if not rule.reason]
    verdicts = iter(verify_many(choices, currency.state.axioms, jobs=jobs, progress=progress))
    judged = [rule if rule.reason else replace(rule, reason=denied(next(verdicts)[1])) for rule in judged]
    return GateResult(len(judged), tuple(rule for rule in judged if rule.reason))


def _claims(
    path: Path, currency: Currency, reason: Callable[[LibraryLine, Currency], str]
) -> Iterator[Offender]:
    """The rules of a file, with a reason where they may not pass as they are; text has none to look at."""
    if path.suffix.lower() in JSON_ENDINGS:
        for line in read_json_lines(path):
            yield Offender(line.id, line.rule.equation, reason(line, currency))
    else:
        for rule in read_text(path):
            yield Offender(rule.id, rule.equation, "")


def _denied(verdict: Verdict) -> str:
    """Why a rule that claims to be verified is not, empty if it is."""
    if verdict.status is Status.VERIFIED:
        return ""
    return f"proved anew it is {verdict.status}: {verdict.counterexample or verdict.reason}"


def _strictly_denied(verdict: Verdict) -> str:
    weak = verdict.status is Status.VERIFIED and verdict.grade is not Grade.REPLAYED
    return f"proved anew its grade is {verdict.grade}, not {Grade.REPLAYED}" if weak else _denied(verdict)


def _weakness(identity: str, proof: Proof | None, axioms: AxiomSet) -> str:
    """Why a proof is none whose certificate replays, empty if it is."""
    if proof is None:
        return "it has no proof"
    if proof.grade != Grade.REPLAYED:
        return f"its grade is {proof.grade or 'not known'}, not {Grade.REPLAYED}"
    return why_not_replayed(identity, proof, axioms)


def _strict_reason(line: LibraryLine, currency: Currency) -> str:
    return _claim(line, currency) or _weakness(line.id, line.proof, currency.state.axioms)


def _reason(line: LibraryLine, currency: Currency) -> str:
    reason = _claim(line, currency)
    if reason or line.proof is None or line.proof.certificate is None:
        return reason
    return why_not_replayed(line.id, line.proof, currency.state.axioms)


def _claim(line: LibraryLine, currency: Currency) -> str:
    """Why what a line says of itself does not count, empty if it does."""
    if line.id != line.rule.id:
        return f"the id of the equation is {line.rule.id}"
    if line.proof is not None and line.proof.verdict != line.status:
        return f"status is {line.status}, the verdict of its proof is {line.proof.verdict}"
    return currency.reason(line.status, line.rule.operators, line.proof)
