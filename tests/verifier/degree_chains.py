"""Replay of the library's rules with two open degrees at all values that their chains ask for.

``python -m tests.verifier.degree_chains`` replays them all. The checker takes values for as many occurrences
of a degree as a side has (``degree_cases``); a term of a chain may have more.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from math import gcd
from unittest import mock

from superopt.axioms import load_axioms
from superopt.equations import format_equation, parse_equation
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Equation, Term, applications
from superopt.verifier.certificates import attribute_cases, cases
from superopt.verifier.certificates.certificate import Certificate, read_certificate
from superopt.verifier.certificates.degree_cases import degree_cases, open_degrees
from superopt.verifier.certificates.replay import first_failure


@dataclass(frozen=True)
class DegreeRule:
    """A rule with two open degrees, by name with the largest number of occurrences in a side, and in a term
    of its chains."""

    equation: Equation
    certificate: Certificate
    in_sides: Mapping[str, int]
    in_chains: Mapping[str, int]

    def __str__(self) -> str:
        return format_equation(self.equation)


def rules() -> Iterator[DegreeRule]:
    """Those of the library."""
    lines = (files("superopt.substitution_db") / "library.jsonl").read_text(encoding="utf-8").splitlines()
    for line in map(json.loads, lines):
        if "equation" not in line or "degree" not in line["equation"]:
            continue
        equation = parse_equation(line["equation"])
        names = sorted(open_degrees(equation))
        if len(names) == 2:
            certificate = read_certificate(line["proof"]["certificate"])
            sides = (equation.left, equation.right)
            terms = [[link.term] for chain in certificate.chains for link in chain]
            yield DegreeRule(equation, certificate, _most(sides, names), _most([*sides, *terms], names))


def _most(terms: Sequence[Sequence[Term]], names: Sequence[str]) -> Mapping[str, int]:
    found = [[value for term in applications(*some) for _, value in term.attributes] for some in terms]
    return {name: max(values.count(AttributeVariable(name)) for values in found) for name in names}


def failure(rule: DegreeRule) -> str:
    """Why the certificate fails at one of the values; empty if it does at none."""

    def degrees(_: Equation, names: Sequence[str]) -> Iterator[Mapping[str, int]]:
        values = sorted({value for case in degree_cases(rule.equation, names) for value in case.values()})
        primes = (values[0], next(value for value in values if value % values[0]))
        one, other = (rule.in_chains[name] for name in names)
        for a, b in itertools.combinations([(0, 0), *_exponents(other, one)], 2):
            chosen = [primes[0] ** x * primes[1] ** y for x, y in zip(a, b, strict=True)]
            if min(chosen) > 1:
                yield dict(zip(names, chosen, strict=True))

    with (
        mock.patch.object(attribute_cases, "degree_cases", degrees),
        mock.patch.object(cases, "MOST_CASES", 10**6),
        mock.patch.object(cases, "MOST_STEPS", 10**8),
    ):
        found = first_failure(rule.equation, load_axioms().by_name, rule.certificate)
    return "" if found is None else found.reason


def _exponents(first: int, second: int) -> list[tuple[int, int]]:
    """Exponents of a prime in two degrees, for each way in which sums compare that have the second degree up
    to ``first`` times and the first one up to ``second`` times: the borders and one between each two."""
    pairs = itertools.product(range(first + 1), range(second + 1))
    borders = sorted(
        ((a, b) for a, b in pairs if gcd(a, b) == 1), key=lambda pair: Fraction(pair[1], pair[0] + pair[1])
    )
    return [*borders, *((a + c, b + d) for (a, b), (c, d) in itertools.pairwise(borders))]


def main() -> int:
    """Replays all of them; 1 if one fails."""
    failed = 0
    for rule in rules():
        reason = failure(rule)
        failed += bool(reason)
        sys.stdout.write(f"{reason or 'holds'}: {rule}\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
