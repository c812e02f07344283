"""A training step in ONNX Runtime, with its states in memory that the runtime reads and writes in place.

The states are in two sets of buffers: a run reads one set and writes the other, then they change their roles,
so that no state is copied.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# ONNX Runtime ships no types.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import onnxruntime

from superopt.onnx_io import SourceModel
from superopt.onnx_io.changes.replacing import without_tensors
from superopt.onnx_io.protos import dtype_of, element_type
from superopt.optimizer.cost.runtime.memory_session import PROPERTY, plan_from, realise
from superopt.optimizer.cost.runtime.session import Array, Provider, translated
from superopt.optimizer.training.description import StepDescription

ALIGNMENT = 64
"""Bytes. Vectorised sums of the runtime may depend on the alignment of their operands; equal alignment makes
equal runs equal in every bit."""


@dataclass(frozen=True, slots=True)
class ElementKind:
    """An element type, as ONNX numbers it and as numpy knows it."""

    onnx: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type."""
        return dtype_of(element_type(self.onnx))


@dataclass(frozen=True, slots=True)
class _Buffer:
    """An array and the runtime's value on the same memory."""

    array: Array
    value: Any

    @staticmethod
    def on(array: Array, kind: ElementKind) -> _Buffer:
        """A buffer on an array whose type the runtime may not know from numpy (bfloat16)."""
        bits = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
        return _Buffer(array, onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind.onnx))


class StepSession:
    """A loaded step. ``kinds`` are the element types of the inputs that are no states, and of the loss.

    All of these must have got memory (``memory``) before ``advance``. Raises RuntimeRefusedError if the
    runtime rejects the model.
    """

    def __init__(
        self, model: SourceModel, description: StepDescription, kinds: Mapping[str, ElementKind], threads: int
    ) -> None:
        self._loss = description.loss
        self._kinds = kinds
        with translated():
            self._session = _open(model, description, threads)
            self._sets = (_state_buffers(model, description), _state_buffers(model, description))
            self._bindings: list[Any] = [self._session.io_binding(), self._session.io_binding()]
            for present, binding in enumerate(self._bindings):
                for state in description.states:
                    binding.bind_ortvalue_input(state.input, self._sets[present][state.name].value)
                    binding.bind_ortvalue_output(state.output, self._sets[1 - present][state.name].value)
        self._present = 0
        self._memory: dict[str, Array] = {}
        self._bound: dict[str, _Buffer] = {}

    @property
    def states(self) -> Mapping[str, Array]:
        """The present states by name, in memory that the next but one run overwrites."""
        return {name: buffer.array for name, buffer in self._sets[self._present].items()}

    def memory(self, name: str, shape: tuple[int, ...]) -> Array:
        """The memory of an input that is no state, or of the loss, bound to it; valid until the next call for
        this name with another shape."""
        bound = self._bound.get(name)
        if bound is not None and bound.array.shape == shape:
            return bound.array
        kind, size = self._kinds[name], prod(shape)
        if name not in self._memory or self._memory[name].size < size:
            self._memory[name] = aligned((size,), kind.dtype)
        buffer = _Buffer.on(self._memory[name][:size].reshape(shape), kind)
        with translated():
            for binding in self._bindings:
                bind = binding.bind_ortvalue_output if name == self._loss else binding.bind_ortvalue_input
                bind(name, buffer.value)
        self._bound[name] = buffer
        return buffer.array

    def advance(self) -> float:
        """Runs one step: the present states become the next ones. Returns the loss."""
        with translated():
            self._session.run_with_iobinding(self._bindings[self._present])
        self._present = 1 - self._present
        return float(self._bound[self._loss].array.reshape(())[()])


def aligned(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An uninitialised contiguous array whose memory starts at a multiple of ``ALIGNMENT`` bytes."""
    size = prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def _state_buffers(model: SourceModel, description: StepDescription) -> Mapping[str, _Buffer]:
    """A set of uninitialised buffers."""
    found: dict[str, _Buffer] = {}
    for state in description.states:
        tensor = model.tensors[state.input]
        kind = ElementKind(tensor.data_type)
        found[state.name] = _Buffer.on(aligned(tensor.shape, kind.dtype), kind)
    return found


def _open(model: SourceModel, description: StepDescription, threads: int) -> Any:
    """The runtime's session, without the initial states: it would keep a third copy of them."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(model.base))
    for entry in model.proto.metadata_props:
        if entry.key == PROPERTY:
            realise(plan_from(entry.value), options, onnxruntime)
    content = without_tensors(model, {state.input for state in description.states})
    return onnxruntime.InferenceSession(content, options, providers=[Provider.CPU.onnx_name])
