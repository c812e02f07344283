"""Equality saturation: adds typed terms and rules to one e-graph and reports the terms that become equal.

Terms of different worlds share nothing and never become equal. A rule applies where its target has the type
of what it replaces; where conditions or sizes matter, ``judgement`` decides, once for each combination of
types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from superopt.ir.terms import Application, Term, applications
from superopt.ir.types import TensorType
from superopt.rewriting.egraph.engine import Engine
from superopt.rewriting.egraph.judgement import Question
from superopt.rewriting.egraph.patterns import ORDERS, REWRITING, Pattern
from superopt.rewriting.egraph.vocabulary import PRELUDE, UNDECIDED, WANTED, Pending, Vocabulary
from superopt.rewriting.substitution import Substitution
from superopt.rewriting.typing import Typing

_LATE = "rewriting_late"


@dataclass(frozen=True, slots=True)
class SaturationLimits:
    """Limits of a saturation: steps (every rule applied everywhere once), nodes."""

    steps: int = 2
    nodes: int = 4_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """``equal``: the numbers of the pairs found equal, with the step. ``complete`` is False where the limit
    on nodes ended the run before its steps were done."""

    equal: Mapping[int, int]
    complete: bool
    nodes: int


class _Base:
    """An e-graph with rules and no terms, restored for every saturation."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.engine.execute(PRELUDE)
        self.declared: set[str] = set()
        self.loaded = 0
        self.users = 0
        self.relations: dict[tuple[Pending, str], None] = {}
        self.before: tuple[set[str], int, dict[tuple[Pending, str], None]] = (set(), 0, {})

    def load(self, rules: Rules, ruleset: str) -> None:
        """Adds rules that are missing."""
        commands: list[str] = []
        for constructor in rules.vocabulary.constructors.values():
            if constructor.name not in self.declared:
                self.declared.add(constructor.name)
                commands += self._pending(WANTED, constructor.key_length)
                commands += constructor.declarations()
        for pattern in rules.patterns[self.loaded :]:
            if pattern.question.needed:
                commands += self._pending(UNDECIDED, len(pattern.key))
            chosen = ruleset if pattern.ruleset == REWRITING else pattern.ruleset
            commands += replace(pattern, ruleset=chosen).commands(rules.vocabulary)
        self.loaded = len(rules.patterns)
        self.engine.execute(commands)

    def pending(self, kind: Pending) -> Iterator[str]:
        """The declared relations of one kind."""
        return (name for known, name in self.relations if known is kind)

    def _pending(self, kind: Pending, length: int) -> Iterator[str]:
        """The declaration of a relation that is missing."""
        key = (kind, kind.name(length))
        if key not in self.relations:
            self.relations[key] = None
            yield kind.declaration(length)


class Rules:
    """Substitutions compiled once, for any number of consecutive saturations, with cached decisions. An
    e-graph is kept with the rules alone: each saturation starts from a copy of it."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.patterns: list[Pattern] = []
        self._texts: set[str] = set()
        self.decided: dict[int, dict[tuple[int, ...], tuple[int, ...] | None]] = {}
        self.typed: dict[str, dict[tuple[int, ...], int | None]] = {}
        self._base: _Base | None = None

    def lent(self) -> _Base:
        """The e-graph with all rules and no terms; ends the saturation that used it."""
        base = self._base
        if base is None:
            base = self._base = _Base()
        elif base.users:
            base.engine.execute(("(pop)",))
            base.declared, base.loaded, base.relations = base.before
        base.load(self, REWRITING)
        base.before = (set(base.declared), base.loaded, dict(base.relations))
        base.users += 1
        base.engine.execute(("(push)",))
        return base

    def add(self, substitution: Substitution) -> None:
        """Adds a substitution."""
        number = len(self.patterns)
        ruleset = ORDERS if _commutes(substitution) else REWRITING
        pattern = Pattern(Question(substitution), number, ruleset)
        text = pattern.rule(self.vocabulary)
        if text not in self._texts:
            self._texts.add(text)
            self.patterns.append(pattern)
            self.decided[number] = {}


class Saturation:
    """A saturation of one e-graph. Add terms and pairs of terms, then ``run``; rules may be added between
    runs."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lent: _Base | None = None
        self._turn = 0
        self._inputs = 0
        self._sizes: dict[str, int] = {}
        self._seen: dict[str, set[tuple[int, ...]]] = {}
        self._facts: list[str] = []
        self._equal: dict[int, int] = {}

    def world(self, number: int, types: Mapping[str, TensorType]) -> World:
        """A new world with inputs of these types; its number must be new."""
        return World(self, number, {name: self._input(type_, number) for name, type_ in types.items()})

    def run(self, limits: SaturationLimits) -> Outcome:
        """Applies all rules for the given number of steps, or until nothing changes; returns the equal pairs.
        A later call continues, starting with one step of the rules added since the first."""
        ruleset = self._load()
        steps = limits.steps if ruleset == REWRITING else 1
        self._settle()
        nodes, found = self._answer(0)
        for step in range(1, steps + 1):
            if nodes > limits.nodes:
                return Outcome(self._equal, complete=False, nodes=nodes)
            self._decide()
            self._engine.run(ORDERS)
            self._engine.run(ruleset)
            self._settle()
            before, (nodes, found) = (nodes, found), self._answer(step)
            if before == (nodes, found):
                break
        return Outcome(self._equal, complete=True, nodes=nodes)

    def add(self, commands: Iterable[str]) -> None:
        """Adds facts to be loaded before the next run."""
        self._facts += commands

    def declare(self, term: Term) -> None:
        """Declares the operators of a term."""
        for application in applications(term):
            self._rules.vocabulary.constructor(application)

    @property
    def rules(self) -> Rules:
        """The rules in use."""
        return self._rules

    def _input(self, type_: TensorType, world: int) -> int:
        number = self._inputs
        self._inputs += 1
        type_number = self._rules.vocabulary.types.of(type_)
        value = f"(input {number})"
        self._facts.append(f"(set (type {value}) {type_number}) (set (world {value}) {world})")
        return number

    @property
    def _base(self) -> _Base:
        if self._lent is None or self._lent.users != self._turn:
            raise RuntimeError("this saturation is over: its rules are in use by a later one")
        return self._lent

    @property
    def _engine(self) -> Engine:
        return self._base.engine

    def _load(self) -> str:
        """Loads new rules and facts; returns the ruleset to apply."""
        is_first = self._lent is None
        if is_first:
            self._lent = self._rules.lent()
            self._turn = self._lent.users
        self._base.load(self._rules, _LATE)
        self._engine.execute(self._facts)
        self._facts = []
        return REWRITING if is_first else _LATE

    def _settle(self) -> None:
        self._type()
        self._engine.saturate("uniting")

    def _type(self) -> None:
        """Infers the type of every well-typed term."""
        vocabulary = self._rules.vocabulary
        while True:
            self._engine.saturate("typing")
            commands: list[str] = []
            constructors = tuple(vocabulary.constructors.values())
            for number, *rest in self._asked(WANTED):
                constructor, key = constructors[number], tuple(rest)
                known = self._rules.typed.setdefault(constructor.name, {})
                if key not in known:
                    known[key] = vocabulary.output_type(constructor, key)
                if known[key] is not None:
                    commands.append(f"(set (typed_{constructor.name} {_row(key)}) {known[key]})")
            if not commands:
                return
            self._engine.execute(commands)

    def _decide(self) -> None:
        """Decides where rules with conditions, constants or halves apply."""
        self._engine.run("wanting")
        commands: list[str] = []
        for number, *rest in self._asked(UNDECIDED):
            pattern, key = self._rules.patterns[number], tuple(rest)
            known = self._rules.decided[number]
            if key not in known:
                known[key] = pattern.decide(key, self._rules.vocabulary)
            answer = known[key]
            if answer is not None:
                commands.append(f"({pattern.table} {_row((*key, *answer))})")
        self._engine.execute(commands)

    def _asked(self, kind: Pending) -> Iterator[tuple[int, ...]]:
        """The new rows of the relations of pending decisions."""
        sizes = self._engine.sizes()
        for name in self._base.pending(kind):
            if sizes[name] != self._sizes.get(name, 0):
                self._sizes[name] = sizes[name]
                seen = self._seen.setdefault(name, set())
                rows = sorted(row for row in self._engine.rows(name, sizes[name]) if row not in seen)
                seen.update(rows)
                yield from rows

    def _answer(self, step: int) -> tuple[int, int]:
        """Records the pairs that are now equal; returns the number of nodes, and of rule applications."""
        self._engine.saturate("answering")
        sizes = self._engine.sizes()
        if sizes["equal"] > len(self._equal):
            for (number,) in self._engine.rows("equal", sizes["equal"]):
                self._equal.setdefault(number, step)
        return sum(sizes[name] for name in self._base.declared), sizes["found"] + sizes["swapped"]


@dataclass(frozen=True, slots=True)
class World:
    """Terms over separate inputs."""

    saturation: Saturation
    number: int
    inputs: Mapping[str, int]

    def ask(self, number: int, left: Term, right: Term, typing: Typing) -> None:
        """Adds two terms, and the query under this number whether they are equal."""
        self.saturation.add((f"(asked {number} {self._text(left, typing)} {self._text(right, typing)})",))

    def insert(self, term: Term, typing: Typing) -> None:
        """Inserts a term."""
        self.saturation.add((self._text(term, typing),))

    def ask_all(self, number: int, pairs: Sequence[tuple[Term, Term]], typing: Typing) -> None:
        """The query whether all pairs are equal, without inserting terms: missing terms equal nothing."""
        facts = [f"(= {self._text(a, typing)} {self._text(b, typing)})" for a, b in pairs]
        self.saturation.add((f"(rule ({' '.join(facts)}) ((equal {number})) :ruleset answering)",))

    def _text(self, term: Term, typing: Typing) -> str:
        self.saturation.declare(term)
        return self.saturation.rules.vocabulary.ground(term, typing, self.inputs, self.number)


def _commutes(substitution: Substitution) -> bool:
    """Whether the rule only exchanges the two inputs of one operator."""
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


def _row(numbers: tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))
