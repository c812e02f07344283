"""Split trees: where tensors may be split, recorded from concatenations along each axis.

A split in a rule divides where a concat joined (TASO dissertation, section 2.3.1). How operators map axes of
inputs to outputs is derived from their type inference over symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from superopt.errors import DimensionMismatchError, IllTypedError
from superopt.ir.dimensions import Dimension, solve, substitute, symbol
from superopt.ir.types import ElementType, TensorType
from superopt.ops import Operator

SplitTree: TypeAlias = "int | tuple[SplitTree, SplitTree]"
Source: TypeAlias = "tuple[int, int]"
"""An axis of an input: (input, axis)."""


@dataclass(frozen=True, slots=True)
class AxisFlow:
    """The origin of an output axis: input axes of equal size, or two concatenated input axes."""

    same: tuple[Source, ...] = ()
    joined: tuple[Source, Source] | None = None


def size_of(tree: SplitTree) -> int:
    """The size of the axis."""
    return tree if isinstance(tree, int) else size_of(tree[0]) + size_of(tree[1])


def merged(left: SplitTree, right: SplitTree) -> SplitTree:
    """Merges the split trees of two identified axes; the left one has precedence."""
    if isinstance(left, int):
        return right
    if isinstance(right, int) or size_of(left[0]) != size_of(right[0]):
        return left
    return (merged(left[0], right[0]), merged(left[1], right[1]))


def axis_flows(operator: Operator, shapes: Sequence[tuple[int, ...]]) -> tuple[AxisFlow, ...]:
    """The axis flows of an operator for inputs of these shapes; empty for unknown axes."""
    dimensions: dict[Source, Dimension] = {
        (k, j): symbol(f"d{k}_{j}") for k, shape in enumerate(shapes) for j in range(len(shape))
    }
    while True:
        types = [
            TensorType(ElementType.FLOAT, tuple(dimensions[k, j] for j in range(len(shape))))
            for k, shape in enumerate(shapes)
        ]
        try:
            (output,) = operator.infer(*types)
            break
        except DimensionMismatchError as error:
            solution = solve(error.left, error.right)
            if not solution:
                return _nowhere(operator, shapes)
            dimensions = {source: substitute(d, solution) for source, d in dimensions.items()}
        except IllTypedError:
            return _nowhere(operator, shapes)
    return tuple(_flow(dimension, dimensions) for dimension in output.shape)


def _nowhere(operator: Operator, shapes: Sequence[tuple[int, ...]]) -> tuple[AxisFlow, ...]:
    (output,) = operator.infer(*(TensorType(ElementType.FLOAT, shape) for shape in shapes))
    return (AxisFlow(),) * output.rank


def _flow(dimension: Dimension, sources: dict[Source, Dimension]) -> AxisFlow:
    if isinstance(dimension, int):
        return AxisFlow()
    same = tuple(source for source, other in sources.items() if other == dimension)
    if same:
        return AxisFlow(same)
    for left, first in sources.items():
        for right, second in sources.items():
            if left[0] < right[0] and first + second == dimension:
                return AxisFlow(joined=(left, right))
    return AxisFlow()


def carried(
    flows: Sequence[AxisFlow], shape: tuple[int, ...], inputs: Sequence[tuple[SplitTree, ...]]
) -> tuple[SplitTree, ...]:
    """The split trees of an output of that shape."""
    trees: list[SplitTree] = []
    for flow, size in zip(flows, shape, strict=True):
        tree: SplitTree = size
        if flow.joined is not None:
            (k, j), (m, n) = flow.joined
            tree = (inputs[k][j], inputs[m][n])
        for k, j in flow.same:
            tree = merged(tree, inputs[k][j])
        trees.append(tree)
    return tuple(trees)
