"""Families of rules: proved rules by the families of the operators that they replace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy import select
from sqlalchemy.orm import Session

from superopt.ops.base import OPERATORS
from superopt.substitution_db.rules.quarantine import is_suspect
from superopt.substitution_db.rules.statistics import family_of
from superopt.substitution_db.store.models import RuleOperatorRow, RuleRow
from superopt.substitution_db.store.records import RuleStatus

_SAVES = re.compile(r"saves (\d+)% at typical sizes")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of operators: the proved rules that replace some of them, how many of these save time at
    typical sizes, and the share that half of those save at least.
    """

    name: str
    rules: int
    gainful: int
    median_saved: float


def saved_share(why: str | None) -> float | None:
    """The share of the cost that a rule saves at typical sizes, from the reason of its selection."""
    found = None if why is None else _SAVES.fullmatch(why)
    return None if found is None else int(found[1]) / 100


def operators_of_family(family: str) -> Sequence[str]:
    """The operators of a family."""
    return [name for name in OPERATORS if family_of(name) == family]


def families(session: Session) -> tuple[Family, ...]:
    """All families with rules, largest first."""
    reasons = select(RuleRow.id, RuleRow.why).where(RuleRow.status == RuleStatus.VERIFIED, ~is_suspect())
    replaced = select(RuleOperatorRow.rule_id, RuleOperatorRow.operator).where(
        RuleOperatorRow.side == "source"
    )
    shares = {rule: saved_share(why) for rule, why in session.execute(reasons)}
    members: dict[str, set[str]] = {}
    for rule, operator in session.execute(replaced):
        if rule in shares:
            members.setdefault(family_of(operator), set()).add(rule)
    found = (_family(name, [shares[rule] for rule in rules]) for name, rules in members.items())
    return tuple(sorted(found, key=lambda family: (-family.rules, family.name)))


def _family(name: str, shares: Sequence[float | None]) -> Family:
    known = [share for share in shares if share]
    return Family(name, len(shares), len(known), median(known) if known else 0.0)
