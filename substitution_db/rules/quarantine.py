"""Quarantine: rules that changed the outputs of a model are not used until the evidence is dismissed."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from superopt.errors import InvalidOptionError
from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import RuleRow, SuspicionRow
from superopt.substitution_db.store.records import Evidence
from superopt.substitution_db.store.rows import standing_evidence


class Quarantine:
    """Evidence against rules, effective immediately and for every library version."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def record(self, evidence: Mapping[str, Evidence]) -> None:
        """Adds evidence against rules (by id), unless already recorded. Unknown rules are ignored."""
        with self._transactions.write() as session:
            time = now(session)
            for rule, found in evidence.items():
                row = session.get(RuleRow, rule)
                if row is None or found in standing_evidence(row):
                    continue
                session.add(
                    SuspicionRow(
                        rule_id=rule,
                        found_by=found.found_by,
                        model=found.model,
                        sha256=found.sha256,
                        seed=found.seed,
                        difference=found.difference,
                        report=dict(found.report),
                        found_at=time,
                        dismissed_at=None,
                        dismissed_why=None,
                    )
                )

    def evidence(self, rule: str) -> tuple[Evidence, ...]:
        """The evidence against a rule that was not dismissed, oldest first."""
        with self._transactions.read() as session:
            row = session.get(RuleRow, rule)
            return () if row is None else standing_evidence(row)

    def dismiss(self, rule: str, why: str) -> None:
        """Dismisses the evidence against a rule. Raises InvalidOptionError if the rule is not suspect."""
        with self._transactions.write() as session:
            row = session.get(RuleRow, rule)
            if row is None or not standing_evidence(row):
                raise InvalidOptionError(f"rule {rule} is not suspect")
            session.execute(
                update(SuspicionRow)
                .where(SuspicionRow.rule_id == rule, SuspicionRow.dismissed_at.is_(None))
                .values(dismissed_at=now(session), dismissed_why=why)
            )


def is_suspect() -> ColumnElement[bool]:
    """SQL condition: the rule of the outer query has evidence that was not dismissed."""
    standing = select(SuspicionRow.id).where(
        SuspicionRow.rule_id == RuleRow.id, SuspicionRow.dismissed_at.is_(None)
    )
    return standing.correlate(RuleRow).exists()


def suspects(session: Session) -> frozenset[str]:
    """The ids of the rules with evidence that was not dismissed."""
    statement = select(SuspicionRow.rule_id).where(SuspicionRow.dismissed_at.is_(None))
    return frozenset(session.scalars(statement))
