"""Parse equations: the one syntax of axioms, rules, reports and the command line."""
# pyright: reportUnknownMemberType=false
# lark leaves what its errors and parsers hold untyped.

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import TypeAlias, cast

import lark
from lark.exceptions import UnexpectedEOF, UnexpectedInput, UnexpectedToken

from superopt.equations.entries import entries
from superopt.equations.keywords import KEYWORDS
from superopt.errors import IllTypedError, InvalidEquationError
from superopt.ir.numbers import (
    FUNCTIONS,
    AttributeVariable,
    Number,
    minus,
    names_of,
    number_text,
    over,
    plus,
    times,
)
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Direction,
    Equation,
    Term,
    Variable,
    VariableType,
    as_condition_term,
)
from superopt.ir.types import ELEMENT_TYPES_BY_SHORT_NAME
from superopt.ops.base import OPERATORS
from superopt.ops.terms import application

_ELEMENTS = "|".join(sorted(ELEMENT_TYPES_BY_SHORT_NAME))
_LABEL = re.compile(rf"\s*([A-Za-z0-9][\w.-]*)\s*:(?=\s)(?!\s*(?:{_ELEMENTS})\s*\[)", re.ASCII)
"""A name before an equation; ``x: f32[n]`` declares a type instead."""


Tree: TypeAlias = "lark.Tree[lark.Token]"

DEEPEST = 100
"""Maximum nesting depth of terms and conditions, so that recursive functions stay within Python's stack."""

_ARITHMETIC: Mapping[str, Callable[[Number, Number], Number]] = {
    "plus": plus,
    "minus": minus,
    "times": times,
    "over": over,
}
_NESTING = frozenset(("application", "plain_application", "call", "parenthesised", "negative", *_ARITHMETIC))
MOST_OUTPUTS = 6
"""Maximum number of outputs of a rule: their orders are tried to find the rule's id."""

MOST_DIGITS = 100
_LONG_NUMBER = re.compile(rf"(?<![A-Za-z_\d])\d{{{MOST_DIGITS + 1}}}")
_FOREIGN = re.compile(r"#[^\n]*|([^\x20-\x7e\t\n\f\r])")
"""A comment, which may contain anything, or a non-ASCII character, which may resemble another."""


@cache
def _parser() -> lark.Lark:
    grammar = resources.files("superopt.equations").joinpath("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(grammar, start=["equation", "term", "sum"], parser="lalr")


def parse_equation(
    text: str, name: str = "", *, first_line: int = 1, forms: frozenset[str] = frozenset()
) -> Equation:
    """Parses one equation, with or without ``name:``; raises InvalidEquationError with line and column.
    ``forms`` are names that may be applied like operators, with any attributes and inputs."""
    label = _LABEL.match(text)
    body = text[label.end() :] if label else text
    reader = _Reader(body, first_line, len(text) - len(body), forms)
    return reader.equation(name or (label.group(1) if label else ""))


def parse_equations(text: str) -> tuple[Equation, ...]:
    """Parses all equations of a file: each starts in the first column, continuation lines are indented."""
    return tuple(parse_equation(entry.text, first_line=entry.line) for entry in entries(text))


def parse_term(text: str) -> Term:
    """Parses one term; raises InvalidEquationError."""
    reader = _Reader(text, 1, 0)
    return reader.term(reader.parse("term"))


def parse_number(text: str) -> Number:
    """Parses a number that attributes may have, such as ``a*c + 1/2``; raises InvalidEquationError."""
    reader = _Reader(text, 1, 0)
    return reader.number(reader.parse("sum"))


class _Reader:
    """Parses one equation or term of a file: ``first_line`` and ``shift`` are the position of its text,
    ``forms`` the names that may be applied without being operators."""

    def __init__(self, text: str, first_line: int, shift: int, forms: frozenset[str] = frozenset()) -> None:
        self._text = text
        self._first_line = first_line
        self._shift = shift
        self._forms = forms
        self._types: dict[str, VariableType] = {}
        self._tensors: set[str] = set()
        self._attributes: set[str] = set()

    def parse(self, start: str) -> Tree:
        """The syntax tree of the text."""
        self._require_ascii()
        if _LONG_NUMBER.search(self._text):
            raise InvalidEquationError(
                f"line {self._first_line}: a number has more than {MOST_DIGITS} digits"
            )
        try:
            tree = _parser().parse(self._text, start=start)
        except UnexpectedInput as error:
            raise InvalidEquationError(self._explained(error)) from None
        waiting = [(tree, 0)]
        while waiting:
            inner, around = waiting.pop()
            depth = around + (inner.data in _NESTING)
            if depth > DEEPEST:
                raise self._error(inner, f"nested more than {DEEPEST} deep")
            waiting += [(child, depth) for child in _trees(inner)]
        return tree

    def _require_ascii(self) -> None:
        """Raises InvalidEquationError at the first character that is not printable ASCII."""
        found = next((match for match in _FOREIGN.finditer(self._text) if match[1]), None)
        if found is None:
            return
        before = self._text[: found.start()]
        place = self._place(before.count("\n") + 1, found.start() - before.rfind("\n"))
        name = unicodedata.name(found[1], "a control character")
        raise InvalidEquationError(
            f"{place}: expected ASCII characters outside of comments, got U+{ord(found[1]):04X}, {name}"
        )

    def equation(self, name: str) -> Equation:
        """The equation in the text."""
        left, relation, right, *rest = self.parse("equation").children
        sides = [self._side(cast("Tree", side)) for side in (left, right)]
        clauses = [clause for tree in rest if isinstance(tree, lark.Tree) for clause in _trees(tree)]
        conditions = tuple(self._condition(clause) for clause in clauses)
        if len(sides[0]) != len(sides[1]):
            raise InvalidEquationError(
                f"line {self._first_line}: expected as many terms on both sides, "
                f"got {len(sides[0])} and {len(sides[1])}"
            )
        both = sorted(self._attributes & self._tensors)
        if both:
            raise InvalidEquationError(
                f"line {self._first_line}: {', '.join(both)} names both a tensor and an attribute"
            )
        types = tuple(sorted(self._types.items()))
        return Equation(sides[0], sides[1], Direction(str(relation)), conditions, types, name)

    def term(self, tree: Tree) -> Term:
        """The term of a syntax tree; types of variables are collected separately."""
        name = str(tree.children[0])
        match tree.data:
            case "variable":
                if name in OPERATORS:
                    raise self._error(tree, f"{name} is an operator: write {name}(...), or rename the tensor")
                self._tensors.add(name)
                return Variable(name)
            case "typed_variable":
                self._declare(name, tree)
                self._tensors.add(name)
                return Variable(name)
            case _:
                return self._application(name, tree)

    def _application(self, name: str, tree: Tree) -> Term:
        attributes: dict[str, AttributeTerm] = {}
        inputs: list[Term] = []
        for child in _trees(tree):
            if child.data != "attribute":
                inputs.append(self.term(child))
                continue
            key = str(child.children[0])
            if key in attributes:
                raise self._error(child, f"{name}: the attribute {key} is given twice")
            attributes[key] = self._value(cast("Tree", child.children[1]))
        if name in self._forms:
            return Application(name, tuple(sorted(attributes.items())), tuple(inputs))
        if name not in OPERATORS:
            near = get_close_matches(name, OPERATORS)
            known = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(OPERATORS))}"
            raise self._error(tree, f"unknown operator {name}; {known}")
        try:
            return application(name, attributes, *inputs)
        except IllTypedError as error:
            raise self._error(tree, str(error)) from None

    def _side(self, tree: Tree) -> tuple[Term, ...]:
        terms = _trees(tree) if tree.data == "tuple_side" else [cast("Tree", tree.children[0])]
        if len(terms) > MOST_OUTPUTS:
            raise self._error(tree, f"expected at most {MOST_OUTPUTS} outputs, got {len(terms)}")
        return tuple(self.term(term) for term in terms)

    def _declare(self, name: str, tree: Tree) -> None:
        element = str(tree.children[1])
        if element not in ELEMENT_TYPES_BY_SHORT_NAME:
            known = ", ".join(ELEMENT_TYPES_BY_SHORT_NAME)
            raise self._error(tree, f"unknown element type {element}; known: {known}")
        declared = VariableType(element, tuple(_dimension(child) for child in _trees(tree)))
        if self._types.setdefault(name, declared) != declared:
            raise self._error(tree, f"{name} is declared with two types")

    def _value(self, tree: Tree) -> AttributeTerm:
        inner = _trees(tree)
        if tree.data == "parenthesised" and inner[0].data == "integer":
            return self._integers(tree)
        if tree.data == "integers":
            return self._tuple(tree)
        if tree.data == "name" and str(tree.children[0]) in KEYWORDS:
            return str(tree.children[0])
        value = self.number(tree)
        self._attributes |= names_of(value)
        return value

    def number(self, tree: Tree) -> Number:
        """The number of a syntax tree, whose names are attribute variables."""
        text, inner = str(tree.children[0] if tree.children else ""), _trees(tree)
        match tree.data:
            case "name":
                if text in KEYWORDS:
                    raise self._error(tree, f"{text} is no number")
                return AttributeVariable(text)
            case "integer":
                return int(text)
            case "decimal":
                return Fraction(text)
            case "parenthesised":
                return self.number(inner[0])
            case "negative":
                return times(-1, self.number(inner[0]))
            case "integers":
                raise self._error(tree, "expected a number, got a tuple")
            case "call":
                return self._chosen(text, tree)
            case _:
                return self._calculated(tree)

    def _chosen(self, function: str, tree: Tree) -> Number:
        numbers = _trees(tree)
        if function == "F":
            raise self._error(
                tree,
                "F(m,r) is short for the matrices of an algorithm; "
                "`superopt library show ID` prints a rule in full",
            )
        if function not in FUNCTIONS or len(numbers) != 2:
            raise self._error(tree, f"expected min(a, b) or max(a, b), got {function} of {len(numbers)}")
        return FUNCTIONS[function](*map(self.number, numbers))

    def _calculated(self, tree: Tree) -> Number:
        left, right = map(self.number, _trees(tree))
        if tree.data == "over" and right == 0:
            raise self._error(tree, f"{number_text(left)}/{number_text(right)} divides by zero")
        try:
            return _ARITHMETIC[tree.data](left, right)
        except IllTypedError as error:
            raise self._error(tree, str(error)) from None

    def _tuple(self, tree: Tree) -> AttributeTerm:
        """Whole numbers; or matrices, tuples of tuples of numbers, which only some attributes take."""
        if any(child.data == "integers" for child in _trees(tree)):
            return cast("AttributeTerm", self._nested(tree))
        return self._integers(tree)

    def _nested(self, tree: Tree) -> object:
        if tree.data == "integers":
            return tuple(map(self._nested, _trees(tree)))
        number = self.number(tree)
        if not isinstance(number, int | Fraction):
            raise self._error(tree, "expected a number without names in a matrix")
        return number

    def _integers(self, tree: Tree) -> tuple[int, ...]:
        numbers = [self.number(child) for child in _trees(tree)]
        if not all(isinstance(number, int) for number in numbers):
            raise self._error(tree, "expected a tuple of whole numbers")
        return cast("tuple[int, ...]", tuple(numbers))

    def _condition(self, tree: Tree) -> Condition:
        operands = [child for child in cast("list[object]", tree.children) if child is not None]
        if len(operands) == 1:
            return Condition(self._operand(cast("Tree", operands[0])))
        left, relation, right = operands
        return Condition(self._operand(cast("Tree", left)), str(relation), self._operand(cast("Tree", right)))

    def _operand(self, tree: Tree) -> ConditionTerm:
        text, inner = str(tree.children[0] if tree.children else ""), _trees(tree)
        match tree.data:
            case "call" if text not in FUNCTIONS:
                return ConditionCall(text, tuple(self._operand(child) for child in inner))
            case "name":
                return text if text in KEYWORDS else ConditionName(text)
            case "integers":
                return self._integers(tree)
            case "parenthesised" if inner[0].data == "integer":
                return self._integers(tree)
            case _:
                value = as_condition_term(self.number(tree))
                assert value is not None, "numbers are operands"
                return value

    def _error(self, tree: Tree, message: str) -> InvalidEquationError:
        first = next(tree.scan_values(lambda child: isinstance(child, lark.Token)), None)
        if first is None:
            return InvalidEquationError(f"line {self._first_line}: {message}")
        return InvalidEquationError(f"{self._place(first.line or 1, first.column or 1)}: {message}")

    def _place(self, line: int, column: int) -> str:
        shift = self._shift if line == 1 else 0
        return f"line {self._first_line + line - 1}, column {column + shift}"

    def _explained(self, error: UnexpectedInput) -> str:
        if isinstance(error, UnexpectedEOF) or (
            isinstance(error, UnexpectedToken) and cast("lark.Token", error.token).type == "$END"
        ):
            last = self._first_line + self._text.rstrip().count("\n")
            return f"line {last}: the equation {self._text.strip()!r} ends too early"
        rest = self._text.splitlines()[error.line - 1][error.column - 1 :]
        hint = (
            "; a type is declared where the tensor occurs, as in relu(x: f32[n, 3])" if rest[0] == ":" else ""
        )
        return f"{self._place(error.line, error.column)}: unexpected {rest[:20]!r}{hint}"


def _trees(tree: Tree) -> list[Tree]:
    return [child for child in tree.children if isinstance(child, lark.Tree)]


def _dimension(tree: Tree) -> int | str:
    text = str(tree.children[0])
    return int(text) if tree.data == "sized_dimension" else text
