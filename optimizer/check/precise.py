"""Double-precision reference: evaluates a model node by node in float64.

Each node runs in the runtime's float64 kernel if one exists. Otherwise its definition in the algebra is
evaluated, provided that the float32 kernel agrees with it on the same numbers; otherwise the float32 result
is used, which adds the rounding error of that one node.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.domains import FloatDomain
from superopt.errors import SuperoptError, UnsupportedError
from superopt.ir.graph import Input, NodeId, Weight
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.changes.nodewise import ByRows, NodeUse, Nodewise, as_real
from superopt.onnx_io.files.source import SourceModel
from superopt.optimizer.cost.runtime.session import Array, LoadedModel, RuntimeRefusedError
from superopt.rewriting.evaluation import evaluate_graph

_AGREEMENT = 1e-3
"""Maximum distance of the algebra from the runtime's kernel on one node, by root mean square:
single-precision rounding is far below, a misinterpreted node is not."""

_OPERAND_BYTES = 1 << 28
"""Maximum operand bytes of a node evaluated in the algebra: the windows of a convolution take more."""

_WEIGHT_BYTES = 1 << 29
"""Maximum size of a stored weight for which a model is run in double precision, unless the node that reads it
is computed in parts."""

_PART_BYTES = 1 << 24
"""Bytes of a stored matrix that is converted at once; products with larger ones are computed by rows."""

_SECONDS_PER_NODE = 4e-4
"""Lower bound of the seconds per node, because the runtime opens a session for each; runs that would take
longer are not started."""

_NO_TIME = "there was no time to run it in double precision"


@dataclass(frozen=True, slots=True)
class PreciseRun:
    """Tensors in double precision, by name. ``single``: how many of all ``nodes`` ran in single precision."""

    tensors: Mapping[str, Array]
    nodes: int
    single: int


class PreciseModel:
    """A model that is evaluated in double precision, node by node. Stored matrices of more than
    ``part_bytes`` are converted in parts."""

    def __init__(self, source: SourceModel, threads: int, part_bytes: int = _PART_BYTES) -> None:
        self._model = Nodewise(source)
        self._threads = threads
        self._part_bytes = part_bytes
        self._without_kernel: set[tuple[str, str]] = set()
        self._not_understood: set[tuple[str, str]] = set()

    def run(self, feeds: Mapping[str, Array], deadline: float, also: Sequence[str] = ()) -> PreciseRun:
        """The outputs, and other requested tensors, for the inputs. Raises UnsupportedError for values that
        are not arrays (sequences, texts) and when the deadline (monotonic clock) passes, RuntimeRefusedError
        where a node does not run."""
        model = self._model
        if time.monotonic() + _SECONDS_PER_NODE * len(model.steps) > deadline:
            raise UnsupportedError(_NO_TIME)
        given = zip(feeds, _arrays(feeds.values()), strict=True)
        values = {name: as_real(array, np.float64) for name, array in given}
        readers = Counter(name for step in model.steps for name in step.operands)
        wanted = (*model.outputs, *also)
        readers.update(wanted)
        single = 0
        for step in model.steps:
            if time.monotonic() >= deadline:
                raise UnsupportedError(_NO_TIME)
            operands = {name: self._operand(values, name) for name in step.operands}
            results, is_double = self._run(step, operands)
            single += not is_double
            values.update(
                (name, as_real(result, np.float64))
                for name, result in zip(step.results, results, strict=True)
                if readers[name]
            )
            for name in step.operands:
                readers[name] -= 1
                if not readers[name]:
                    values.pop(name, None)
        tensors = {name: as_real(self._operand(values, name), np.float64) for name in wanted}
        return PreciseRun(tensors, len(model.steps), single)

    def _operand(self, values: Mapping[str, Array], name: str) -> Array:
        array = values.get(name)
        if array is None:
            array = self._model.constant(name)
        if array is None:
            raise UnsupportedError(f"no value for {name}")
        return array if self._is_large(array) else as_real(array, np.float64)

    def _run(self, step: NodeUse, operands: Mapping[str, Array]) -> tuple[tuple[Array, ...], bool]:
        """The results of one node, and whether they are in double precision. Large constants are converted
        in parts, or not at all where elements are only selected from them."""
        large = {name for name, array in operands.items() if self._is_large(array)}
        if not large:
            return self._run_whole(step, operands)
        if self._model.selects_from(step) in large:
            return self._by_kernel(step, operands, np.float32), True
        product = self._model.by_rows(step, operands)
        if product is not None and large == {product.matrix}:
            return (self._by_rows(step, operands, product),), True
        for name in large:
            if operands[name].nbytes > _WEIGHT_BYTES:
                raise UnsupportedError(f"the weight {name} is too large to be run in double precision")
        return self._run_whole(step, {name: as_real(array, np.float64) for name, array in operands.items()})

    def _by_rows(self, step: NodeUse, operands: Mapping[str, Array], product: ByRows) -> Array:
        """The result of a product. Each part of the matrix is mapped from its file anew, so that not all of
        it is in memory."""
        matrix = operands[product.matrix]
        height = max(1, len(matrix) * self._part_bytes // matrix.nbytes)
        parts: list[Array] = []
        for start in range(0, len(matrix), height):
            mapped = self._model.constant(product.matrix)
            assert mapped is not None, "a stored matrix"
            part = product.part(operands, mapped[start : start + height], start)
            parts.extend(self._by_kernel(step, part, np.float64))
        return product.whole(parts)

    def _is_large(self, array: Array) -> bool:
        """Whether it is a constant in less than double precision that is not converted as a whole."""
        is_single = array.dtype.kind == "f" and array.dtype.itemsize < np.dtype(np.float64).itemsize
        return is_single and array.nbytes > self._part_bytes

    def _run_whole(self, step: NodeUse, operands: Mapping[str, Array]) -> tuple[tuple[Array, ...], bool]:
        kind = (step.domain, step.op_type)
        if kind not in self._without_kernel:
            try:
                return self._by_kernel(step, operands, np.float64), True
            except RuntimeRefusedError:
                self._without_kernel.add(kind)
        single = self._by_kernel(step, operands, np.float32)
        if kind in self._not_understood or sum(a.nbytes for a in operands.values()) > _OPERAND_BYTES:
            return single, False
        try:
            double = self._by_algebra(step, operands, single)
        except (SuperoptError, ValueError, MemoryError):
            self._not_understood.add(kind)
            return single, False
        if _agree(single, double):
            return double, True
        return single, False

    def _by_kernel(
        self, step: NodeUse, operands: Mapping[str, Array], real: type[np.floating]
    ) -> tuple[Array, ...]:
        loaded = LoadedModel(self._model.alone(step, operands, real), self._threads)
        given = {port.name for port in loaded.inputs}
        with np.errstate(over="ignore"):
            feeds = {name: as_real(array, real) for name, array in operands.items() if name in given}
        return _arrays(loaded.run(feeds))

    def _by_algebra(
        self, step: NodeUse, operands: Mapping[str, Array], single: tuple[Array, ...]
    ) -> tuple[Array, ...]:
        results = dict(zip(step.results, single, strict=True))
        lifted = lift(load_model(self._model.alone(step, operands, np.float32, results)))
        graph = lifted.graph
        arrays: dict[NodeId, Array] = {}
        for node in graph:
            operator = node.operator
            if isinstance(operator, Input | Weight):
                label = operator.label
                content = operands[label] if label in operands else lifted.weight(label)
                arrays[node.id] = as_real(np.asarray(content), np.float64)[np.newaxis]
        stacked = evaluate_graph(graph, FloatDomain(np.float64), arrays)
        return tuple(array[0] for array in stacked)


def _arrays(results: Iterable[object]) -> tuple[Array, ...]:
    arrays = tuple(results)
    for array in arrays:
        if not isinstance(array, np.ndarray):
            raise UnsupportedError(f"expected an array, got {type(array).__name__}")
    return arrays  # pyright: ignore[reportReturnType]


def _agree(single: tuple[Array, ...], double: tuple[Array, ...]) -> bool:
    if len(single) != len(double):
        return False
    for left, right in zip(single, double, strict=True):
        if left.shape != right.shape:
            return False
        finite = np.isfinite(left)
        if not finite.all():
            return False
        with np.errstate(over="ignore", invalid="ignore"):
            apart, size = (
                float(np.sqrt(np.mean(np.square(a)))) if a.size else 0.0 for a in (left - right, right)
            )
        if not apart <= _AGREEMENT * size:
            return False
    return True
