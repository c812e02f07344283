"""Typing by unification: equations over symbols, and what the symbols turn out to be."""

from __future__ import annotations

import re

import pytest

from superopt.equations import format_term, parse_equation, parse_term
from superopt.errors import IllTypedError
from superopt.ir import Application, ElementType, TensorType, Variable, symbol
from superopt.ops import attributes_of
from superopt.ops.terms import application
from superopt.rewriting import Typing, infer_terms, type_equation


def types_of(**ranks: int) -> dict[str, TensorType]:
    """Every variable of its own symbols: x0, x1 ... for x of rank 2."""
    return {
        name: TensorType(ElementType.FLOAT, tuple(symbol(f"{name}{axis}") for axis in range(rank)))
        for name, rank in ranks.items()
    }


def described(typing: Typing, equation_sides: tuple[object, ...], given: dict[str, TensorType]) -> str:
    variables = [f"{name}: {type_.substitute(typing.assignment)}" for name, type_ in given.items()]
    results = [str(typing.types[side]) for side in equation_sides if isinstance(side, Application | Variable)]
    return f"{', '.join(variables)} -> {', '.join(results)}"


CASES: list[tuple[str, dict[str, int], dict[str, object], str]] = [
    (
        "matmul(x, matmul(y, z)) = matmul(matmul(x, y), z)",
        {"x": 2, "y": 2, "z": 2},
        {},
        "x: f32[x0, x1], y: f32[x1, y1], z: f32[y1, z1] -> f32[x0, z1]",
    ),
    (
        "concat[axis=-1](matmul(x, y), matmul(x, z)) = matmul(x, concat[axis=-1](y, z))",
        {"x": 3, "y": 2, "z": 2},
        {},
        "x: f32[x0, x1, x2], y: f32[x2, y1], z: f32[x2, z1] -> f32[x0, x1, y1 + z1]",
    ),
    (
        "split0[axis=a](concat[axis=a](x, y)) = x",
        {"x": 2, "y": 2},
        {"a": 1},
        "x: f32[x0, x1], y: f32[x0, y1] -> f32[x0, x1]",
    ),
    (
        "add(split0[axis=0](x), split1[axis=0](x)) = split0[axis=0](x)",
        {"x": 1},
        {},
        "x: f32[2*?cut0] -> f32[?cut0]",
    ),
    (
        "matmul(split0[axis=-1](x), y) = matmul(x, concat[axis=-2](y, z))",
        {"x": 2, "y": 2, "z": 2},
        {},
        "x: f32[x0, x1], y: f32[y0, y1], z: f32[x1 - y0, y1] -> f32[x0, y1]",
    ),
    ("mul(x, ones()) = x", {"x": 3}, {}, "x: f32[x0, x1, x2] -> f32[x0, x1, x2]"),
    ("matmul(x, identity_matrix()) = x", {"x": 2}, {}, "x: f32[x0, x1] -> f32[x0, x1]"),
    ("add(x, broadcast(y)) = x", {"x": 2, "y": 1}, {}, "x: f32[x0, x1], y: f32[x1] -> f32[x0, x1]"),
    (
        "conv[padding=same](x, identity_kernel[kernel=3]) = x",
        {"x": 4},
        {},
        "x: f32[x0, x1, x2, x3] -> f32[x0, x1, x2, x3]",
    ),
    (
        "conv[padding=p](x, avgpool_kernel[kernel=3]) = avgpool[kernel=3, padding=p, includes_padding=1](x)",
        {"x": 4},
        {"p": "valid"},
        "x: f32[x0, x1, x2, x3] -> f32[x0, x1, x2 - 2, x3 - 2]",
    ),
    (
        "channel_scale[axis=1](conv[padding=same](x, w), v) = relu(conv(x, channel_scale[axis=0](w, v)))",
        {"x": 4, "w": 4, "v": 1},
        {},
        "x: f32[x0, w1, x2, x3], w: f32[v0, w1, 1, 1], v: f32[v0] -> f32[x0, v0, x2, x3]",
    ),
    (
        "reshape[shape=(6, 2)](x) = reshape[shape=(6, 2)](transpose(x))",
        {"x": 2},
        {},
        "IllTypedError: reshape: dimensions x0*x1 and 12 must be equal",
    ),
    ("matmul(x, y) = x", {"x": 1, "y": 2}, {}, "IllTypedError: matmul, first input: expected rank"),
    ("add(x, y) = x", {"x": 1, "y": 2}, {}, "IllTypedError: add: expected rank 1, got 2"),
    ("relu(x) = matmul(x, x)", {"x": 3}, {}, "x: f32[x0, x1, x1] -> f32[x0, x1, x1]"),
    ("x = concat[axis=0](x, y)", {"x": 1, "y": 1}, {}, "x: f32[x0], y: f32[0] -> f32[x0]"),
    (
        "split[axis=0, sizes=(1, 2)](x) = x",
        {"x": 1},
        {},
        "IllTypedError: split has 2 outputs; a term is one tensor",
    ),
    ("softmax[axis=a](x) = x", {"x": 1}, {}, "IllTypedError: softmax: the attribute variable a has no value"),
    (
        "softmax[axis=a](x) = x",
        {"x": 1},
        {"a": 3},
        "IllTypedError: softmax: expected rank more",
    ),
]


@pytest.mark.parametrize(("text", "ranks", "attributes", "expected"), CASES, ids=[case[0] for case in CASES])
def test_the_types_of_an_equation(
    text: str, ranks: dict[str, int], attributes: dict[str, object], expected: str
) -> None:
    equation = parse_equation(text)
    given = types_of(**ranks)
    if expected.startswith("IllTypedError: "):
        with pytest.raises(IllTypedError, match=f"^{re.escape(expected.removeprefix('IllTypedError: '))}"):
            type_equation(equation, given, attributes)
        return
    typing = type_equation(equation, given, attributes)
    assert described(typing, equation.left, given) == expected
    for left, right in zip(equation.left, equation.right, strict=True):
        assert typing.types[left] == typing.types[right]


def test_fixed_symbols_are_not_solved_for() -> None:
    term = parse_term("add(x, y)")
    given = types_of(x=1, y=1)
    assert infer_terms((term,), given, fixed=frozenset(("x0",))).assignment == {"y0": symbol("x0")}
    with pytest.raises(IllTypedError, match="dimensions x0 and y0 must be equal"):
        infer_terms((term,), given, fixed=frozenset(("x0", "y0")))


def test_a_symbol_of_the_graph_may_look_like_one_of_ours() -> None:
    """An ONNX model may call a dimension ``?`` or ``?cut0``."""
    odd = {
        "x": TensorType(ElementType.FLOAT, (symbol("?cut0"), 2)),
        "y": TensorType(ElementType.FLOAT, (symbol("?"), 2)),
    }
    fixed = frozenset(("?cut0", "?"))
    with pytest.raises(IllTypedError):
        infer_terms((parse_term("add(x, y)"),), odd, fixed=fixed)
    typing = infer_terms((parse_term("split0[axis=0](x)"),), odd, fixed=fixed)
    assert typing.unresolved == {"?cut1"}


def test_known_cuts_are_used() -> None:
    half = parse_term("split0[axis=2](x)")
    assert isinstance(half, Application)
    term = application("global_avgpool", {}, half)
    given = {"x": TensorType(ElementType.FLOAT, (1, 2, 6, 6))}
    assert infer_terms((term,), given).unresolved == {"?cut0"}
    known = infer_terms((term,), given, cuts={(Variable("x"), 2): 4})
    assert known.unresolved == frozenset()
    assert attributes_of(known.operators[half]) == {"axis": 2, "size": 4}


def test_what_nothing_determines_is_unresolved() -> None:
    typing = infer_terms((parse_term("matmul(identity_matrix(), identity_matrix())"),), {})
    assert typing.unresolved == {"?size0"}


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_cut_must_leave_something_on_both_sides(size: int) -> None:
    term = parse_term(f"split0[axis=0, size={size}](x)")
    given = {"x": TensorType(ElementType.FLOAT, (5,))}
    if size == 1:
        assert infer_terms((term,), given).types[term].shape == (1,)
    else:
        with pytest.raises(IllTypedError, match=f"{format_term(term)[:6]}: cannot cut 5 at {size}"):
            infer_terms((term,), given)
