"""SMT-LIB encoding of axioms and goals over uninterpreted sorts: tensors, and kinds of attributes.

An operator is a function of its attributes and its inputs. Attributes that unification determines are
omitted, so terms are shapeless, and a proof is only a suggestion until ``prove.chain`` has typed it.
Attribute variables of the goal are constants about which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar, cast

from superopt.errors import IllTypedError
from superopt.ir.numbers import (
    AttributeVariable,
    Number,
    NumberExpression,
    names_of,
    number_text,
    substituted_number,
)
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeValue,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    variables,
)
from superopt.ops.attributes import NUMBERS
from superopt.ops.base import OPERATORS, attribute_defaults, attribute_names, normalise_attribute
from superopt.ops.sharded.parallel import ParallelOperator
from superopt.ops.terms import application
from superopt.rewriting.conditions import is_computation

Expression = TypeVar("Expression")
"""An expression of a solver."""

_TAKING_APART: Mapping[str, str] = {
    name: operator.undone_by for name, operator in OPERATORS.items() if operator.undone_by is not None
}
"""Operators that undo a joining operator, so that its result is known to have parts."""

_GOAL = "!"
"""First character of the goal's attribute variables in instances of axioms; no name in a text has it."""


def sort_of(attribute: str) -> str:
    """Return the sort of the named attribute: one sort for all numbers, a separate sort for each other
    attribute."""
    is_number = attribute in NUMBERS or attribute == "degree"
    return "P-number" if is_number else f"P-{attribute}"


@dataclass(frozen=True, slots=True)
class Function:
    """The meaning of an SMT function: an operator, its leading attributes, and the number of inputs."""

    operator: str
    attributes: tuple[str, ...]
    inputs: int

    @property
    def symbol(self) -> str:
        """The quoted SMT-LIB symbol."""
        return f"|{self.operator}[{','.join(self.attributes)}]/{self.inputs}|"

    @property
    def declaration(self) -> str:
        """The SMT-LIB command that declares the function."""
        sorts = " ".join([*map(sort_of, self.attributes), *["T"] * self.inputs])
        return f"(declare-fun {self.symbol} ({sorts}) T)"


@dataclass
class Vocabulary:
    """The symbols used in written terms, for declaring them, and their meanings, for reading terms back."""

    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    constants: dict[str, AttributeTerm] = field(default_factory=dict[str, AttributeTerm])
    sorts: dict[str, str] = field(default_factory=dict[str, str])
    tensors: dict[str, str] = field(default_factory=dict[str, str])

    def include(self, other: Vocabulary) -> None:
        """Add the symbols of another vocabulary."""
        self.functions |= other.functions
        self.constants |= other.constants
        self.sorts |= other.sorts
        self.tensors |= other.tensors

    def declarations(self) -> Iterator[str]:
        """Yield the declarations of all symbols."""
        yield "(declare-sort T 0)"
        attributes = [name for function in self.functions.values() for name in function.attributes]
        for sort in dict.fromkeys((*map(sort_of, attributes), *self.sorts.values())):
            yield f"(declare-sort {sort} 0)"
        for symbol, sort in self.sorts.items():
            yield f"(declare-const {symbol} {sort})"
        for symbol in self.tensors:
            yield f"(declare-const {symbol} T)"
        for function in self.functions.values():
            yield function.declaration

    def function(self, term: Application) -> Function:
        """Return the function that a term applies."""
        given = {name for name, _ in term.attributes}
        implicit = OPERATORS[term.operator].implicit
        names = tuple(n for n in attribute_names(term.operator) if n in given or n not in implicit)
        function = Function(term.operator, names, len(term.inputs))
        self.functions[function.symbol] = function
        return function

    def term(
        self,
        symbol: str,
        arguments: Sequence[Expression],
        read_attribute: Callable[[Expression], AttributeTerm | None],
        read_term: Callable[[Expression], Term | None],
    ) -> Term | None:
        """Return the term for a symbol applied to a solver's expressions; None if there is none."""
        if symbol in self.tensors:
            return Variable(self.tensors[symbol])
        function = self.functions.get(symbol)
        if function is None:
            return None
        count = len(function.attributes)
        values = [read_attribute(value) for value in arguments[:count]]
        inputs = [read_term(child) for child in arguments[count:]]
        if any(value is None for value in (*values, *inputs)):
            return None
        named = dict(zip(function.attributes, cast("list[AttributeTerm]", values), strict=True))
        try:
            return application(function.operator, named, *cast("list[Term]", inputs))
        except IllTypedError:
            return None

    def constant(self, name: str, value: AttributeValue) -> str:
        """Return the constant for an attribute value; equal values have the same constant."""
        return self.attribute(name, f"|{sort_of(name)}={value}|", value)

    def attribute(self, name: str, symbol: str, value: AttributeTerm) -> str:
        """Record that the symbol stands for this value of the named attribute, and return it."""
        self.constants[symbol] = value
        self.sorts[symbol] = sort_of(name)
        return symbol


def of_goal(value: AttributeTerm) -> AttributeTerm:
    """Return a number of the goal as it is written in an instance of an axiom, whose own attribute variables
    are bound by its quantifier."""
    names = {name: AttributeVariable(_GOAL + name) for name in names_of(value)}
    return cast("AttributeTerm", substituted_number(value, names))


def _as_in_goal(value: Number) -> Number:
    names = {name: AttributeVariable(name.removeprefix(_GOAL)) for name in names_of(value)}
    return cast("Number", substituted_number(value, names))


def _is_of_goal(name: str) -> bool:
    return name.startswith(_GOAL)


def axiom_command(axiom: Equation, vocabulary: Vocabulary) -> str:
    """Return the ``assert`` of an axiom for all tensors and attributes; the quantifier is named after the
    axiom.

    Patterns are the sides that mention every variable; for an axiom that computes an attribute, only the left
    side. An axiom without such a side has a joint pattern of all sides. The law that joined parts can be
    separated again is triggered wherever parts are joined.
    """
    command, symbols = _axiom_command(axiom)
    vocabulary.include(symbols)
    return command


@lru_cache(maxsize=8192)
def _axiom_command(axiom: Equation) -> tuple[str, Vocabulary]:
    """Return the command and the vocabulary of its symbols."""
    vocabulary = Vocabulary()
    sides = axiom.terms
    sorts = _sorts_of_variables(sides)
    names = [f"(|?{name}| {sorts[name]})" for name in sorted(sorts)]
    names += [f"(|{name}?| T)" for name in variables(*sides)]
    equalities = [
        f"(= {write(left, vocabulary, '?')} {write(right, vocabulary, '?')})"
        for left, right in zip(axiom.left, axiom.right, strict=True)
    ]
    body = equalities[0] if len(equalities) == 1 else f"(and {' '.join(equalities)})"
    if not names:
        return f"(assert (! {body} :named |{axiom.name}|))", vocabulary
    patterns = " ".join(f":pattern ({' '.join(pattern)})" for pattern in _patterns(axiom, vocabulary))
    return f"(assert (forall ({' '.join(names)}) (! {body} {patterns} :qid |{axiom.name}|)))", vocabulary


def quantified_names(axiom: Equation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return attribute variables and tensor variables, in the order in which the quantifier binds them."""
    sides = axiom.terms
    return tuple(sorted(_open_attributes(*sides))), variables(*sides)


def goal_command(goal: Equation, vocabulary: Vocabulary) -> str:
    """Return the ``assert`` that some output differs."""
    pairs = [
        f"(= {write(left, vocabulary, '!')} {write(right, vocabulary, '!')})"
        for left, right in zip(goal.left, goal.right, strict=True)
    ]
    return f"(assert (not (and {' '.join(pairs)})))"


def ground_command(name: str, grounded: Equation, vocabulary: Vocabulary) -> str:
    """Return the declaration of a named truth value, and the ``assert`` that it implies an equation between
    terms of the goal."""
    pairs = [
        f"(= {write(left, vocabulary, '!')} {write(right, vocabulary, '!')})"
        for left, right in zip(grounded.left, grounded.right, strict=True)
    ]
    return f"(declare-const {name} Bool) (assert (=> {name} (and {' '.join(pairs)})))"


def write(term: Term, vocabulary: Vocabulary, mark: str) -> str:
    """Return a term as an s-expression; ``mark`` distinguishes bound variables (?) from the goal's variables
    (!)."""
    if isinstance(term, Variable):
        symbol = f"|{term.name}{mark}|"
        if mark == "!":
            vocabulary.tensors[symbol] = term.name
        return symbol
    function = vocabulary.function(term)
    arguments = [_attribute(term, name, vocabulary, mark) for name in function.attributes]
    arguments += [write(child, vocabulary, mark) for child in term.inputs]
    return f"({function.symbol} {' '.join(arguments)})" if arguments else function.symbol


class Relevance:
    """The axioms about operators of a goal, or of the axioms found so far, repeated in rounds.

    If the goal divides no tensor, neither do these axioms. If it has no operator that only rules introduce,
    neither do they.
    """

    def __init__(self, axioms: Sequence[Equation], goal: Equation) -> None:
        known = _operators(goal.left) | _operators(goal.right)
        known |= {_TAKING_APART[operator] for operator in known if operator in _TAKING_APART}
        absent = [special for special in (_divides, _is_from_rules) if not special(known)]
        sides = ((axiom, _operators(axiom.left), _operators(axiom.right)) for axiom in axioms)
        self._sides = [each for each in sides if not any(special(each[1] | each[2]) for special in absent)]
        self._known = [known]

    def within(self, rounds: int) -> tuple[Equation, ...]:
        """Return the axioms about operators known after this many rounds."""
        while len(self._known) <= rounds:
            known = self._known[-1]
            found = (
                left | right
                for _, left, right in self._sides
                if (left and left <= known) or (right and right <= known)
            )
            self._known.append(known.union(*found))
        known = self._known[rounds]
        return tuple(axiom for axiom, left, right in self._sides if left <= known and right <= known)


@lru_cache(maxsize=65536)
def _operators(terms: tuple[Term, ...]) -> frozenset[str]:
    return frozenset(term.operator for term in applications(*terms))


@lru_cache(maxsize=8192)
def _divides(operators: frozenset[str]) -> bool:
    return any(issubclass(OPERATORS[name], ParallelOperator) for name in operators)


@lru_cache(maxsize=8192)
def _is_from_rules(operators: frozenset[str]) -> bool:
    return any(OPERATORS[name].from_rules for name in operators)


def _open_attributes(*terms: Term) -> frozenset[str]:
    """Return the attribute variables that are an axiom's own."""
    return frozenset(name for name in attribute_variables(*terms) if not _is_of_goal(name))


def _sorts_of_variables(terms: Sequence[Term]) -> dict[str, str]:
    return {
        value.name: sort_of(name)
        for term in applications(*terms)
        for name, value in term.attributes
        if isinstance(value, AttributeVariable) and not _is_of_goal(value.name)
    }


def _attribute(term: Application, name: str, vocabulary: Vocabulary, mark: str) -> str:
    value = term.attribute(name)
    if isinstance(value, AttributeVariable) and mark == "?" and not _is_of_goal(value.name):
        return f"|?{value.name}|"
    if isinstance(value, AttributeVariable | NumberExpression):
        own = _as_in_goal(value)
        return vocabulary.attribute(name, f"|!{number_text(own)}|", own)
    if value is None:
        default = normalise_attribute(name, attribute_defaults(term.operator)[name])
        return vocabulary.constant(name, default)  # pyright: ignore[reportArgumentType]
    return vocabulary.constant(name, value)


def _patterns(axiom: Equation, vocabulary: Vocabulary) -> list[list[str]]:
    computing = any(is_computation(clause) for clause in axiom.conditions)
    sides = axiom.left if computing else axiom.terms
    everything = set(variables(*sides)) | _open_attributes(*sides)
    whole = [
        [write(side, vocabulary, "?")]
        for side in sides
        if isinstance(side, Application) and set(variables(side)) | _open_attributes(side) == everything
    ]
    parts = [
        [write(side.inputs[0], vocabulary, "?")]
        for side, other in ((sides[0], sides[-1]), (sides[-1], sides[0]))
        if isinstance(side, Application)
        and isinstance(other, Variable)
        and side.operator in _TAKING_APART.values()
    ]
    return [*whole, *parts] or [
        [write(side, vocabulary, "?") for side in sides if isinstance(side, Application)]
    ]
