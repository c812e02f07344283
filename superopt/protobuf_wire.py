"""Minimal protobuf wire format, to locate and insert the parts of an ONNX model."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GRAPH = 7
"""Field number of a model's graph."""

NODE = 1
"""Field number of a node in a graph."""

METADATA = 14
"""Field number of an entry of a model's metadata."""

INITIALIZER = 5
"""Field number of an initialiser in a graph."""

_EXTERNAL_DATA = 13
_KEY = b"location"
"""Marks of a tensor with external data: field numbers and key."""

DELIMITED = 2
"""The wire type of messages, texts and bytes."""

_WIDTHS = {1: 8, 5: 4}
"""Bytes of the wire types of fixed width."""


class WireError(Exception):
    """A file that is not a model, or whose encoding is not supported."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: starts at ``begin``, with content from ``start`` to ``end``."""

    number: int
    wire_type: int
    begin: int
    start: int
    end: int


def is_model(path: Path) -> bool:
    """Whether the file can be an ONNX model: a message with one graph."""
    try:
        node_count(path)
    except WireError:
        return False
    return True


def node_count(path: Path) -> int:
    """Number of nodes in the model's graph; raises WireError for a file that is not a model."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise WireError
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            graph = graph_of(content)
            return sum(field.number == NODE for field in fields(content, graph.start, graph.end))


def may_have_external_data(path: Path) -> bool:
    """Whether some tensor of the model seems to have external data; raises WireError for a file that is not a
    model."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for field in fields(content, 0, len(content)):
            parts = fields(content, field.start, field.end) if field.number == GRAPH else (field,)
            for part in parts:
                if field.number == GRAPH and part.number == INITIALIZER:
                    is_external = any(
                        inner.number == _EXTERNAL_DATA for inner in fields(content, part.start, part.end)
                    )
                else:
                    is_external = content.find(_KEY, part.start, part.end) >= 0
                if is_external:
                    return True
    return False


def external_bytes(path: Path) -> int:
    """Bytes of external data that the initialisers of a model declare; 0 for a file that is not a model."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            graph = graph_of(content)
            return sum(
                _external_length(content, field)
                for field in fields(content, graph.start, graph.end)
                if field.number == INITIALIZER
            )
    except (WireError, ValueError, OSError):
        return 0


def _external_length(content: mmap.mmap, tensor: Field) -> int:
    lengths = (
        _entry(content, part).get("length", "")
        for part in fields(content, tensor.start, tensor.end)
        if part.number == _EXTERNAL_DATA
    )
    return sum(int(length) for length in lengths if length.isdecimal())


def _entry(content: mmap.mmap | bytes, field: Field) -> dict[str, str]:
    """A key with its value; either is empty where it is missing."""
    parts = {part.number: part for part in fields(content, field.start, field.end)}
    texts = [
        content[parts[number].start : parts[number].end].decode("utf-8", "replace") if number in parts else ""
        for number in (1, 2)
    ]
    return {texts[0]: texts[1]}


def metadata_of(content: mmap.mmap | bytes) -> dict[str, str]:
    """The metadata of a model; raises WireError for what is not a model."""
    found: dict[str, str] = {}
    for entry in fields(content, 0, len(content)):
        if entry.number == METADATA and entry.wire_type == DELIMITED:
            found.update(_entry(content, entry))
    return found


def graph_of(content: mmap.mmap) -> Field:
    """The only graph of a model; raises WireError unless there is exactly one."""
    graphs = [field for field in fields(content, 0, len(content)) if field.number == GRAPH]
    if len(graphs) != 1 or graphs[0].wire_type != DELIMITED:
        raise WireError
    return graphs[0]


def fields(content: mmap.mmap | bytes, start: int, end: int) -> Iterator[Field]:
    """The fields of the message at this position; raises WireError if it is malformed."""
    position = start
    while position < end:
        begin = position
        key, position = _varint(content, position, end)
        wire_type = key & 7
        if wire_type == 0:
            first, (_, position) = position, _varint(content, position, end)
        elif wire_type == DELIMITED:
            length, first = _varint(content, position, end)
            position = first + length
        elif wire_type in _WIDTHS:
            first, position = position, position + _WIDTHS[wire_type]
        else:
            raise WireError
        if position > end:
            raise WireError
        yield Field(key >> 3, wire_type, begin, first, position)


def split_before(content: bytes, number: int) -> tuple[bytes, bytes]:
    """A message with its fields in order of their numbers, divided where the field ``number`` belongs."""
    later = (field.begin for field in fields(content, 0, len(content)) if field.number > number)
    position = next(later, len(content))
    return content[:position], content[position:]


def _varint(content: mmap.mmap | bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
    raise WireError


def varint(content: mmap.mmap | bytes, start: int, end: int) -> int:
    """The number at this position; raises WireError if it is malformed."""
    return _varint(content, start, end)[0]


def delimited(number: int, content: bytes) -> bytes:
    """A field with that number and the wire type DELIMITED."""
    return header(number, len(content)) + content


def varint_field(number: int, value: int) -> bytes:
    """A field with that number and a value that is not negative."""
    return _encoded(number << 3) + _encoded(value)


def header(number: int, length: int) -> bytes:
    """Key and length prefix of a field."""
    return _encoded(number << 3 | DELIMITED) + _encoded(length)


def _encoded(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
