"""Typings over shared types are those of the searches in ``superopt.instances``, found in tables."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from superopt.equations import format_equation, parse_equation
from superopt.generator.generalise import shared_types
from superopt.generator.generalise.sampling import Sampler, Shapes
from superopt.generator.generalise.shared_search import SharedGeneralSearch, SharedGroupedSearch
from superopt.generator.generalise.shared_types import Mismatch, SharedTypes
from superopt.generator.generalise.sized import SchemeProgram
from superopt.instances.schemes import GeneralSearch, GroupedSearch, Scheme, symbolic_types
from superopt.ir.dimensions import symbol
from superopt.ir.terms import Equation
from superopt.ir.types import ElementType, TensorType
from superopt.ops.base import operator_from_attributes

IMAGE, KERNEL, MATRIX = 4, 4, 2

EQUATIONS: tuple[tuple[str, dict[str, int]], ...] = (
    ("add(x, y) = add(y, x)", {"x": MATRIX, "y": MATRIX}),
    ("matmul(matmul(x, y), z) = matmul(x, matmul(y, z))", dict.fromkeys("xyz", MATRIX)),
    ("add(x, y) = matmul(x, y)", {"x": MATRIX, "y": MATRIX}),
    ("add(x, y) = add(x, y)", {"x": MATRIX, "y": 3}),
    ("mul(x, ones()) = x", {"x": MATRIX}),
    ("matmul(x, identity_matrix()) = x", {"x": MATRIX}),
    ("split0[axis=0](concat[axis=0](x, y)) = x", {"x": MATRIX, "y": MATRIX}),
    ("concat[axis=1](split0[axis=1](x), split1[axis=1](x)) = x", {"x": MATRIX}),
    ("split0[axis=0](add(x, y)) = add(split0[axis=0](x), split0[axis=0](y))", {"x": MATRIX, "y": MATRIX}),
    ("conv[padding=same](x, y) = conv[padding=same](z, y)", dict.fromkeys("xyz", IMAGE)),
    (
        ("conv[padding=same](concat[axis=1](x, y), concat[axis=1](z, w))"
        " = add(conv[padding=same](x, z), conv[padding=same](y, w))"),
        dict.fromkeys("xyzw", IMAGE),
    ),
    (
        ("concat[axis=1](conv[padding=same](x, y), conv[padding=same](x, z))"
        " = conv[padding=same](x, concat[axis=0](y, z))"),
        dict.fromkeys("xyz", IMAGE),
    ),
    ("conv[stride=s](x, y) = conv[stride=s](x, add(y, z)) where dim(y, 2) = 1", dict.fromkeys("xyz", IMAGE)),
    ("matmul(combine[axis=0, degree=2](x), y) = combine[axis=0, degree=2](matmul(x, replicate[degree=2](y)))",
     {"x": MATRIX, "y": MATRIX}),
)  # fmt: skip
ATTRIBUTES = {"s": (2, 2)}


@pytest.mark.parametrize(("text", "ranks"), EQUATIONS, ids=[text for text, _ in EQUATIONS])
def test_searches_find_the_same_schemes(text: str, ranks: dict[str, int]) -> None:
    equation = parse_equation(text)
    values = {name: ATTRIBUTES[name] for name in equation.attribute_variables}
    types, shared = symbolic_types(equation, ranks, values), SharedTypes()
    expected = GeneralSearch(equation, types, values)
    found = SharedGeneralSearch(shared, equation, types, values)
    one, other = expected.general(), found.general()
    assert _written(other and other[1]) == _written(one and one[1])
    if one is not None and other is not None:
        assert found.apart(other[0]) == expected.apart(one[0])
    drawn = GroupedSearch(equation, random.Random(0), types, values)
    again = SharedGroupedSearch(shared, equation, random.Random(0), types, values)
    assert [_written(scheme) for scheme in itertools.islice(again, 12)] == [
        _written(scheme) for scheme in itertools.islice(drawn, 12)
    ]


def _written(scheme: Scheme | None) -> object:
    return scheme and (scheme.types, scheme.typing.types, scheme.typing.operators)


@pytest.mark.parametrize(("text", "ranks"), EQUATIONS, ids=[text for text, _ in EQUATIONS])
def test_sizes_type_a_scheme_as_operators_do(text: str, ranks: dict[str, int]) -> None:
    equation = parse_equation(text)
    values = {name: ATTRIBUTES[name] for name in equation.attribute_variables}
    found = GeneralSearch(equation, symbolic_types(equation, ranks, values), values).general()
    if found is None:
        return
    scheme, shared = found[1], SharedTypes()
    program = SchemeProgram(shared, equation, scheme)
    assert set(program.symbols) == scheme.symbols
    for sizes in (dict.fromkeys(scheme.symbols, size) for size in (0, 1, 2, 3, 5)):
        instance, sized = scheme.sized(equation, sizes, 300), program.at(sizes, 300)
        assert (instance is None) == (sized is None)
        if instance is not None and sized is not None:
            places = zip(equation.left, equation.right, program.outputs, strict=True)
            for left, right, outputs in places:
                own = tuple([shared.type(sized.types[place]) for place in outputs])
                assert own == (instance.typing.types[left], instance.typing.types[right])


def test_what_operators_infer_is_a_type_a_mismatch_or_nothing() -> None:
    shared = SharedTypes()
    add = shared.operator_id(operator_from_attributes("add", {}))
    square, tall, vector = (
        shared.of(TensorType(ElementType.FLOAT, shape))
        for shape in ((symbol("n"), symbol("n")), (symbol("m"), symbol("n")), (3,))
    )
    assert shared.inferred(add, (square, square)) == square
    assert shared.inferred(add, (square, tall)) == Mismatch(symbol("n"), symbol("m"))
    assert shared.inferred(add, (square, vector)) is None
    assert shared.substituted(tall, {"m": symbol("n")}) == square
    assert shared.type(shared.substituted(square, {"n": 3})).shape == (3, 3)
    assert [shared.elements(shared.substituted(square, {"n": size})) for size in (0, 3)] == [0, 9]


def test_answers_do_not_depend_on_what_tables_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that are cleared all the time give the same answers as those that are never cleared."""
    asked: list[tuple[Equation, Shapes]] = [
        (parse_equation(text), {name: (2, 4, 3, 3)[-rank:] for name, rank in ranks.items()})
        for text, ranks in EQUATIONS
        if not parse_equation(text).attribute_variables
    ]
    kept = Sampler()
    answers = [[kept.holds(*each, samples=samples) for each in asked] for samples in (1, 3)]
    monkeypatch.setattr(shared_types, "_MOST_TYPES", 0)
    monkeypatch.setattr(shared_types, "_MOST_ENTRIES", 0)
    cleared = Sampler()
    assert answers == [[cleared.holds(*each, samples=samples) for each in asked] for samples in (1, 3)]
    assert True in answers[1]
    assert False in answers[1]


def test_renamed_equations_are_not_mixed_up() -> None:
    """Subterms are shared by name: other names give other terms, and the same answers."""
    sampler, shapes = Sampler(), dict.fromkeys("xyz", (4, 4))
    equation = parse_equation("matmul(add(x, y), z) = add(matmul(x, z), matmul(y, z))")
    wrong = parse_equation("matmul(add(x, y), z) = add(matmul(x, z), matmul(z, y))")
    for each in (equation, wrong):
        turned = replace(each, left=each.right, right=each.left)
        answers = {sampler.holds(asked, shapes) for asked in (each, turned)}
        assert answers == {each is equation}, format_equation(each)
