"""Sizes of inputs that the weights of the first layers require."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from superopt.onnx_io import LiftedModel
from superopt.onnx_io.files.stored import StoredTensor
from superopt.onnx_io.readers import Reader, readers_by_tensor
from superopt.optimizer.cost.runtime.ports import Port

_MOST_FOLLOWED = 8
"""Nodes between an input and the layer that reads it."""

_RECURRENT = ("LSTM", "GRU", "RNN")

_Axes: TypeAlias = "tuple[int | None, ...]"
"""For each axis of a tensor the axis of the input that it is, None for another."""


def demanded_sizes(lifted: LiftedModel, ports: Sequence[Port]) -> Mapping[tuple[str, int], int]:
    """Return the sizes that layers' weights require of the axes of inputs, by input and axis; followed
    through nodes that only move axes."""
    found: dict[tuple[str, int], int] = {}
    readers = readers_by_tensor(lifted.source)
    for port in ports:
        waiting: list[tuple[str, _Axes, int]] = [(port.name, tuple(range(len(port.shape))), 0)]
        while waiting:
            tensor, axes, followed = waiting.pop(0)
            for reader in readers.get(tensor, ()):
                if reader.slot or reader.domain:
                    continue
                for axis, size in _required(reader, weight_shape(lifted, reader), len(axes)):
                    own = axes[axis] if -len(axes) <= axis < len(axes) else None
                    if own is not None:
                        found.setdefault((port.name, own), size)
                moved = _moved(lifted, reader, axes)
                if moved is not None and followed < _MOST_FOLLOWED:
                    waiting.append((reader.outputs[0], moved, followed + 1))
    return found


def weight_shape(lifted: LiftedModel, reader: Reader) -> tuple[int, ...]:
    """Return the shape of a constant in the second slot; empty if there is none."""
    weight = _second(lifted, reader)
    return () if weight is None else weight.shape


def _second(lifted: LiftedModel, reader: Reader) -> StoredTensor | None:
    """The constant in the second slot; None if there is none."""
    return lifted.source.constants.get(reader.inputs[1]) if len(reader.inputs) > 1 else None


def _required(reader: Reader, weight: tuple[int, ...], rank: int) -> Iterator[tuple[int, int]]:
    """Yield the axes of the operand whose sizes the weight gives, and these."""
    match reader.op_type:
        case "MatMul" if len(weight) >= 2:
            yield rank - 1, weight[-2]
        case "Gemm" if len(weight) == 2 and not reader.integer("transA", 0):
            yield 1, weight[1 if reader.integer("transB", 0) else 0]
        case "Conv" if len(weight) >= 3:
            yield 1, weight[1] * reader.integer("group", 1)
        case op_type if op_type in _RECURRENT and len(weight) == 3:
            yield 2, weight[2]
        case _:
            pass


def _moved(lifted: LiftedModel, reader: Reader, axes: _Axes) -> _Axes | None:
    """The axes of the result of a node that only moves axes; None for any other."""
    rank = len(axes)
    match reader.op_type:
        case "Identity" | "Cast":
            return axes
        case "Transpose":
            perm = reader.integers.get("perm") or tuple(reversed(range(rank)))
            return tuple(axes[axis] for axis in perm) if sorted(perm) == list(range(rank)) else None
        case "Unsqueeze":
            places = _integers(lifted, reader)
            if places is None:
                return None
            added = {place % (rank + len(places)) for place in places}
            own = iter(axes)
            return tuple(None if n in added else next(own, None) for n in range(rank + len(places)))
        case _:
            return None


def _integers(lifted: LiftedModel, reader: Reader) -> tuple[int, ...] | None:
    """The axes of a node, an attribute or a constant operand; None if they are computed."""
    if "axes" in reader.integers:
        return reader.integers["axes"]
    known = _second(lifted, reader)
    return None if known is None else tuple(int(axis) for axis in known.numpy().reshape(-1))


__all__ = ["demanded_sizes", "weight_shape"]
