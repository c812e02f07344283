"""Virtual devices on the host: shards are numpy arrays, tasks run in ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from superopt.domains import Array
from superopt.errors import UnsupportedError
from superopt.ir.graph import Graph, Input, Value, Weight
from superopt.onnx_io import build_model
from superopt.onnx_io.files.source import SourceModel
from superopt.ops.traits import ALIASES, traits
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.parallel.boxes import Region
from superopt.optimizer.parallel.tasks import KernelTask, Task, shape_of


class HostMachine:
    """Any number of virtual devices with separate memories on the host. ``source`` is the model from which
    opaque nodes are copied. Sessions are cached: equal tasks share one."""

    def __init__(self, source: SourceModel | None = None) -> None:
        self._source = source
        self._sessions: dict[Task, LoadedModel] = {}

    def put(self, array: Array, device: int) -> Array:
        """A copy of the array."""
        del device
        return np.array(array)

    def get(self, shard: Array) -> Array:
        """The shard itself."""
        return shard

    def zeros(self, shape: tuple[int, ...], like: Array, device: int) -> Array:
        """A new array."""
        del device
        return np.zeros(shape, like.dtype)

    def move(self, shard: Array, device: int) -> Array:
        """A copy of the shard."""
        del device
        return shard.copy()

    def add(self, left: Array, right: Array) -> Array:
        """Return the sum."""
        return left + right

    def part(self, shard: Array, region: Region) -> Array:
        """Return a box of the shard."""
        return shard[tuple(slice(start, stop) for start, stop in region)]

    def joined(self, pieces: Sequence[tuple[Region, Array]], shape: tuple[int, ...]) -> Array:
        """Return the array assembled from the boxes."""
        whole = np.empty(shape, pieces[0][1].dtype)
        for region, piece in pieces:
            whole[tuple(slice(start, stop) for start, stop in region)] = piece
        return whole

    def copied(self, shard: Array) -> Array:
        """A new contiguous array."""
        return np.array(shard, order="C")

    def storage(self, shard: Array) -> tuple[int, int]:
        """The array of which the shard is a view."""
        while isinstance(shard.base, np.ndarray):
            shard = shard.base
        return id(shard), shard.nbytes

    def all_reduced(self, shards: Sequence[Array]) -> None:
        """Return None: there is no collective, so the caller reduces around a ring."""
        del shards

    def packed(self, shards: Sequence[Array]) -> Array:
        """Return the elements one after the other."""
        return np.concatenate([np.ravel(shard) for shard in shards])

    def unpacked(self, flat: Array, shapes: Sequence[tuple[int, ...]]) -> Sequence[Array]:
        """Return arrays of those shapes."""
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        pieces = np.split(flat, ends[:-1])
        return [np.array(piece).reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def run_kernel(self, kernel: KernelTask, shards: Sequence[Array], device: int) -> Sequence[Array]:
        """Runs the tasks one after the other."""
        made = kernel.evaluated(lambda task, given: self.run(task, given, device), shards)
        return [np.array(shard, order="C") for shard in made]

    def run(self, task: Task, shards: Sequence[Array], device: int) -> Sequence[Array]:
        """Runs the task in ONNX Runtime, with operands that its ONNX form needs as constants as initialisers;
        what only renames or repeats a tensor makes a view, if the elements are those of an array in order.
        Raises UnsupportedError for an operator without an ONNX form."""
        del device
        if task.operator.name in ALIASES:
            return (_view(task, shards[0]),)
        names = [f"input_{slot}" for slot in range(len(shards))]
        session = self._sessions.get(task)
        if session is None:
            try:
                session = LoadedModel(self._model(task, {}), threads=1)
            except UnsupportedError:
                weights = dict(zip(names, shards, strict=True))
                return _arrays(LoadedModel(self._model(task, weights), threads=1).run({}))
            self._sessions[task] = session
        present = {port.name for port in session.inputs}
        feeds = {
            name: np.asarray(shard, order="C")
            for name, shard in zip(names, shards, strict=True)
            if name in present
        }
        return _arrays(session.run(feeds))

    def _model(self, task: Task, weights: Mapping[str, Array]) -> bytes:
        return build_model(_graph(task, frozenset(weights)), weights, _OPSET, source=self._source)


_OPSET = 21


def _graph(task: Task, weights: frozenset[str]) -> Graph:
    """A graph of the task alone: its operands are inputs, or weights where their content is given."""
    editor = Graph.empty().edit()
    operands: list[Value] = []
    for slot, type_ in enumerate(task.inputs):
        label = f"input_{slot}"
        operand = editor.add(Weight(label, type_) if label in weights else Input(label, type_))
        operands.append(operand.value)
    editor.set_outputs(editor.add(task.operator, operands, types=task.outputs).values)
    return editor.build()


def _arrays(outputs: Sequence[object]) -> Sequence[Array]:
    return [np.asarray(output) for output in outputs]


def _view(task: Task, shard: Array) -> Array:
    shape = shape_of(task.outputs[0])
    if traits(task.operator.name).repeats:
        return np.broadcast_to(shard, shape)
    return np.ascontiguousarray(shard).reshape(shape)
