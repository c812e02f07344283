"""Nodes that move elements, for random models to grow by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tests.optimizer.training.graph_growth import Growth, UnfitError


def gather(g: Growth) -> None:
    """Rows of a table, or positions of a tensor."""
    if g.chance(0.5):
        rows = g.number(1, 5)
        table = g.weight((rows, *g.numbers(1, 4, g.number(1, 2))))
        places = g.random.integers(-rows if g.opset >= 11 else 0, rows, g.numbers(1, 3, g.number(0, 2)))
        g.node("Gather", [table, g.constant(places)])
        return
    x = g.pick(1, fits=lambda array: array.ndim > int(g.dynamic))
    rank = len(g.shape(x))
    axis = g.axis(rank, int(g.dynamic))
    size = g.shape(x)[axis]
    kind = g.number(0, 2)
    places = g.random.integers(0, size, g.numbers(1, 3, kind))
    if kind == 1 and g.chance(0.4):
        places = np.arange(g.number(0, size - 1), size)
    g.node("Gather", [x, g.constant(places)], axis=axis)


def slice_(g: Growth) -> None:
    x = g.pick(1, fits=lambda array: array.ndim > int(g.dynamic))
    shape = g.shape(x)
    axes = [a for a in g.axes(len(shape)) if not (g.dynamic and a % len(shape) == 0)]
    if not axes:
        raise UnfitError("no axis")
    starts = [g.number(-shape[a], shape[a] - 1) for a in axes]
    ends = [g.number(s % shape[a] + 1, shape[a] + 2) for s, a in zip(starts, axes, strict=True)]
    ends = [2**31 - 1 if g.chance(0.2) else end for end in ends]
    if g.opset < 10:
        g.node("Slice", [x], axes=axes, starts=starts, ends=ends)
        return
    operands = [x, g.constant(starts), g.constant(ends), g.constant(axes)]
    operands += [g.constant(g.numbers(1, 3, len(axes)))] if g.chance(0.2) else []
    g.node("Slice", operands)


def split(g: Growth) -> None:
    x = g.pick(1, fits=lambda array: max(array.shape[int(g.dynamic) :], default=0) > 1)
    shape = g.shape(x)
    axis = g.axis(len(shape), int(g.dynamic))
    size = shape[axis]
    if size < 2:
        raise UnfitError("nothing to split")
    first = g.number(1, size - 1)
    sizes = [first, size - first]
    if size - first > 1 and g.chance(0.4):
        sizes = [first, 1, size - first - 1]
    if size % 2 == 0 and g.chance(0.3):
        newer: dict[str, object] = {"num_outputs": 2} if g.opset >= 18 else {}
        g.node("Split", [x], 2, axis=axis, **newer)
    elif g.opset < 13:
        g.node("Split", [x], len(sizes), axis=axis, split=sizes)
    else:
        g.node("Split", [x, g.constant(sizes)], len(sizes), axis=axis)


def concat(g: Growth) -> None:
    x = g.pick(1)
    shape = g.shape(x)
    axis = g.axis(len(shape))
    place = axis % len(shape)

    def alike(array: NDArray[np.generic]) -> bool:
        return array.ndim == len(shape) and all(
            a == b for i, (a, b) in enumerate(zip(array.shape, shape, strict=True)) if i != place
        )

    parts = [x] + [g.pick(fits=alike) for _ in range(g.number(0, 2))]
    if (not g.dynamic or place == 0) and g.chance(0.4):
        parts.append(g.weight([g.number(1, 3) if i == place else size for i, size in enumerate(shape)]))
    g.node("Concat", [parts[i] for i in g.random.permutation(len(parts))], axis=axis)


def pad(g: Growth) -> None:
    x = g.pick(1, fits=lambda array: array.ndim > int(g.dynamic))
    shape = g.shape(x)
    mode = str(g.random.choice(["constant", "constant", "constant", "edge", "reflect"]))
    least = -1 if g.chance(0.3) and mode == "constant" else 0
    pads = [g.number(least, 2) for _ in (*shape, *shape)]
    pads = [min(number, shape[i % len(shape)] - 1) for i, number in enumerate(pads)]
    if g.dynamic:
        pads[0] = pads[len(shape)] = 0
    if g.opset < 11:
        g.node("Pad", [x], mode=mode, pads=pads, value=0.5 if g.chance(0.4) else 0.0)
    else:
        operands = [x, g.constant(pads)]
        g.node("Pad", operands + ([g.constant(0.5, np.float32)] if g.chance(0.4) else []), mode=mode)


def transpose(g: Growth) -> None:
    x = g.pick(2)
    attributes: dict[str, object] = {}
    if g.chance(0.9):
        attributes["perm"] = g.random.permutation(len(g.shape(x))).tolist()
    if g.dynamic:
        attributes["perm"] = [0, *(1 + g.random.permutation(len(g.shape(x)) - 1)).tolist()]
    g.node("Transpose", [x], **attributes)


def reshape(g: Growth) -> None:
    x = g.pick(1)
    shape = g.shape(x)
    kept = g.number(1, len(shape)) if g.dynamic else g.number(0, len(shape))
    if g.chance(0.3):
        if g.dynamic and kept != 1:
            raise UnfitError("mixes samples")
        g.node("Flatten", [x], axis=kept)
        return
    rest = int(np.prod(shape[kept:]))
    divisors = [d for d in range(1, rest + 1) if rest % d == 0]
    first = int(g.random.choice(divisors))
    head = [0 if g.chance(0.5) or g.dynamic else size for size in shape[:kept]]
    tail = [first, -1 if g.chance(0.4) else rest // first] if g.chance(0.7) else [rest]
    if g.dynamic and kept == 1 and g.chance(0.3):
        head, tail = [-1], [first, rest // first]
    g.node("Reshape", [x, g.constant([*head, *tail])])


def expand(g: Growth) -> None:
    if g.opset < 8:
        raise UnfitError("Expand is newer")
    x = g.pick(0, 4)
    shape = [g.number(1, 3) if size == 1 else 1 if g.chance(0.3) else size for size in g.shape(x)]
    if g.dynamic:
        shape = [1, *shape[1:]] if shape else shape
    elif g.chance(0.3):
        shape = [2, *shape]
    g.node("Expand", [x, g.constant(shape)])


def squeeze(g: Growth) -> None:
    x = g.pick(1)
    if g.chance(0.5):
        rank = len(g.shape(x))
        axis = g.number(int(g.dynamic), rank)
        axes = [axis] if g.chance(0.7) else [axis, rank + 1]
        name = "Unsqueeze"
    else:
        axes = [a for a, size in enumerate(g.shape(x)) if size == 1 and not (a == 0 and g.dynamic)]
        if not axes:
            raise UnfitError("nothing to squeeze")
        name = "Squeeze"
        if g.chance(0.3) and not g.dynamic:
            g.node("Squeeze", [x])
            return
    if g.opset >= 13:
        g.node(name, [x, g.constant(axes)])
    else:
        g.node(name, [x], axes=axes)


def resize(g: Growth) -> None:
    x = g.pick(3, 4, lambda array: array.size < 60)
    mode = "linear" if g.chance(0.5) else "nearest"
    scales = [1.0, 1.0, *(float(n) for n in g.numbers(1, 3, len(g.shape(x)) - 2))]
    given = g.constant(np.array(scales), np.float32)
    if g.opset < 9:
        g.node("Upsample", [x], mode=mode, scales=scales)
    elif g.opset == 9:
        g.node("Upsample", [x, given], mode=mode)
    elif g.opset == 10:
        g.node("Resize", [x, given], mode=mode)
    else:
        how = str(g.random.choice(["half_pixel", "asymmetric", "align_corners"], p=[0.6, 0.3, 0.1]))
        attributes: dict[str, object] = {"coordinate_transformation_mode": how, "mode": mode}
        if mode == "nearest":
            attributes["nearest_mode"] = str(g.random.choice(["floor", "round_prefer_floor"]))
        g.node("Resize", [x, g.constant(np.zeros(0), np.float32), given], **attributes)


MOVEMENTS: tuple[tuple[Callable[[Growth], object], float], ...] = (
    (gather, 2), (slice_, 2), (split, 1.5), (concat, 2), (pad, 1), (transpose, 2), (reshape, 2),
    (expand, 1), (squeeze, 1), (resize, 1),
)  # fmt: skip
"""Each with how often it is tried, relative to the others."""
