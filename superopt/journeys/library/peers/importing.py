"""Import of peers' rules as candidates; inexpressible rules are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.journeys.library.peers.reading import Claim, PeerRule
from superopt.substitution_db.rules.repository import RuleRepository
from superopt.substitution_db.store.records import Added
from superopt.substitution_db.store.rows import new_rule


@dataclass(frozen=True, slots=True)
class Imported:
    """Number of stored rules, and the rules left out: malformed or inexpressible as equations."""

    added: Added
    left_out: tuple[PeerRule, ...]


def import_peer_rules(rules: Sequence[PeerRule], source: str, repository: RuleRepository) -> Imported:
    """Stores the rules as written, with their general form to be verified first. Atomic.

    ``source`` names the file in the provenance.
    """
    claims = [(rule, rule.reading) for rule in rules if isinstance(rule.reading, Claim)]
    added = repository.add_rules(
        new_rule(claim.written, f"import {source}, {rule.name}", (claim.general,)) for rule, claim in claims
    )
    return Imported(added, tuple(rule for rule in rules if not isinstance(rule.reading, Claim)))
