"""Gate: compares the hashes of stored rules with those of the current axioms, operators and verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from superopt.axioms import AxiomSet
from superopt.verifier.hashes import operators_hash, operators_of_proof, verifier_hash


@dataclass(frozen=True)
class StoredVerdict:
    """The stored verdict of a rule; ``operators`` are those of the rule itself."""

    rule_id: str
    status: str
    operators: frozenset[str]
    axioms_used: tuple[str, ...]
    axioms_hash: str
    operators_hash: str
    verifier_hash: str


@dataclass(frozen=True)
class CurrentState:
    """The hashes that a new proof would have; ``operators_hash`` computes that of a set of operators."""

    axioms: AxiomSet
    verifier_hash: str
    operators_hash: Callable[[Iterable[str]], str] = operators_hash


@dataclass(frozen=True)
class Judgement:
    """Result for one rule; ``reason`` is empty if the rule may pass."""

    rule_id: str
    reason: str

    @property
    def current(self) -> bool:
        """Whether the rule is verified under the current axioms, operators and verifier."""
        return not self.reason


def current_state(axioms: AxiomSet) -> CurrentState:
    """Return the current state of this installation with these axioms."""
    return CurrentState(axioms, verifier_hash())


def judge(rule: StoredVerdict, state: CurrentState) -> Judgement:
    """Decide whether one rule passes, and if not, why. A rule is stale only if the axioms or operators that
    its proof used, or the checker, have changed."""
    return Judgement(rule.rule_id, "; ".join(_reasons(rule, state)))


def judge_all(rules: Iterable[StoredVerdict], state: CurrentState) -> Sequence[Judgement]:
    """Return the judgement for each rule, in order."""
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
