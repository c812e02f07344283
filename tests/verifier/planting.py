"""What is asked about planted rules: of each kind so many, and none of the wrong ones verified."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.axioms import load_axioms
from superopt.verifier import Options, Status, verify
from superopt.verifier.prove.solver import SolverLimits
from tests.verifier.planted import Changed, changed_rules, counterexample, planted

OPTIONS = Options(limits=SolverLimits(resources=500_000))
PER_KIND = 52
THOROUGH = 60
"""How much longer brute force searches in a rule that the verifier has accepted."""


@dataclass(frozen=True)
class Tally:
    """Verdicts on wrong rules, on those that may be true, and the wrong ones that were verified, as text."""

    refuted: int = 0
    unproved: int = 0
    harmless: int = 0
    proved: int = 0
    accepted: tuple[str, ...] = ()

    @property
    def planted(self) -> int:
        """How many wrong rules were planted."""
        return self.refuted + self.unproved + len(self.accepted)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.refuted + other.refuted,
            self.unproved + other.unproved,
            self.harmless + other.harmless,
            self.proved + other.proved,
            self.accepted + other.accepted,
        )


def judge_wrong_rules(kind: str, count: int, seed: int = 0) -> Tally:
    """Verdicts on ``count`` planted rules of a kind."""
    return sum((_judged(rule) for rule in planted(kind, count, seed)), Tally())


def judge_all_changes(kind: str, count: int, seed: int = 0) -> Tally:
    """The same, and verdicts on the harmless changes met: one that is verified is searched thoroughly."""
    tally = Tally()
    for rule in changed_rules(kind, seed):
        if tally.planted >= count:
            break
        tally += _judged(rule)
    return tally


def _judged(rule: Changed) -> Tally:
    status = verify(rule.equation, load_axioms(), options=OPTIONS).status
    if rule.found is not None:
        if status is Status.VERIFIED:
            return Tally(accepted=(str(rule),))
        return Tally(refuted=int(status is Status.REFUTED), unproved=int(status is Status.UNPROVED))
    if status is not Status.VERIFIED:
        return Tally(harmless=1)
    found = counterexample(rule.equation, 1, THOROUGH)
    if found is None:
        return Tally(harmless=1, proved=1)
    return Tally(accepted=(f"{rule}  # {found.instance}: {found.difference}",))
