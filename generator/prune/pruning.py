"""Pruning of equations to the candidates worth proving: drops renamings, instances and derivable ones.

Equations are processed smallest first in batches, so that larger ones are derived from smaller ones (a
minimal subset of each batch is kept, as in Ruler, OOPSLA 2021). Dropped equations are counted by reason; all
except false ones follow from those kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from superopt.equations import canonical, format_equation, rule_id
from superopt.generator.enumerate.rows import TermBuilder, TermRows
from superopt.generator.enumerate.structures import Rows
from superopt.generator.generalise.conditions import (
    SAMPLES,
    of_these_ranks,
    under_conditions,
    with_groups_said,
    with_kernels_sized,
)
from superopt.generator.generalise.generalisation import GROUPS, Generaliser
from superopt.generator.generalise.sampling import Sampler, Shapes
from superopt.generator.pair.pairing import Pairing
from superopt.generator.pair.pairs import (
    OTHER,
    TRUE,
    UNKNOWN,
    PairSource,
    Place,
    by_size,
    by_source,
    in_portions,
)
from superopt.generator.prune.audit import Audit, Dropped
from superopt.generator.prune.bank import CLOSED, CONDITIONAL, UNDER_CONDITIONS, Bank
from superopt.generator.prune.closure import Closure
from superopt.generator.prune.patterns import Rule
from superopt.generator.prune.questions import generic_question, settings
from superopt.ir.terms import (
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    operator_count,
    subterms,
    variables,
)
from superopt.rewriting import why_unusable
from superopt.rewriting.derivability import Question, Theory

TERMS_AT_ONCE = 1 << 20
"""Terms of the classes about which derivations are asked together. More of them are taken in portions, which
bounds memory: pairs of different portions do not compete, and what a later one would derive is kept."""

_CONDITIONAL = "derivable under conditions"


@dataclass(frozen=True)
class Candidate:
    """An equation worth proving; ``generalizations`` ends with it, most general first; ``shapes`` type it."""

    equation: Equation
    generalizations: tuple[Equation, ...]
    provenance: str
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def text(self) -> str:
        """The most general form."""
        return format_equation(self.generalizations[0])


@dataclass(frozen=True, slots=True)
class _Found:
    equation: Equation
    shapes: Shapes
    text: str


class Selection:
    """Processes equations smallest first and keeps those that do not follow from the kept ones.

    ``told`` is called periodically, as ``dropped`` and ``candidates`` grow.
    """

    def __init__(self, provenance: str, audit: Audit | None = None) -> None:
        self.dropped: Counter[str] = Counter()
        self.candidates: list[Candidate] = []
        self.told: Callable[[], None] = lambda: None
        self._provenance = provenance
        self._audit = audit
        self._sampler = Sampler()
        self._generaliser = Generaliser(self._sampler)
        self._rules: list[Rule] = []
        self._beyond: Theory | None = None
        self._closures: dict[int, tuple[TermRows, Closure]] = {}
        self._states: dict[str, int] = {}
        self._ids: set[str] = set()

    def take(self, pairings: Sequence[Pairing]) -> int:
        """Processes the equations of one kind; returns the number distinct up to renaming."""
        sources = [PairSource(p, TermBuilder(p.terms), self._closure_of(p.terms)) for p in pairings]
        if self._beyond is None and any(pairing.terms.leads_upwards for pairing in pairings):
            self._beyond = Theory()
            for candidate in self.candidates:
                self._add_beyond(candidate.generalizations[0])
        for pairing in pairings:
            self.dropped.update(pairing.dropped)
        for batches in by_size(pairings):
            whole = [np.concatenate(parts) for parts in batches]
            together = [source.weight(rows) for source, rows in zip(sources, whole, strict=True)]
            if sum(together) <= TERMS_AT_ONCE:
                for source, rows in zip(sources, whole, strict=True):
                    source.begin(rows)
                for batch in zip(*batches, strict=True):
                    self._take_batch(list(zip(sources, batch, strict=True)))
                    self.told()
                continue
            for batch in zip(*batches, strict=True):
                for portion in in_portions(sources, batch, TERMS_AT_ONCE):
                    for source, rows in portion:
                        source.begin(rows)
                    self._take_batch(portion)
                    self.told()
        return sum(pairing.distinct for pairing in pairings)

    def _closure_of(self, terms: TermRows) -> Closure:
        known = self._closures.get(id(terms))
        if known is None:
            known = self._closures[id(terms)] = (terms, Closure(Bank(terms)))
            known[1].add(self._rules)
        return known[1]

    def _take_batch(self, batch: Sequence[tuple[PairSource, Rows]]) -> None:
        """Equations of one size, none of which is an instance of another."""
        found: dict[str, _Found] = {}
        places: dict[str, list[Place]] = {}
        for source, pairs in batch:
            instances = source.instances(pairs)
            for number in pairs[instances].tolist():
                self._drop_pair("instance", source, number)
            rest = pairs[~instances]
            follows = source.follows_at_once(rest)
            for number in rest[follows].tolist():
                self._drop_pair("derivable", source, number)
            source.state[pairs[instances]] = source.state[rest[follows]] = TRUE
            for number in rest[~follows].tolist():
                oriented = self._oriented(*source.sides(number), source.pairing.shapes)
                if oriented is None:
                    source.state[number] = OTHER
                    self._drop_pair("unusable", source, number)
                    continue
                places.setdefault(oriented.text, []).append((source, number))
                fresh = self._new(oriented)
                if fresh is None:
                    self._drop("found before", oriented.equation)
                else:
                    found[oriented.text] = fresh
        self._select(found, places)
        for text, known in places.items():
            for source, number in known:
                source.state[number] = self._states[text]

    def _select(self, found: Mapping[str, _Found], places: Mapping[str, Sequence[Place]]) -> None:
        """Keeps a minimal subset: per round one equation of each kind, then the others are tested again.

        Equations of one size that derive each other mostly have the same operators.
        """
        closed: Mapping[str, int]
        rest: list[str] = sorted(found)
        rest, closed = self._not_following(rest, found, places)
        while rest:
            first = {_kind(found[text].equation): text for text in reversed(rest)}
            chosen = set(first.values())
            kept: list[Rule] = []
            for text in rest:
                if text in chosen:
                    kept += self._decided(found[text], places[text], closed.get(text))
            rest = [text for text in rest if text not in chosen]
            if kept:
                self._rules += kept
                for _, closure in self._closures.values():
                    closure.add(kept)
                rest, closed = self._still_not_following(rest, closed, found, places)

    def _still_not_following(
        self,
        rest: Sequence[str],
        closed: Mapping[str, int],
        found: Mapping[str, _Found],
        places: Mapping[str, Sequence[Place]],
    ) -> tuple[list[str], Mapping[str, int]]:
        """As ``_not_following`` after rules were added, for pairs of which the rest is known."""
        asked = [text for text in rest if any(source.touched(number) for source, number in places[text])]
        again = set(asked)
        left, more = self._not_following(asked, found, places)
        gone = again.difference(left)
        known = {text: used for text, used in closed.items() if text not in again}
        return [text for text in rest if text not in gone], {**known, **more}

    def _not_following(
        self, rest: Sequence[str], found: Mapping[str, _Found], places: Mapping[str, Sequence[Place]]
    ) -> tuple[list[str], Mapping[str, int]]:
        """Pairs not derivable by sufficiently general rules, with the fixed attributes of others that do."""
        following: set[str] = set()
        closed: dict[str, int] = {}
        for source, numbers in by_source((text, places[text]) for text in rest):
            pairs = np.array([number for _, number in numbers], np.intp)
            at_once = source.follows_at_once(pairs).tolist()
            uses = source.uses(pairs, CLOSED).tolist()
            for (text, _), follows, used in zip(numbers, at_once, uses, strict=True):
                if follows:
                    following.add(text)
                elif used >= 0:
                    closed[text] = used
        for text in rest:
            if text in following:
                self._states[text] = TRUE
                self._drop("derivable", found[text].equation)
        return [text for text in rest if text not in following], closed

    def _decided(self, found: _Found, places: Sequence[Place], closed: int | None) -> Iterator[Rule]:
        """The form of an equation to keep, unless it follows from rules with these attributes fixed."""
        if closed is not None and not self._is_more_general(found, closed):
            self._states[found.text] = TRUE
            self._drop("derivable", found.equation)
            return
        result = self._tested(found, places)
        while isinstance(result, _Found):
            found = result
            result = self._tested(found, places)
        if result is None:
            return
        if result.conditions and self._follows(places, CONDITIONAL):
            self._drop(_CONDITIONAL, result)
            return
        if self._beyond is not None and self._beyond.follows(self._questions(result, found.shapes)):
            self._drop("derivable", result)
            return
        yield from self._keep(result, found.shapes)

    def _questions(self, equation: Equation, shapes: Shapes) -> Iterator[Question]:
        """The equation as written, and at other values of the attributes that can be left open."""
        question = generic_question(equation, shapes)
        if question is not None:
            yield question
            general = self._generaliser.attribute_forms(equation, shapes)[0]
            asked = (generic_question(form, shapes) for form in settings(general, equation.direction))
            yield from (each for each in asked if each is not None)

    def _follows(self, places: Sequence[Place], uses: int) -> bool:
        return any(bool(source.follows(np.array([number]), uses)[0]) for source, number in places)

    def _is_more_general(self, found: _Found, uses: int) -> bool:
        """Whether the equation holds with one of these attributes open."""
        if len(found.equation.left) > 1:
            return False
        closed = frozenset(name for place, name in enumerate(GROUPS) if uses >> place & 1)
        return self._generaliser.holds_with_one_open(found.equation, found.shapes, closed)

    def _tested(self, found: _Found, places: Sequence[Place]) -> Equation | _Found | None:
        """The equation or a more general form that is true; None if there is none, or if it is false and its
        conditional form follows.
        """
        equation, shapes = found.equation, found.shapes
        self._states[found.text] = OTHER
        if not self._sampler.types_in_general(equation, shapes):
            return self._drop("ill-typed in general", equation)
        if self._sampler.equates_sizes(equation, shapes):
            sized = with_kernels_sized(equation, shapes)
            if sized is None or self._sampler.equates_sizes(sized, shapes):
                return self._drop("only at equal sizes", equation)
            equation = sized
        true: Equation | None = equation
        if not self._sampler.holds(equation, shapes, samples=SAMPLES):
            if self._follows(places, CONDITIONAL):
                return self._drop_conditional(equation, shapes)
            true = under_conditions(equation, shapes, self._sampler)
        if true is None:
            return self._drop("false in general", equation)
        true = with_groups_said(of_these_ranks(true, shapes, self._sampler), shapes, self._sampler)
        if not true.conditions:
            self._states[found.text] = TRUE
        for reason, wider in (
            ("common subterm", self._generaliser.without_common_subterms),
            ("fewer variables", self._generaliser.with_more_variables),
        ):
            general = wider(equation, shapes)
            if general is not None:
                self._drop(reason, true)
                return self._new(self._oriented(general[0].left, general[0].right, general[1]))
        return true

    def _new(self, found: _Found | None) -> _Found | None:
        """The equation, unless it was examined before."""
        if found is None or found.text in self._states:
            return None
        self._states[found.text] = UNKNOWN
        return found

    def _oriented(self, left: tuple[Term, ...], right: tuple[Term, ...], shapes: Shapes) -> _Found | None:
        """The equation with its source on the left, variables renamed; None where it cannot be used."""
        forward, backward = _usable(left, right), len(left) == 1 and _usable(right, left)
        if not forward and not backward:
            return None
        if forward and backward:
            one, other = (self._named(left, right, shapes), self._named(right, left, shapes))
            chosen = min((one, other), key=lambda n: (-operator_count(*n[0].left), format_equation(n[0])))
            equation, named = replace(chosen[0], direction=Direction.BOTH), chosen[1]
        else:
            source, target = (left, right) if forward else (right, left)
            equation, named = self._named(source, target, shapes)
        return _Found(equation, named, format_equation(equation))

    def _named(
        self, left: tuple[Term, ...], right: tuple[Term, ...], shapes: Shapes
    ) -> tuple[Equation, Shapes]:
        written = Equation(tuple(left), tuple(right), Direction.FORWARD)
        equation = canonical(written)
        old, new = variables(*left, *right), equation.variables
        return equation, {b: shapes[a] for a, b in zip(old, new, strict=True)}

    def _keep(self, equation: Equation, shapes: Shapes) -> Iterator[Rule]:
        """Adds the equation to the candidates unless present, once for each direction in which it calculates
        numbers; yields it as rules."""
        forms = self._generaliser.attribute_forms(equation, shapes)
        directed = self._generaliser.directed_forms(equation, shapes)
        chosen = [(form, (form,)) for form in directed] or [(equation, forms)]
        kept = [rule for own, each in chosen for rule in self._added(own, each, shapes)]
        if not kept:
            self._drop("same when general", equation)
        yield from kept

    def _added(self, equation: Equation, forms: Sequence[Equation], shapes: Shapes) -> Iterator[Rule]:
        written = tuple(canonical(form) for form in forms)
        identity = rule_id(written[0])
        if identity in self._ids:
            return
        self._ids.add(identity)
        self.candidates.append(Candidate(equation, tuple(dict.fromkeys(written)), self._provenance, shapes))
        self._add_beyond(written[0])
        closed = self._generaliser.closed(written[0])
        uses = sum(1 << place for place, name in enumerate(GROUPS) if name in closed)
        conditional = equation.conditions or written[0].conditions
        rule = Rule.of(written[0], uses | UNDER_CONDITIONS if conditional else uses)
        if rule is not None:
            yield rule

    def _add_beyond(self, equation: Equation) -> None:
        """Adds the equation for rewriting of terms that roles exclude from the enumeration."""
        if self._beyond is not None and not equation.conditions:
            self._beyond.add(equation)

    def _drop(self, reason: str, equation: Equation) -> None:
        self._drop_made(reason, lambda: Dropped(equation, reason))

    def _drop_pair(self, reason: str, source: PairSource, number: int) -> None:
        """As ``_drop``; its terms are built only for the sample."""
        self._drop_made(reason, lambda: Dropped(Equation(*source.sides(number)), reason))

    def _drop_conditional(self, equation: Equation, shapes: Shapes) -> None:
        """Drops an equation that follows only under conditions; built only for the sample."""

        def made() -> Dropped:
            true = under_conditions(equation, shapes, self._sampler)
            return Dropped(equation, "false in general") if true is None else Dropped(true, _CONDITIONAL)

        self._drop_made(_CONDITIONAL, made)

    def _drop_made(self, reason: str, made: Callable[[], Dropped]) -> None:
        self.dropped[reason] += 1
        if self._audit is not None:
            place = self._audit.place()
            if place is not None:
                self._audit.put(place, made())


def _kind(equation: Equation) -> tuple[tuple[str, ...], ...]:
    sides = (equation.left, equation.right)
    return tuple(sorted(tuple(sorted(term.operator for term in applications(*side))) for side in sides))


def _usable(source: Sequence[Term], target: Sequence[Term]) -> bool:
    """Whether source => target is a valid rule whose target does not contain the source."""
    if why_unusable(source, target) is not None:
        return False
    if len(source) > 1:
        return True
    return source[0] not in set(subterms(*target)) or isinstance(source[0], Variable)
