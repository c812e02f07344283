"""Equality saturation: many typed terms and many rules in one e-graph, and which terms came to be equal.

Terms of different worlds share nothing and never meet. A rule applies where its target has the type of what
it replaces; where conditions or sizes have a say, ``judgement`` decides, once for each combination of types.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from superopt.ir.terms import Application, Term, applications
from superopt.ir.types import TensorType
from superopt.rewriting.egraph.engine import Engine
from superopt.rewriting.egraph.judgement import Question
from superopt.rewriting.egraph.patterns import ORDERS, REWRITING, Pattern
from superopt.rewriting.egraph.vocabulary import PRELUDE, Vocabulary
from superopt.rewriting.substitution import Substitution
from superopt.rewriting.typing import Typing

_LATE = "rewriting_late"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a saturation may cost: steps (every rule everywhere at once), nodes, seconds (None: any)."""

    steps: int = 2
    nodes: int = 4_000_000
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """``equal``: the numbers of the pairs found equal, with the step after which they were.

    ``complete`` is False where a limit on nodes or seconds ended the run before its steps were done.
    """

    equal: Mapping[int, int]
    complete: bool
    nodes: int


@dataclass(frozen=True, slots=True)
class FirstStep:
    """Pairs that are equal but for the order of commuting inputs or by one step from left to right, and pairs
    of which a side can be made smaller."""

    reached: frozenset[int]
    shrinkable: frozenset[int]


class Rules:
    """Substitutions compiled once, for any number of e-graphs; also what was decided about types."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.patterns: list[Pattern] = []
        self._texts: set[str] = set()
        self.decided: dict[int, dict[tuple[int, ...], tuple[int, ...] | None]] = {}
        self.typed: dict[str, dict[tuple[int, ...], int | None]] = {}

    def add(self, substitution: Substitution, *, shrinks: bool = False) -> None:
        """One more substitution; ``shrinks``: it only ever makes terms smaller."""
        number = len(self.patterns)
        ruleset = ORDERS if _commutes(substitution) else REWRITING
        pattern = Pattern(Question(substitution), number, ruleset, shrinks)
        text = pattern.rule(self.vocabulary)
        if text not in self._texts:
            self._texts.add(text)
            self.patterns.append(pattern)
            self.decided[number] = {}


class Saturation:
    """One e-graph. Give it terms and pairs of terms, then ``run``; rules may be added between runs."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._engine = Engine()
        self._engine.execute(PRELUDE)
        self._declared: set[str] = set()
        self._loaded = 0
        self._inputs = 0
        self._sizes: dict[str, int] = {}
        self._seen: dict[str, set[tuple[int, ...]]] = {}
        self._facts: list[str] = []
        self._equal: dict[int, int] = {}
        self._nodes: int | None = None

    def world(self, number: int, types: Mapping[str, TensorType]) -> World:
        """A new world with inputs of these types; its number must be new."""
        return World(self, number, {name: self._input(type_, number) for name, type_ in types.items()})

    def run(self, limits: Limits) -> Outcome:
        """Applies all rules for so many steps, or until nothing changes; says which pairs are equal.

        A later call goes on from there, by one step of the rules that were added since the first one.
        """
        started = time.perf_counter()
        ruleset, steps = (REWRITING, limits.steps) if self._nodes is None else (_LATE, 1)
        self._load(ruleset)
        self._settle()
        nodes, found = self._answer(0)
        for step in range(1, steps + 1):
            late = limits.seconds is not None and time.perf_counter() - started > limits.seconds
            if late or nodes > limits.nodes:
                return Outcome(self._equal, complete=False, nodes=nodes)
            self._decide()
            self._engine.run(ORDERS)
            self._engine.run(ruleset)
            self._settle()
            before, (nodes, found) = (nodes, found), self._answer(step)
            if before == (nodes, found):
                break
        self._nodes = nodes
        return Outcome(self._equal, complete=True, nodes=nodes)

    def first_step(self) -> FirstStep:
        """What one step of the rules does to each pair; not to be mixed with ``run``.

        A later call adds what one step of the rules added since then does.
        """
        ruleset = _LATE if self._loaded else REWRITING
        self._load(ruleset, "(given r0)")
        self._type()
        self._reorder()
        self._engine.saturate("giving")
        self._decide()
        self._engine.run(ruleset)
        self._type()
        self._reorder()
        for ruleset in ("stepping", "comparing", "answering"):
            self._engine.saturate(ruleset)
        sizes = self._engine.sizes()
        equal, stepped, shrunk = (
            frozenset(n for (n,) in self._engine.rows(name, sizes[name]))
            for name in ("equal", "stepped", "shrunk")
        )
        return FirstStep(equal | stepped, shrunk)

    def add(self, commands: Iterable[str]) -> None:
        """Facts to be loaded before the next run."""
        self._facts += commands

    def declare(self, term: Term) -> None:
        """Makes the operators of a term known."""
        for application in applications(term):
            self._rules.vocabulary.constructor(application)

    @property
    def rules(self) -> Rules:
        """What is applied."""
        return self._rules

    def _input(self, type_: TensorType, world: int) -> int:
        number = self._inputs
        self._inputs += 1
        type_number = self._rules.vocabulary.types.of(type_)
        value = f"(input {number})"
        self._facts.append(f"(set (type {value}) {type_number}) (set (world {value}) {world})")
        return number

    def _load(self, ruleset: str, root: str = "") -> None:
        commands: list[str] = []
        for constructor in self._rules.vocabulary.constructors.values():
            if constructor.name not in self._declared:
                self._declared.add(constructor.name)
                commands += constructor.declarations()
                known = self._rules.typed.setdefault(constructor.name, {})
                commands += (_typed(constructor.name, key, type_) for key, type_ in known.items())
        for pattern in self._rules.patterns[self._loaded :]:
            chosen = ruleset if pattern.ruleset == REWRITING else pattern.ruleset
            commands += replace(pattern, ruleset=chosen).commands(self._rules.vocabulary, root)
            commands += (
                _row(pattern.table, key, answer)
                for key, answer in self._rules.decided[pattern.number].items()
                if answer is not None
            )
        self._loaded = len(self._rules.patterns)
        self._engine.execute([command for command in [*commands, *self._facts] if command])
        self._facts = []

    def _settle(self) -> None:
        self._type()
        self._engine.saturate("uniting")

    def _reorder(self) -> None:
        """Closes under the order of commuting inputs."""
        size = -1
        while size != (size := self._engine.sizes()["swapped"]):
            self._engine.run(ORDERS)
            self._type()

    def _type(self) -> None:
        """Gives every well-typed term its type."""
        vocabulary = self._rules.vocabulary
        while True:
            self._engine.saturate("typing")
            commands: list[str] = []
            tables = {f"want_{c.name}": c for c in vocabulary.constructors.values()}
            for name, keys in self._wanted(tables):
                constructor = tables[name]
                known = self._rules.typed[constructor.name]
                for key in keys:
                    if key not in known:
                        known[key] = vocabulary.output_type(constructor, key)
                        commands.append(_typed(constructor.name, key, known[key]))
            commands = [command for command in commands if command]
            if not commands:
                return
            self._engine.execute(commands)

    def _decide(self) -> None:
        """Decides where rules apply that have conditions, constants or halves."""
        self._engine.run("wanting")
        commands: list[str] = []
        patterns = {p.wants: p for p in self._rules.patterns[: self._loaded] if p.question.needed}
        for name, keys in self._wanted(patterns):
            pattern = patterns[name]
            known = self._rules.decided[pattern.number]
            for key in keys:
                if key not in known:
                    known[key] = answer = pattern.decide(key, self._rules.vocabulary)
                    if answer is not None:
                        commands.append(_row(pattern.table, key, answer))
        self._engine.execute(commands)

    def _wanted(self, names: Iterable[str]) -> Iterator[tuple[str, Sequence[tuple[int, ...]]]]:
        """The new rows of relations that ask for a decision."""
        sizes = self._engine.sizes()
        for name in names:
            if sizes[name] != self._sizes.get(name, 0):
                self._sizes[name] = sizes[name]
                seen = self._seen.setdefault(name, set())
                rows = sorted(row for row in self._engine.rows(name, sizes[name]) if row not in seen)
                seen.update(rows)
                yield name, rows

    def _answer(self, step: int) -> tuple[int, int]:
        """Notes the pairs that are equal now; the number of nodes, and of applications of rules."""
        self._engine.saturate("answering")
        sizes = self._engine.sizes()
        if sizes["equal"] > len(self._equal):
            for (number,) in self._engine.rows("equal", sizes["equal"]):
                self._equal.setdefault(number, step)
        return sum(sizes[name] for name in self._declared), sizes["found"] + sizes["swapped"]


@dataclass(frozen=True, slots=True)
class World:
    """Terms over inputs of their own."""

    saturation: Saturation
    number: int
    inputs: Mapping[str, int]

    def ask(self, number: int, left: Term, right: Term, typing: Typing) -> None:
        """Adds two terms, and the question whether they are equal, under its own number."""
        self.saturation.add((f"(asked {number} {self._text(left, typing)} {self._text(right, typing)})",))

    def insert(self, term: Term, typing: Typing) -> None:
        """Adds a term."""
        self.saturation.add((self._text(term, typing),))

    def ask_all(self, number: int, pairs: Sequence[tuple[Term, Term]], typing: Typing) -> None:
        """The question whether all pairs are equal, which adds no terms: what is not there equals nothing."""
        facts = [f"(= {self._text(a, typing)} {self._text(b, typing)})" for a, b in pairs]
        self.saturation.add((f"(rule ({' '.join(facts)}) ((equal {number})) :ruleset answering)",))

    def _text(self, term: Term, typing: Typing) -> str:
        self.saturation.declare(term)
        return self.saturation.rules.vocabulary.ground(term, typing, self.inputs, self.number)


def _commutes(substitution: Substitution) -> bool:
    """Whether it only exchanges the two inputs of one operator."""
    left, right = next(iter(substitution.source)), next(iter(substitution.target))
    return (
        len(substitution.source) == 1
        and not substitution.conditions
        and isinstance(left, Application)
        and isinstance(right, Application)
        and (left.operator, left.attributes) == (right.operator, right.attributes)
        and len(left.inputs) == 2
        and left.inputs == right.inputs[::-1]
        and left.inputs[0] != left.inputs[1]
        and not any(isinstance(child, Application) for child in left.inputs)
    )


def _typed(name: str, key: tuple[int, ...], type_: int | None) -> str:
    return "" if type_ is None else f"(set (typed_{name} {' '.join(map(str, key))}) {type_})"


def _row(table: str, key: tuple[int, ...], answer: tuple[int, ...]) -> str:
    return f"({table} {' '.join(map(str, (*key, *answer)))})"
