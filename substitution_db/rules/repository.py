"""Rule repository: stores candidates, records verdicts, returns verified rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from superopt.equations import abbreviated
from superopt.errors import InvalidOptionError
from superopt.ir.terms import Equation
from superopt.ops.base import OPERATORS
from superopt.substitution_db.rules.families import Family, families, operators_of_family
from superopt.substitution_db.rules.quarantine import is_suspect, suspects
from superopt.substitution_db.rules.statistics import Facts, RuleStatistics, statistics_of
from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import LibraryRow, ProofRow, RuleOperatorRow, RuleRow
from superopt.substitution_db.store.records import (
    Added,
    Hashes,
    LibraryVersion,
    Outcome,
    Proof,
    Rule,
    RuleStatus,
    Selection,
)
from superopt.substitution_db.store.rows import (
    NewRule,
    insert_rules,
    new_rule,
    proof_of,
    proof_values,
    record_selections,
    rule_of,
)

if TYPE_CHECKING:
    from superopt.substitution_db.rules.currency import Currency


@dataclass(frozen=True, slots=True)
class CandidateRule:
    """A rule to be stored as a candidate; ``provenance`` says where it came from.

    ``generalizations`` are more general forms to verify before it, the most general first.
    """

    equation: Equation
    provenance: str
    generalizations: tuple[Equation, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Filter of rules by status, operator, family of replaced operators, text in the equation, and preset."""

    status: RuleStatus | None = None
    operator: str | None = None
    text: str | None = None
    preset: str | None = None
    family: str | None = None


class RuleRepository:
    """Rules by id. Rules become verified only by a recorded verdict or with the shipped library."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add_candidates(self, candidates: Iterable[CandidateRule]) -> Added:
        """Stores rules as candidates; known rules keep their state and provenance. Atomic.

        Raises InvalidEquationError for an equation that cannot be a rule.
        """
        return self.add_rules(new_rule(c.equation, c.provenance, c.generalizations) for c in candidates)

    def add_rules(self, new_rules: Iterable[NewRule]) -> Added:
        """``add_candidates`` for ``NewRule`` values."""
        rules = {rule.id: rule for rule in new_rules}
        with self._transactions.write() as session:
            new = insert_rules(session, rules.values(), now(session))
        return Added(new=len(new), known=len(rules) - len(new), ids=new)

    def record_verdicts(self, proofs: Mapping[str, Proof]) -> None:
        """Adds to each rule (by id) a proof under the current hashes; its status becomes the verdict.

        Raises InvalidOptionError if a rule is unknown. Atomic.
        """
        with self._transactions.write() as session:
            time = now(session)
            for rule, proof in proofs.items():
                if session.get(RuleRow, rule) is None:
                    raise InvalidOptionError(f"there is no rule {rule}")
                add_proof(session, rule, proof_values(rule, proof, time))

    def record_verdict(self, rule: str, proof: Proof) -> None:
        """``record_verdicts`` for one rule."""
        self.record_verdicts({rule: proof})

    def record_general_form(self, rule: str, general: CandidateRule, proof: Proof) -> str:
        """Stores a more general form of a candidate with its proof, in place of the candidate; returns its
        id.

        A candidate that ever had a proof of its own is kept, too.
        """
        form = new_rule(general.equation, general.provenance, general.generalizations)
        with self._transactions.write() as session:
            time = now(session)
            insert_rules(session, [form], time)
            add_proof(session, form.id, proof_values(form.id, proof, time))
            _drop_candidate(session, rule)
        return form.id

    def restate(self, rule: str, stated: CandidateRule) -> None:
        """Replaces the text and provenance of a rule by those of a candidate, which is the same rule with
        other variable names.
        """
        form = new_rule(stated.equation, stated.provenance)
        values = {"equation": form.equation, "conditions": form.conditions, "provenance": form.provenance}
        with self._transactions.write() as session:
            session.execute(update(RuleRow).where(RuleRow.id == rule).values(**values))

    def record_selections(self, choices: Mapping[str, Selection]) -> None:
        """Records for these rules (by id) whether they ship, and why; clears the selection of all others."""
        with self._transactions.write() as session:
            session.execute(update(RuleRow).values(ships=None, why=None))
            record_selections(session, choices)

    def drop_candidate(self, rule: str) -> None:
        """Removes a candidate that follows from another rule, unless it ever had a proof."""
        with self._transactions.write() as session:
            _drop_candidate(session, rule)

    def refresh(self, currency: Currency) -> int:
        """Compares all proofs with the current hashes: verified rules become stale, and verified again if
        their hashes are current again.

        Returns how many rules changed state. Costs one read if nothing has changed since the last call.
        """
        with self._transactions.read() as session:
            if _compared_with(session) == currency.hashes:
                return 0
        with self._transactions.write() as session:
            before = dict(session.execute(select(RuleRow.id, RuleRow.status)).all())
            after = states(session, currency)
            for rule, status in before.items():
                if status != after.get(rule, RuleStatus.CANDIDATE):
                    new = str(after.get(rule, RuleStatus.CANDIDATE))
                    session.execute(update(RuleRow).where(RuleRow.id == rule).values(status=new))
            hashes = currency.hashes
            session.execute(
                update(LibraryRow).values(
                    axioms_hash=hashes.axioms, operators_hash=hashes.operators, verifier_hash=hashes.verifier
                )
            )
        return sum(status != after.get(rule, RuleStatus.CANDIDATE) for rule, status in before.items())

    def verified_rules(self, currency: Currency) -> tuple[Rule, ...]:
        """The rules whose latest valid verdict is verified, smallest first; stored status is ignored."""
        with self._transactions.read() as session:
            chosen = verified_proofs(session, currency)
            statement = select(RuleRow, ProofRow).join(ProofRow, ProofRow.rule_id == RuleRow.id)
            rows = session.execute(statement.where(_current(currency)).order_by(RuleRow.size, RuleRow.id))
            return tuple(rule_of(row, proof) for row, proof in rows if chosen.get(row.id) == proof.id)

    def verified_equations(
        self, currency: Currency, version: LibraryVersion | None = None
    ) -> Mapping[str, str]:
        """The equations of ``verified_rules`` by id, in that order; those of a library version, if one is
        given.
        """
        through = None if version is None else version.through_proof
        with self._transactions.read() as session:
            chosen = verified_proofs(session, currency, through)
            rows = session.execute(select(RuleRow.id, RuleRow.equation).order_by(RuleRow.size, RuleRow.id))
            return {rule: equation for rule, equation in rows if rule in chosen}

    def stale_count(self, currency: Currency) -> int:
        """The number of rules that were proved, and have no valid verdict since the software has changed."""
        with self._transactions.read() as session:
            suspect = suspects(session)
            found = states(session, currency)
        return sum(status is RuleStatus.STALE and rule not in suspect for rule, status in found.items())

    def undecided(self, currency: Currency) -> tuple[Rule, ...]:
        """The rules without a valid verdict, smallest first."""
        with self._transactions.read() as session:
            decided = {v.rule for v in _verdicts(session, currency) if v.stands}
        return tuple(rule for rule in self.list() if rule.id not in decided)

    def get(self, rule: str) -> Rule | None:
        """The rule with that id."""
        return next(iter(self._rules(_with_latest_proof().where(RuleRow.id == rule))), None)

    def list(
        self, chosen: RuleFilter | None = None, *, after: str | None = None, limit: int | None = None
    ) -> tuple[Rule, ...]:
        """Rules with their latest proof, by size and id, after the rule ``after``.

        Raises InvalidOptionError if that rule is unknown.
        """
        chosen = chosen or RuleFilter()
        statement = _filtered(chosen)
        if chosen.text is not None:
            has_text = RuleRow.equation.contains(chosen.text, autoescape=True)
            statement = statement.where(or_(has_text, RuleRow.id.in_(self._abbreviated_to(chosen.text))))
        if after is not None:
            last = self.get(after)
            if last is None:
                raise InvalidOptionError(f"there is no rule {after} to continue after")
            size = len(last.operators_source) + len(last.operators_target)
            statement = statement.where(
                (RuleRow.size > size) | and_(RuleRow.size == size, RuleRow.id > after)
            )
        return self._rules(statement.limit(limit))

    def proofs(self, rule: str) -> tuple[Proof, ...]:
        """All proofs of a rule, oldest first."""
        with self._transactions.read() as session:
            rows = session.scalars(select(ProofRow).where(ProofRow.rule_id == rule).order_by(ProofRow.id))
            return tuple(proof_of(row) for row in rows)

    def families(self) -> tuple[Family, ...]:
        """The proved rules by families, largest first."""
        with self._transactions.read() as session:
            return families(session)

    def statistics(self) -> RuleStatistics:
        """Counts of all rules."""
        sides = select(RuleOperatorRow.rule_id, RuleOperatorRow.operator, RuleOperatorRow.occurrences)
        state = case((is_suspect(), str(RuleStatus.SUSPECT)), else_=RuleRow.status)
        rules = select(RuleRow.id, state, RuleRow.conditions, RuleRow.provenance)
        proofs = rules.add_columns(ProofRow.milliseconds, ProofRow.grade, ProofRow.confirmed_by)
        operators: dict[str, tuple[str, ...]] = {}
        with self._transactions.read() as session:
            for rule, operator, count in session.execute(sides.where(RuleOperatorRow.side == "source")):
                operators[rule] = operators.get(rule, ()) + (operator,) * count
            rows = session.execute(proofs.outerjoin(ProofRow, ProofRow.id == _latest_proof())).all()
        return statistics_of(
            Facts(
                status=RuleStatus(status),
                conditional=conditions != "",
                provenance=provenance,
                operators_source=operators.get(rule, ()),
                milliseconds=milliseconds or None,
                grade=grade or "",
                confirmed_by=confirmed_by or "",
            )
            for rule, status, conditions, provenance, milliseconds, grade, confirmed_by in rows
        )

    def _abbreviated_to(self, text: str) -> Iterator[str]:
        """The rules whose equations have a text only as they are displayed, with short names for
        algorithms."""
        operators = [name for name, operator in OPERATORS.items() if operator.rounds_more]
        having = select(RuleOperatorRow.rule_id).where(RuleOperatorRow.operator.in_(operators))
        with self._transactions.read() as session:
            rows = session.execute(select(RuleRow.id, RuleRow.equation).where(RuleRow.id.in_(having))).all()
        return (rule for rule, equation in rows if text in abbreviated(equation))

    def _rules(self, statement: Select[RuleRow, ProofRow]) -> tuple[Rule, ...]:
        ordered = statement.order_by(RuleRow.size, RuleRow.id)
        with self._transactions.read() as session:
            return tuple(rule_of(row, proof) for row, proof in session.execute(ordered))


def add_proof(session: Session, rule: str, values: Mapping[str, object]) -> None:
    """Adds a proof to an existing rule and sets its status to the verdict."""
    session.execute(insert(ProofRow), [dict(values)])
    session.execute(update(RuleRow).where(RuleRow.id == rule).values(status=values["verdict"]))


def _latest_proof() -> ScalarSelect[int]:
    """SQL expression: the id of the latest proof of the rule of the outer query."""
    statement = select(func.max(ProofRow.id)).where(ProofRow.rule_id == RuleRow.id)
    return statement.correlate(RuleRow).scalar_subquery()


def _with_latest_proof() -> Select[RuleRow, ProofRow]:
    return select(RuleRow, ProofRow).outerjoin(ProofRow, ProofRow.id == _latest_proof())


def _filtered(chosen: RuleFilter) -> Select[RuleRow, ProofRow]:
    statement = _with_latest_proof()
    if chosen.status is RuleStatus.SUSPECT:
        statement = statement.where(is_suspect())
    elif chosen.status is not None:
        statement = statement.where(RuleRow.status == chosen.status, ~is_suspect())
    if chosen.operator is not None:
        having = select(RuleOperatorRow.rule_id).where(RuleOperatorRow.operator == chosen.operator)
        statement = statement.where(RuleRow.id.in_(having))
    if chosen.family is not None:
        replaced = RuleOperatorRow.operator.in_(operators_of_family(chosen.family))
        having = select(RuleOperatorRow.rule_id).where(RuleOperatorRow.side == "source", replaced)
        statement = statement.where(RuleRow.id.in_(having))
    if chosen.preset is not None:
        statement = statement.where(RuleRow.provenance.startswith(f"{chosen.preset}, ", autoescape=True))
    return statement


@dataclass(frozen=True, slots=True)
class _GivenVerdict:
    """A verdict on a rule, the number of its proof, and whether it is valid."""

    rule: str
    proof: int
    verdict: Outcome
    stands: bool


def _verdicts(session: Session, currency: Currency, through: int | None = None) -> Iterator[_GivenVerdict]:
    """All verdicts, oldest first, without the other columns of proofs."""
    hashes = (ProofRow.axioms_hash, ProofRow.operators_hash, ProofRow.verifier_hash)
    statement = select(ProofRow.rule_id, ProofRow.id, ProofRow.verdict, ProofRow.axioms_used, *hashes)
    if through is not None:
        statement = statement.where(ProofRow.id <= through)
    operators = _operators(session)
    for rule, proof, verdict, axioms, *given in session.execute(statement.order_by(ProofRow.id)):
        stands = currency.stands(Outcome(verdict), operators[rule], tuple(axioms), Hashes(*given))
        yield _GivenVerdict(rule, proof, Outcome(verdict), stands)


def _operators(session: Session) -> Mapping[str, frozenset[str]]:
    """The operators by rule; rules without operators (``x => x``) are missing."""
    found: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    statement = select(RuleOperatorRow.rule_id, RuleOperatorRow.operator).order_by(RuleOperatorRow.rule_id)
    for rule, rows in groupby(session.execute(statement), key=lambda row: row[0]):
        found[rule] = frozenset(operator for _, operator in rows)
    return found


def verified_proofs(session: Session, currency: Currency, through: int | None = None) -> dict[str, int]:
    """The proof of each rule, unless suspect, whose latest valid verdict up to ``through`` is verified."""
    proofs, suspect = proofs_in_force(session, currency, through), suspects(session)
    return {rule: proof for rule, proof in proofs.items() if rule not in suspect}


def proofs_in_force(session: Session, currency: Currency, through: int | None = None) -> dict[str, int]:
    """``verified_proofs`` including suspect rules."""
    latest = {v.rule: v for v in _verdicts(session, currency, through) if v.stands}
    return {v.rule: v.proof for v in latest.values() if v.verdict is Outcome.VERIFIED}


def _current(currency: Currency) -> ColumnElement[bool]:
    return ProofRow.verifier_hash == currency.hashes.verifier


def states(session: Session, currency: Currency) -> dict[str, RuleStatus]:
    """The status of each rule by its proofs: the latest valid one, else the latest, which then is not
    verified.
    """
    states: dict[str, RuleStatus] = {}
    decided: set[str] = set()
    for given in _verdicts(session, currency):
        if given.stands:
            states[given.rule] = RuleStatus(given.verdict)
            decided.add(given.rule)
        elif given.rule not in decided:
            verified = given.verdict is Outcome.VERIFIED
            states[given.rule] = RuleStatus.STALE if verified else RuleStatus(given.verdict)
    return states


def _drop_candidate(session: Session, rule: str) -> None:
    proved = select(ProofRow.id).where(ProofRow.rule_id == rule).exists()
    session.execute(delete(RuleRow).where(RuleRow.id == rule, ~proved))


def _compared_with(session: Session) -> Hashes | None:
    row = session.get(LibraryRow, 1)
    return None if row is None else Hashes(row.axioms_hash, row.operators_hash, row.verifier_hash)
