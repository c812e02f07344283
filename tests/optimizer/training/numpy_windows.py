"""ONNX's convolutions and poolings in numpy's float64, one position of the window after another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.optimizer.training.onnx_call import Call, NoWindowError, Real, Rule


@dataclass(frozen=True)
class _Windows:
    """Windows over the last axes of an array."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]
    counts: list[int]

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """All positions within a window."""
        return itertools.product(*map(range, self.kernel))

    def places(self, offset: Sequence[int]) -> tuple[slice, ...]:
        """What the windows have at one of their positions, in the padded array."""
        starts = [o * d for o, d in zip(offset, self.dilations, strict=True)]
        return tuple(
            slice(start, start + (count - 1) * stride + 1, stride)
            for start, count, stride in zip(starts, self.counts, self.strides, strict=True)
        )

    def padded(self, x: Real, filling: float) -> Real:
        """The array with margins, and more behind it where a last window exceeds them."""
        sizes = x.shape[-len(self.kernel) :]
        margins = [(0, 0)] * (x.ndim - len(sizes))
        for axis, size in enumerate(sizes):
            reach = (self.counts[axis] - 1) * self.strides[axis]
            reach += (self.kernel[axis] - 1) * self.dilations[axis] + 1
            behind = max(self.after[axis], reach - size - self.before[axis])
            margins.append((self.before[axis], behind))
        return np.pad(x, margins, constant_values=filling)


def _windows(call: Call, sizes: Sequence[int], kernel: list[int]) -> _Windows:
    rank = len(sizes)
    strides = call.integers("strides", [1] * rank)
    dilations = call.integers("dilations", [1] * rank)
    pads = call.integers("pads", [0] * 2 * rank)
    before, after = pads[:rank], pads[rank:]
    same = call.attribute("auto_pad", "NOTSET")
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    if same == "VALID":
        before = after = [0] * rank
    elif same in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)]
        total = [(w - 1) * s + r - z for w, s, r, z in zip(wanted, strides, reach, sizes, strict=True)]
        if min(total) < 0:
            raise NoWindowError(f"auto_pad: ONNX Runtime has no negative padding, got {total}")
        half = [number // 2 for number in total]
        rest = [number - h for number, h in zip(total, half, strict=True)]
        before, after = (half, rest) if same == "SAME_UPPER" else (rest, half)
    counts: list[int] = []
    for axis in range(rank):
        free = sizes[axis] + before[axis] + after[axis] - reach[axis]
        count = free // strides[axis] + 1
        if call.integer("ceil_mode", 0):
            count = -(-free // strides[axis]) + 1
            if (count - 1) * strides[axis] >= sizes[axis] + before[axis]:
                raise NoWindowError("ceil_mode: ONNX infers a window more than ONNX Runtime computes")
        if count < 1:
            raise NoWindowError(f"{call.node.op_type}: windows of {reach} do not fit into {list(sizes)}")
        counts.append(count)
    return _Windows(kernel, strides, dilations, before, after, counts)


def _conv(call: Call) -> Real:
    x, w, groups = call[0], call[1], call.integer("group", 1)
    windows = _windows(call, x.shape[2:], list(w.shape[2:]))
    padded = windows.padded(x, 0)
    padded = padded.reshape(x.shape[0], groups, -1, *padded.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:])
    total = sum(
        np.einsum("ngc...,gmc->ngm...", padded[(..., *windows.places(offset))], w[(..., *offset)])
        for offset in windows.offsets()
    )
    y = np.asarray(total).reshape(x.shape[0], -1, *windows.counts)
    return _with_bias(call, y)


def _with_bias(call: Call, y: Real) -> Real:
    return y + call[2].reshape(-1, *(1,) * (y.ndim - 2)) if call.has(2) else y


def _conv_transpose(call: Call) -> Real:
    x, w, groups = call[0], call[1], call.integer("group", 1)
    rank, sizes = x.ndim - 2, x.shape[2:]
    strides, dilations = call.integers("strides", [1] * rank), call.integers("dilations", [1] * rank)
    extra, pads = call.integers("output_padding", [0] * rank), call.integers("pads", [0] * 2 * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    whole = [s * (z - 1) + r for s, z, r in zip(strides, sizes, reach, strict=True)]
    windows = _Windows(list(w.shape[2:]), strides, dilations, [0] * rank, [0] * rank, list(sizes))
    x = x.reshape(x.shape[0], groups, -1, *sizes)
    w = w.reshape(groups, -1, *w.shape[1:])
    y = np.zeros((x.shape[0], groups, w.shape[2], *(a + e for a, e in zip(whole, extra, strict=True))))
    for offset in windows.offsets():
        y[(..., *windows.places(offset))] += np.einsum("ngc...,gcm->ngm...", x, w[(..., *offset)])
    kept = tuple(slice(pads[a], y.shape[3 + a] - pads[rank + a]) for a in range(rank))
    y = y[(..., *kept)]
    if not y.size:
        raise NoWindowError("ConvTranspose: nothing is left")
    return _with_bias(call, y.reshape(y.shape[0], -1, *y.shape[3:]))


def _max_pool(call: Call) -> Real:
    x = call[0]
    windows = _windows(call, x.shape[2:], call.integers("kernel_shape"))
    padded = windows.padded(x, -np.inf)
    return np.max([padded[(..., *windows.places(offset))] for offset in windows.offsets()], axis=0)


def _average_pool(call: Call) -> Real:
    x = call[0]
    windows = _windows(call, x.shape[2:], call.integers("kernel_shape"))
    counted = np.ones(x.shape[2:])
    if call.integer("count_include_pad", 0):
        counted = np.pad(counted, list(zip(windows.before, windows.after, strict=True)), constant_values=1)
        bare = replace(windows, before=[0] * (x.ndim - 2), after=[0] * (x.ndim - 2))
        counted = bare.padded(counted, 0)
    else:
        counted = windows.padded(counted, 0)
    padded = windows.padded(x, 0)
    total = sum(padded[(..., *windows.places(offset))] for offset in windows.offsets())
    return total / sum(counted[windows.places(offset)] for offset in windows.offsets())


WINDOWS: Mapping[str, Rule] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "MaxPool": _max_pool,
}
