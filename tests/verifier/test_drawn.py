"""Instances up to a bound: all that there are, none twice, against trying every shape."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from superopt.equations import parse_equation
from superopt.ir.terms import Equation, Term, Variable, subterms, variables
from superopt.verifier.instances.drawn import DrawnInstances, Sizes
from superopt.verifier.refute.agreement import sides_agree
from tests.verifier.brute.basics import IllTyped
from tests.verifier.brute.meaning import SHAPES

SMALL = Sizes(plain=(1, 2), image=(1, 2), kernel=(1, 2), outputs=(1, 2))
EVERY_SHAPE = [shape for rank in range(5) for shape in itertools.product((1, 2), repeat=rank)]
ENOUGH = 100_000


def drawn(equation: Equation, sizes: Sizes = SMALL) -> list[tuple[tuple[int, ...], ...]]:
    source = DrawnInstances(equation, sizes, 1)
    found = [
        tuple(instance.types[name].shape for name in variables(*equation.left))
        for instance in source.draw(ENOUGH)
    ]
    assert not any(source.draw(1))
    return found  # pyright: ignore[reportReturnType]


def shapes_of(equation: Equation, given: dict[str, tuple[int, ...]]) -> dict[Term, tuple[int, ...]]:
    """The shapes of all subterms; what is broadcast gets the shape of y."""
    found: dict[Term, tuple[int, ...]] = {}
    for term in subterms(*equation.terms):
        if isinstance(term, Variable):
            found[term] = given[term.name]
        else:
            own = dict(term.attributes) | ({"shape": given["y"]} if term.operator == "broadcast" else {})
            found[term] = SHAPES[term.operator](own, *(found[child] for child in term.inputs))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "relu(x) => sigmoid(x)",
        "matmul(x, y) => matmul(y, x)",
        "matmul(x, transpose(y)) => transpose(matmul(y, transpose(x)))",
        "concat[axis=-1](x, y) => concat[axis=-1](y, x)",
        "bias_add[axis=1](x, y) => channel_scale[axis=1](x, y)",
        "add(broadcast(x), y) => add(y, broadcast(x))",
        "conv(x, y) => conv[activation=relu](x, y)",
        "conv[padding=same](x, y) => conv[padding=same](y, x)",
        "add(conv(x, y), conv[stride=2](x, y)) => add(conv[stride=2](x, y), conv(x, y))",
        "transpose[perm=(0, 2, 1)](x) => transpose(x)",
    ],
)
def test_every_well_typed_shape_is_drawn_once(text: str) -> None:
    equation = parse_equation(text)
    names = variables(*equation.left)
    expected: set[tuple[tuple[int, ...], ...]] = set()
    for chosen in itertools.product(EVERY_SHAPE, repeat=len(names)):
        try:
            shapes_of(equation, dict(zip(names, chosen, strict=True)))
        except IllTyped:
            continue
        expected.add(chosen)
    found = drawn(equation)
    assert expected
    assert sorted(found) == sorted(expected)


def test_grouped_convolutions_are_drawn() -> None:
    equation = parse_equation("conv(x, w) => conv[activation=relu](x, w)")
    sizes = Sizes(plain=(1, 2, 3, 4), image=(1,), kernel=(1,), outputs=(1, 2, 3, 4, 6))
    groups = {(x[1], w[1], w[0]) for x, w in drawn(equation, sizes)}
    assert groups == {
        (channels, per_group, outputs)
        for channels, per_group, outputs in itertools.product(range(1, 5), range(1, 5), (1, 2, 3, 4, 6))
        if channels % per_group == 0 and outputs % (channels // per_group) == 0
    }


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("relu(x: f32[n, n]) => x", [((1, 1),), ((2, 2),)]),
        ("relu(x: f32[2, n]) => x where dim(x, 1) != 1", [((2, 2),)]),
        ("relu(x) => x where rank(x) = 1", [((1,),), ((2,),)]),
    ],
)
def test_declared_types_and_conditions_are_kept(text: str, shapes: list[tuple[tuple[int, ...], ...]]) -> None:
    assert sorted(drawn(parse_equation(text))) == shapes


def test_an_instance_has_a_typing_for_every_cut() -> None:
    equation = parse_equation("concat[axis=0](split0[axis=0](x), split1[axis=0](x)) => x where rank(x) = 1")
    (instance,) = [
        instance
        for instance in DrawnInstances(equation, Sizes(), 1).draw(ENOUGH)
        if instance.types["x"].shape == (4,)
    ]
    (whole,) = equation.left
    halves = whole.inputs  # pyright: ignore[reportAttributeAccessIssue]
    cuts = [tuple(typing.types[half].shape for half in halves) for typing in instance.typings]
    assert cuts == [((1,), (3,)), ((2,), (2,)), ((3,), (1,))]


def test_the_order_depends_on_the_seed_alone() -> None:
    equation = parse_equation("matmul(x, y) => matmul(y, x)")
    first, again, other = (
        [instance.types for instance in DrawnInstances(equation, Sizes(), seed).draw(50)]
        for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("text", "agrees"),
    [
        ("add(x, y) => add(y, x)", {True}),
        ("relu(x) => x", {False}),
        ("sub(x, x) => sub(y, y) where rank(x) = 0", {False, None}),
        ("transpose(x) => x where rank(x) = 2", {False, True}),
        ("div(x, x) => ones()", {True}),
        ("maxpool[kernel=1, stride=2](x) => x", {False, True}),
    ],
    ids=["always", "never", "at types that agree, but always 0", "at one size", "but for 0", "at size 1"],
)
def test_sides_agree_or_differ_or_nothing_is_known(text: str, agrees: set[bool | None]) -> None:
    equation = parse_equation(text)
    generator = np.random.default_rng(0)
    answers = {sides_agree(equation, i, generator) for i in DrawnInstances(equation, SMALL, 1).draw(100)}
    assert answers == agrees
