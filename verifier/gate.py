"""The gate: compares the hashes of stored rules with the current axioms, operators and verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from superopt.axioms import AxiomSet
from superopt.verifier.hashes import operators_hash, operators_of_proof, verifier_hash


@dataclass(frozen=True)
class StoredVerdict:
    """What the database keeps of a rule's verdict; ``operators`` are those of the rule itself."""

    rule_id: str
    status: str
    operators: frozenset[str]
    axioms_used: tuple[str, ...]
    axioms_hash: str
    operators_hash: str
    verifier_hash: str


@dataclass(frozen=True)
class CurrentState:
    """What a proof made now would rest on; ``operators_hash`` gives the hash of some operators."""

    axioms: AxiomSet
    verifier_hash: str
    operators_hash: Callable[[Iterable[str]], str] = operators_hash


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
    return CurrentState(axioms, verifier_hash())


def judge(rule: StoredVerdict, state: CurrentState) -> Judgement:
    """Whether one rule passes, and if not why: only a change of the axioms and operators that its proof used,
    or of the checker, makes it stale."""
    return Judgement(rule.rule_id, "; ".join(_reasons(rule, state)))


def judge_all(rules: Iterable[StoredVerdict], state: CurrentState) -> Sequence[Judgement]:
    """The judgement on each rule, in their order."""
    return [judge(rule, state) for rule in rules]


def _reasons(rule: StoredVerdict, state: CurrentState) -> Iterable[str]:
    if rule.status != "verified":
        yield f"status is {rule.status}, not verified"
        return
    missing = [name for name in rule.axioms_used if name not in state.axioms.by_name]
    used = operators_of_proof(rule.operators, rule.axioms_used, state.axioms)
    if missing:
        yield f"stale: axioms are gone: {', '.join(missing)}"
    elif rule.axioms_hash != state.axioms.hash_of(rule.axioms_used):
        yield f"stale: an axiom of its proof has changed ({', '.join(rule.axioms_used) or 'none'})"
    elif rule.operators_hash != state.operators_hash(used):
        yield f"stale: the meaning of an operator has changed ({', '.join(sorted(used))})"
    if rule.verifier_hash != state.verifier_hash:
        yield "stale: the checker has changed"
