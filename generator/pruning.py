"""From all equations found to the candidates worth proving: renamings, instances and the derivable go.

Equations are taken smallest first and in batches, so that larger ones are derived from smaller ones (the
minimal rest of a batch is kept, as in Ruler, OOPSLA 2021). What is dropped is counted by the reason; every
dropped equation but the false ones follows from what is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from generator.derivation import Outputs
from generator.generalisation import Generaliser
from generator.pairing import ALWAYS, Pairing
from generator.questions import Known, Question
from generator.rows import TermBuilder
from generator.sampling import Sampler, Shapes
from superopt.equations import canonical, format_equation, rule_id
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

_UNKNOWN, _TRUE, _OTHER = 0, 1, 2


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
class Dropped:
    """An equation that is not kept, and why."""

    equation: Equation
    reason: str


class Audit:
    """A seeded sample of at most ``most`` dropped equations, each as likely to be in it as any other."""

    def __init__(self, most: int, seed: int = 0) -> None:
        self._most = most
        self._random = np.random.default_rng(seed)
        self._seen = 0
        self._sample: list[Dropped] = []

    @property
    def sample(self) -> tuple[Dropped, ...]:
        """The equations chosen so far."""
        return tuple(self._sample)

    def place(self) -> int | None:
        """Where the next equation belongs in the sample, None where it does not (Vitter's algorithm R)."""
        self._seen += 1
        if len(self._sample) < self._most:
            return len(self._sample)
        chosen = int(self._random.integers(self._seen))
        return chosen if chosen < self._most else None

    def put(self, place: int, dropped: Dropped) -> None:
        """Puts an equation there."""
        self._sample[place : place + 1] = [dropped]


@dataclass(frozen=True, slots=True)
class _Found:
    equation: Equation
    shapes: Shapes
    text: str


@dataclass
class _Source:
    """A pairing while it is gone through, with what is known of each pair."""

    pairing: Pairing
    builder: TermBuilder
    state: np.ndarray[tuple[int], np.dtype[np.int8]] = field(init=False)
    starts: np.ndarray[tuple[int], np.dtype[np.intp]] = field(init=False)

    def __post_init__(self) -> None:
        self.state = np.zeros(len(self.pairing), np.int8)
        self.starts = np.searchsorted(self.pairing.reductions.instances, np.arange(len(self.pairing) + 1))

    def is_instance(self, number: int) -> bool:
        """Whether the pairs of which it is an instance are known to be true."""
        reductions = self.pairing.reductions
        return any(
            self._is_true(int(reductions.first[at])) and self._is_true(int(reductions.second[at]))
            for at in range(int(self.starts[number]), int(self.starts[number + 1]))
        )

    def sides(self, number: int) -> tuple[Outputs, Outputs]:
        """The terms of a pair."""
        rows = (self.pairing.left[number].tolist(), self.pairing.right[number].tolist())
        left, right = (tuple([self.builder.term(row) for row in side]) for side in rows)
        return left, right

    def _is_true(self, number: int) -> bool:
        return number == ALWAYS or bool(self.state[number] == _TRUE)


class Selection:
    """Takes equations smallest first and keeps those that the kept ones do not give.

    ``told`` is called now and then, with ``dropped`` and ``candidates`` as they are by then.
    """

    def __init__(self, provenance: str, audit: Audit | None = None) -> None:
        self.dropped: Counter[str] = Counter()
        self.candidates: list[Candidate] = []
        self.told: Callable[[], None] = lambda: None
        self._provenance = provenance
        self._audit = audit
        self._sampler = Sampler()
        self._generaliser = Generaliser(self._sampler)
        self._known = Known(self._generaliser)
        self._known_under_conditions = Known(self._generaliser)
        self._states: dict[str, int] = {}
        self._ids: set[str] = set()

    def take(self, pairings: Sequence[Pairing]) -> int:
        """Goes through the equations of one kind; the number that were left after renaming."""
        sources = [_Source(pairing, TermBuilder(pairing.terms)) for pairing in pairings]
        for pairing in pairings:
            self.dropped.update(pairing.dropped)
        for batch in _batches(pairings):
            self._take_batch([(sources[source], number) for source, number in batch])
            self.told()
        return sum(pairing.distinct for pairing in pairings)

    def _take_batch(self, batch: Sequence[tuple[_Source, int]]) -> None:
        """Equations of one size, none of which is an instance of another."""
        found: list[_Found] = []
        places: list[tuple[_Source, int, str]] = []
        for source, number in batch:
            if source.is_instance(number):
                source.state[number] = _TRUE
                self._drop_pair("instance", source, number)
                continue
            oriented = self._oriented(*source.sides(number), source.pairing.shapes)
            if oriented is None:
                source.state[number] = _OTHER
                self._drop_pair("unusable", source, number)
                continue
            places.append((source, number, oriented.text))
            fresh = self._new(oriented)
            if fresh is None:
                self._drop("found before", oriented.equation)
            else:
                found.append(fresh)
        self._select(sorted(found, key=lambda f: f.text))
        for source, number, text in places:
            source.state[number] = self._states[text]

    def _select(self, found: Sequence[_Found]) -> None:
        """Drops what the kept ones derive, and keeps the minimal rest.

        In each round one equation of every kind is kept, then the others are asked again: equations of one
        size that derive each other mostly have the same operators.
        """
        rest = self._not_derived(found)
        tested = [(one, self._tested(one)) for one in rest]
        general = [result for _, result in tested if isinstance(result, _Found)]
        if general:
            self._select(sorted(general, key=lambda one: one.text))
        true = [(one, result) for one, result in tested if isinstance(result, Equation)]
        equations = {one.text: result for one, result in true}
        rest = self._not_conditional([replace(one, equation=result) for one, result in true])
        if general:
            rest = self._not_derived(rest)
        while rest:
            first = {_kind(one.equation): one for one in reversed(rest)}
            for one in rest:
                if first[_kind(one.equation)] is one:
                    self._keep(equations[one.text], one.shapes)
            rest = self._not_derived([one for one in rest if first[_kind(one.equation)] is not one])

    def _not_derived(self, found: Sequence[_Found]) -> list[_Found]:
        rest: list[_Found] = []
        answers = self._known.derivable([Question(one.equation, one.shapes) for one in found])
        for one, derived in zip(found, answers, strict=True):
            if derived:
                self._states[one.text] = _TRUE
                self._drop("derivable", one.equation)
            else:
                rest.append(one)
        return rest

    def _not_conditional(self, found: Sequence[_Found]) -> list[_Found]:
        """Those without conditions, and those that do not follow where their conditions hold."""
        asked = [Question(one.equation, one.shapes) for one in found if one.equation.conditions]
        answers = iter(self._known_under_conditions.derivable(asked))
        rest: list[_Found] = []
        for one in found:
            if one.equation.conditions and next(answers):
                self._drop("derivable under conditions", one.equation)
            else:
                rest.append(one)
        return rest

    def _tested(self, found: _Found) -> Equation | _Found | None:
        """The equation as it is true, or a more general one that is; None where it is neither."""
        equation, shapes = found.equation, found.shapes
        self._states[found.text] = _OTHER
        if not self._sampler.types_in_general(equation, shapes):
            return self._drop("ill-typed in general", equation)
        if self._sampler.equates_sizes(equation, shapes):
            return self._drop("only at equal sizes", equation)
        true = self._generaliser.true_form(equation, shapes)
        if true is None:
            return self._drop("false in general", equation)
        if not true.conditions:
            self._states[found.text] = _TRUE
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
        """The equation, unless it has been looked at."""
        if found is None or found.text in self._states:
            return None
        self._states[found.text] = _UNKNOWN
        return found

    def _oriented(self, left: Outputs, right: Outputs, shapes: Shapes) -> _Found | None:
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

    def _named(self, left: Outputs, right: Outputs, shapes: Shapes) -> tuple[Equation, Shapes]:
        written = Equation(tuple(left), tuple(right), Direction.FORWARD)
        equation = canonical(written)
        old, new = variables(*left, *right), variables(*equation.left, *equation.right)
        return equation, {b: shapes[a] for a, b in zip(old, new, strict=True)}

    def _keep(self, equation: Equation, shapes: Shapes) -> None:
        forms = tuple(canonical(form) for form in self._generaliser.attribute_forms(equation, shapes))
        identity = rule_id(forms[0])
        if identity in self._ids:
            self._drop("same when general", equation)
            return
        self._ids.add(identity)
        self._known_under_conditions.add(forms[0])
        if not forms[0].conditions:
            self._known.add(forms[0])
        self.candidates.append(Candidate(equation, tuple(dict.fromkeys(forms)), self._provenance, shapes))

    def _drop(self, reason: str, equation: Equation) -> None:
        self.dropped[reason] += 1
        if self._audit is not None:
            place = self._audit.place()
            if place is not None:
                self._audit.put(place, Dropped(equation, reason))

    def _drop_pair(self, reason: str, source: _Source, number: int) -> None:
        """As ``_drop``; its terms are built only for the sample."""
        self.dropped[reason] += 1
        if self._audit is not None:
            place = self._audit.place()
            if place is not None:
                self._audit.put(place, Dropped(Equation(*source.sides(number)), reason))


def _batches(pairings: Sequence[Pairing]) -> Iterator[list[tuple[int, int]]]:
    """(pairing, pair) of all pairs, those of one size at a time, smallest first."""
    orders = [pairing.orders for pairing in pairings]
    sizes = sorted({(int(a), int(b)) for order in orders for a, b in np.unique(order, axis=0)})
    at = [0] * len(orders)
    for size in sizes:
        batch: list[tuple[int, int]] = []
        for source, order in enumerate(orders):
            stop = at[source]
            while stop < len(order) and tuple(order[stop]) == size:
                stop += 1
            batch += [(source, number) for number in range(at[source], stop)]
            at[source] = stop
        yield batch


def _kind(equation: Equation) -> tuple[tuple[str, ...], ...]:
    sides = (equation.left, equation.right)
    return tuple(sorted(tuple(sorted(term.operator for term in applications(*side))) for side in sides))


def _usable(source: Sequence[Term], target: Sequence[Term]) -> bool:
    """Whether source => target is a rule that does not just build upon what it matched."""
    if why_unusable(source, target) is not None:
        return False
    if len(source) > 1:
        return True
    return source[0] not in set(subterms(*target)) or isinstance(source[0], Variable)
