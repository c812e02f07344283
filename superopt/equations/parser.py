"""Text to equations: the one syntax of axioms, rules, reports and the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from importlib import resources
from typing import cast

import lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput

from superopt.equations.keywords import KEYWORDS
from superopt.errors import IllTypedError, InvalidEquationError
from superopt.ir.terms import (
    AttributeTerm,
    AttributeVariable,
    Condition,
    ConditionCall,
    ConditionName,
    ConditionTerm,
    Direction,
    Equation,
    Term,
    Variable,
    VariableType,
)
from superopt.ops.terms import application

_LABEL = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*:(?=\s)")
_GRAMMAR = resources.files("superopt.equations").joinpath("grammar.lark").read_text(encoding="utf-8")
_PARSER = lark.Lark(_GRAMMAR, start=["equation", "term"], parser="lalr", propagate_positions=True)


def parse_equation(text: str, name: str = "") -> Equation:
    """One equation, ``name:`` before it or not; raises InvalidEquationError with line and column."""
    return _parse_equation(text, name, first_line=1)


def parse_equations(text: str) -> tuple[Equation, ...]:
    """All equations of a file: each starts in the first column, continuation lines are indented."""
    return tuple(_parse_equation(entry, "", first_line=line) for line, entry in _entries(text))


def parse_term(text: str) -> Term:
    """One term; raises InvalidEquationError."""
    return _term(_parse(text, "term", 1, 0), 1)


def _parse_equation(text: str, name: str, first_line: int) -> Equation:
    label = _LABEL.match(text)
    body = text[label.end() :] if label else text
    shift = len(text) - len(body)
    tree = _parse(body, "equation", first_line, shift)
    left, relation, right, *rest = tree.children
    types: dict[str, VariableType] = {}
    sides = [_side(cast("lark.Tree[lark.Token]", side), first_line, types) for side in (left, right)]
    clauses = [clause for tree in rest if isinstance(tree, lark.Tree) for clause in _trees(tree)]
    conditions = tuple(_condition(clause) for clause in clauses)
    if len(sides[0]) != len(sides[1]):
        raise InvalidEquationError(
            f"line {first_line}: expected as many terms on both sides, "
            f"got {len(sides[0])} and {len(sides[1])}"
        )
    return Equation(
        sides[0],
        sides[1],
        Direction(str(relation)),
        conditions,
        tuple(sorted(types.items())),
        name or (label.group(1) if label else ""),
    )


def _entries(text: str) -> Iterator[tuple[int, str]]:
    start, lines = 0, list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            if lines:
                yield start, "\n".join(lines)
            start, lines = number, []
        elif not lines:
            raise InvalidEquationError(f"line {number}: an equation starts in the first column, got {line!r}")
        lines.append(line)
    if lines:
        yield start, "\n".join(lines)


def _parse(text: str, start: str, first_line: int, shift: int) -> lark.Tree[lark.Token]:
    try:
        return _PARSER.parse(text, start=start)  # pyright: ignore[reportUnknownMemberType]
    except UnexpectedInput as error:
        raise InvalidEquationError(_explain(error, text, first_line, shift)) from None


def _explain(error: UnexpectedInput, text: str, first_line: int, shift: int) -> str:
    at_end = isinstance(error, UnexpectedEOF) or error.line < 1
    if at_end or (
        not isinstance(error, UnexpectedCharacters) and not text[error.pos_in_stream or 0 :].strip()
    ):
        return f"line {first_line + text.count(chr(10))}: the equation {text.strip()!r} ends too early"
    line = first_line + error.line - 1
    column = error.column + (shift if error.line == 1 else 0)
    rest = text.splitlines()[error.line - 1][error.column - 1 :]
    return f"line {line}, column {column}: unexpected {rest[:20]!r}"


def _trees(tree: lark.Tree[lark.Token]) -> list[lark.Tree[lark.Token]]:
    return [child for child in tree.children if isinstance(child, lark.Tree)]


def _side(tree: lark.Tree[lark.Token], first_line: int, types: dict[str, VariableType]) -> tuple[Term, ...]:
    inner = cast("lark.Tree[lark.Token]", tree.children[0])
    terms = _trees(tree) if tree.data == "tuple_side" else [inner]
    return tuple(_term(term, first_line, types) for term in terms)


def _term(tree: lark.Tree[lark.Token], first_line: int, types: dict[str, VariableType] | None = None) -> Term:
    name = str(tree.children[0])
    match tree.data:
        case "variable":
            return Variable(name)
        case "typed_variable":
            if types is not None:
                dimensions = _trees(tree)
                types[name] = VariableType(str(tree.children[1]), tuple(_dimension(d) for d in dimensions))
            return Variable(name)
        case _:
            attributes: dict[str, AttributeTerm] = {}
            inputs: list[Term] = []
            for child in _trees(tree):
                if child.data == "attribute":
                    attributes[str(child.children[0])] = _value(
                        cast("lark.Tree[lark.Token]", child.children[1])
                    )
                else:
                    inputs.append(_term(child, first_line, types))
            try:
                return application(name, attributes, *inputs)
            except IllTypedError as error:
                line = first_line + tree.meta.line - 1
                raise InvalidEquationError(f"line {line}, column {tree.meta.column}: {error}") from None


def _dimension(tree: lark.Tree[lark.Token]) -> int | str:
    text = str(tree.children[0])
    return int(text) if tree.data == "sized_dimension" else text


def _value(tree: lark.Tree[lark.Token]) -> AttributeTerm:
    text = [str(child) for child in tree.children if isinstance(child, lark.Token)]
    match tree.data:
        case "name":
            return text[0] if text[0] in KEYWORDS else AttributeVariable(text[0])
        case "integers":
            return tuple(int(str(child.children[0])) for child in _trees(tree))
        case "fraction":
            return Fraction(int(text[0]), int(text[1]))
        case "decimal":
            return Fraction(text[0])
        case _:
            return int(text[0])


def _condition(tree: lark.Tree[lark.Token]) -> Condition:
    operands = [child for child in cast("list[object]", tree.children) if child is not None]
    if len(operands) == 1:
        return Condition(_operand(cast("lark.Tree[lark.Token]", operands[0])))
    left, relation, right = operands
    return Condition(
        _operand(cast("lark.Tree[lark.Token]", left)),
        str(relation),
        _operand(cast("lark.Tree[lark.Token]", right)),
    )


def _operand(tree: lark.Tree[lark.Token]) -> ConditionTerm:
    text = str(tree.children[0])
    match tree.data:
        case "call":
            return ConditionCall(text, tuple(_operand(child) for child in _trees(tree)))
        case "operand_number":
            return int(text)
        case _:
            return text if text in KEYWORDS else ConditionName(text)
