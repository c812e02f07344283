"""Equations that were written by hand to deceive: each one's claim, its reason, and a run over all of them.

python -m tests.verifier.deceptive
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.verifier import Status, verify

FILE = Path(__file__).with_name("deceptive.txt")


@dataclass(frozen=True, slots=True)
class Deceptive:
    """An equation of the file, why it is false or true, and which of both it is."""

    text: str
    reason: str
    holds: bool


def deceptive_equations() -> tuple[Deceptive, ...]:
    """All equations of the file: false ones first, then true ones."""
    found: list[Deceptive] = []
    holds, reason = False, ""
    for line in FILE.read_text(encoding="ascii").splitlines():
        if line in ("# == false ==", "# == true =="):
            holds = line == "# == true =="
        elif line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            found.append(Deceptive(line, reason, holds))
    return tuple(found)


def is_deceived(equation: Deceptive) -> bool:
    """Whether the verifier's verdict is the opposite of what holds."""
    status = verify(parse_equation(equation.text), load_axioms()).status
    return status is (Status.REFUTED if equation.holds else Status.VERIFIED)


def main() -> int:
    """Prints what deceives the verifier; exit code 1 if there is any."""
    every = deceptive_equations()
    deceiving = [equation for equation in every if is_deceived(equation)]
    for equation in deceiving:
        verdict = "refuted" if equation.holds else "verified"
        sys.stdout.write(f"{verdict}: {equation.text}  # {equation.reason}\n")
    sys.stdout.write(f"{len(every)} equations, {len(deceiving)} wrong verdicts\n")
    return 1 if deceiving else 0


if __name__ == "__main__":
    raise SystemExit(main())
