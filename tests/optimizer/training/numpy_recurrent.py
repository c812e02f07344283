"""Recurrent layers by the text of ONNX's specification, in numpy and float64, one sequence after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}


def sigmoid(x: Reals) -> Reals:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def layer(
    operator: str, tensors: Mapping[str, NDArray[Any]], directions: int, *, reverse: bool, reset: bool
) -> list[Reals]:
    """The outputs Y, Y_h and, for an LSTM, Y_c of a layer with the ``tensors`` x, W, R and, optionally, B,
    lens, h0, c0, in one or two ``directions`` or in ``reverse``; ``reset``: linear_before_reset of a GRU."""
    x, hidden = np.asarray(tensors["x"], np.float64), tensors["R"].shape[-1]
    steps, batch, _ = x.shape
    lengths = tensors.get("lens", np.full(batch, steps))
    top = np.zeros((steps, directions, batch, hidden))
    ends = np.zeros((2, directions, batch, hidden))
    for place in range(directions):
        kernels = {name: np.asarray(tensors[name][place], np.float64) for name in ("W", "R")}
        both = (
            np.asarray(tensors["B"][place], np.float64) if "B" in tensors else np.zeros(2 * len(kernels["W"]))
        )
        of_input, of_state = np.split(both, 2)
        for sample in range(batch):
            h, c = (
                np.asarray(tensors[name][place, sample], np.float64) if name in tensors else np.zeros(hidden)
                for name in ("h0", "c0")
            )
            times = range(int(lengths[sample]))
            for time in reversed(times) if reverse or place == 1 else times:
                w = kernels["W"] @ x[time, sample] + of_input
                h, c = _CELLS[operator](w, kernels["R"], of_state, h, c, reset)
                top[time, place, sample] = h
            ends[:, place, sample] = h, c
    return [top, ends[0], ends[1]][: 3 if operator == "LSTM" else 2]


def _lstm(w: Reals, r: Reals, b: Reals, h: Reals, c: Reals, _: bool) -> tuple[Reals, Reals]:  # noqa: FBT001
    i, o, f, g = np.split(w + r @ h + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def _gru(w: Reals, r: Reals, b: Reals, h: Reals, c: Reals, reset: bool) -> tuple[Reals, Reals]:  # noqa: FBT001
    (wz, wr, wh), (rz, rr, rh), (bz, br, bh) = np.split(w, 3), np.split(r, 3), np.split(b, 3)
    z, keep = sigmoid(wz + rz @ h + bz), sigmoid(wr + rr @ h + br)
    new = np.tanh(wh + (keep * (rh @ h + bh) if reset else rh @ (keep * h) + bh))
    return (1 - z) * new + z * h, c


def _rnn(w: Reals, r: Reals, b: Reals, h: Reals, c: Reals, _: bool) -> tuple[Reals, Reals]:  # noqa: FBT001
    return np.tanh(w + r @ h + b), c


_CELLS: Mapping[str, Callable[[Reals, Reals, Reals, Reals, Reals, bool], tuple[Reals, Reals]]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN": _rnn,
}
