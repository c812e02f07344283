"""Validity of stored verdicts under the current axioms, operators and verifier."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from superopt.axioms import AxiomSet, load_axioms
from superopt.object_cache import cached, source_key
from superopt.ops import OPERATORS
from superopt.substitution_db.store.records import Hashes, Outcome, Proof
from superopt.verifier import Status, Verdict
from superopt.verifier.gate import CurrentState, StoredVerdict, current_state, judge


class Currency:
    """Hashes of the current axioms, operators and verifier, to compare verdicts with."""

    def __init__(self, state: CurrentState) -> None:
        self.state = state
        self.hashes = Hashes(state.axioms.hash, state.operators_hash(OPERATORS), state.verifier_hash)
        self._reason = functools.cache(self._judged)

    def stands(
        self, verdict: Outcome, operators: frozenset[str], axioms_used: tuple[str, ...], hashes: Hashes
    ) -> bool:
        """Whether a verdict is still valid: a proof while what it used is unchanged, a refutation or a failed
        attempt while everything is. ``operators`` are those of the rule.
        """
        if verdict is Outcome.VERIFIED:
            return not self._reason(operators, axioms_used, hashes)
        return hashes == self.hashes

    def hashes_of(self, verdict: Verdict) -> Hashes:
        """The hashes for a verdict given now."""
        if verdict.status is Status.VERIFIED:
            return Hashes(verdict.axioms_hash, verdict.operators_hash, verdict.verifier_hash)
        return self.hashes

    def reason(self, verdict: str, operators: Iterable[str], proof: Proof | None) -> str:
        """The reason why a rule with that status and proof may not be used; empty if it may."""
        if verdict != Outcome.VERIFIED:
            return f"status is {verdict}, not verified"
        if proof is None:
            return "it has no proof"
        return self._reason(frozenset(operators), proof.axioms_used, proof.hashes)

    def renewed(self, operators: Iterable[str], proof: Proof) -> Proof | None:
        """The proof with the hash of the current checker; None if anything else that it used has changed, or
        it is none. It must still pass the checker.
        """
        hashes = Hashes(proof.hashes.axioms, proof.hashes.operators, self.hashes.verifier)
        renewed = replace(proof, hashes=hashes)
        return None if self.reason(proof.verdict, operators, renewed) else renewed

    def _judged(self, operators: frozenset[str], axioms_used: tuple[str, ...], hashes: Hashes) -> str:
        stored = StoredVerdict(
            "", "verified", operators, axioms_used, hashes.axioms, hashes.operators, hashes.verifier
        )
        return judge(stored, self.state).reason


@functools.cache
def current() -> Currency:
    """The currency of this installation."""
    return Currency(current_state(load_axioms()))


@functools.cache
def current_from_cache() -> Currency:
    """As ``current``, with the axioms as an earlier process parsed them; for jobs that only select rules by
    the hashes of their proofs."""
    key = source_key("axioms", "domains", "equations", "ir", "ops")
    return Currency(current_state(cached("axioms", (key,), _hashed_axioms)))


def _hashed_axioms() -> AxiomSet:
    """The axioms, which keep the text that their hash was computed from."""
    axioms = load_axioms()
    assert axioms.hash
    return axioms
