"""Forges certificates and asks the checker: what it accepts must not be false.

    python -m tests.verifier.adversary.forge [--count 5000] [--seed S] [--minutes N]

Proved rules come from the shipped library, and each axiom comes as a rule of one link, so that whatever a
step needs is the checker's to see. Exit code 1 if the oracle finds a rule false whose forged certificate
was accepted.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from superopt.axioms import load_axioms
from superopt.equations import format_equation, parse_equation, rule_id
from superopt.errors import SuperoptError
from superopt.ir.terms import AttributeVariable, Direction, Equation, Variable, attribute_variables, variables
from superopt.substitution_db.rules.certificates import read_stored, stored_certificate, why_not_replayed
from superopt.substitution_db.store.records import Hashes, Outcome, Proof
from superopt.verifier.certificates.certificate import Certificate, Link, format_certificate
from tests.verifier.adversary.families import is_rule
from tests.verifier.adversary.forgeries import FORGERIES, Claim
from tests.verifier.adversary.limits import TooLong, processor_seconds
from tests.verifier.adversary.oracle import judge

INSTANCES = 300
MOST_SECONDS = 15
APPLICATIONS = 24
"""To how many claims a kind is tried to apply."""


@dataclass(frozen=True)
class Forged:
    """A forged claim, whether the checker took it, and where the oracle saw its rule fail."""

    kind: str
    claim: Claim
    accepted: bool
    false: str = ""

    @property
    def is_hole(self) -> bool:
        """Whether something false was accepted."""
        return self.accepted and bool(self.false)


@cache
def proved() -> tuple[Claim, ...]:
    """The rules of the shipped library with their certificates."""
    lines = (files("superopt.substitution_db") / "library.jsonl").read_text(encoding="utf-8").splitlines()
    stored = (json.loads(line)["proof"]["certificate"] for line in lines)
    return tuple(Claim(*read_stored(content)) for content in stored)


@cache
def of_axioms() -> tuple[Claim, ...]:
    """Each axiom as a rule, with the certificate that it is itself."""
    return tuple(_of_axiom(axiom) for axiom in load_axioms().equations if is_rule(axiom))


def _of_axiom(axiom: Equation) -> Claim:
    sides = axiom.terms
    terms = tuple((name, Variable(name)) for name in variables(*sides))
    attributes = tuple((name, AttributeVariable(name)) for name in sorted(attribute_variables(*sides)))
    chains = tuple(
        (
            Link(
                axiom.name, backwards=False, path=(), output=n, terms=terms, attributes=attributes, term=right
            ),
        )
        for n, right in enumerate(axiom.right)
    )
    rule = replace(axiom, direction=Direction.FORWARD, name="")
    return Claim(rule, Certificate(chains))


def forged(count: int, seed: int = 0, until: float = float("inf")) -> Iterator[Forged]:
    """Up to ``count`` forgeries, the kinds by turns."""
    number, found = 0, 0
    while found < count and time.monotonic() < until:
        for kind in FORGERIES:
            claim = _drawn(kind, random.Random(f"{seed} {kind} {number}"))
            if claim is None:
                continue
            found += 1
            yield judged(kind, claim, seed)
            if found >= count:
                return
        number += 1


def _drawn(kind: str, chooser: random.Random) -> Claim | None:
    """A forged claim of that kind, read anew from its text; None where the kind does not apply."""
    sources = proved() if chooser.random() < 0.5 else of_axioms()
    try:
        for _ in range(APPLICATIONS):
            claim = chooser.choice(sources)
            new = FORGERIES[kind](claim, chooser, sources)
            if new is not None and new != claim:
                break
        else:
            return None
        if chooser.random() < 0.25:
            second = chooser.choice(list(FORGERIES))
            new = FORGERIES[second](new, chooser, sources) or new
        if new == claim or not is_rule(new.equation):
            return None
        return replace(new, equation=parse_equation(format_equation(new.equation)))
    except (SuperoptError, IndexError, ValueError):
        return None


def judged(kind: str, claim: Claim, seed: int) -> Forged:
    """The checker's answer, and the oracle's where that is yes."""
    if not accepted(claim):
        return Forged(kind, claim, accepted=False)
    return Forged(kind, claim, accepted=True, false=judge(claim.equation, INSTANCES, seed).false)


def accepted(claim: Claim) -> bool:
    """Whether the checker takes the certificate for a proof of the rule."""
    used = claim.certificate.axioms_used
    proof = Proof(
        Outcome.VERIFIED, "z3", "", used, Hashes("", "", ""), None, (), None, "", "replayed", "",
        stored_certificate(claim.equation, claim.certificate),
    )  # fmt: skip
    try:
        with processor_seconds(MOST_SECONDS):
            return not why_not_replayed(rule_id(claim.equation), proof, load_axioms())
    except TooLong:
        return False


def described(each: Forged) -> str:
    """A hole with its rule, its instance and its chain."""
    chain = format_certificate(each.claim.equation, each.claim.certificate)
    text = format_equation(each.claim.equation)
    return f"HOLE ({each.kind}): {text}\n  fails at {each.false}\n{chain}"


def main() -> int:
    """Forges, and prints what was accepted and is false, and a table of the kinds."""
    parser = argparse.ArgumentParser(prog="tests.verifier.adversary.forge", description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60)
    arguments = parser.parse_args()
    tried, taken, holes = Counter[str](), Counter[str](), Counter[str]()
    for each in forged(arguments.count, arguments.seed, time.monotonic() + 60 * arguments.minutes):
        tried[each.kind] += 1
        taken[each.kind] += each.accepted
        holes[each.kind] += each.is_hole
        if each.is_hole:
            _write(described(each))
    _write(f"\n{'kind':34}{'forged':>8}{'accepted':>10}{'false':>8}")
    for kind in FORGERIES:
        _write(f"{kind:34}{tried[kind]:>8,}{taken[kind]:>10,}{holes[kind]:>8,}")
    _write(f"{'all':34}{tried.total():>8,}{taken.total():>10,}{holes.total():>8,}")
    return 1 if holes.total() else 0


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
