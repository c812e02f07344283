"""ONNX's operators that move elements, in numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tests.optimizer.training.onnx_call import Array, Call, Real, Rule


def _slice(call: Call) -> Array:
    x = call[0]
    if call.opset < 10:
        starts, ends, steps = call.integers("starts"), call.integers("ends"), [1] * x.ndim
        axes = call.integers("axes", range(len(starts)))
    else:
        starts, ends = call[1].tolist(), call[2].tolist()
        axes = call[3].tolist() if call.has(3) else list(range(len(starts)))
        steps = call[4].tolist() if call.has(4) else [1] * len(starts)
    kept = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=False):
        kept[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(kept)]


def _split(call: Call) -> list[Array]:
    x, axis, count = call[0], call.integer("axis", 0), len(call.node.output)
    sizes = call[1].tolist() if call.has(1) else call.integers("split")
    if not sizes:
        each = -(-x.shape[axis] // count)
        sizes = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def _pad(call: Call) -> Real:
    x = call[0]
    pads = call.integers("pads") if call.opset < 11 else call[1].tolist()
    value = call.number("value", 0.0) if call.opset < 11 else float(call[2]) if call.has(2) else 0.0
    axes = call[3].tolist() if call.has(3) else range(x.ndim)
    margins = [(0, 0)] * x.ndim
    for index, axis in enumerate(axes):
        margins[axis] = (pads[index], pads[len(pads) // 2 + index])
    mode = call.attribute("mode", "constant")
    x = x[tuple(slice(max(-b, 0), x.shape[a] + min(e, 0)) for a, (b, e) in enumerate(margins))]
    margins = [(max(b, 0), max(e, 0)) for b, e in margins]
    if mode == "constant":
        return np.pad(x, margins, constant_values=value)
    return np.pad(x, margins, mode="edge" if mode == "edge" else "reflect" if mode == "reflect" else "wrap")


def _reshape(call: Call) -> Array:
    x = call[0]
    keeps_zero = call.integer("allowzero", 0)
    wanted = [x.shape[i] if n == 0 and not keeps_zero else n for i, n in enumerate(call[1].tolist())]
    return x.reshape(wanted)


def _flatten(call: Call) -> Array:
    axis = call.integer("axis", 1)
    axis += call[0].ndim if axis < 0 else 0
    return call[0].reshape(math.prod(call[0].shape[:axis]), -1)


def _expand(call: Call) -> Array:
    return np.broadcast_to(call[0], np.broadcast_shapes(call[0].shape, tuple(call[1].tolist()))).copy()


def _squeeze(call: Call) -> Array:
    axes = call.axes(1)
    return np.squeeze(call[0], tuple(axes) if axes else None)


def _unsqueeze(call: Call) -> Array:
    return np.expand_dims(call[0], tuple(call.axes(1)))


def _transpose(call: Call) -> Array:
    return call[0].transpose(call.integers("perm", range(call[0].ndim)[::-1]))


def _concat(call: Call) -> Array:
    parts = [call[slot] for slot in range(len(call.operands))]
    return np.concatenate(parts, axis=call.integer("axis", 0))


def _gather(call: Call) -> Array:
    return np.take(call[0], call[1].astype(np.int64), axis=call.integer("axis", 0))


def _resize(call: Call) -> Real:
    x = call[0]
    scales = call[2] if call.node.op_type == "Resize" and call.opset >= 11 and call.has(2) else None
    if call.node.op_type == "Upsample" or call.opset < 11:
        scales = call[1] if call.has(1) else np.array(call.attribute("scales"))
    wanted = call[3].tolist() if scales is None or not scales.size else None
    for axis in range(x.ndim):
        size = x.shape[axis]
        count = int(wanted[axis]) if wanted is not None else int(size * np.asarray(scales)[axis])
        if count != size:
            x = _resized(call, x, axis, count)
    return x


def _resized(call: Call, x: Real, axis: int, count: int) -> Real:
    size, places = x.shape[axis], np.arange(count, dtype=np.float64)
    ratio = size / count
    default = "half_pixel" if call.opset >= 11 and call.node.op_type == "Resize" else "asymmetric"
    how = call.attribute("coordinate_transformation_mode", default)
    if how == "asymmetric":
        at = places * ratio
    elif how == "align_corners":
        at = places * (size - 1) / (count - 1) if count > 1 else places * 0
    else:
        at = (places + 0.5) * ratio - 0.5
    if call.attribute("mode", "nearest") == "nearest":
        old = call.node.op_type == "Upsample" or call.opset < 11
        rounding = call.attribute("nearest_mode", "floor" if old else "round_prefer_floor")
        rounded = np.floor(at) if rounding == "floor" else np.ceil(at - 0.5)
        return np.take(x, np.clip(rounded, 0, size - 1).astype(int), axis=axis)
    at = np.clip(at, 0, size - 1)
    low = np.floor(at).astype(int)
    high, share = np.minimum(low + 1, size - 1), at - low
    shape = [1] * x.ndim
    shape[axis] = count
    share = share.reshape(shape)
    return np.take(x, low, axis=axis) * (1 - share) + np.take(x, high, axis=axis) * share


MOVEMENT: Mapping[str, Rule] = {
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
}
