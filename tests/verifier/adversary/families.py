"""The families of equations: each draws one that looks true, from one generator of random numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files

from superopt.axioms import load_axioms
from superopt.equations import format_equation, parse_equation, parse_term
from superopt.errors import IllTypedError, InvalidEquationError
from superopt.ir.terms import (
    Direction,
    Equation,
    Term,
    Variable,
    attribute_variables,
    variables,
)
from superopt.ops.terms import application
from superopt.rewriting.conditions import names_in
from tests.verifier.adversary import alterations, gaps, templates
from tests.verifier.adversary.meaning import DIVIDING
from tests.verifier.adversary.oracle import open_attributes
from tests.verifier.adversary.rewriting import in_equation, renamed_apart, with_terms
from tests.verifier.brute.meaning import SHAPES

Family = Callable[[random.Random], "Equation | None"]

PARTIAL = (
    "div({0}, {1})",
    "sqrt({0})",
    "power[exponent=1/2]({0})",
    "power[exponent=-1]({0})",
    "div(ones(), {0})",
)
PARTIAL_VECTORS = ("batchnorm_scale({0}, {1})", "sqrt({0})", "div({0}, {1})")


@cache
def axioms() -> tuple[Equation, ...]:
    """All axioms with operators that the oracle knows."""
    return tuple(axiom for axiom in load_axioms().equations if _known(axiom))


@cache
def shipped() -> tuple[Equation, ...]:
    """All shipped rules with operators that the oracle knows."""
    lines = (files("superopt.substitution_db") / "library.jsonl").read_text(encoding="utf-8").splitlines()
    rules = (parse_equation(json.loads(line)["equation"]) for line in lines)
    return tuple(rule for rule in rules if _known(rule))


def _known(equation: Equation) -> bool:
    return all(t.operator in SHAPES or t.operator in DIVIDING for t in equation.applications)


def _operators(equation: Equation) -> frozenset[str]:
    return frozenset(term.operator for term in equation.applications)


@cache
def _with_operators(*names: str) -> tuple[Equation, ...]:
    return tuple(rule for rule in (*axioms(), *shipped()) if _operators(rule).intersection(names))


@cache
def _undivided() -> tuple[Equation, ...]:
    return tuple(rule for rule in (*axioms(), *shipped()) if not _operators(rule) & DIVIDING)


@cache
def _with_axes() -> tuple[Equation, ...]:
    return tuple(rule for rule in _undivided() if "axis" in open_attributes(rule).values())


def _altered(
    equation: Equation, chooser: random.Random, some: Sequence[alterations.Alteration], most: int
) -> Equation | None:
    """The equation with some changes; None where none of them applies."""
    found = equation = alterations.one_way(equation, chooser)
    for _ in range(chooser.randint(1, most) + 3):
        try:
            found = chooser.choice(some)(found, chooser) or found
        except (IllTypedError, IndexError):
            continue
        if found != equation and chooser.random() < 0.6:
            break
    return None if found == equation else found


def mutated_axioms(chooser: random.Random) -> Equation | None:
    """Axioms with one change or two."""
    return _altered(chooser.choice(axioms()), chooser, alterations.EVERYWHERE, 2)


def mutated_rules(chooser: random.Random) -> Equation | None:
    """Shipped rules with one change or two."""
    return _altered(chooser.choice(shipped()), chooser, alterations.EVERYWHERE, 2)


def coinciding_axes(chooser: random.Random) -> Equation | None:
    """Axes of both signs that meet at one rank, clauses about axes dropped."""
    some = (
        alterations.literal_axes,
        alterations.literal_axes,
        alterations.one_axis_respelled,
        alterations.two_attributes_are_one,
    )
    equation = alterations.literal_axes(alterations.one_way(chooser.choice(_with_axes()), chooser), chooser)
    if equation is None:
        return None
    equation = replace(equation, conditions=())
    return equation if chooser.random() < 0.5 else _altered(equation, chooser, some, 1)


def from_templates(group: str) -> Family:
    """Equations of a group of templates, with numbers for what is open in them, as they are or changed."""
    some = (*alterations.EVERYWHERE[:9], alterations.declared, alterations.without_clauses)

    def family(chooser: random.Random) -> Equation | None:
        try:
            equation = parse_equation(gaps.filled(chooser.choice(templates.TEMPLATES[group]), chooser))
        except InvalidEquationError:
            return None
        return equation if chooser.random() < 0.6 else _altered(equation, chooser, some, 1)

    return family


def groups(chooser: random.Random) -> Equation | None:
    """Convolutions with numbers of groups that nobody says: clauses dropped, kernels of declared shapes."""
    if chooser.random() < 0.5:
        return from_templates("groups")(chooser)
    rules = _with_operators("conv", "kernel_response")
    equation = alterations.one_way(chooser.choice(rules), chooser)
    if chooser.random() < 0.7:
        equation = alterations.without_clauses(equation, chooser) or equation
    if chooser.random() < 0.7:
        equation = alterations.declared(equation, chooser) or equation
    return equation


def partial(chooser: random.Random) -> Equation | None:
    """Rules and axioms in which a tensor is a term that is not defined everywhere."""
    if chooser.random() < 0.6:
        return from_templates("partial")(chooser)
    equation = alterations.one_way(chooser.choice(_undivided()), chooser)
    names = variables(*equation.left)
    named = frozenset[str]().union(*(names_in(condition) for condition in equation.conditions))
    free = [name for name in names if name not in named]
    if not free:
        return None
    chosen = chooser.choice(free)
    vector = any(
        Variable(chosen) in term.inputs[1:] and term.operator in ("channel_scale", "bias_add", "affine")
        for term in equation.applications
    )
    if chooser.random() < 0.5:
        operands = [Variable(f"{chosen}0"), Variable(f"{chosen}1")]
    else:
        operands = [Variable(chooser.choice(names)) for _ in range(2)]
    pattern = chooser.choice(PARTIAL_VECTORS if vector else PARTIAL)
    term = with_terms(parse_term(pattern.format("a", "b")), {"a": operands[0], "b": operands[1]})
    return in_equation(equation, lambda each: with_terms(each, {chosen: term}))


def declared_shapes(chooser: random.Random) -> Equation | None:
    """Rules with declared types, from which a clause or an operator is missing."""
    equation = alterations.one_way(chooser.choice(_undivided()), chooser)
    equation = alterations.declared(equation, chooser)
    if equation is None:
        return None
    if chooser.random() < 0.6:
        equation = alterations.without_clauses(equation, chooser) or equation
    return equation if chooser.random() < 0.3 else _altered(equation, chooser, alterations.EVERYWHERE, 1)


def windows_at_borders(chooser: random.Random) -> Equation | None:
    """Kernels of 1, strides beyond the image, every word of padding, dilations beyond it."""
    rules = _with_operators("conv", "maxpool", "avgpool", "enlarge", "upsample_linear", "upsample_nearest")
    some = (
        alterations.values_for_attributes,
        alterations.window_at_border,
        alterations.window_at_border,
        alterations.without_clauses,
    )
    return _altered(chooser.choice(rules), chooser, some, 3)


def divided(chooser: random.Random) -> Equation | None:
    """Rules about divided tensors, with degrees that divide each other."""
    if chooser.random() < 0.4:
        return from_templates("divided")(chooser)
    some = (
        alterations.values_for_attributes,
        alterations.window_at_border,
        alterations.literal_axes,
        alterations.two_attributes_are_one,
        alterations.other_axis,
        alterations.as_published("an operator too few"),
        alterations.as_published("another input"),
        alterations.as_published("swapped operands"),
    )
    return _altered(chooser.choice(_with_operators(*DIVIDING)), chooser, some, 3)


def composed(chooser: random.Random) -> Equation | None:
    """Two equations chained, the second inside of a variable of the first; one may be changed a little."""
    outer = alterations.one_way(chooser.choice(_undivided()), chooser)
    inner = renamed_apart(alterations.one_way(chooser.choice(_undivided()), chooser), outer)
    if chooser.random() < 0.7:
        changed = chooser.choice(alterations.EVERYWHERE)(inner, chooser)
        inner = changed if changed is not None else inner
    named = frozenset[str]().union(*(names_in(condition) for condition in outer.conditions))
    free = [name for name in variables(*outer.left) if name not in named]
    if not free or len(inner.left) != 1:
        return None
    place = chooser.choice(free)
    left = tuple(with_terms(term, {place: inner.left[0]}) for term in outer.left)
    right = tuple(with_terms(term, {place: inner.right[0]}) for term in outer.right)
    types = tuple(sorted((*((n, t) for n, t in outer.types if n != place), *inner.types)))
    return Equation(left, right, Direction.FORWARD, (*outer.conditions, *inner.conditions), types)


FAMILIES: Mapping[str, Family] = {
    "mutated axioms": mutated_axioms,
    "mutated rules": mutated_rules,
    "coinciding axes": coinciding_axes,
    "ranks": from_templates("ranks"),
    "groups": groups,
    "partial subterms": partial,
    "declared shapes": declared_shapes,
    "windows at borders": windows_at_borders,
    "sizes of 0 and 1": from_templates("sizes"),
    "broadcast axes": from_templates("broadcast"),
    "divided tensors": divided,
    "compositions": composed,
}


def equation_of(family: str, number: int, seed: int) -> Equation | None:
    """The equation with that number; None where the draw led to none that is a rule."""
    chooser = random.Random(f"{seed} {family} {number}")
    try:
        equation = FAMILIES[family](chooser)
        if equation is None or equation.left == equation.right or not is_rule(equation):
            return None
        return parse_equation(format_equation(equation))
    except (IllTypedError, InvalidEquationError):
        return None


def is_rule(equation: Equation) -> bool:
    """Whether the target and the conditions name nothing that the source lacks."""
    source = {*variables(*equation.left), *attribute_variables(*equation.left)}
    target = {*variables(*equation.right), *attribute_variables(*equation.right)}
    if equation.direction is not Direction.FORWARD and target != source:
        return False
    named = frozenset[str]().union(*(names_in(condition) for condition in equation.conditions))
    return target <= source and named <= source


def in_context(term: Term, around: str) -> Term:
    """The term inside of an operator of one operand."""
    return application(around, {}, term)
