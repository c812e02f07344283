"""The repository of rules: candidates go in, verdicts are recorded, verified rules come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, case, func, insert, select, update
from sqlalchemy.orm import Session, aliased

from substitution_db.engine import Transactions, now
from substitution_db.models import LibraryRow, ProofRow, RuleOperatorRow, RuleRow
from substitution_db.records import Added, Hashes, Outcome, Proof, Rule, RuleStatistics, RuleStatus
from substitution_db.rows import insert_rules, new_rule, proof_of, proof_values, rule_of
from superopt.errors import InvalidOptionError
from superopt.ir.terms import Equation


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule to be stored, without any claim that it holds; ``provenance`` says where it came from."""

    equation: Equation
    provenance: str


@dataclass(frozen=True, slots=True)
class RuleFilter:
    """Which rules to list: in a state, with an operator on either side, with a text in the equation."""

    status: RuleStatus | None = None
    operator: str | None = None
    text: str | None = None


class RuleRepository:
    """Rules by id. Nothing enters as verified but by a recorded verdict and with the shipped library."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add_candidates(self, candidates: Iterable[Candidate]) -> Added:
        """Stores rules as candidates; a rule that is known keeps its state and provenance. All or nothing.

        Raises InvalidEquationError for an equation that cannot be a rule.
        """
        rules = {rule.id: rule for rule in (new_rule(c.equation, c.provenance) for c in candidates)}
        with self._transactions.write() as session:
            new = len(insert_rules(session, rules.values(), now(session)))
        return Added(new=new, known=len(rules) - new)

    def record_verdicts(self, proofs: Mapping[str, Proof]) -> None:
        """Adds to each rule (by id) a proof under the current hashes; its status becomes the verdict.

        Raises InvalidOptionError if a rule is unknown. All or nothing.
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

    def refresh(self, current: Hashes) -> int:
        """Compares the proofs with the current hashes: verified rules become stale, and come back with the
        hashes.

        Returns how many rules changed their state; costs one read when the hashes are the same as last time.
        """
        with self._transactions.read() as session:
            if _compared_with(session) == current:
                return 0
        with self._transactions.write() as session:
            status = _status_under(current)
            moved = update(RuleRow).where(RuleRow.status != status).values(status=status)
            changed = len(session.scalars(moved.returning(RuleRow.id)).all())
            session.execute(
                update(LibraryRow).values(
                    axioms_hash=current.axioms,
                    operators_hash=current.operators,
                    verifier_hash=current.verifier,
                )
            )
        return changed

    def verified_rules(self, current: Hashes) -> tuple[Rule, ...]:
        """The rules whose latest proof under the current hashes says verified, smallest first."""
        return self._rules(
            select(RuleRow, ProofRow)
            .join(ProofRow, ProofRow.id == _latest_proof(current))
            .where(ProofRow.verdict == Outcome.VERIFIED)
        )

    def undecided(self, current: Hashes) -> tuple[Rule, ...]:
        """The rules without a proof under the current hashes, smallest first."""
        return self._rules(_with_latest_proof().where(_latest_proof(current).is_(None)))

    def get(self, rule: str) -> Rule | None:
        """The rule with that id."""
        return next(iter(self._rules(_with_latest_proof().where(RuleRow.id == rule))), None)

    def list(
        self, chosen: RuleFilter | None = None, *, after: str | None = None, limit: int | None = None
    ) -> tuple[Rule, ...]:
        """Rules with their latest proof by size and id, behind the rule ``after``.

        Raises InvalidOptionError if that rule is unknown.
        """
        statement = _filtered(chosen or RuleFilter())
        if after is not None:
            last = self.get(after)
            if last is None:
                raise InvalidOptionError(f"there is no rule {after} to continue behind")
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

    def statistics(self) -> RuleStatistics:
        """How many rules there are, by state; verified ones by operator of the source."""
        verified = RuleRow.status == RuleStatus.VERIFIED
        operators = (
            select(RuleOperatorRow.operator, func.count())
            .join(RuleRow, RuleRow.id == RuleOperatorRow.rule_id)
            .where(verified, RuleOperatorRow.side == "source")
            .group_by(RuleOperatorRow.operator)
        )
        with self._transactions.read() as session:
            counts = _status_counts(session)
            conditional = session.scalar(
                select(func.count()).select_from(RuleRow).where(verified, RuleRow.conditions != "")
            )
            by_operator = dict(session.execute(operators).all())
        by_status = {status: counts.get(status, 0) for status in RuleStatus}
        return RuleStatistics(by_status, conditional or 0, dict(sorted(by_operator.items())))

    def _rules(self, statement: Select[RuleRow, ProofRow]) -> tuple[Rule, ...]:
        ordered = statement.order_by(RuleRow.size, RuleRow.id)
        with self._transactions.read() as session:
            return tuple(rule_of(row, proof) for row, proof in session.execute(ordered))


def add_proof(session: Session, rule: str, values: Mapping[str, object]) -> None:
    """Adds a proof to a rule that exists, whose status becomes the verdict."""
    session.execute(insert(ProofRow), [dict(values)])
    session.execute(update(RuleRow).where(RuleRow.id == rule).values(status=values["verdict"]))


def _latest_proof(current: Hashes | None = None) -> ScalarSelect[int]:
    """The id of the latest proof of the rule in the outer query; under these hashes only, if given."""
    proof = aliased(ProofRow)
    statement = select(func.max(proof.id)).where(proof.rule_id == RuleRow.id)
    if current is not None:
        statement = statement.where(
            proof.axioms_hash == current.axioms,
            proof.operators_hash == current.operators,
            proof.verifier_hash == current.verifier,
        )
    return statement.correlate(RuleRow).scalar_subquery()


def _with_latest_proof() -> Select[RuleRow, ProofRow]:
    return select(RuleRow, ProofRow).outerjoin(ProofRow, ProofRow.id == _latest_proof())


def _filtered(chosen: RuleFilter) -> Select[RuleRow, ProofRow]:
    statement = _with_latest_proof()
    if chosen.status is not None:
        statement = statement.where(RuleRow.status == chosen.status)
    if chosen.operator is not None:
        having = select(RuleOperatorRow.rule_id).where(RuleOperatorRow.operator == chosen.operator)
        statement = statement.where(RuleRow.id.in_(having))
    if chosen.text is not None:
        statement = statement.where(RuleRow.equation.contains(chosen.text, autoescape=True))
    return statement


def _status_under(current: Hashes) -> ColumnElement[str]:
    """What a rule's proofs say: the latest under the current hashes, else the latest of all, then not
    verified.
    """
    decided = select(ProofRow.verdict).where(ProofRow.id == _latest_proof(current)).scalar_subquery()
    outdated = case((ProofRow.verdict == Outcome.VERIFIED, RuleStatus.STALE), else_=ProofRow.verdict)
    earlier = select(outdated).where(ProofRow.id == _latest_proof()).scalar_subquery()
    return func.coalesce(decided, earlier, RuleStatus.CANDIDATE)


def _status_counts(session: Session) -> dict[str, int]:
    return dict(session.execute(select(RuleRow.status, func.count()).group_by(RuleRow.status)).all())


def _compared_with(session: Session) -> Hashes | None:
    row = session.get(LibraryRow, 1)
    return None if row is None else Hashes(row.axioms_hash, row.operators_hash, row.verifier_hash)
