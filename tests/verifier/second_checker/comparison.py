"""Both checkers on the same certificates: where they disagree, one of them is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources

from superopt.equations import format_equation
from superopt.ir.terms import Equation
from superopt.substitution_db.rules.certificates import read_stored
from superopt.verifier.certificates.certificate import certificate_text
from superopt.verifier.certificates.replay import replay
from tests.verifier.second_checker.alterations import Proof
from tests.verifier.second_checker.judge import Answer, Judgement, judge

NOT_KNOWN = (" is not known", "no numbers are known", "more than 5000 cases")
"""What the first checker says where it refuses because it does not know all cases."""


@dataclass(frozen=True)
class Comparison:
    """What the checkers say of one certificate; ``change`` says how it was altered."""

    change: str
    proof: Proof
    ours: Judgement
    theirs: str

    @property
    def agree(self) -> bool:
        """Whether both accept it, or neither does; or one says that it does not know the cases."""
        if self.ours.answer is Answer.UNKNOWN or any(words in self.theirs for words in NOT_KNOWN):
            return True
        return (self.ours.answer is Answer.ACCEPTED) == (not self.theirs)

    def __str__(self) -> str:
        goal, certificate = self.proof
        first = f"the first checker: {self.theirs or 'accepted'}"
        second = f"the second checker: {self.ours.answer} {self.ours.reason}".rstrip()
        return "\n".join(
            (f"{self.change}: {format_equation(goal)}", first, second, certificate_text(certificate))
        )


def compared(change: str, proof: Proof, axioms: Mapping[str, Equation]) -> Comparison:
    """The answers of both."""
    goal, certificate = proof
    return Comparison(change, proof, judge(goal, axioms, certificate), replay(goal, axioms, certificate))


def shipped_proofs() -> Iterator[Proof]:
    """Each rule of the shipped library with its certificate, as the certificate spells it."""
    lines = (
        resources.files("superopt.substitution_db").joinpath("library.jsonl").read_text("utf-8").splitlines()
    )
    for line in lines:
        yield read_stored(json.loads(line)["proof"]["certificate"])


__all__ = ["Comparison", "compared", "shipped_proofs"]
