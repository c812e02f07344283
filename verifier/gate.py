"""The gate: which stored rules rest on axioms, operators and a verifier that are still the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from axioms import AxiomSet
from verifier.hashes import operators_hash, verifier_hash


@dataclass(frozen=True)
class StoredVerdict:
    """What the database keeps of a rule's verdict."""

    rule_id: str
    status: str
    axioms_used: tuple[str, ...]
    axioms_hash: str
    operators_hash: str
    verifier_hash: str


@dataclass(frozen=True)
class CurrentState:
    """What a proof made now would rest on."""

    axioms: AxiomSet
    operators_hash: str
    verifier_hash: str


@dataclass(frozen=True)
class Judgement:
    """``reason`` is empty for a rule that may pass."""

    rule_id: str
    reason: str

    @property
    def current(self) -> bool:
        """Whether the rule is verified under the present axioms, operators and verifier."""
        return not self.reason


def current_state(axioms: AxiomSet) -> CurrentState:
    """The state of this installation with these axioms."""
    return CurrentState(axioms, operators_hash(), verifier_hash())


def judge(rule: StoredVerdict, state: CurrentState) -> Judgement:
    """Whether one rule passes, and if not why: only a change of axioms that its proof used makes it stale."""
    return Judgement(rule.rule_id, "; ".join(_reasons(rule, state)))


def judge_all(rules: Iterable[StoredVerdict], state: CurrentState) -> Sequence[Judgement]:
    """The judgement on each rule, in their order."""
    return [judge(rule, state) for rule in rules]


def _reasons(rule: StoredVerdict, state: CurrentState) -> Iterable[str]:
    if rule.status != "verified":
        yield f"status is {rule.status}, not verified"
        return
    missing = [name for name in rule.axioms_used if name not in state.axioms.by_name]
    if missing:
        yield f"stale: axioms are gone: {', '.join(missing)}"
    elif rule.axioms_hash != state.axioms.hash_of(rule.axioms_used):
        yield f"stale: an axiom of its proof has changed ({', '.join(rule.axioms_used) or 'none'})"
    if rule.operators_hash != state.operators_hash:
        yield "stale: the meaning of operators has changed"
    if rule.verifier_hash != state.verifier_hash:
        yield "stale: the verifier has changed"
