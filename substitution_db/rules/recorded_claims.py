"""The claims of a database: rules that are used, and rules whose status says so."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import select

from superopt.substitution_db.database import Database
from superopt.substitution_db.rules.claims import UNCLAIMED, Claim, Claims
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.repository import proofs_in_force, states
from superopt.substitution_db.store.models import ProofRow
from superopt.substitution_db.store.records import Rule, RuleStatus
from superopt.substitution_db.store.rows import proof_of

_JUDGED_BY_HASHES = {RuleStatus.VERIFIED, RuleStatus.STALE}
"""What tells these apart is looked at anyway."""


def claims_of_database(database: Database, currency: Currency) -> Claims:
    """The claims of all rules that are used, or are verified or were, as the database has them.

    A rule whose status is not what its proofs say is at fault: somebody wrote it there by hand.
    """
    database.rules.refresh(currency)
    version = database.library.in_force()
    with database.transactions.read() as session:
        used = proofs_in_force(session, currency, None if version is None else version.through_proof)
        used |= proofs_in_force(session, currency)
        expected = states(session, currency)
        proofs = select(ProofRow).where(ProofRow.verifier_hash == currency.hashes.verifier)
        rows = session.scalars(proofs)
        chosen = {row.rule_id: proof_of(row) for row in rows if used.get(row.rule_id) == row.id}
    claims: list[Claim] = []
    unclaimed: Counter[RuleStatus] = Counter()
    for rule in database.rules.list():
        fault = _fault(rule, expected.get(rule.id, RuleStatus.CANDIDATE))
        if rule.status in UNCLAIMED and not fault and rule.id not in used:
            unclaimed[rule.status] += 1
            continue
        operators = (rule.operators_source, rule.operators_target)
        proof = chosen.get(rule.id, rule.proof)
        claims.append(Claim(rule.id, rule.equation, operators, str(rule.status), proof, fault))
    return Claims(tuple(claims), unclaimed)


def _fault(rule: Rule, expected: RuleStatus) -> str:
    if rule.evidence:
        return f"it is suspect: {'; '.join(map(str, rule.evidence))}"
    if rule.status is not expected and not {rule.status, expected} <= _JUDGED_BY_HASHES:
        return f"its status is {rule.status}, its proofs say {expected}"
    return ""
