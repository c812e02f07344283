"""One equation before the oracle and before the verifier, and what their answers together are."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from superopt.axioms import load_axioms
from superopt.equations import canonical, format_equation
from superopt.ir.terms import Equation
from superopt.verifier import Status, verify_most_general
from superopt.verifier.certificates.certificate import format_certificate
from tests.verifier.adversary.families import FAMILIES, equation_of
from tests.verifier.adversary.limits import TooLong, processor_seconds
from tests.verifier.adversary.oracle import judge

FIRST_LOOK = 40
LONG_LOOK = 500
MOST_SECONDS = 15
SHARE = 4
"""Of equations that the first look does not see to be false the verifier judges one of so many."""

FEW = 5
"""On fewer instances than that the oracle says nothing."""


class Outcome(enum.StrEnum):
    """What verifier and oracle say together."""

    HOLE = "hole"
    """Verified, and false."""
    UNSEEN = "verified unseen"
    """Verified, and the oracle found no more than a few instances."""
    RIGHT = "verified"
    CAUGHT = "false, refuted"
    UNPROVED_FALSE = "false, unproved"
    WRONG_REFUTATION = "refuted, not seen false"
    UNPROVED_TRUE = "unproved, not seen false"
    UNKNOWN = "unproved unseen"
    """Neither verified nor typed by the oracle."""
    TOO_LONG = "no answer"
    """The verifier took more than its processor time."""
    NOT_ASKED = "not seen false, not asked"
    """The verifier was not asked: proofs of what is true take most of the time."""


@dataclass(frozen=True)
class Judged:
    """An equation drawn from a ``seed``, with both answers; ``false`` is where the oracle saw it fail."""

    family: str
    number: int
    equation: str
    outcome: Outcome
    false: str = ""
    instances: int = 0
    said: str = ""
    chain: str = ""
    milliseconds: float = 0.0
    seed: int = 0


def judged(family: str, number: int, equation: Equation, seed: int, share: int = 1) -> Judged:
    """Both answers on one equation. What was verified is looked at for longer, and so is what was refuted
    although the first look saw nothing."""
    oracle = judge(equation, FIRST_LOOK, seed)
    if not oracle.false and number % share:
        text = format_equation(equation)
        return Judged(family, number, text, Outcome.NOT_ASKED, instances=oracle.compared)
    start = time.process_time()
    try:
        with processor_seconds(MOST_SECONDS):
            _, verdict = verify_most_general((equation,), load_axioms())
    except TooLong:
        text = format_equation(equation)
        return Judged(family, number, text, Outcome.TOO_LONG, oracle.false, oracle.compared)
    spent = (time.process_time() - start) * 1000
    verified, refuted = verdict.status is Status.VERIFIED, verdict.status is Status.REFUTED
    if not oracle.false and (verified or refuted):
        oracle = judge(equation, LONG_LOOK, seed + 1)
    if verified:
        outcome = (
            Outcome.HOLE if oracle.false else Outcome.RIGHT if oracle.compared >= FEW else Outcome.UNSEEN
        )
    elif oracle.false:
        outcome = Outcome.CAUGHT if refuted else Outcome.UNPROVED_FALSE
    elif refuted:
        outcome = Outcome.WRONG_REFUTATION
    else:
        outcome = Outcome.UNPROVED_TRUE if oracle.compared >= FEW else Outcome.UNKNOWN
    chain = format_certificate(equation, verdict.certificate) if verified and verdict.certificate else ""
    said = verdict.counterexample or verdict.reason
    text = format_equation(equation)
    return Judged(family, number, text, outcome, oracle.false, oracle.compared, said, chain, round(spent, 1))


def all_judged(
    count: int, seed: int, until: float, families: Iterable[str], state: Path | None, share: int = SHARE
) -> Iterator[Judged]:
    """Up to ``count`` different equations that both judged, the families by turns, until a
    time of ``time.monotonic``.

    What a state file has of the same seed is not judged again; what is new is added to it.
    """
    done = {(each.family, each.number): each for each in read_state(state) if each.seed == seed}
    names, seen, found, number = tuple(families), set[str](), 0, 0
    while found < count and time.monotonic() < until:
        for family in names:
            equation = equation_of(family, number, seed)
            if equation is None:
                continue
            spelled = format_equation(canonical(equation))
            if spelled in seen:
                continue
            seen.add(spelled)
            known = done.get((family, number))
            answer = known or replace(judged(family, number, equation, seed, share), seed=seed)
            if known is None and state is not None:
                with state.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(answer), ensure_ascii=False) + "\n")
            if answer.outcome is not Outcome.NOT_ASKED:
                found += 1
                yield answer
            if found >= count or time.monotonic() >= until:
                break
        number += 1


def read_state(state: Path | None) -> Iterator[Judged]:
    """What was judged before; a line cut short by an interruption is left out."""
    if state is None or not state.exists():
        return
    for line in state.read_text(encoding="utf-8").splitlines():
        try:
            content = json.loads(line)
        except json.JSONDecodeError:
            continue
        yield Judged(**{**content, "outcome": Outcome(content["outcome"])})


__all__ = ["FAMILIES", "SHARE", "Judged", "Outcome", "all_judged", "judged", "read_state"]
