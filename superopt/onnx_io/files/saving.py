"""Save a lowered model as bytes or files: atomic, with external data where needed."""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import TensorProto

from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.files import (
    DATA_NAME,
    PART,
    is_discarded,
    is_stream,
    part_prefix,
    require_writable,
    write_atomically,
)
from superopt.ir.graph import Value
from superopt.onnx_io.files.external import LIMIT, TYPED_FIELDS, bytes_of, is_external, stored_tensor
from superopt.onnx_io.files.source import ModelSource, SourceModel, load_model
from superopt.onnx_io.files.stored import MappedTensor, StoredTensor
from superopt.onnx_io.protos import (
    copy_with_initializers,
    copy_without_graph,
    stored_bytes,
    tensors_in_model,
)
from superopt.protobuf_wire import GRAPH, INITIALIZER, header, split_before

INLINE = 1024
"""Tensors up to this many bytes are stored in the model file."""

ALIGNMENT = 4096
CHUNK = 1 << 24

_NO_PARAMETERS = (TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING)

Place = Callable[[TensorProto, StoredTensor], None]


@dataclass(frozen=True, eq=False)
class LoweredModel:
    """An ONNX model: ``proto`` lacks the initialisers ``shared`` with its source. ``names`` are the tensor
    names of the lowered graph's values. Models over ``inline_limit`` bytes are saved with external data; by
    default those over 2 GB and those whose source has external data."""

    proto: onnx.ModelProto
    shared: Mapping[str, StoredTensor]
    source: SourceModel
    unchanged: bool = False
    names: Mapping[Value, str] = field(default_factory=dict[Value, str])
    inline_limit: int | None = None

    @staticmethod
    def of_source(source: SourceModel, names: Mapping[Value, str]) -> LoweredModel:
        """The unchanged source, with the tensor names of its graph's values."""
        source = source.as_given
        proto = copy_with_initializers(source.proto, ())
        return LoweredModel(proto, source.tensors, source, unchanged=True, names=names)

    @staticmethod
    def of_derived(source: SourceModel) -> LoweredModel:
        """The source itself, not the model that it came from."""
        proto = onnx.ModelProto()
        proto.CopyFrom(source.proto)
        del proto.graph.initializer[:]
        return LoweredModel(proto, source.tensors, source)

    @property
    def node_count(self) -> int:
        """Nodes of the main graph."""
        return len(self.proto.graph.node)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all numbers in the model, those in attributes and subgraphs too."""
        return stored_bytes(self.proto) + sum(tensor.nbytes for tensor in self.shared.values())

    @property
    def parameters(self) -> int:
        """The numbers in weights; integers of 32 and 64 bits are sizes or indices, and do not count."""
        inside = sum(
            math.prod(tensor.dims)
            for tensor in tensors_in_model(self.proto)
            if tensor.data_type not in _NO_PARAMETERS
        )
        shared = (tensor for tensor in self.shared.values() if tensor.data_type not in _NO_PARAMETERS)
        return inside + sum(tensor.size for tensor in shared)

    @property
    def file_bytes(self) -> int:
        """Bytes of the written model with its external data; without their padding, and up to the
        declarations of tensors where the file is not made yet."""
        if self.unchanged and self.source.given is not None:
            outside = (tensor for tensor in tensors_in_model(self.source.proto) if is_external(tensor))
            return len(self.source.given) + sum(map(bytes_of, outside))
        return len(self._content) if "_content" in vars(self) else self._bytes

    @cached_property
    def _bytes(self) -> int:
        outside = sum(bytes_of(tensor) for tensor in tensors_in_model(self.proto) if is_external(tensor))
        inside = copy_with_initializers(self.proto, ()).ByteSize()
        inside += sum(tensor.ByteSize() for tensor in self.proto.graph.initializer)
        return inside + outside + sum(tensor.nbytes for tensor in self.shared.values())

    @property
    def _needs_data_file(self) -> bool:
        if self.inline_limit is None:
            return self._bytes > LIMIT or self.source.has_external_data
        return self._bytes > self.inline_limit

    def to_bytes(self) -> bytes:
        """One self-contained ONNX file: the original bytes if nothing changed and there was no external data.
        Raises InvalidModelError for a model over 2 GB, which must be saved with external data."""
        if self.unchanged and self.source.given is not None and not self.source.has_external_data:
            return self.source.given
        return self._content

    def to_proto(self) -> onnx.ModelProto:
        """A copy with all tensors in the proto, even if there is more than one file could hold."""
        if self.unchanged and self.source.given is not None and not self.source.has_external_data:
            return onnx.ModelProto.FromString(self.source.given)
        return self._assembled(_inline)

    @cached_property
    def _content(self) -> bytes:
        """Cached, so that the judged bytes are the written bytes."""
        self.require_one_file()
        model = copy_with_initializers(self.proto, ())
        for tensor in filter(is_external, tensors_in_model(model)):
            _inline(tensor, stored_tensor(tensor, self.source.base))
        return _serialized(model, list(self._complete_initializers()))

    def _complete_initializers(self) -> Iterator[TensorProto]:
        """Every initialiser with its content, shared ones first; copied only where it was elsewhere."""
        stored = {tensor.name: tensor for tensor in self.source.proto.graph.initializer}
        for name, content in self.shared.items():
            yield _complete(stored.get(name) or _without_content(name, content), content)
        for tensor in self.proto.graph.initializer:
            if is_external(tensor):
                yield _complete(tensor, stored_tensor(tensor, self.source.base))
            else:
                yield tensor

    def require_one_file(self) -> None:
        """Raises InvalidModelError for a model over 2 GB, which must be saved with external data."""
        if self._bytes > LIMIT:
            raise InvalidModelError(
                f"{self.source.name} has {self._bytes / 1e9:.1f} GB, and one ONNX file holds 2 GB: "
                "save it to a path to put its weights into a second file"
            )

    def save(self, path: str | Path) -> Path | None:
        """Writes the model atomically; returns its data file, None if it has none. Large models
        (``inline_limit``) get one external data file next to the model, named after its content, so that
        neither an earlier model nor a reader of it meets other weights. A stream (``files.is_stream``) gets
        one self-contained file. Raises InvalidOptionError if the path cannot be written, InvalidModelError
        for over 2 GB into a stream."""
        target = Path(path)
        require_writable(target)
        data = None
        if is_discarded(target):
            return data
        try:
            if is_stream(target) or not self._needs_data_file:
                content = self.to_bytes()
            else:
                content, data = self._with_external_data(target.absolute().parent)
            write_atomically(target, content)
        except OSError as error:
            raise InvalidOptionError(f"{target} cannot be written: {error.strerror or error}") from error
        return None if data is None else target.with_name(data)

    def save_with_data(self, path: str | Path) -> Path | None:
        """Writes the model with its weights in a file beside it, called ``PATH.data``, whatever its size;
        returns this file, None if there are no weights. Each file is replaced as a whole, the weights first.
        Raises InvalidOptionError for a path that cannot be written, or is a stream."""
        target = Path(path)
        require_writable(target)
        if is_stream(target):
            raise InvalidOptionError(f"external-data: expected the path of a file to write, got {target}")
        try:
            content, data = self._with_external_data(target.absolute().parent, f"{target.name}.data")
            write_atomically(target, content)
        except OSError as error:
            raise InvalidOptionError(f"{target} cannot be written: {error.strerror or error}") from error
        return None if data is None else target.with_name(data)

    def _with_external_data(self, directory: Path, name: str | None = None) -> tuple[bytes, str | None]:
        """The model without weights, which go to a file, and the name of this file, if there are weights;
        without a name, called after its content."""
        temporary = directory / f"{part_prefix(DATA_NAME)}{secrets.token_hex(8)}{PART}"
        try:
            with temporary.open("xb") as file:
                data = _DataFile(file, name)
                model = self._assembled(data.place)
                location = data.finish()
            for tensor in tensors_in_model(model):
                if is_external(tensor):
                    tensor.external_data[0].value = location
            if data.size:
                temporary.replace(directory / location)
            return model.SerializeToString(), location if data.size else None
        finally:
            temporary.unlink(missing_ok=True)

    def _assembled(self, place: Place) -> onnx.ModelProto:
        """The complete model; ``place`` stores each tensor that is not in the proto."""
        model = onnx.ModelProto()
        model.CopyFrom(self.proto)
        for tensor in tensors_in_model(model):
            if is_external(tensor):
                place(tensor, stored_tensor(tensor, self.source.base))
            elif bytes_of(tensor) > INLINE:
                place(tensor, stored_tensor(_copied(tensor), self.source.base))
        new = list(model.graph.initializer)
        del model.graph.initializer[:]
        stored = {tensor.name: tensor for tensor in self.source.proto.graph.initializer}
        for name, content in self.shared.items():
            tensor = model.graph.initializer.add()
            tensor.CopyFrom(stored[name] if name in stored else _without_content(name, content))
            if is_external(tensor) or bytes_of(tensor) > INLINE:
                place(tensor, content)
        model.graph.initializer.extend(new)
        return model


def require_destination(path: Path, model: ModelSource) -> None:
    """Raises InvalidOptionError unless the path can be written, InvalidModelError for a model over 2 GB into
    a stream. The model is read only where its size must be known."""
    require_writable(path)
    if is_stream(path) and not is_discarded(path):
        LoweredModel.of_source(load_model(model), {}).require_one_file()


def _without_content(name: str, content: StoredTensor) -> TensorProto:
    """The declaration of a tensor whose content is elsewhere."""
    tensor = TensorProto(name=name, data_type=content.data_type, dims=content.shape)
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def _copied(tensor: TensorProto) -> TensorProto:
    copy = TensorProto()
    copy.CopyFrom(tensor)
    return copy


def _inline(tensor: TensorProto, content: StoredTensor) -> None:
    if is_external(tensor):
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
        tensor.raw_data = content.tobytes()


def _serialized(model: onnx.ModelProto, tensors: Sequence[TensorProto]) -> bytes:
    """The bytes that protobuf gives a model without initialisers, with those given. These are serialised one
    by one: protobuf doubles its buffer until a message fits, which takes several times as long for hundreds
    of megabytes."""
    sizes = [tensor.ByteSize() for tensor in tensors]
    headers = [header(INITIALIZER, size) for size in sizes]
    before, after = split_before(copy_without_graph(model).SerializeToString(), GRAPH)
    nodes, rest = split_before(model.graph.SerializeToString(), INITIALIZER)
    length = len(nodes) + sum(map(len, headers)) + sum(sizes) + len(rest)
    content = io.BytesIO()
    content.write(before + header(GRAPH, length) + nodes)
    for head, tensor in zip(headers, tensors, strict=True):
        content.write(head)
        content.write(tensor.SerializeToString())
    content.write(rest + after)
    return content.getvalue()


def _complete(tensor: TensorProto, content: StoredTensor) -> TensorProto:
    """The tensor itself, or a copy with its content where that is elsewhere."""
    if not is_external(tensor):
        return tensor
    complete = _copied(tensor)
    _inline(complete, content)
    return complete


class _DataFile:
    """Consecutive tensors in a file; zeros become holes of a sparse file. Without a name it is called after
    its content."""

    def __init__(self, file: BinaryIO, name: str | None) -> None:
        self._file = file
        self._name = name
        self._digest = hashlib.blake2b(digest_size=8)
        self.size = 0

    def place(self, tensor: TensorProto, content: StoredTensor) -> None:
        """Appends the content and makes the tensor refer to it; the file's name is filled in later."""
        start = -(-self.size // ALIGNMENT) * ALIGNMENT
        self._file.seek(start)
        length = 0
        for chunk in _chunks(content):
            if _is_zero(chunk):
                self._include(f"{len(chunk)} zeros;".encode())
                self._file.seek(len(chunk), os.SEEK_CUR)
            else:
                self._include(chunk.data)
                self._file.write(chunk.data)
            length += len(chunk)
        self.size = start + length
        self._include(f"{start}:{length};".encode())
        for emptied in ("raw_data", *TYPED_FIELDS, "external_data"):
            tensor.ClearField(emptied)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", ""), ("offset", str(start)), ("length", str(length))):
            tensor.external_data.add(key=key, value=value)

    def finish(self) -> str:
        """Completes the file; returns its final name."""
        self._file.truncate(self.size)
        self._file.flush()
        return self._name or f"superopt-{self._digest.hexdigest()}.data"

    def _include(self, content: bytes | memoryview) -> None:
        if self._name is None:
            self._digest.update(content)


def _chunks(content: StoredTensor) -> Iterator[np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    """The bytes of a tensor in chunks; each is valid until the next one is requested."""
    if not isinstance(content, MappedTensor):
        whole = np.frombuffer(content.tobytes(), np.uint8)
        yield from (whole[start : start + CHUNK] for start in range(0, len(whole), CHUNK))
        return
    zeros = np.zeros(min(CHUNK, content.nbytes), np.uint8)
    buffer = np.empty_like(zeros)
    end = content.offset + content.nbytes
    with content.path.open("rb", buffering=0) as file:
        for position in range(content.offset, end, CHUNK):
            length = min(CHUNK, end - position)
            if _next_stored_byte(file.fileno(), position) >= position + length:
                yield zeros[:length]
                continue
            file.seek(position)
            got = 0
            while got < length:
                more = file.readinto(buffer[got:length].data)
                if not more:
                    raise OSError(f"{content.path} was truncated while being read")
                got += more
            yield buffer[:length]


def _next_stored_byte(descriptor: int, position: int) -> int:
    """The next offset that is not in a hole of a sparse file."""
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as error:
        return sys.maxsize if error.errno == errno.ENXIO else position


def _is_zero(chunk: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> bool:
    whole = len(chunk) // 8 * 8
    return not chunk[:whole].view(np.uint64).any() and not chunk[whole:].any()
