"""Generalisation of an equation: equal subterms and agreeing attributes become variables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

from superopt.generator.generalise.conditions import SAMPLES, differs_at_other_ranks, under_conditions
from superopt.generator.generalise.numbers import has_open_numbers, with_related_numbers
from superopt.generator.generalise.sampling import Sampler, Shapes
from superopt.generator.generalise.terms import Attributes, brief, explicit, map_terms, with_attributes
from superopt.instances.values import FEW_FRACTIONS, FEW_INTEGERS, FEW_VALUES
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Equation,
    Term,
    Variable,
    applications,
    operator_count,
    variables,
)
from superopt.ops.traits import HALVES
from superopt.rewriting import why_unusable

GROUPS = (*FEW_VALUES, "")
"""Names of groups of attributes that are opened together; the last one is that of plain numbers."""

_MOST_OCCURRENCES = 4
_MOST_GROUPS_LEFT_OUT = 5
"""Maximum number of open attribute groups for which forms with one group closed are also proposed."""


@dataclass(frozen=True, slots=True)
class Group:
    """Attributes of equal value: with one name, or plain numbers with any name.

    Degrees of equal value can be separated by ``places``: the axes that they divide.
    """

    attribute: str
    value: AttributeTerm
    variable: AttributeVariable
    tried: tuple[AttributeTerm, ...]
    places: frozenset[AttributeTerm | None] = frozenset()

    def holds_value(self, term: Application, name: str, value: AttributeTerm) -> bool:
        """Whether that attribute of the term is in the group."""
        own = _group_of(name, value) == (self.attribute, self.value)
        return own and (not self.places or term.attribute("axis") in self.places)


class Generaliser:
    """Finds more general forms of an equation by evaluation; the verifier decides whether they hold."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def true_form(self, equation: Equation, shapes: Shapes) -> Equation | None:
        """The equation, with conditions if needed; None if it is false."""
        held = self._sampler.holds(equation, shapes, samples=SAMPLES)
        return equation if held else under_conditions(equation, shapes, self._sampler)

    def without_common_subterms(self, equation: Equation, shapes: Shapes) -> tuple[Equation, Shapes] | None:
        """The equation with a subterm of both sides made a variable, where that holds; None otherwise."""
        for candidate, wider in self.shorter_forms(equation, shapes):
            if self.true_form(candidate, wider) is not None:
                return candidate, wider
        return None

    def shorter_forms(self, equation: Equation, shapes: Shapes) -> Iterator[tuple[Equation, Shapes]]:
        """The equation with one subterm of both sides made a variable, whether or not it then holds."""
        left, right = set(applications(*equation.left)), set(applications(*equation.right))
        for subterm in sorted(left & right, key=lambda term: (-operator_count(term), repr(term))):
            if subterm in equation.left or subterm in equation.right:
                continue
            name = _fresh(equation.variables)
            shape = self._sampler.shape_of(subterm, shapes)
            candidate = map_terms(equation, partial(_replaced, old=subterm, new=Variable(name)))
            if shape is not None and _keeps_directions(equation, candidate):
                names = candidate.variables
                yield candidate, {n: shape if n == name else shapes[n] for n in names}

    def with_more_variables(self, equation: Equation, shapes: Shapes) -> tuple[Equation, Shapes] | None:
        """The equation with some occurrences of a variable renamed to a new one, if that holds; else None."""
        targets = merged_whole(equation) or equation.right
        for name in variables(*equation.left):
            here, there = _occurrences(equation.left, name), _occurrences(targets, name)
            if min(here, there) < 2 or max(here, there) > _MOST_OCCURRENCES:
                continue
            fresh = _fresh(equation.variables)
            wider = {**shapes, fresh: shapes[name]}
            for chosen, others in itertools.product(_selections(here), _selections(there)):
                if 0 in chosen:
                    continue
                left = _renamed(equation.left, name, fresh, chosen)
                right = _renamed(targets, name, fresh, others)
                if targets is not equation.right:
                    right = [_with_input(half, right[0]) for half in equation.right]
                candidate = replace(equation, left=tuple(left), right=tuple(right))
                if self._sampler.holds(candidate, wider, samples=1) is None:
                    continue
                if _keeps_directions(equation, candidate) and self.true_form(candidate, wider) is not None:
                    return candidate, wider
        return None

    def attribute_forms(self, equation: Equation, shapes: Shapes) -> tuple[Equation, ...]:
        """Forms of the equation with attribute variables that still hold, most general first; itself last."""
        full = map_terms(equation, explicit)
        groups = self._with_degrees_apart(full, self._open_groups(full, shapes), shapes)
        chosen: list[tuple[Group, ...]] = []
        if len(groups) > 1:
            largest = tuple(groups)
            while len(largest) > 1 and not self._holds_openly(full, largest, shapes):
                largest = largest[:-1]
            if len(largest) > 1:
                chosen.append(largest)
            if 2 < len(largest) <= _MOST_GROUPS_LEFT_OUT:
                chosen += [tuple(g for g in largest if g is not closed) for closed in reversed(largest)]
        chosen += [(group,) for group in groups]
        forms = [_opened(full, selection) for selection in chosen]
        return tuple(map_terms(form, brief) for form in [*forms, full])

    def directed_forms(self, equation: Equation, shapes: Shapes) -> tuple[Equation, ...]:
        """Forms of the equation with open numbers from which others are calculated, one for each direction in
        which that is possible."""
        full = map_terms(equation, explicit)
        if not has_open_numbers(full):
            return ()
        groups = [group for group in self._open_groups(full, shapes) if group.attribute]
        if len(groups) > 1 and not self._holds_openly(full, groups, shapes):
            groups = groups[:1]
        values = {group.variable.name: group.value for group in groups}
        opened = _opened(full, groups)
        related = with_related_numbers(opened, shapes, values, self._sampler)
        return tuple(map_terms(form, brief) for form in related)

    def holds_with_one_open(self, equation: Equation, shapes: Shapes, attributes: frozenset[str]) -> bool:
        """Whether the equation holds with one of these GROUPS of attributes open."""
        full = map_terms(equation, explicit)
        groups = (group for group in _groups(full) if group.attribute in attributes)
        return any(self._holds_openly(full, (group,), shapes) for group in groups)

    def closed(self, equation: Equation) -> frozenset[str]:
        """The names of the GROUPS with fixed values in the equation."""
        full = map_terms(equation, explicit)
        return frozenset(group.attribute for group in _groups(full))

    def _open_groups(self, full: Equation, shapes: Shapes) -> list[Group]:
        """The groups that may be open, each by itself; all but axes at once where all values are met."""
        groups = _groups(full)
        axes = [g for g in groups if g.attribute == "axis" and self._holds_openly(full, (g,), shapes)]
        others = [group for group in groups if group.attribute != "axis"]
        if len(others) > 1:
            seen = self._values_met(full, (*axes, *others), shapes)
            if seen and all(seen[group.variable.name] >= set(group.tried) for group in others):
                return [group for group in groups if group in axes or group in others]
        return [g for g in groups if g in axes or (g in others and self._holds_openly(full, (g,), shapes))]

    def _with_degrees_apart(self, full: Equation, groups: list[Group], shapes: Shapes) -> list[Group]:
        """The groups with degrees along different axes told apart, but for those that have to be equal."""
        found: list[Group] = []
        for group in groups:
            places = _places(full, group) if group.attribute == "degree" else []
            alone = [
                each
                for number, place in enumerate(places if len(places) > 1 else ())
                if self._holds_openly(full, (each := _placed(group, (place,), number),), shapes)
            ]
            free = [place for each in alone for place in each.places]
            rest = [place for place in places if place not in free]
            apart = [*([_placed(group, rest, len(places))] if rest else []), *alone]
            if alone and self._holds_openly(full, [g for g in groups if g is not group] + apart, shapes):
                found += apart
            else:
                found.append(group)
        return found

    def _holds_openly(self, full: Equation, groups: Sequence[Group], shapes: Shapes) -> bool:
        seen = self._values_met(full, groups, shapes)
        return seen is not None and all(len(values) > 1 for values in seen.values())

    def _values_met(
        self, full: Equation, groups: Sequence[Group], shapes: Shapes
    ) -> Mapping[str, set[object]] | None:
        """The values of open attributes at which the equation is typed and holds; None where it is false."""
        opened = _opened(full, groups)
        if not _keeps_directions(full, opened):
            return None
        seen: dict[str, set[object]] = {group.variable.name: set() for group in groups}
        for values in sorted(
            _settings(groups), key=lambda v: sum(v[g.variable.name] == g.value for g in groups)
        ):
            result = self._sampler.holds(opened, shapes, values, samples=1)
            if result is False or (result and self._sampler.equates_sizes(opened, shapes, values)):
                return None
            if result is None and self._sampler.differs_in_type(opened, shapes, values):
                return None
            if result and differs_at_other_ranks(opened, shapes, self._sampler, values):
                return None
            if result:
                for name, value in values.items():
                    seen[name].add(value)
        return seen


def _groups(full: Equation) -> list[Group]:
    found: dict[tuple[str, AttributeTerm], Group] = {}
    for term in full.applications:
        for name, value in term.attributes:
            key = _group_of(name, value)
            if key is not None and key not in found:
                found[key] = Group(key[0], value, AttributeVariable(f"{name}{len(found)}"), _tried(*key))
    return sorted(found.values(), key=lambda group: (GROUPS.index(group.attribute), str(group.value)))


def _group_of(name: str, value: AttributeTerm) -> tuple[str, AttributeTerm] | None:
    if isinstance(value, AttributeVariable):
        return None
    if name in FEW_VALUES:
        return name, value
    return ("", value) if isinstance(value, int | Fraction) else None


def _tried(attribute: str, value: AttributeTerm) -> tuple[AttributeTerm, ...]:
    return FEW_VALUES.get(attribute) or (FEW_INTEGERS if isinstance(value, int) else FEW_FRACTIONS)


def _settings(groups: Sequence[Group]) -> Iterator[Mapping[str, object]]:
    """Values to test: all combinations of axes, while other attributes cycle through theirs."""
    axes = [group for group in groups if group.attribute == "axis"]
    others = [group for group in groups if group.attribute != "axis"]
    longest = max((len(group.tried) for group in others), default=1)
    combinations = list(itertools.product(FEW_VALUES["axis"], repeat=len(axes)))
    for step in range(max(longest, len(combinations))):
        chosen = combinations[step % len(combinations)]
        yield {group.variable.name: value for group, value in zip(axes, chosen, strict=True)} | {
            group.variable.name: group.tried[(step + shift) % len(group.tried)]
            for shift, group in enumerate(others)
        }


def _places(full: Equation, group: Group) -> list[AttributeTerm | None]:
    """The axes along which degrees of the group divide, None for replicas."""
    terms = full.applications
    own = (t for t in terms if any(group.holds_value(t, name, value) for name, value in t.attributes))
    return list(dict.fromkeys(term.attribute("axis") for term in own))


def _placed(group: Group, places: Sequence[AttributeTerm | None], number: int) -> Group:
    variable = AttributeVariable(f"{group.variable.name}.{number}") if number else group.variable
    return Group(group.attribute, group.value, variable, group.tried, frozenset(places))


def _opened(full: Equation, groups: Sequence[Group]) -> Equation:
    def value_of(term: Application, name: str, value: AttributeTerm) -> AttributeTerm:
        own = (group.variable for group in groups if group.holds_value(term, name, value))
        return next(own, value)

    def opened(term: Application) -> Attributes:
        return tuple((name, value_of(term, name, value)) for name, value in term.attributes)

    return map_terms(full, partial(with_attributes, attributes=opened))


def _keeps_directions(equation: Equation, candidate: Equation) -> bool:
    pairs = ((equation.left, equation.right), (equation.right, equation.left))
    others = ((candidate.left, candidate.right), (candidate.right, candidate.left))
    return all(not _is_usable(*pair) or _is_usable(*other) for pair, other in zip(pairs, others, strict=True))


@lru_cache(maxsize=1 << 12)
def _is_usable(source: tuple[Term, ...], target: tuple[Term, ...]) -> bool:
    return why_unusable(source, target) is None


def _replaced(term: Term, old: Term, new: Term) -> Term:
    if term == old:
        return new
    if isinstance(term, Variable):
        return term
    return Application(
        term.operator, term.attributes, tuple(_replaced(child, old, new) for child in term.inputs)
    )


def merged_whole(equation: Equation) -> tuple[Term, ...] | None:
    """The term of which the right sides are the two halves, if they are."""
    halves = [t for t in equation.right if isinstance(t, Application) and t.operator in HALVES]
    return halves[0].inputs if len(halves) == 2 and halves[0].inputs == halves[1].inputs else None


def _with_input(half: Term, whole: Term) -> Term:
    assert isinstance(half, Application)
    return Application(half.operator, half.attributes, (whole,))


def _occurrences(terms: Sequence[Term], name: str) -> int:
    return sum(
        term.name == name if isinstance(term, Variable) else _occurrences(term.inputs, name) for term in terms
    )


def _selections(count: int) -> Iterator[frozenset[int]]:
    """The non-empty proper subsets of so many occurrences, small ones first."""
    for size in range(1, count):
        for chosen in itertools.combinations(range(count), size):
            yield frozenset(chosen)


def _renamed(terms: Sequence[Term], old: str, new: str, chosen: frozenset[int]) -> list[Term]:
    """The terms with the chosen occurrences of a variable, counted from left to right, renamed."""
    counter = itertools.count()

    def renamed(term: Term) -> Term:
        if isinstance(term, Variable):
            return Variable(new) if term.name == old and next(counter) in chosen else term
        return Application(term.operator, term.attributes, tuple([renamed(child) for child in term.inputs]))

    return [renamed(term) for term in terms]


def _fresh(names: Sequence[str]) -> str:
    return next(name for i in itertools.count() if (name := f"t{i}") not in names)
