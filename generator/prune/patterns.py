"""Compilation of rules to patterns over a term bank: operators to match, and operators to look up.

A rule with attribute variables becomes one pattern per fitting choice of the bank's operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.generator.generalise.terms import explicit
from superopt.generator.prune.bank import Bank
from superopt.ir.numbers import AttributeVariable, NumberExpression, has_value
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    calculated,
    operator_count,
    variables,
)
from superopt.ops.traits import HALVES

CONSTANT = -2
"""``CONSTANT - row`` stands for a constant where the number of a slot or of a result would."""

Attributes = tuple[tuple[str, AttributeTerm], ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One side of a rule as operators to match, the other as operators to look up.

    Slots are filled with the arguments of ``root``, then of each of ``expansions`` (slot, operator), in
    order. ``equal`` pairs of slots hold one class; ``fixed`` (slot, row) that constant. ``lookups`` are
    (operator, sources): slots, earlier lookups counted on from ``slots``, or constants. ``results`` are
    sources as well.
    ``cut`` are the operators that make the results of the root, where these are its halves.
    """

    root: int
    expansions: tuple[tuple[int, int], ...]
    slots: int
    equal: tuple[tuple[int, int], ...]
    fixed: tuple[tuple[int, int], ...]
    lookups: tuple[tuple[int, tuple[int, ...]], ...]
    results: tuple[int, ...]
    cut: tuple[int, ...]
    uses: int
    shrinks: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A kept equation, from a term that determines all of the other side; ``uses`` as in a bank.

    If the other side is the two halves of the term, ``halves`` are the splitting operators. ``shrinks``: the
    rule strictly shrinks terms.
    """

    source: Application
    targets: tuple[Term, ...]
    halves: tuple[Application, ...]
    uses: int
    shrinks: bool

    @classmethod
    def of(cls, equation: Equation, uses: int) -> Rule | None:
        """The equation as a rule; None if neither side determines the other."""
        one, other = (tuple(map(explicit, side)) for side in (equation.left, equation.right))
        if len(one) > 1:
            return cls._merge(one, other, uses)
        sides = [pair for pair in ((one, other), (other, one)) if _determines(*pair)]
        if not sides:
            return None
        forward = equation.direction is Direction.FORWARD
        shrinks = forward and operator_count(*other) < operator_count(*one)
        chosen, target = sides[0] if shrinks else min(sides, key=lambda pair: operator_count(*pair[0]))
        source = next(iter(chosen))
        assert isinstance(source, Application)
        return cls(source, target, (), uses, shrinks)

    @classmethod
    def _merge(cls, outputs: tuple[Term, ...], halves: tuple[Term, ...], uses: int) -> Rule | None:
        cuts = tuple(half for half in halves if isinstance(half, Application) and half.operator in HALVES)
        if len(cuts) < len(halves) or len({cut.inputs for cut in cuts}) > 1:
            return None
        (whole,) = cuts[0].inputs
        if not isinstance(whole, Application) or not _determines((whole,), outputs):
            return None
        return cls(whole, outputs, cuts, uses, shrinks=False)

    @property
    def operators(self) -> tuple[Application, ...]:
        """All applications."""
        return tuple(applications(self.source, *self.targets, *self.halves))


class Vocabulary:
    """The operators and constants of a bank, by name."""

    def __init__(self, bank: Bank) -> None:
        self._operators: dict[str, list[tuple[int, Attributes]]] = {}
        for number, instance in bank.vocabulary:
            # The term is never typed: its inputs are left out.
            whole = explicit(Application(instance.name, instance.attributes, ()))
            assert isinstance(whole, Application)
            self._operators.setdefault(instance.name, []).append((number, whole.attributes))
        self._constants: dict[str, list[tuple[int, Attributes]]] = {}
        for term in bank.constants:
            row, whole = bank.leaf(term), explicit(term)
            assert isinstance(whole, Application)
            if row is not None:
                self._constants.setdefault(term.operator, []).append((row, whole.attributes))

    def patterns(self, rule: Rule) -> Iterator[Pattern]:
        """The rule with operators of the bank, in every way."""
        terms = rule.operators
        for numbers in self._choices(terms, {}):
            yield _pattern(rule, dict(zip(terms, numbers, strict=True)))

    def commuting(self, rule: Rule) -> set[int]:
        """The operators of which the rule says that their arguments commute."""
        match rule.source, rule.targets:
            case (
                Application(operator, attributes, (Variable() as a, Variable() as b)),
                (Application(other, same, swapped),),
            ) if operator == other and attributes == same and swapped == (b, a) and a != b:
                return {numbers[0] for numbers in self._choices((rule.source,), {})}
            case _:
                return set()

    def _choices(
        self, terms: Sequence[Application], bound: Mapping[str, AttributeTerm]
    ) -> Iterator[tuple[int, ...]]:
        if not terms:
            yield ()
            return
        term = terms[0]
        known = self._operators if term.inputs else self._constants
        for number, attributes in known.get(term.operator, ()):
            binding = _bound(term.attributes, attributes, bound)
            if binding is not None:
                for rest in self._choices(terms[1:], binding):
                    yield (number, *rest)


def _bound(
    pattern: Attributes, attributes: Attributes, bound: Mapping[str, AttributeTerm]
) -> Mapping[str, AttributeTerm] | None:
    if len(pattern) != len(attributes):
        return None
    binding = dict(bound)
    for (name, wanted), (other, value) in zip(pattern, attributes, strict=True):
        if name != other:
            return None
        if isinstance(wanted, AttributeVariable):
            if binding.setdefault(wanted.name, value) != value:
                return None
        elif isinstance(wanted, NumberExpression):
            if not has_value(wanted, binding, value):
                return None
        elif wanted != value:
            return None
    return binding


def _determines(source: Sequence[Term], target: Sequence[Term]) -> bool:
    return (
        not any(isinstance(term, Variable) for term in source)
        and not any(calculated(*source))
        and set(variables(*target)) <= set(variables(*source))
        and attribute_variables(*target) <= attribute_variables(*source)
        and any(term.inputs for term in applications(*source))
    )


def _pattern(rule: Rule, numbers: Mapping[Application, int]) -> Pattern:
    slots: list[Term] = list(rule.source.inputs)
    expansions: list[tuple[int, int]] = []
    places: dict[Term, int] = {}
    equal: list[tuple[int, int]] = []
    fixed: list[tuple[int, int]] = []
    at = 0
    while at < len(slots):
        term = slots[at]
        first = places.setdefault(term, at)
        if first < at:
            equal.append((at, first))
        elif isinstance(term, Application) and not term.inputs:
            fixed.append((at, numbers[term]))
        elif isinstance(term, Application):
            expansions.append((at, numbers[term]))
            slots += term.inputs
        at += 1
    count = len(slots)
    lookups: list[tuple[int, tuple[int, ...]]] = []
    results: dict[Term, int] = dict(places)
    for term in applications(*rule.targets):
        if not term.inputs:
            results[term] = CONSTANT - numbers[term]
        elif term not in results:
            lookups.append((numbers[term], tuple(results[child] for child in term.inputs)))
            results[term] = count + len(lookups) - 1
    return Pattern(
        numbers[rule.source],
        tuple(expansions),
        count,
        tuple(equal),
        tuple(fixed),
        tuple(lookups),
        tuple(results[term] for term in rule.targets),
        tuple(numbers[half] for half in rule.halves),
        rule.uses,
        rule.shrinks,
    )
