"""Adjoint statements: vector-Jacobian products of operators, written as equations.

``adjoint[input=i](f(x, ...), g) = gradient`` states that for a cotangent g of the result of f(x, ...) the
vector-Jacobian product with respect to operand i is ``gradient``, a term over the operands, f(x, ...) itself
and g, which has the type of operand i. ``adjoint`` is not an operator: only statements contain it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from superopt.equations.parser import parse_equation
from superopt.equations.printer import format_equation
from superopt.errors import InvalidEquationError
from superopt.ir.terms import (
    Application,
    Condition,
    ConditionCall,
    ConditionName,
    Direction,
    Equation,
    Term,
    Variable,
    applications,
    attribute_variables,
    variables,
)

ADJOINT = "adjoint"
"""The form at the left of a statement."""

_INPUT = "input"
_FORMS = frozenset((ADJOINT,))


@dataclass(frozen=True)
class Adjoint:
    """The vector-Jacobian product of ``application`` with respect to operand ``input``, counted from 0, for
    the ``cotangent``: the term ``gradient``, wherever it is well-typed and the ``conditions`` hold.

    The operands of ``application`` are distinct variables.
    """

    name: str
    application: Application
    input: int
    cotangent: Variable
    gradient: Term
    conditions: tuple[Condition, ...] = ()

    @cached_property
    def operands(self) -> tuple[Variable, ...]:
        """The operands of the application, in order."""
        return tuple(operand for operand in self.application.inputs if isinstance(operand, Variable))

    @property
    def operand(self) -> Variable:
        """The operand with respect to which is differentiated; the gradient has its type."""
        return self.operands[self.input]

    @property
    def operator(self) -> str:
        """The name of the operator that is differentiated."""
        return self.application.operator


def parse_statement(text: str, name: str = "", *, first_line: int = 1) -> Equation | Adjoint:
    """Parses an equation or an adjoint statement, with or without ``name:``. Raises InvalidEquationError."""
    equation = parse_equation(text, name, first_line=first_line, forms=_FORMS)
    if all(term.operator != ADJOINT for term in equation.applications):
        return equation
    try:
        return adjoint_of(equation)
    except InvalidEquationError as error:
        raise InvalidEquationError(f"line {first_line}: {error}") from None


def parse_adjoint(text: str, name: str = "", *, first_line: int = 1) -> Adjoint:
    """Parses an adjoint statement, with or without ``name:``. Raises InvalidEquationError, also for an
    equation without an adjoint."""
    statement = parse_statement(text, name, first_line=first_line)
    if isinstance(statement, Adjoint):
        return statement
    raise InvalidEquationError(
        f"line {first_line}: expected an adjoint statement, got {format_equation(statement)}"
    )


def adjoint_of(equation: Equation) -> Adjoint:
    """The adjoint statement that the equation spells. Raises InvalidEquationError unless it is one."""
    where = equation.name or format_equation(equation)
    application, cotangent, index = _left(where, equation)
    if equation.direction is not Direction.EQUAL:
        raise InvalidEquationError(f"{where}: expected = after the adjoint, got {equation.direction}")
    if equation.types:
        raise InvalidEquationError(
            f"{where}: expected no declared types, got one of {equation.types[0][0]}; use conditions instead"
        )
    (gradient,) = equation.right
    if any(term.operator == ADJOINT for term in applications(gradient)):
        raise InvalidEquationError(f"{where}: expected {ADJOINT} at the left only, got it at the right too")
    _require_known(where, "variable", variables(gradient), variables(application, cotangent))
    known = attribute_variables(application) | frozenset(_computed(equation.conditions))
    _require_known(where, "attribute variable", sorted(attribute_variables(gradient)), known)
    return Adjoint(equation.name, application, index, cotangent, gradient, equation.conditions)


def equation_of_adjoint(adjoint: Adjoint) -> Equation:
    """The equation that spells the statement."""
    left = Application(ADJOINT, ((_INPUT, adjoint.input),), (adjoint.application, adjoint.cotangent))
    return Equation((left,), (adjoint.gradient,), Direction.EQUAL, adjoint.conditions, (), adjoint.name)


def format_adjoint(adjoint: Adjoint) -> str:
    """The statement without its name, on one line; parsing it gives the same statement."""
    return format_equation(equation_of_adjoint(adjoint))


def _left(where: str, equation: Equation) -> tuple[Application, Variable, int]:
    """The application, the cotangent and the number of the operand."""
    expected = f"{where}: expected {ADJOINT}[{_INPUT}=NUMBER](OPERATOR(VARIABLES), VARIABLE) at the left"
    match equation.left:
        case (
            Application(
                operator="adjoint",
                attributes=(("input", int(index)),),
                inputs=(Application() as own, Variable() as g),
            ),
        ):
            pass
        case _:
            raise InvalidEquationError(f"{expected}, got {format_equation(equation)}")
    names = [operand.name if isinstance(operand, Variable) else "" for operand in own.inputs]
    if not all(names) or len({*names, g.name}) != len(names) + 1:
        raise InvalidEquationError(f"{expected}, all variables distinct, got {format_equation(equation)}")
    if not 0 <= index < len(names):
        raise InvalidEquationError(
            f"{where}: expected {_INPUT} from 0 to {len(names) - 1}, the operands of {own.operator}, "
            f"got {index}"
        )
    return own, g, index


def _computed(conditions: Iterable[Condition]) -> Iterable[str]:
    """The names that clauses such as ``q = composed(p, r)`` define."""
    for condition in conditions:
        if isinstance(condition.left, ConditionName) and isinstance(condition.right, ConditionCall):
            yield condition.left.name


def _require_known(where: str, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    missing = [name for name in names if name not in frozenset(known)]
    if missing:
        raise InvalidEquationError(
            f"{where}: expected each {what} of the right side at the left, got {', '.join(missing)}"
        )


__all__ = [
    "ADJOINT",
    "Adjoint",
    "adjoint_of",
    "equation_of_adjoint",
    "format_adjoint",
    "parse_adjoint",
    "parse_statement",
]
