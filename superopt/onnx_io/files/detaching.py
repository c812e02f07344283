"""Large models with embedded weights: split into a small model file and a weight file, and merged back,
without holding the weights in memory.

The ONNX libraries keep external data on disk, but have to parse a model file as a whole. This module walks
the wire format of a model (``superopt.protobuf_wire``) down to the initialisers' ``raw_data``.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from onnx import GraphProto, ModelProto, TensorProto

from superopt.onnx_io.files.external import external_place, is_external, stored_tensor
from superopt.onnx_io.protos import tensors_in_model
from superopt.protobuf_wire import (
    DELIMITED,
    GRAPH,
    INITIALIZER,
    Field,
    WireError,
    delimited,
    fields,
    graph_of,
    header,
)

_RAW_DATA = 9
_DETACHED = 1024
"""Minimum bytes of a tensor to be moved out of the file."""

_ALIGNMENT = 64
_CHUNK = 1 << 24
_DATA = "weights.data"


def detach(model: Path, directory: Path, least: int) -> Path | None:
    """A copy of the model in an empty directory, with its weights in a separate file; None for a model with
    less than ``least`` bytes of such weights, and for a file that is not a model."""
    with model.open("rb") as file:
        if os.fstat(file.fileno()).st_size < least:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content, suppress(WireError):
            graph = graph_of(content)
            initializers = [field for field in fields(content, graph.start, graph.end) if _is_large(field)]
            if sum(field.end - field.start for field in initializers) < least:
                return None
            path = directory / model.name
            with path.open("xb") as written, (directory / _DATA).open("xb") as data:
                written.write(_without_weights(content, graph, initializers, file, data))
            return path
    return None


def _is_large(field: Field) -> bool:
    is_tensor = field.number == INITIALIZER and field.wire_type == DELIMITED
    return is_tensor and field.end - field.start > _DETACHED


def _without_weights(
    content: mmap.mmap, graph: Field, initializers: Sequence[Field], file: BinaryIO, data: BinaryIO
) -> bytes:
    """The model, with large tensors referring to data copied from one file to the other."""
    inner = bytearray()
    position = graph.start
    for field in initializers:
        inner += content[position : field.begin]
        inner += delimited(INITIALIZER, _referring(content, field, file, data))
        position = field.end
    inner += content[position : graph.end]
    return content[: graph.begin] + delimited(GRAPH, bytes(inner)) + content[graph.end :]


def _referring(content: mmap.mmap, field: Field, file: BinaryIO, data: BinaryIO) -> bytes:
    """A tensor that refers to its data; unchanged if it has no ``raw_data``."""
    parts = list(fields(content, field.start, field.end))
    raw = [part for part in parts if part.number == _RAW_DATA]
    if len(raw) != 1 or raw[0].wire_type != DELIMITED or raw[0].end - raw[0].start <= _DETACHED:
        return content[field.start : field.end]
    start, length = -(-data.tell() // _ALIGNMENT) * _ALIGNMENT, raw[0].end - raw[0].start
    data.seek(start)
    for chunk in _chunks(file, raw[0].start, length):
        data.write(chunk)
    tensor = TensorProto.FromString(content[field.start : raw[0].begin] + content[raw[0].end : field.end])
    if is_external(tensor):
        raise WireError
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", _DATA), ("offset", str(start)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return tensor.SerializeToString()


def attach(model: Path, target: BinaryIO) -> None:
    """Writes a model with external data as one file, byte for byte as its proto with embedded data would
    be."""
    proto = ModelProto.FromString(model.read_bytes())
    initializers = list(proto.graph.initializer)
    del proto.graph.initializer[:]
    for tensor in tensors_in_model(proto):
        if is_external(tensor):
            content = stored_tensor(tensor, model.absolute().parent).tobytes()
            _refer_no_more(tensor)
            tensor.raw_data = content
    pieces = [_Pieces.of(tensor) for tensor in initializers]
    before, after = _halves(proto.graph, GraphProto, INITIALIZER)
    size = len(before) + sum(len(piece.opening) + piece.size for piece in pieces) + len(after)
    outer_before, outer_after = _halves(proto, ModelProto, GRAPH)
    target.write(outer_before + header(GRAPH, size) + before)
    for piece in pieces:
        piece.write(model.absolute().parent, target)
    target.write(after + outer_after)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A tensor to be written: the bytes before its data, a reference to the data, and the bytes after it."""

    original: TensorProto
    before: bytes
    length: int
    after: bytes

    @staticmethod
    def of(tensor: TensorProto) -> _Pieces:
        """The pieces of a tensor of a file."""
        if not is_external(tensor):
            return _Pieces(tensor, tensor.SerializeToString(), 0, b"")
        length = external_place(tensor, tensor.name).length
        small = TensorProto()
        small.CopyFrom(tensor)
        _refer_no_more(small)
        small.raw_data = mark = secrets.token_bytes(24)
        before, _, after = small.SerializeToString().partition(delimited(_RAW_DATA, mark))
        return _Pieces(tensor, before + header(_RAW_DATA, length), length, after)

    @property
    def size(self) -> int:
        """Bytes of the tensor."""
        return len(self.before) + self.length + len(self.after)

    @property
    def opening(self) -> bytes:
        """The bytes that precede the tensor."""
        return header(INITIALIZER, self.size)

    def write(self, base: Path, target: BinaryIO) -> None:
        """Writes the tensor with its data."""
        target.write(self.opening + self.before)
        if self.length:
            place = external_place(self.original, self.original.name)
            with (base / place.location).open("rb") as file:
                for chunk in _chunks(file, place.offset, place.length):
                    target.write(chunk)
        target.write(self.after)


def _refer_no_more(tensor: TensorProto) -> None:
    tensor.ClearField("data_location")
    tensor.ClearField("external_data")


def _halves(
    message: GraphProto | ModelProto, kind: type[GraphProto] | type[ModelProto], number: int
) -> tuple[bytes, bytes]:
    """The message's fields before and after the given one, which is omitted."""
    halves = kind(), kind()
    for field, value in message.ListFields():
        half = halves[field.number > number]
        if field.number == number:
            continue
        if field.is_repeated:
            getattr(half, field.name).extend(value)
        elif field.message_type is not None:
            getattr(half, field.name).CopyFrom(value)
        else:
            setattr(half, field.name, value)
    return halves[0].SerializeToString(), halves[1].SerializeToString()


def _chunks(file: BinaryIO, start: int, length: int) -> Iterator[bytes]:
    position = start
    while position < start + length:
        chunk = os.pread(file.fileno(), min(_CHUNK, start + length - position), position)
        if not chunk:
            raise OSError(f"{file.name} was truncated while being read")
        yield chunk
        position += len(chunk)
