"""Compile a substitution to egglog rules: match its source, check applicability, build its target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from superopt.ir.numbers import AttributeVariable, NumberExpression
from superopt.ir.terms import Application, Term, Variable, applications
from superopt.ops.traits import HALVES
from superopt.rewriting.egraph.judgement import Question, Slot
from superopt.rewriting.egraph.vocabulary import UNDECIDED, Vocabulary, written

REWRITING, ORDERS = "rewriting", "orders"
"""Rulesets: commutativity, and all other rules."""


@dataclass(frozen=True)
class Pattern:
    """One direction of a rule. ``number`` names its tables; ``ruleset`` determines when it is applied."""

    question: Question
    number: int
    ruleset: str
    _names: Mapping[object, str] = field(init=False)

    def __post_init__(self) -> None:
        names: dict[object, str] = {name: f"x{i}" for i, name in enumerate(self.question.variables)}
        names |= {("attribute", name): f"a{i}" for i, name in enumerate(self.question.attributes)}
        cuts: dict[object, str] = {}
        for index, slot in enumerate((*self.question.given, *self.question.wanted)):
            key = (slot.term.inputs[:1], slot.term.attribute("axis"), slot in self.question.given)
            half = slot.term.operator in HALVES
            names[slot] = cuts.setdefault(key, f"i{index}") if half else f"i{index}"
        object.__setattr__(self, "_names", names)

    @property
    def table(self) -> str:
        """The relation of decisions: key, then implicit attributes of the target."""
        return f"allowed_{self.number}"

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What a decision depends on: types of variables and outputs, attributes, implicit attributes."""
        return (
            *(f"t{i}" for i in range(len(self.question.variables))),
            *(f"a{i}" for i in range(len(self.question.attributes))),
            *(self._names[slot] for slot in self.question.given),
            *(f"u{i}" for i in range(len(self.question.substitution.source))),
        )

    def rule(self, vocabulary: Vocabulary) -> str:
        """The rule apart from decisions about types: the same text for the same substitution."""
        return f"{self._body(vocabulary)} {self._head(vocabulary)} {self.question.substitution.conditions}"

    def commands(self, vocabulary: Vocabulary) -> Iterator[str]:
        """Declarations and rules; ``undecided`` of its keys must be declared."""
        body, head = self._body(vocabulary), self._head(vocabulary)
        if not self.question.needed:
            yield f"(rule ({body}) ({head}) :ruleset {self.ruleset})"
            return
        key, wanted = self.key, [self._names[slot] for slot in self.question.wanted]
        inputs = range(len(self.question.variables))
        values = [
            *(f"r{i}" for i in range(len(self.question.substitution.source))),
            *(f"x{i}" for i in inputs),
        ]
        match = f"(matched_{self.number} {' '.join(['w', *key, *values])})"
        numbers, sorts = ["i64"] * len(key), ["Value"] * len(values)
        yield f"(relation matched_{self.number} ({' '.join(['i64', *numbers, *sorts])}))"
        yield f"(relation {self.table} ({' '.join([*numbers, *['i64'] * len(wanted)])}))"
        types = " ".join(f"(= t{i} (type x{i}))" for i in inputs)
        asked = UNDECIDED.call(self.number, key)
        yield f"(rule ({body} {types}) ({match} {asked}) :ruleset wanting)"
        allowed = f"({self.table} {' '.join([*key, *wanted])})"
        yield f"(rule ({match} {allowed}) ({head}) :ruleset {self.ruleset})"

    def _body(self, vocabulary: Vocabulary) -> str:
        rule = self.question.substitution
        body = [f"(= r{i} {self._text(term, vocabulary)})" for i, term in enumerate(rule.source)]
        body += [f"(= u{i} (type r{i}))" for i in range(len(rule.source))]
        if len(rule.source) > 1 or (
            all(term.inputs for term in applications(*rule.source))
            and (self.question.needed or not all(term.inputs for term in applications(*rule.target)))
        ):
            body += [f"(= w (world r{i}))" for i in range(len(rule.source))]
        return " ".join(body)

    def _head(self, vocabulary: Vocabulary) -> str:
        target = self.question.substitution.target
        texts = [self._text(term, vocabulary) for term in target]
        if self.ruleset == ORDERS:
            return f"(union r0 {texts[0]}) (swapped r0)"
        return " ".join(f"(found r{i} {text})" for i, text in enumerate(texts))

    def decide(self, key: tuple[int, ...], vocabulary: Vocabulary) -> tuple[int, ...] | None:
        """The implicit attributes of the target for one key; None where the rule does not apply."""
        numbers = iter(key)
        types = {name: vocabulary.type(next(numbers)) for name in self.question.variables}
        attributes = {name: vocabulary.attributes.value(next(numbers)) for name in self.question.attributes}
        given = [vocabulary.attributes.value(next(numbers)) for _ in self.question.given]
        roots = [vocabulary.type(number) for number in numbers]
        answer = self.question.answer(types, attributes, given, roots)
        return None if answer is None else tuple(vocabulary.attributes.of(value) for value in answer)

    def _text(self, term: Term, vocabulary: Vocabulary) -> str:
        if isinstance(term, Variable):
            return self._names[term.name]
        columns = [self._column(term, name, value, vocabulary) for name, value in written(term)]
        inputs = [self._text(child, vocabulary) for child in term.inputs]
        return f"({' '.join([vocabulary.constructor(term).name, *columns, *(inputs or ['w'])])})"

    def _column(self, term: Application, name: str, value: object, vocabulary: Vocabulary) -> str:
        if value is None or isinstance(value, NumberExpression):
            return self._names[Slot(term, name)]
        if isinstance(value, AttributeVariable):
            return self._names["attribute", value.name]
        return str(vocabulary.attributes.of(value))
