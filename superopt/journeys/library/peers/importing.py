"""Rules of peers' files stored as candidates; what is no rule here is left out by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.journeys.library.peers.reading import Claim, PeerRule
from superopt.substitution_db.rules.repository import RuleRepository
from superopt.substitution_db.store.records import Added
from superopt.substitution_db.store.rows import new_rule


@dataclass(frozen=True, slots=True)
class Imported:
    """How many rules were stored, and those that could not be: malformed or not to be said in equations."""

    added: Added
    left_out: tuple[PeerRule, ...]


def import_peer_rules(rules: Sequence[PeerRule], source: str, repository: RuleRepository) -> Imported:
    """Stores the rules as written, to be tried in their general form first. All or nothing.

    ``source`` names the file in the provenance.
    """
    claims = [(rule, rule.reading) for rule in rules if isinstance(rule.reading, Claim)]
    added = repository.add_rules(
        new_rule(claim.written, f"import {source}, {rule.name}", (claim.general,)) for rule, claim in claims
    )
    return Imported(added, tuple(rule for rule in rules if not isinstance(rule.reading, Claim)))
