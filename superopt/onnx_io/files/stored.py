"""Contents of stored tensors: inline in a proto, memory-mapped from a given or temporary file, or an array in
memory."""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from weakref import finalize

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from superopt.domains import Array

_PACKED_BITS: Mapping[int, int] = {
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.FLOAT6E2M3: 6,
    TensorProto.FLOAT6E3M2: 6,
}
"""Bits of an element of the types that are packed; their numpy arrays have one byte for an element."""

_SMALL = 1 << 16
"""Bytes of a tensor that stays mapped once it was read."""

_PIECE = 1 << 24
"""Bytes of a tensor that are written at once."""


def dense_bytes(data_type: int, elements: int) -> int:
    """The bytes of this many elements in dense storage; 0 for strings."""
    return 0 if data_type == TensorProto.STRING else -(-elements * bits_of(data_type) // 8)


def bits_of(data_type: int) -> int:
    """Bits of one stored element of an ONNX type, which must not be a string."""
    return _PACKED_BITS.get(data_type) or 8 * helper.tensor_dtype_to_np_dtype(data_type).itemsize


@dataclass(frozen=True, eq=False)
class StoredTensor(ABC):
    """The content of a tensor; ``data_type`` is one of ``onnx.TensorProto.DataType``."""

    data_type: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements in dense storage; 0 for strings."""
        return dense_bytes(self.data_type, self.size)

    @abstractmethod
    def numpy(self) -> Array:
        """The elements, packed ones unpacked; strings are objects of type bytes. May be read-only."""

    @abstractmethod
    def tobytes(self) -> bytes:
        """The elements as ``raw_data``; strings have none."""


@dataclass(frozen=True, eq=False)
class InlineTensor(StoredTensor):
    """A tensor whose content is in its proto."""

    proto: TensorProto

    @staticmethod
    def of(proto: TensorProto) -> InlineTensor:
        """The content of a proto without external data."""
        return InlineTensor(proto.data_type, tuple(proto.dims), proto)

    def numpy(self) -> Array:
        """The elements."""
        if self.data_type == TensorProto.STRING:
            return np.array(list(self.proto.string_data), object).reshape(self.shape)
        return numpy_helper.to_array(self.proto)

    def tobytes(self) -> bytes:
        """The elements as ``raw_data``."""
        return self.proto.raw_data if self.proto.HasField("raw_data") else _raw(self.numpy())


@dataclass(frozen=True, eq=False)
class MappedTensor(StoredTensor):
    """A tensor whose content is in a file, from the byte ``offset``; mapped into memory while an array of
    ``numpy`` exists, if it has many elements."""

    path: Path
    offset: int

    def numpy(self) -> Array:
        """The elements: a view of the file, except of packed types."""
        return self._small if self.nbytes <= _SMALL else self._mapped()

    def tobytes(self) -> bytes:
        """The elements as ``raw_data``."""
        return self._content().tobytes()

    @cached_property
    def _small(self) -> Array:
        return self._mapped()

    def _mapped(self) -> Array:
        if self.data_type in _PACKED_BITS:
            raw = TensorProto(data_type=self.data_type, dims=self.shape, raw_data=self.tobytes())
            return numpy_helper.to_array(raw)
        dtype = helper.tensor_dtype_to_np_dtype(self.data_type).newbyteorder("<")
        return self._content().view(dtype).reshape(self.shape)

    def _content(self) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        if not self.nbytes:  # an empty file cannot be mapped
            return np.empty(0, np.uint8)
        start = self.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        end = self.offset + self.nbytes
        with self.path.open("rb") as file:
            content = mmap.mmap(file.fileno(), end - start, access=mmap.ACCESS_READ, offset=start)
        return np.frombuffer(content, np.uint8, self.nbytes, self.offset - start)


@dataclass(frozen=True, eq=False)
class SpilledTensor(MappedTensor):
    """A computed tensor in a temporary file, which is deleted with this object."""

    @staticmethod
    def of(array: Array) -> SpilledTensor:
        """Writes an array to a new file in the directory for temporary files. Raises OSError."""
        with NamedTemporaryFile(prefix="superopt-weight-", delete=False) as file:
            for piece in pieces(array):
                file.write(piece)
        data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor = SpilledTensor(data_type, array.shape, Path(file.name), 0)
        finalize(tensor, tensor.path.unlink, missing_ok=True)
        return tensor


@dataclass(frozen=True, eq=False)
class ArrayTensor(StoredTensor):
    """A tensor whose content is an array."""

    array: Array

    @staticmethod
    def of(array: Array) -> ArrayTensor:
        """The content of an array."""
        return ArrayTensor(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array)

    def numpy(self) -> Array:
        """The elements."""
        return self.array

    def tobytes(self) -> bytes:
        """The elements as ``raw_data``."""
        return _raw(self.array)


def pieces(array: Array) -> Iterator[memoryview]:
    """The elements of an array in row-major order, in parts of a few megabytes or one row."""
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, len(rows) * _PIECE // max(array.nbytes, 1))
    for start in range(0, len(rows), step):
        yield np.ascontiguousarray(rows[start : start + step]).reshape(-1).view(np.uint8).data


def proto_of(tensor: StoredTensor, name: str) -> TensorProto:
    """A proto of this name that contains the tensor."""
    if isinstance(tensor, InlineTensor):
        proto = TensorProto()
        proto.CopyFrom(tensor.proto)
        proto.name = name
        return proto
    return TensorProto(name=name, data_type=tensor.data_type, dims=tensor.shape, raw_data=tensor.tobytes())


def _raw(array: Array) -> bytes:
    return numpy_helper.from_array(array).raw_data
