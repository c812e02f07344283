"""The database: rules and proofs, library versions, measured costs, jobs, API keys, blobs."""

from superopt.substitution_db.database import Database, open_database, open_or_temporary, upgrade_database
from superopt.substitution_db.rules.repository import CandidateRule, RuleFilter, RuleRepository
from superopt.substitution_db.store.records import Hashes, Outcome, Proof, Rule, RuleStatus

__all__ = [
    "CandidateRule",
    "Database",
    "Hashes",
    "Outcome",
    "Proof",
    "Rule",
    "RuleFilter",
    "RuleRepository",
    "RuleStatus",
    "open_database",
    "open_or_temporary",
    "upgrade_database",
]
