"""ONNX's own backend suite on ONNX Runtime, with a transformation of the model in between."""

from __future__ import annotations

import ctypes
import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import BackendTest

Transform = Callable[[bytes], bytes]

NEWEST_IR = 13
NEWEST_OPSET = 26
"""What the pinned ONNX Runtime reads; the suite of a newer onnx writes newer versions."""


BYTES: dict[str, int] = {
    np.dtype(dtype).name: element
    for dtype, element in (
        (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
        (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
        (ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E4M3FNUZ),
        (ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2),
        (ml_dtypes.float8_e5m2fnuz, TensorProto.FLOAT8E5M2FNUZ),
    )
}
"""Element types that ONNX Runtime takes and gives as bytes only."""


@dataclass(frozen=True)
class Outcome:
    """Whether a case passed, and what was said if it did not."""

    case: str
    passed: bool
    message: str


Level = onnxruntime.GraphOptimizationLevel


class Session(BackendRep):
    """A model in ONNX Runtime."""

    def __init__(self, model: bytes, level: Level = Level.ORT_ENABLE_ALL) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def run(self, inputs: Sequence[object], **_: object) -> tuple[object, ...]:
        """The outputs for inputs in the order of the model."""
        names = [given.name for given in self._session.get_inputs()]
        arrays = [np.asarray(value) if np.isscalar(value) else value for value in inputs]
        elements = {given.type for given in (*self._session.get_inputs(), *self._session.get_outputs())}
        by_bytes = any("bfloat16" in element or "float8" in element for element in elements)
        if by_bytes and all(isinstance(array, np.ndarray) for array in arrays):
            return self._run_by_bytes(dict(zip(names, arrays, strict=False)))
        outputs = self._session.run(None, dict(zip(names, arrays, strict=False)))
        return tuple(np.asarray(output) if np.isscalar(output) else output for output in outputs)

    def _run_by_bytes(self, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        feeds = {name: _to_runtime(array) for name, array in arrays.items()}
        return tuple(_from_runtime(output) for output in self._session.run_with_ort_values(None, feeds))


def _to_runtime(array: np.ndarray) -> onnxruntime.OrtValue:
    element = BYTES.get(array.dtype.name)
    if element is None:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    raw = np.ascontiguousarray(array).view(f"u{array.itemsize}").reshape(array.shape)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, element)


def _from_runtime(value: onnxruntime.OrtValue) -> np.ndarray:
    if value.element_type() not in BYTES.values():
        return np.asarray(value.numpy())
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.element_type()))
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(content, dtype).reshape(value.shape())


class TransformingBackend(Backend):
    """Runs every model through ``transform`` first; the suite takes a class, which holds the state."""

    transform: ClassVar[Transform] = bytes
    level: ClassVar[Level] = Level.ORT_ENABLE_ALL

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: object) -> Session:
        """A session of the transformed model, its versions lowered to what the runtime reads."""
        assert device == "CPU"
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        copy.ir_version = min(copy.ir_version, NEWEST_IR)
        for entry in copy.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = min(entry.version, NEWEST_OPSET)
        return Session(cls.transform(copy.SerializeToString()), cls.level)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """The CPU only."""
        return device == "CPU"


class Suite:
    """All CPU cases of the suite by name."""

    def __init__(self) -> None:
        self._cases = {
            name: case
            for case in BackendTest(TransformingBackend, __name__).test_cases.values()
            for name in unittest.defaultTestLoader.getTestCaseNames(case)
            if name.endswith("_cpu")
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all cases."""
        return tuple(self._cases)

    def run(
        self, names: Sequence[str], transform: Transform, level: Level = Level.ORT_ENABLE_ALL
    ) -> Iterator[Outcome]:
        """Runs cases with every model transformed."""
        TransformingBackend.transform, TransformingBackend.level = staticmethod(transform), level
        for name in names:
            result = unittest.TestResult()
            self._cases[name](name).run(result)
            problems = [text for _, text in (*result.failures, *result.errors)]
            passed = result.wasSuccessful() and not result.skipped
            yield Outcome(name, passed, problems[0] if problems else "skipped")
