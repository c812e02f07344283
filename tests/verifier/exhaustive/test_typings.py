"""The enumeration misses no case: compared with trying every rank, every size and every value."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest

from superopt.equations import parse_equation
from superopt.errors import IllTypedError
from superopt.ir.terms import Equation
from superopt.ir.types import ElementType, TensorType
from superopt.rewriting.conditions import holds
from superopt.rewriting.typing import infer_terms
from superopt.verifier.axiom_checks.exhaustive.images import all_cases
from superopt.verifier.instances.program import Case, Program
from superopt.verifier.instances.values import Bound

EVERY_AXIS = range(-3, 3)
PERMS = [(), *(p for n in range(4) for p in itertools.permutations(range(n)))]
SHAPES = [shape for n in range(4) for shape in itertools.product((1, 2), repeat=n)]

CASES: Mapping[str, Mapping[str, Sequence[object]]] = {
    "add(x, y) = add(y, x)": {},
    "matmul(x, y) = scale(matmul(x, y), w)": {},
    "concat[axis=a](x, y) = concat[axis=a](y, x)": {"a": EVERY_AXIS},
    "channel_scale[axis=a](x, s) = channel_scale[axis=b](x, s)": {"a": EVERY_AXIS, "b": EVERY_AXIS},
    "transpose[perm=p](transpose[perm=q](x)) = x": {"p": PERMS, "q": PERMS},
    "transpose(x) = x": {},
    "concat[axis=-1](x, y) = concat[axis=0](x, y) where dim(x, 0) = 2": {},
    "softmax[axis=a](x) = bias_add[axis=-1](x, s)": {"a": EVERY_AXIS},
}


@pytest.mark.parametrize("text", CASES)
def test_every_case_is_found(text: str) -> None:
    equation = parse_equation(text, "tried")
    found = {_meaning(equation, case) for case in all_cases(Program(equation), Bound(2, 3))}
    assert found == set(_tried(equation, CASES[text]))
    assert found


def _tried(equation: Equation, values: Mapping[str, Sequence[object]]) -> Iterator[object]:
    names = Program(equation).names
    sides = equation.terms
    for shapes in itertools.product(SHAPES, repeat=len(names)):
        types = {n: TensorType(ElementType.FLOAT, shape) for n, shape in zip(names, shapes, strict=True)}
        for chosen in itertools.product(*values.values()):
            attributes = dict(zip(values, chosen, strict=True))
            try:
                typing = infer_terms(sides, types, attributes)
            except IllTypedError:
                continue
            if all(holds(condition, types, attributes) for condition in equation.conditions):
                yield shapes, _spelled(types["x"].rank, attributes), _agree(equation, typing.types)


def _meaning(equation: Equation, case: Case) -> object:
    shapes = tuple(type_.shape for type_ in case.types)
    return shapes, _spelled(case.types[Program(equation).names.index("x")].rank, case.attributes), case.agree


def _spelled(rank: int, attributes: Mapping[str, object]) -> object:
    """Axes counted from 0, the swap of the last two axes as a permutation."""
    swap = (*range(rank - 2), rank - 1, rank - 2)
    return tuple(
        (name, value % rank if isinstance(value, int) else value or swap)
        for name, value in sorted(attributes.items())
    )


def _agree(equation: Equation, types: Mapping[object, TensorType]) -> bool:
    return all(types[a] == types[b] for a, b in zip(equation.left, equation.right, strict=True))


def test_implicit_sizes_are_those_for_which_types_agree() -> None:
    """Cuts of both sides are one; constants have the shape that their use gives them."""
    equation = parse_equation("split0[axis=0](add(x, y)) = add(split0[axis=0](x), split0[axis=0](y))")
    cases = [case for case in all_cases(Program(equation), Bound(3, 1)) if case.agree]
    cuts = sorted((str(case.types[0]), str(case.outputs[0])) for case in cases)
    assert cuts == [("f32[2]", "f32[1]"), ("f32[3]", "f32[1]"), ("f32[3]", "f32[2]")]


ROWS = "conv[stride=s, padding=p, dilation=d](x, y) = conv[stride=s, padding=p, dilation=d](x, identity(y))"


def test_every_geometry_of_rows_meets_a_part_of_all_channels() -> None:
    """Against all sizes, kernels, strides, dilations and paddings of one axis, told apart by what windows see."""
    program = Program(parse_equation(ROWS, "rows"))
    bound = Bound(3)
    found = list(all_cases(program, bound))
    channels = {tuple(t.shape[:2] for t in case.types) for case in found}
    expected = {
        ((n, c), (o, per_group))
        for n, c, o, per_group in itertools.product((1, 2, 3), repeat=4)
        if c % per_group == 0 and o % (c // per_group) == 0
    }
    assert channels == expected
    for axis in (0, 1):
        seen = {_windows(case, axis) for case in found}
        tried = set(_tried_windows())
        assert seen == tried
        pairs = {(_windows(case, axis), tuple(t.shape[:2] for t in case.types)) for case in found}
        met = Counter(windows for windows, _ in pairs)
        assert min(met[windows] for windows in tried) >= len(expected) // 5
        meeting = Counter(choice for _, choice in pairs)
        assert min(meeting[choice] for choice in expected) >= len(tried) // 6


def _windows(case: Case, axis: int) -> object:
    """For each window along the axis, which positions of the input its kernel sees."""
    conv = next(operator for operator in case.operators if operator.name == "conv")
    size, kernel = case.types[0].shape[2 + axis], case.types[1].shape[2 + axis]
    output = case.outputs[0].shape[2 + axis]
    assert isinstance(size, int)
    assert isinstance(kernel, int)
    assert isinstance(output, int)
    stride, dilation, padding = conv.stride[axis], conv.dilation[axis], conv.padding  # type: ignore[attr-defined]
    before = _before(size, kernel, stride, dilation, padding if isinstance(padding, str) else padding[axis])
    return size, tuple(
        tuple(window * stride + position * dilation - before for position in range(kernel))
        for window in range(output)
    )


def _tried_windows() -> Iterator[object]:
    sizes = (1, 2, 3)
    paddings = ("valid", "same", "same_upper", "same_lower", (0, 0), (1, 1), (0, 1), (1, 0), (2, 1))
    for size, kernel, stride, dilation, padding in itertools.product(
        sizes, sizes, (1, 2, 3), (1, 2), paddings
    ):
        extent = dilation * (kernel - 1) + 1
        if padding == "same" and extent % 2 == 0:
            continue
        if padding in ("same_upper", "same_lower"):
            output = -(-size // stride)
        else:
            total = extent - 1 if padding == "same" else 0 if isinstance(padding, str) else sum(padding)
            output = (size + total - extent) // stride + 1
        if output < 1:
            continue
        before = _before(size, kernel, stride, dilation, padding if isinstance(padding, str) else padding[0])
        yield (
            size,
            tuple(
                tuple(window * stride + position * dilation - before for position in range(kernel))
                for window in range(output)
            ),
        )


def _before(size: int, kernel: int, stride: int, dilation: int, padding: str | int) -> int:
    extent = dilation * (kernel - 1) + 1
    if isinstance(padding, int):
        return padding
    if padding == "valid":
        return 0
    if padding == "same":
        return (extent - 1) // 2
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total - total // 2 if padding == "same_lower" else total // 2
