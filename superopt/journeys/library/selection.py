"""Selection of the verified rules that ship, by their use in searches and their derivability.

In this order:

1. Rules that divide tensors ship; plans need them. So do those that introduce operators with larger rounding
   errors: only measuring says where they pay, so the searches below are without them.
2. A rule is dropped if no direction can help a search: each starts from a constant that no model has, or
   introduces one and saves nothing.
3. A rule is dropped if smaller ones derive it in a few steps, all of which a search may take.
4. Networks and small graphs are searched with the remaining rules and with all rules. If all rules find a
   cheaper graph, the rules on the path to it ship, too, as far as that search needs them.

Remaining rules ship with a reason: a search used them, they save at typical sizes, or only they lead to some
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from superopt.equations import parse_equation
from superopt.ir.terms import Equation, Term, applications
from superopt.journeys.library.gallery.gains import Gain, gains
from superopt.journeys.library.peers.derivation import questions
from superopt.journeys.library.trials import CANDIDATES, Trial, applied, graphs, searched
from superopt.ops.traits import named, traits
from superopt.rewriting import Substitution, substitutions_of
from superopt.rewriting.derivability import Theory
from superopt.rewriting.divisions import DIVIDING
from superopt.substitution_db.store.records import Rule, Selection

Progress = Callable[[str], None]

LEAST_SAVED = 0.01
"""Least relative saving at typical sizes that counts as a reason to ship."""

_TYPINGS = 6
"""Typings of a rule, with different values of its attributes, under each of which it has to be derived."""

_NAMED = 3
"""Maximum number of graphs named in a reason."""

NEUTRAL = named(lambda operator: operator.neutral_for is not None)
"""Constants that are the neutral element of some operator."""

MADE = named(lambda operator: operator.constant and not operator.fills)
"""Constants that only rules introduce; no model contains them."""


@dataclass(frozen=True, slots=True)
class Selected:
    """The choice for each rule by id, and the results of searches with shipped rules and with all rules."""

    choices: Mapping[str, Selection]
    shipped: Mapping[str, Trial]
    everything: Mapping[str, Trial]


def select(
    rules: Sequence[Rule],
    *,
    names: Sequence[str] | None = None,
    candidates: int = CANDIDATES,
    progress: Progress = lambda _: None,
) -> Selected:
    """Selects the verified rules that ship. ``names`` are the graphs to search (default: all), ``candidates``
    is the limit of each search.

    The result depends only on the rules, this software and the arguments, not on time.
    """
    tried = graphs() if names is None else names
    ordered = sorted(rules, key=lambda r: (_size(r), r.equation, r.id))
    equations = {rule.id: rule.equation for rule in ordered}
    progress("what rules save, and what derives them")
    choices = _by_themselves(equations)
    equations = {rule: text for rule, text in equations.items() if not _rounds_more(parse_equation(text))}
    core = {rule: text for rule, text in equations.items() if choices[rule].ships}
    found: dict[str, Trial] = {}
    everything: dict[str, Trial] = {}
    for name in tried:
        progress(f"searching {name}")
        found[name] = searched(core, [name], candidates)[name]
        everything[name] = searched(equations, [name], candidates)[name]
        missing = everything[name].rules - core.keys()
        if missing and everything[name].after < found[name].after:
            more = {rule: text for rule, text in equations.items() if rule in core or rule in missing}
            again = searched(more, [name], candidates)[name]
            if again.after < found[name].after:
                found[name] = again
                core = {rule: text for rule, text in more.items() if rule in core or rule in again.rules}
    for rule, where in _uses(found).items():
        choices[rule] = Selection(ships=True, why=f"a search uses it: {_listed(where)}")
    return Selected(choices, found, everything)


def _by_themselves(equations: Mapping[str, str]) -> dict[str, Selection]:
    """The choices made without a search, smaller rules first."""
    kept, choices = Theory(), dict[str, Selection]()
    for rule, text in equations.items():
        equation = parse_equation(text)
        choice = choices[rule] = _by_itself(rule, text, equation, kept)
        if choice.ships and _may_derive(rule, text, equation):
            kept.add(equation)
    return choices


def _may_derive(rule: str, text: str, equation: Equation) -> bool:
    """Whether a search can follow what is derived by the equation: it uses both directions, always."""
    if _divides(equation) or _rounds_more(equation) or equation.conditions:
        return False
    return applied({rule: text}) == substitutions_of(equation, rule)


def _by_itself(rule: str, text: str, equation: Equation, kept: Theory) -> Selection:
    if _divides(equation):
        return Selection(ships=True, why="says where a plan may divide tensors")
    if _rounds_more(equation):
        return Selection(ships=True, why="fewer multiplications")
    directions = applied({rule: text})
    if not directions:
        return Selection(ships=False, why="no direction of it keeps finite numbers finite")
    best = {way.backwards: _saved(equation, backwards=way.backwards) for way in directions}
    useful = [way for way in directions if not _is_idle(way, best[way.backwards])]
    if not useful:
        return Selection(ships=False, why="about constants that no model has")
    if kept.follows(questions(equation, _TYPINGS)):
        return Selection(ships=False, why="smaller rules that ship give it in a few steps")
    saved = max(best[way.backwards] for way in useful)
    if saved >= LEAST_SAVED:
        return Selection(ships=True, why=f"saves {saved:.0%} at typical sizes")
    return Selection(ships=True, why="a step that no smaller rules give")


def _is_idle(way: Substitution, saved: float) -> bool:
    """Whether the direction starts from a constant that no model has, or introduces one and saves nothing."""
    source, target = _operators(way.source), _operators(way.target)
    return bool(source & MADE) or (bool(target & NEUTRAL) and saved < LEAST_SAVED)


def _operators(terms: Iterable[Term]) -> frozenset[str]:
    return frozenset(term.operator for term in applications(*terms))


def _saved(equation: Equation, *, backwards: bool) -> float:
    """The largest relative saving of a direction."""
    return max((gain.saved for gain in _gains(equation) if gain.backwards == backwards), default=0.0)


@cache
def _gains(equation: Equation) -> tuple[Gain, ...]:
    return gains(equation)


def _divides(equation: Equation) -> bool:
    return any(term.operator in DIVIDING for term in equation.applications)


def _rounds_more(equation: Equation) -> bool:
    return any(traits(term.operator).rounds_more for term in equation.applications)


def _uses(found: Mapping[str, Trial]) -> Mapping[str, Sequence[str]]:
    """The graphs whose search used each rule."""
    uses: dict[str, list[str]] = {}
    for name, trial in found.items():
        for rule in sorted(trial.rules):
            uses.setdefault(rule, []).append(name)
    return uses


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _size(rule: Rule) -> int:
    return len(rule.operators_source) + len(rule.operators_target)
