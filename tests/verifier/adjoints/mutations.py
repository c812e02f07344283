"""Wrong adjoint statements made of right ones by one change of the gradient each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from superopt.equations import Adjoint, adjoint_of, equation_of_adjoint, parse_term
from superopt.errors import SuperoptError
from superopt.ir.numbers import AttributeVariable
from superopt.ir.terms import Application, Term, Variable
from superopt.ops.base import OPERATORS
from superopt.ops.terms import application

NEIGHBOURS = {
    "add": ("sub", "mul"),
    "concat": (),
    "div": ("mul",),
    "equal": ("greater",),
    "exp": ("tanh",),
    "greater": ("equal",),
    "mul": ("add", "div"),
    "reduce_sum": ("reduce_mean",),
    "sigmoid": ("tanh", "exp"),
    "split0": ("split1",),
    "split1": ("split0",),
    "sub": ("add",),
    "tanh": ("sigmoid", "relu"),
}
"""Operators that take the place of others with the same inputs."""


def mutants(adjoint: Adjoint) -> Iterator[Adjoint]:
    """Statements with one subterm of the gradient changed, each once, without the right one."""
    seen = {adjoint.gradient}
    for gradient in (*_everywhere(adjoint, adjoint.gradient), *_around(adjoint.gradient)):
        if gradient in seen:
            continue
        seen.add(gradient)
        changed = replace(adjoint, name=f"{adjoint.name}-{len(seen) - 1}", gradient=gradient)
        try:
            yield adjoint_of(equation_of_adjoint(changed))
        except SuperoptError:
            continue


def _around(gradient: Term) -> Iterator[Term]:
    """The gradient with another sign, and with other factors."""
    for value in (-1, 2, Fraction(1, 2), 0, Fraction(1000001, 1000000)):
        yield application("scale", {}, gradient, application("full", {"value": value}))
    yield application("add", {}, gradient, application("ones", {}))
    yield application("mul", {}, gradient, gradient)


def _everywhere(adjoint: Adjoint, term: Term) -> Iterator[Term]:
    """The term with one of its subterms changed."""
    yield from _changed(adjoint, term)
    if isinstance(term, Application):
        for index, child in enumerate(term.inputs):
            for other in _everywhere(adjoint, child):
                yield replace(term, inputs=(*term.inputs[:index], other, *term.inputs[index + 1 :]))


def _changed(adjoint: Adjoint, term: Term) -> Iterator[Term]:
    if isinstance(term, Variable):
        yield from (other for other in (*adjoint.operands, adjoint.cotangent) if other != term)
        yield parse_term(f"scale({term.name}, full[value=-1]())")
        return
    yield from term.inputs
    yield from _with_other_attributes(term)
    if len(term.inputs) > 1:
        yield replace(term, inputs=tuple(reversed(term.inputs)))
        yield replace(term, inputs=(*term.inputs[1:], term.inputs[0]))
    for name in NEIGHBOURS.get(term.operator, ()):
        if OPERATORS[name].inputs == len(term.inputs):
            yield Application(name, term.attributes, term.inputs)
    if term.operator not in ("transpose", "full", "ones"):
        yield application("transpose", {}, term)


def _with_other_attributes(term: Application) -> Iterator[Term]:
    """Numbers changed a little, and attribute variables at fixed values."""
    for index, (name, value) in enumerate(term.attributes):
        others: tuple[object, ...] = ()
        if name == "axis":
            others = (0, -1)
        elif isinstance(value, int | Fraction):
            others = (value + 1, -value, 2 * value)
        elif isinstance(value, AttributeVariable) and name == "perm":
            others = ((), (1, 0), (2, 0, 1), AttributeVariable("p"))
        elif isinstance(value, AttributeVariable):
            others = (1, 2)
        for other in others:
            pairs = (*term.attributes[:index], (name, other), *term.attributes[index + 1 :])
            yield replace(term, attributes=pairs)
