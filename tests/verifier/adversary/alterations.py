"""Small changes of equations, on either side: some leave them true, most make them false at a border."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from superopt.errors import IllTypedError
from superopt.ir.terms import (
    Application,
    AttributeTerm,
    AttributeVariable,
    Direction,
    Equation,
    Term,
    Variable,
    VariableType,
    applications,
    variables,
)
from superopt.ops.terms import application
from tests.verifier.adversary.oracle import open_attributes
from tests.verifier.adversary.rewriting import with_attribute_values, with_terms
from tests.verifier.adversary.typings import VALUES, Typings
from tests.verifier.changes import KINDS

Alteration = Callable[[Equation, random.Random], "Equation | None"]

MOST_AXIS = 8
WINDOWS = (
    "stride",
    "padding",
    "kernel",
    "dilation",
    "activation",
    "includes_padding",
    "approximate",
    "degree",
)
BORDERS: dict[str, Sequence[AttributeTerm]] = {
    "stride": ((1, 1), (2, 2), (1, 2), (7, 7), (3, 1)),
    "padding": (
        "valid",
        "same",
        "same_upper",
        "same_lower",
        (0, 0, 0, 0),
        (1, 1, 1, 1),
        (0, 1, 1, 0),
        (2, 2, 2, 2),
    ),
    "kernel": ((1, 1), (2, 2), (3, 3), (1, 3), (5, 5), (4, 2)),
    "dilation": ((1, 1), (2, 2), (7, 7), (1, 3)),
    "activation": ("none", "relu", "sigmoid", "tanh"),
    "includes_padding": (0, 1),
    "approximate": ("none", "tanh"),
    "degree": (2, 3, 4, 5, 6),
}


def replaced_at(
    equation: Equation,
    chooser: random.Random,
    where: Callable[[Application], bool],
    change: Callable[[Application], Term | None],
) -> Equation | None:
    """The equation with one application changed, on one side, all its occurrences there alike."""
    sides = ["left", "right"]
    chooser.shuffle(sides)
    for side in sides:
        terms: tuple[Term, ...] = equation.left if side == "left" else equation.right
        places = [term for term in applications(*terms) if where(term)]
        if not places:
            continue
        old = chooser.choice(places)
        try:
            new = change(old)
        except IllTypedError:
            continue
        if new is None:
            continue
        changed = tuple(_with(term, old, new) for term in terms)
        return replace(equation, left=changed) if side == "left" else replace(equation, right=changed)
    return None


def _with(term: Term, old: Term, new: Term) -> Term:
    if term == old:
        return new
    if isinstance(term, Variable):
        return term
    return replace(term, inputs=tuple(_with(child, old, new) for child in term.inputs))


def with_value(term: Application, name: str, value: AttributeTerm) -> Application:
    """The application with another value of an attribute."""
    return application(term.operator, {**dict(term.attributes), name: value}, *term.inputs)


def literal_axes(equation: Equation, chooser: random.Random) -> Equation | None:
    """Open axes as numbers: of both signs, so that they meet at one rank, or all of one sign."""
    names = [name for name, kind in sorted(open_attributes(equation).items()) if kind == "axis"]
    if not names:
        return None
    rank = chooser.choice((2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 9, 9))
    place = chooser.randrange(rank)
    values: dict[str, AttributeTerm] = {}
    for name in names:
        kind = chooser.random()
        if kind < 0.4:
            values[name] = place
        elif kind < 0.8:
            values[name] = place - rank
        elif kind < 0.9:
            values[name] = chooser.randrange(-rank, rank)
    return with_attribute_values(equation, values) if values else None


def one_axis_respelled(equation: Equation, chooser: random.Random) -> Equation | None:
    """One axis counted from the other end, as it would be at one rank."""
    rank = chooser.choice((1, 2, 3, 4, 4, 5, 6, 7, 8, 9))

    def change(term: Application) -> Term | None:
        axis = term.attribute("axis")
        if not isinstance(axis, int) or not -rank <= axis < rank:
            return None
        return with_value(term, "axis", axis - rank if axis >= 0 else axis + rank)

    return replaced_at(equation, chooser, lambda term: isinstance(term.attribute("axis"), int), change)


def other_axis(equation: Equation, chooser: random.Random) -> Equation | None:
    """One axis is another one."""

    def change(term: Application) -> Term:
        return with_value(term, "axis", chooser.randrange(-MOST_AXIS, MOST_AXIS))

    return replaced_at(equation, chooser, lambda term: term.attribute("axis") is not None, change)


def without_clauses(equation: Equation, chooser: random.Random) -> Equation | None:
    """Without some of its conditions, or all."""
    if not equation.conditions:
        return None
    if chooser.random() < 0.5:
        return replace(equation, conditions=())
    dropped = chooser.choice(equation.conditions)
    return replace(equation, conditions=tuple(c for c in equation.conditions if c != dropped))


def values_for_attributes(equation: Equation, chooser: random.Random) -> Equation | None:
    """Numbers and words for some of the attributes that are open."""
    kinds = open_attributes(equation)
    names = [name for name in sorted(kinds) if kinds[name] in BORDERS]
    if not names:
        return None
    chosen = chooser.sample(names, chooser.randint(1, len(names)))
    return with_attribute_values(equation, {name: chooser.choice(BORDERS[kinds[name]]) for name in chosen})


def window_at_border(equation: Equation, chooser: random.Random) -> Equation | None:
    """One attribute of a window, or a degree, on one side only."""

    def change(term: Application) -> Term | None:
        names = [name for name in WINDOWS if term.attribute(name) is not None]
        if term.operator in ("conv", "maxpool", "avgpool"):
            names += ["stride", "padding"]
        name = chooser.choice(names)
        return with_value(term, name, chooser.choice(BORDERS[name]))

    def accepts(term: Application) -> bool:
        return term.operator in ("conv", "maxpool", "avgpool") or any(
            term.attribute(name) is not None for name in WINDOWS
        )

    return replaced_at(equation, chooser, accepts, change)


def one_variable_for_two(equation: Equation, chooser: random.Random) -> Equation | None:
    """Two tensors are one."""
    names = variables(*equation.left)
    if len(names) < 2:
        return None
    kept, gone = chooser.sample(names, 2)

    def change(term: Term) -> Term:
        return with_terms(term, {gone: Variable(kept)})

    return None if equation.conditions else _mapped(equation, change)


def two_attributes_are_one(equation: Equation, chooser: random.Random) -> Equation | None:
    """Two open attributes of one kind are the same."""
    kinds = open_attributes(equation)
    pairs = [(a, b) for a in sorted(kinds) for b in sorted(kinds) if a < b and kinds[a] == kinds[b]]
    if not pairs:
        return None
    kept, gone = chooser.choice(pairs)
    return with_attribute_values(equation, {gone: AttributeVariable(kept)})


def _mapped(equation: Equation, change: Callable[[Term], Term]) -> Equation:
    left, right = (tuple(map(change, side)) for side in (equation.left, equation.right))
    return replace(equation, left=left, right=right)


def declared(equation: Equation, chooser: random.Random) -> Equation | None:
    """Some variables with the types of an instance: numbers, or names that equal sizes share."""
    typings = Typings(equation, chooser)
    for _ in range(40):
        typed = typings.next()
        if typed is None or max((len(shape) for shape in typed.shapes.values()), default=0) > 6:
            continue
        names: list[str] = [*variables(*equation.left)]
        if not names:
            return None
        chosen = chooser.sample(names, chooser.randint(1, len(names)))
        open_share = chooser.choice((0.0, 0.3, 0.8))
        sizes: dict[int, str] = {}
        types = dict(equation.types)
        for name in chosen:
            shape = typed.shapes[Variable(name)]
            types[name] = VariableType(
                "f32", tuple(_declared_size(size, sizes, open_share, chooser) for size in shape)
            )
        return replace(equation, types=tuple(sorted(types.items())))
    return None


def _declared_size(size: int, names: dict[int, str], open_share: float, chooser: random.Random) -> int | str:
    if chooser.random() >= open_share:
        return size
    return names.setdefault(size, f"n{len(names)}")


def as_published(kind: str) -> Alteration:
    """A change of the kinds that are planted, of the right side, or of the left one."""

    def change(equation: Equation, chooser: random.Random) -> Equation | None:
        turned = chooser.random() < 0.4
        found = KINDS[kind](equation.reversed() if turned else equation, chooser)
        return found.reversed() if found is not None and turned else found

    return change


def one_way(equation: Equation, chooser: random.Random) -> Equation:
    """One direction of the equation, rarely both."""
    if equation.direction is not Direction.FORWARD:
        if chooser.random() < 0.5:
            equation = equation.reversed()
        kept = Direction.BOTH if chooser.random() < 0.15 else Direction.FORWARD
        equation = replace(equation, direction=kept)
    return replace(equation, name="")


EVERYWHERE: Sequence[Alteration] = (
    literal_axes,
    one_axis_respelled,
    other_axis,
    without_clauses,
    values_for_attributes,
    window_at_border,
    one_variable_for_two,
    two_attributes_are_one,
    declared,
    *map(as_published, KINDS),
)
__all__ = ["EVERYWHERE", "VALUES", "Alteration", "declared", "literal_axes", "one_way"]
