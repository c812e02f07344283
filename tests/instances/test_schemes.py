"""Schemes for given ranks and attribute values: most general, and with convolutions in groups."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest

from superopt.equations import parse_equation
from superopt.instances.schemes import GeneralSearch, GroupedSearch, symbolic_types
from superopt.ir.terms import Equation
from superopt.ir.types import TensorType

IMAGES = {"x": 4, "y": 4, "z": 4, "w": 4}

GENERAL: dict[str, tuple[str, Mapping[str, int], Mapping[str, object], str | None]] = {
    "a size that both sides need to be equal": (
        "matmul(x, transpose(y)) = transpose(matmul(y, transpose(x)))",
        {"x": 2, "y": 2},
        {},
        "x: f32[x.0, x.1], y: f32[y.0, x.1]",
    ),
    "sizes that differ but along the axis": (
        "concat[axis=a](relu(x), relu(y)) = relu(concat[axis=a](x, y))",
        {"x": 3, "y": 3},
        {"a": 1},
        "x: f32[x.0, x.1, x.2], y: f32[x.0, y.1, x.2]",
    ),
    "a constant of the rank of an input": ("mul(x, ones()) = x", {"x": 3}, {}, "x: f32[x.0, x.1, x.2]"),
    "channels of one group": (
        "relu(conv(x, y)) = conv[activation=relu](x, y)",
        {"x": 4, "y": 4},
        {},
        "x: f32[x.0, x.1, x.2, x.3], y: f32[y.0, x.1, y.2, y.3]",
    ),
    "sizes that a condition gives": (
        "conv(x, y) = conv(x, y) where dim(y, 2) = 1, dim(y, 3) = 1",
        {"x": 4, "y": 4},
        {},
        "x: f32[x.0, x.1, x.2, x.3], y: f32[y.0, x.1, 1, 1]",
    ),
    "no scheme at this rank": ("matmul(x, y) = matmul(x, y)", {"x": 1, "y": 2}, {}, None),
    "no scheme at this value": ("softmax[axis=a](x) = softmax[axis=a](x)", {"x": 2}, {"a": 2}, None),
}


@pytest.mark.parametrize(("text", "ranks", "attributes", "expected"), GENERAL.values(), ids=GENERAL)
def test_the_most_general_scheme(
    text: str, ranks: Mapping[str, int], attributes: Mapping[str, object], expected: str | None
) -> None:
    equation = parse_equation(text)
    types = symbolic_types(equation, ranks, attributes)
    found = GeneralSearch(equation, types, attributes).general()
    written = found and ", ".join(f"{name}: {type_}" for name, type_ in sorted(found[1].types.items()))
    assert written == expected


def test_the_side_that_is_typed_first_is_the_one_that_leaves_sizes() -> None:
    sides = (
        "conv[padding=same](concat[axis=1](x, x), concat[axis=0](y, y))",
        "conv[padding=same](x, concat[axis=0](y, y))",
    )
    for left, right in itertools.permutations(sides):
        equation = parse_equation(f"{left} = {right}")
        found = GeneralSearch(equation, symbolic_types(equation, {"x": 4, "y": 4}, {}), {}).general()
        assert found is not None
        assert not found[1].is_empty


@pytest.mark.parametrize(
    ("text", "free", "apart"),
    [
        ("matmul(x, y) = matmul(x, y)", 3, 3),
        ("transpose(x) = x", 1, 2),
        ("add(ones(), transpose(x)) = transpose(add(x, ones()))", 1, 2),
    ],
)
def test_sizes_that_are_equal_for_the_other_side_alone(text: str, free: int, apart: int) -> None:
    equation = parse_equation(text)
    ranks = {"x": 2} if "y" not in text else {"x": 2, "y": 2}
    search = GeneralSearch(equation, symbolic_types(equation, ranks, {}), {})
    found = search.general()
    assert found is not None
    state, scheme = found
    counts = [len(_symbols(types)) for types in (scheme.types, search.apart(state))]
    assert counts == [free, apart]


def test_every_pattern_of_groups_is_drawn() -> None:
    equation = parse_equation(
        "conv[padding=same](conv[padding=same](x, y), z) => conv[padding=same](conv[padding=same](x, y), z)"
    )
    met = {
        (_groups(types, "x", 1, "y"), _groups(types, "y", 0, "z")) for types in _grouped(equation, "xyz", 60)
    }
    assert {(1, 1), (1, 2), (2, 1), (2, 2)} <= met


def test_conditions_on_groups_can_be_met() -> None:
    equation = parse_equation(
        "concat[axis=1](conv(x, y), conv(z, w)) = conv(concat[axis=1](x, z), concat[axis=0](y, w))"
        " where outputs_per_group(x, y) = outputs_per_group(z, w)"
    )
    met = {
        (_groups(types, "x", 1, "y"), _groups(types, "z", 1, "w")) for types in _grouped(equation, "xyzw", 60)
    }
    assert any(one != other for one, other in met)


def _grouped(equation: Equation, names: str, count: int) -> list[Mapping[str, tuple[int, ...]]]:
    ranks = {name: IMAGES[name] for name in names}
    search = GroupedSearch(equation, random.Random(0), symbolic_types(equation, ranks, {}), {})
    found: list[Mapping[str, tuple[int, ...]]] = []
    for scheme in itertools.islice(search, count):
        instance = scheme.sized(equation, dict.fromkeys(scheme.symbols, 3), 10_000)
        if instance is not None:
            found.append({name: type_.shape for name, type_ in instance.types.items()})  # pyright: ignore[reportArgumentType]
    return found


def _groups(shapes: Mapping[str, tuple[int, ...]], data: str, axis: int, weight: str) -> int:
    return shapes[data][axis] // shapes[weight][1]


def _symbols(types: Mapping[str, TensorType]) -> frozenset[str]:
    return frozenset[str]().union(*(type_.symbols for type_ in types.values()))
