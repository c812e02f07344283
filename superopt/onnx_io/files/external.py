"""Validate tensor contents: data is present, has the size of its shape, and lies at a permitted path."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from onnx import TensorProto

from superopt.errors import InvalidModelError
from superopt.onnx_io.files.stored import InlineTensor, MappedTensor, StoredTensor, bits_of, dense_bytes

LIMIT = (1 << 31) - (1 << 20)
"""Maximum bytes of a protobuf message, minus a margin for everything but the tensors."""

STUB = "superopt-elsewhere"
"""Stands for the file of a tensor whose content is kept elsewhere in memory."""


@dataclass(frozen=True, slots=True)
class ExternalPlace:
    """Location of external tensor data: ``length`` bytes from ``offset`` of a file, relative to the model."""

    location: str
    offset: int
    length: int


def is_external(tensor: TensorProto) -> bool:
    """Whether the tensor's content is outside the model file."""
    return tensor.data_location == TensorProto.EXTERNAL


def is_stub(tensor: TensorProto) -> bool:
    """Whether the tensor's content is kept elsewhere in memory."""
    return is_external(tensor) and external_place(tensor, tensor.name).location == STUB


def stored_tensor(tensor: TensorProto, base: Path) -> StoredTensor:
    """The content of a tensor, memory-mapped if external; ``base`` is the model's directory.
    ``check_external_data`` decides whether the file may be read."""
    if not is_external(tensor):
        return InlineTensor.of(tensor)
    place = external_place(tensor, tensor.name)
    return MappedTensor(tensor.data_type, tuple(tensor.dims), base.absolute() / place.location, place.offset)


def bytes_of(tensor: TensorProto) -> int:
    """The bytes of the tensor in dense storage, whatever is stored; 0 for strings."""
    return dense_bytes(tensor.data_type, math.prod(tensor.dims))


def external_place(tensor: TensorProto, name: str) -> ExternalPlace:
    """Location of the tensor; raises InvalidModelError if it is malformed."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if not location:
        raise InvalidModelError(f"{name}: tensor {tensor.name!r} is stored externally but has no file name")
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(bytes_of(tensor))))
    except ValueError:
        raise InvalidModelError(
            f"{name}: tensor {tensor.name!r} has an offset or length that is not a number"
        ) from None
    return ExternalPlace(location, offset, length)


def check_external_data(tensor: TensorProto, base: Path, name: str) -> None:
    """Raises InvalidModelError unless the tensor's bytes are in a regular file inside ``base``. Absolute
    paths, ``..`` and symbolic links to outside are rejected."""
    _check_type(tensor, name)
    place = external_place(tensor, name)
    where = f"{name}: tensor {tensor.name!r} is stored in {place.location!r}"
    if Path(place.location).is_absolute() or ".." in Path(place.location).parts or "\\" in place.location:
        raise InvalidModelError(f"{where}; expected a path inside the directory of the model, without '..'")
    path = base / place.location
    if not path.exists():
        raise InvalidModelError(f"{where}, which does not exist")
    if not path.resolve().is_relative_to(base.resolve()):
        raise InvalidModelError(f"{where}, a link to outside the model's directory")
    if not path.is_file():
        raise InvalidModelError(f"{where}, which is not a regular file")
    needs = bytes_of(tensor)
    size = path.stat().st_size
    if place.offset < 0 or place.length < needs or place.offset + needs > size:
        raise InvalidModelError(
            f"{where}: needs {needs} bytes at offset {place.offset}, got {place.length} of a file of {size}"
        )


def check_inline_data(tensor: TensorProto, name: str) -> None:
    """Raises InvalidModelError unless a raw tensor holds exactly the bytes that its shape requires."""
    _check_type(tensor, name)
    if any(dimension < 0 for dimension in tensor.dims):
        raise InvalidModelError(
            f"{name}: tensor {tensor.name!r} has a negative dimension: {list(tensor.dims)}"
        )
    stored = sum(len(getattr(tensor, field)) for field in TYPED_FIELDS)
    if stored and stored < _typed_entries(tensor):
        raise InvalidModelError(
            f"{name}: tensor {tensor.name!r} of shape {list(tensor.dims)} holds only {stored} numbers"
        )
    if not stored and not tensor.HasField("raw_data") and math.prod(tensor.dims):
        raise InvalidModelError(f"{name}: tensor {tensor.name!r} of shape {list(tensor.dims)} holds no data")
    if tensor.HasField("raw_data") and len(tensor.raw_data) != bytes_of(tensor):
        raise InvalidModelError(
            f"{name}: tensor {tensor.name!r} of shape {list(tensor.dims)} needs {bytes_of(tensor)} bytes, "
            f"got {len(tensor.raw_data)}"
        )


TYPED_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def _typed_entries(tensor: TensorProto) -> int:
    """The minimum number of entries of a typed field for the tensor: small types may be packed."""
    elements = math.prod(tensor.dims)
    if tensor.data_type == TensorProto.STRING:
        return elements
    bits = bits_of(tensor.data_type)
    return elements if bits >= 8 else -(-elements * bits // 8)


def _check_type(tensor: TensorProto, name: str) -> None:
    if tensor.data_type not in TensorProto.DataType.values()[1:]:
        raise InvalidModelError(
            f"{name}: tensor {tensor.name!r} has no known element type ({tensor.data_type})"
        )
