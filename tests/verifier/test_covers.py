"""Conjunctions of atoms, against trying all of them."""

from __future__ import annotations

import itertools
import random

import pytest

from superopt.equations import format_condition, parse_equation
from superopt.ir import ElementType, TensorType
from superopt.ir.terms import Condition
from superopt.verifier.conditions.atoms import Atom, Place, atoms, known_names, truth_of
from superopt.verifier.conditions.covers import simplest_cover, widest_conjunctions

PLACES = 12


def random_atoms(generator: random.Random, count: int) -> list[Atom]:
    return [
        Atom(Condition(number, "=", number), 1 + generator.randrange(4) / 4, generator.getrandbits(PLACES))
        for number in range(count)
    ]


def true_everywhere(chosen: tuple[Atom, ...]) -> int:
    bits = (1 << PLACES) - 1
    for atom in chosen:
        bits &= atom.true
    return bits


@pytest.mark.parametrize("seed", range(40))
def test_the_simplest_cover_is_the_simplest(seed: int) -> None:
    generator = random.Random(seed)
    every, differs = random_atoms(generator, 7), generator.getrandbits(PLACES) | 1
    covers = [
        chosen
        for size in range(6)
        for chosen in itertools.combinations(every, size)
        if not true_everywhere(chosen) & differs
    ]
    found = simplest_cover(every, differs)
    if found is None:
        assert not covers
    else:
        assert not true_everywhere(found) & differs
        assert sum(a.cost for a in found) == min(sum(a.cost for a in chosen) for chosen in covers)


@pytest.mark.parametrize("seed", range(40))
def test_the_widest_conjunction_rules_out_every_difference_and_keeps_what_it_can(seed: int) -> None:
    generator = random.Random(seed)
    every = random_atoms(generator, 8)
    agrees = generator.getrandbits(PLACES) | 1
    differs = ((1 << PLACES) - 1) & ~agrees
    found = list(widest_conjunctions(every, agrees, differs))
    sufficient = [
        chosen
        for size in (1, 2, 3)
        for chosen in itertools.combinations(every, size)
        if not true_everywhere(chosen) & differs and true_everywhere(chosen) & agrees
    ]
    assert bool(found) is bool(sufficient)
    assert all(chosen in sufficient for chosen in found)

    def worth(chosen: tuple[Atom, ...]) -> float:
        return true_everywhere(chosen).bit_count() / sum(a.cost for a in chosen) ** 1.5

    if found:
        assert worth(found[0]) == pytest.approx(max(map(worth, sufficient)))


SHAPES = [(1, 1), (2, 1), (1, 2), (2, 2), (2, 3), (3, 3), (2, 2, 3)]


@pytest.mark.parametrize(
    ("text", "some"),
    [
        (
            "transpose(x) => x",
            ["dim(x, -1) = dim(x, -2)", "rank(x) = 2", "odd(dim(x, -1))", "dim(x, -1) = 1"],
        ),
        ("concat[axis=a](x, x) => x", ["axis(x, a) = axis(x, -1)", "dim(x, a) = 1", "a = -1"]),
    ],
)
def test_atoms_say_what_conditions_say(text: str, some: list[str]) -> None:
    equation = parse_equation(text)
    places = [
        Place({"x": TensorType(ElementType.FLOAT, shape)}, {"a": axis})
        for shape in SHAPES
        for axis in (0, 1, -1)
    ]
    found = atoms(equation, places)
    for atom in found:
        assert truth_of((atom.condition,), places) == atom.true, format_condition(atom.condition)
    assert len({atom.true for atom in found}) == len(found)
    assert set(some) <= {format_condition(atom.condition) for atom in found}


@pytest.mark.parametrize(
    ("text", "tensors", "attributes"),
    [
        ("relu[](x) => relu(y)", ("x",), set[str]()),
        ("add(x, y) <=> add(y, z)", ("y",), set[str]()),
        ("concat[axis=a](x, y) => concat[axis=b](x, y)", ("x", "y"), {"a"}),
        ("concat[axis=a](x, y) = concat[axis=b](x, y)", ("x", "y"), set[str]()),
    ],
)
def test_conditions_name_only_what_the_source_has(
    text: str, tensors: tuple[str, ...], attributes: set[str]
) -> None:
    assert known_names(parse_equation(text.replace("[]", ""))) == (tensors, attributes)
