"""Encode terms as egglog text: a constructor for every operator, numbers for types and attribute values.

The type of a value is looked up in a table that is filled on demand by the operator's own ``infer``; no
operator is a special case. Terms belong to disjoint worlds: constants carry the number of their world, inputs
belong to one, and every other term belongs to the world of its first input.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from superopt.errors import IllTypedError
from superopt.ir.numbers import AttributeVariable, names_of
from superopt.ir.terms import Application, AttributeTerm, Term, Variable
from superopt.ir.types import TensorType
from superopt.ops.attributes import normalise_attribute
from superopt.ops.base import OPERATORS, attribute_defaults, attribute_names, attributes_of
from superopt.ops.base import operator_from_attributes as operator_of
from superopt.rewriting.typing import Typing

_RULESETS = ("typing", "wanting", "orders", "rewriting", "rewriting_late", "uniting", "answering")

PRELUDE = (
    "(sort Value)",
    "(constructor input (i64) Value)",
    "(function type (Value) i64 :no-merge)",
    "(function world (Value) i64 :no-merge)",
    "(relation found (Value Value))",
    "(relation swapped (Value))",
    "(relation asked (i64 Value Value))",
    "(relation equal (i64))",
    *(f"(ruleset {name})" for name in _RULESETS),
    "(rule ((found a b) (= t (type a)) (= t (type b))) ((union a b)) :ruleset uniting)",
    "(rule ((asked n a a)) ((equal n)) :ruleset answering)",
)
"""Declarations of every e-graph. ``found`` pairs a source with its target, which has yet to be typed."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Relations of what has yet to be decided outside of the e-graph: who asks, and the key.

    There is one for each length of keys, since reading a relation costs time for each relation.
    """

    prefix: str

    def name(self, length: int) -> str:
        """The relation for keys of that length."""
        return f"{self.prefix}_{length}"

    def declaration(self, length: int) -> str:
        """Declares the relation for keys of that length."""
        return f"(relation {self.name(length)} ({' '.join(['i64'] * (length + 1))}))"

    def call(self, asking: int, key: Sequence[str]) -> str:
        """The fact that this key is asked for."""
        return _call(self.name(len(key)), str(asking), *key)


WANTED, UNDECIDED = Pending("wanted"), Pending("undecided")
"""Types of outputs that constructors ask for, and applications that rules ask for."""


@dataclass(frozen=True, slots=True)
class Constructor:
    """An operator with a number of inputs; its columns are all its attributes, including implicit ones.

    ``number`` names it in the relation of types that are asked for.
    """

    operator: str
    arity: int
    number: int

    @property
    def name(self) -> str:
        """Its name in the e-graph."""
        return f"{self.operator}_{self.arity}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes, in order."""
        return attribute_names(self.operator)

    @property
    def key_length(self) -> int:
        """The number of attributes and inputs, whose values and types determine the output's type."""
        return len(self.columns) + self.arity

    def declarations(self) -> Iterator[str]:
        """Declares the constructor and its typing relation; ``wanted`` of its keys must be declared."""
        name, children = self.name, [f"c{i}" for i in range(self.arity)]
        attributes = [f"a{i}" for i in range(len(self.columns))]
        types = [f"t{i}" for i in range(self.arity)]
        key = [*attributes, *types]
        whole = _call(name, *attributes, *(children or ["w"]))
        numbers = ["i64"] * len(attributes)
        inputs = ["Value"] * self.arity or ["i64"]
        yield f"(constructor {name} ({' '.join([*numbers, *inputs])}) Value)"
        yield f"(function typed_{name} ({' '.join(['i64'] * len(key))}) i64 :no-merge)"
        body = [f"(= e {whole})", *(f"(= {t} (type {c}))" for t, c in zip(types, children, strict=True))]
        body += ["(= w (world c0))"] if children else []
        untyped, want = _call(f"untyped_{name}", "e", "w", *key), WANTED.call(self.number, key)
        yield f"(relation untyped_{name} ({' '.join(['Value', 'i64', *['i64'] * len(key)])}))"
        yield f"(rule ({' '.join(body)}) ({untyped} {want}) :ruleset typing)"
        given = _call(f"typed_{name}", *key)
        yield f"(rule ({untyped} (= t {given})) ((set (type e) t) (set (world e) w)) :ruleset typing)"


class Numbers:
    """Consecutive numbers for values; ``mark`` distinguishes a wildcard from the value itself."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: list[object] = []

    def of(self, value: object, mark: str = "") -> int:
        """The number of a value."""
        key = (type(value).__name__, value, mark)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._values)
            self._values.append(value)
        return number

    def value(self, number: int) -> object:
        """The value with this number."""
        return self._values[number]


class Vocabulary:
    """Numbers and constructors in use."""

    def __init__(self) -> None:
        self.types = Numbers()
        self.attributes = Numbers()
        self.constructors: dict[tuple[str, int], Constructor] = {}

    def constructor(self, term: Application) -> Constructor:
        """The constructor of a term's root."""
        key = (term.operator, len(term.inputs))
        found = self.constructors.get(key)
        if found is None:
            found = self.constructors[key] = Constructor(*key, len(self.constructors))
        return found

    def type(self, number: int) -> TensorType:
        """The type of this number."""
        return cast("TensorType", self.types.value(number))

    def output_type(self, constructor: Constructor, key: tuple[int, ...]) -> int | None:
        """The number of an operator's output type for attributes and input types; None if ill-typed."""
        count = len(constructor.columns)
        values = {
            name: self.attributes.value(n) for name, n in zip(constructor.columns, key[:count], strict=True)
        }
        try:
            operator = operator_of(constructor.operator, values)
            (type_,) = operator.infer(*(self.type(number) for number in key[count:]))
        except IllTypedError:
            return None
        return self.types.of(type_)

    def ground(self, term: Term, typing: Typing, inputs: Mapping[str, int], world: int) -> str:
        """The text of a typed term; attribute variables are replaced by their values, which match no
        constant."""
        if isinstance(term, Variable):
            return f"(input {inputs[term.name]})"
        constructor = self.constructor(term)
        values = attributes_of(typing.operators[term])
        marks = {name: v.name for name, v in term.attributes if isinstance(v, AttributeVariable)}
        columns = [self.attributes.of(values[name], marks.get(name, "")) for name in constructor.columns]
        children = [self.ground(child, typing, inputs, world) for child in term.inputs]
        return _call(constructor.name, *map(str, columns), *(children or [str(world)]))


@lru_cache(maxsize=4096)
def written(term: Application) -> tuple[tuple[str, AttributeTerm | None], ...]:
    """Every attribute of a term with its value or variable; None for implicit ones."""
    given = dict(term.attributes)
    defaults = attribute_defaults(term.operator)
    found: list[tuple[str, AttributeTerm | None]] = []
    for name in attribute_names(term.operator):
        value = given.get(name, cast("AttributeTerm | None", defaults.get(name)))
        if value is not None and not names_of(value):
            value = cast("AttributeTerm", normalise_attribute(name, value))
        found.append((name, value))
    return tuple(found)


def is_open(term: Application) -> bool:
    """Whether types determine an attribute of the term."""
    return any(term.attribute(name) is None for name in OPERATORS[term.operator].implicit)


def _call(name: str, *arguments: str) -> str:
    return f"({' '.join((name, *arguments))})"
