"""Claims of a database: rules in use, and rules whose status says verified or stale."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlalchemy import select

from superopt.substitution_db.database import Database
from superopt.substitution_db.rules.claims import UNCLAIMED, Claim, Claims, claim_of_rule
from superopt.substitution_db.rules.currency import Currency
from superopt.substitution_db.rules.repository import proofs_in_force, states
from superopt.substitution_db.store.damage import require_undamaged
from superopt.substitution_db.store.models import ProofRow
from superopt.substitution_db.store.records import Rule, RuleStatus
from superopt.substitution_db.store.rows import proof_of

_JUDGED_BY_HASHES = {RuleStatus.VERIFIED, RuleStatus.STALE}
"""States whose difference is checked elsewhere."""


def claims_of_database(database: Database, currency: Currency) -> Claims:
    """The claims of all rules of a database that are in use, verified or stale.

    A rule whose status differs from the verdict of its proofs, or whose conditions from those of its
    equation, gets a fault (the row was edited by hand). Raises InvalidFileError for a row that superopt
    cannot have written.
    """
    require_undamaged(database.transactions)
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
        judged = replace(rule, proof=chosen.get(rule.id, rule.proof))
        claims.append(claim_of_rule(judged, fault))
    return Claims(tuple(claims), unclaimed)


def _fault(rule: Rule, expected: RuleStatus) -> str:
    if rule.evidence:
        return f"it is suspect: {'; '.join(map(str, rule.evidence))}"
    if rule.status is not expected and not {rule.status, expected} <= _JUDGED_BY_HASHES:
        return f"its status is {rule.status}, by its proofs it is {expected}"
    conditions = rule.equation.partition(" where ")[2]
    if rule.conditions != conditions:
        return f"it lists the conditions {rule.conditions or 'none'}, its equation has {conditions or 'none'}"
    return ""
