"""Every operator does in tasks what it does whole, however its ``splits`` say that it can be divided."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from superopt.domains import FloatDomain
from superopt.errors import IllTypedError
from superopt.ir import ElementType, TensorType, symbol
from superopt.ops import OPERATORS, Opaque, Operator, matrix, shape
from superopt.ops.images.convolution import Conv
from superopt.ops.sharded.parallel import ParallelOperator
from superopt.ops.sharded.splits import SplitKind, Splits
from tests.ops.examples import every_operator, examples

Array = npt.NDArray[np.float64]

UNDIVIDED = frozenset(
    ("identity_kernel", "band_kernel", "identity_matrix", "filter_transform", "product_transform")
)
"""Constants that look different everywhere, and what is computed before a run."""


def _divisions(splits: Splits) -> Iterator[tuple[int, ...]]:
    """Two parts along every one and every two dimensions that admit it."""
    for size in (1, 2):
        for chosen in itertools.combinations(range(len(splits.dimensions)), size):
            degrees = tuple(2 if number in chosen else 1 for number in range(len(splits.dimensions)))
            if splits.admits(degrees):
                yield degrees


def _place(
    axes: tuple[int | None, ...], sizes: tuple[int, ...], degrees: tuple[int, ...], at: tuple[int, ...]
) -> tuple[slice, ...]:
    """Where in a tensor that follows these task dimensions the part of one task is."""
    place: list[slice] = []
    for axis, size in zip(axes, sizes, strict=True):
        degree, position = (1, 0) if axis is None else (degrees[axis], at[axis])
        assert size % degree == 0
        place.append(slice(position * size // degree, (position + 1) * size // degree))
    return tuple(place)


def _in_tasks(
    operator: Operator,
    splits: Splits,
    degrees: tuple[int, ...],
    arrays: list[Array],
    shapes: list[tuple[int, ...]],
) -> list[Array]:
    """The outputs, put together from what the tasks make: summed along reductions, and over no copies."""
    results = [np.zeros((2, *shape)) for shape in shapes]
    for at in itertools.product(*(range(degree) for degree in degrees)):
        parts = [
            array[:, *_place(axes, array.shape[1:], degrees, at)]
            for array, axes in zip(arrays, splits.inputs, strict=True)
        ]
        places = [_place(axes, s, degrees, at) for axes, s in zip(splits.outputs, shapes, strict=True)]
        types = tuple(
            TensorType(ElementType.FLOAT, tuple(p.stop - p.start for p in place)) for place in places
        )
        made = operator.task(types).evaluate(FloatDomain(), *parts)
        for number, place in enumerate(places):
            followed = splits.outputs[number]
            whole = [n for n, d in enumerate(splits.dimensions) if d.kind is not SplitKind.REDUCTION]
            if all(n in followed or at[n] == 0 for n in whole):
                results[number][:, *place] += made[number]
    return results


@every_operator
def test_tasks_together_are_the_whole(name: str) -> None:
    generator = np.random.default_rng(0)
    divided = 0
    for example in examples(name):
        outputs = example.operator.infer(*example.types)
        splits = example.operator.splits(example.types, outputs)
        assert [len(axes) for axes in splits.inputs] == [type_.rank for type_ in example.types]
        assert [len(axes) for axes in splits.outputs] == [type_.rank for type_ in outputs]
        arrays = [generator.uniform(0.5, 2, (2, *shape)) for shape in example.shapes]
        whole = example.evaluated(FloatDomain(), *arrays)
        for degrees in _divisions(splits):
            made = _in_tasks(example.operator, splits, degrees, arrays, list(example.result))
            for expected, result in zip(whole, made, strict=True):
                np.testing.assert_allclose(result, np.broadcast_to(expected, result.shape), rtol=1e-12)
            divided += 1
    assert bool(divided) == (name not in UNDIVIDED and not issubclass(OPERATORS[name], ParallelOperator))


@every_operator
def test_symbolic_shapes_are_divided_alike(name: str) -> None:
    """A batch of unknown size has the task dimensions that a known one has."""
    for example in examples(name):
        if not example.shapes or len(example.shapes[0]) < 3 or name in ("reshape", "broadcast"):
            continue
        types = (example.types[0].with_shape((symbol("n"), *example.shapes[0][1:])), *example.types[1:])
        try:
            outputs = example.operator.infer(*types)
        except IllTypedError:
            continue
        splits = example.operator.splits(types, outputs)
        known = example.operator.splits(example.types, example.operator.infer(*example.types))
        assert (splits.inputs, splits.outputs) == (known.inputs, known.outputs)


def _floats(*sizes: int) -> TensorType:
    return TensorType(ElementType.FLOAT, sizes)


@pytest.mark.parametrize(
    ("before", "after", "dimensions", "inputs", "outputs"),
    [
        ((8, 4, 6), (32, 6), (8, 6), (0, None, 1), (0, 1)),
        ((8, 12), (8, 3, 4), (8, 3), (0, 1), (0, 1, None)),
        ((6, 4), (4, 6), (2,), (0, None), (0, None)),
        ((1, 6), (6,), (6,), (None, 0), (0,)),
        ((2, 3, 4), (2, 3, 4), (2, 3, 4), (0, 1, 2), (0, 1, 2)),
    ],
)
def test_a_reshape_keeps_outer_factors(
    before: tuple[int, ...],
    after: tuple[int, ...],
    dimensions: tuple[int, ...],
    inputs: tuple[int | None, ...],
    outputs: tuple[int | None, ...],
) -> None:
    splits = shape.Reshape(after).splits((_floats(*before),), (_floats(*after),))
    assert tuple(dimension.size for dimension in splits.dimensions) == dimensions
    assert (splits.inputs, splits.outputs) == ((inputs,), (outputs,))


def test_sums_are_divided_only_where_nothing_is_done_after() -> None:
    data, kernel, made = _floats(4, 8, 5, 5), _floats(6, 8, 3, 3), (_floats(4, 6, 3, 3),)
    kinds = {
        activation: [d.kind for d in Conv(activation=activation).splits((data, kernel), made).dimensions]
        for activation in ("none", "relu")
    }
    outer = [SplitKind.SAMPLE, SplitKind.PARAMETER]
    assert kinds == {"none": [*outer, SplitKind.REDUCTION], "relu": outer}
    product = matrix.Matmul().splits((_floats(4, 8), _floats(8, 6)), (_floats(4, 6),))
    assert [d.kind for d in product.dimensions] == [*outer, SplitKind.REDUCTION]


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "followed"),
    [
        ("Gather", (_floats(100, 16), _floats(4, 7)), _floats(4, 7, 16), ((None, 2), (0, 1))),
        ("Gather", (_floats(8, 3, 5), _floats()), _floats(8, 5), ((0, None, 1), ())),
        ("Gather", (_floats(4, 4), _floats(4)), _floats(4, 4), ((None, None), (None,))),
        ("Cast", (_floats(4, 7),), _floats(4, 7), ((0, 1),)),
        ("Clip", (_floats(4, 7), _floats(), _floats()), _floats(4, 7), ((0, 1), (), ())),
        ("CumSum", (_floats(4, 7), _floats()), _floats(4, 7), ((None, None), ())),
    ],
)
def test_what_is_known_of_nodes_without_an_operator(
    op_type: str,
    inputs: tuple[TensorType, ...],
    output: TensorType,
    followed: tuple[tuple[int | None, ...], ...],
) -> None:
    assert Opaque("", op_type, 0, "").splits(inputs, (output,)).inputs == followed
