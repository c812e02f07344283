"""Choice of the rules to show: the most profitable ones of each kind.

A rule's score is its largest relative saving, times one plus the number of networks in which that direction
applies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from superopt.equations import format_equation
from superopt.ir.terms import Equation, Term, applications
from superopt.journeys.library.gallery.gains import Gain, best_gain
from superopt.journeys.library.gallery.kinds import Kind, kind_of
from superopt.journeys.library.gallery.uses import sites
from superopt.rewriting import substitutions_of

SHOWN = 5
"""Number of rules shown of each kind."""

LEAST_SAVED = 0.01


@dataclass(frozen=True, slots=True)
class Choice:
    """A rule by its id, its gain, its kind, and its number of sites by network."""

    rule: str
    equation: Equation
    gain: Gain
    kind: Kind
    networks: Mapping[str, int]

    @property
    def score(self) -> float:
        """The score of the rule."""
        return self.gain.saved * (1 + len(self.networks))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best rules of each kind, best first; and the number of rules of each kind that save something."""

    choices: Mapping[Kind, tuple[Choice, ...]]
    counts: Mapping[Kind, int]


def chosen(equations: Mapping[str, Equation], tried: Sequence[str]) -> Chosen:
    """The rules to show, of those given by their ids; ``tried`` are names of networks."""
    found = {rule: best_gain(equation) for rule, equation in equations.items()}
    gains = {rule: gain for rule, gain in found.items() if gain is not None and gain.saved >= LEAST_SAVED}
    ways = (
        way
        for rule, gain in gains.items()
        for way in substitutions_of(equations[rule], rule)
        if way.backwards == gain.backwards
    )
    networks = sites(ways, tried)
    choices = (
        Choice(rule, equations[rule], gain, kind_of(equations[rule], gain), networks.get(rule, {}))
        for rule, gain in gains.items()
    )
    ranked = sorted(choices, key=_rank)
    return Chosen(
        {kind: _different([c for c in ranked if c.kind is kind]) for kind in Kind},
        Counter(choice.kind for choice in ranked),
    )


def _rank(choice: Choice) -> tuple[float, int, str]:
    return -round(choice.score, 2), len(format_equation(choice.equation)), choice.rule


def _different(ranked: list[Choice]) -> tuple[Choice, ...]:
    """The first rules that consist of different operators."""
    first: dict[tuple[object, ...], Choice] = {}
    for choice in ranked:
        first.setdefault((_names(choice.equation.left), _names(choice.equation.right)), choice)
    return tuple(first.values())[:SHOWN]


def _names(side: tuple[Term, ...]) -> tuple[str, ...]:
    return tuple(sorted(term.operator.rstrip("01") for term in applications(*side)))
