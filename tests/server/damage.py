"""Uploads; real models whose bytes were damaged, and bytes that were never a model."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import onnx

from tests.server.conftest import tiny_model

Random: TypeAlias = random.Random
_LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
_NETWORKS = ("light_squeezenet.onnx", "light_shufflenet.onnx", "light_resnet50.onnx")
_BOUNDARY = "xyz"
OPTIONS = b'{"budget": 1, "max_candidates": 5}'


@dataclass(frozen=True)
class Upload:
    """A request to ``POST /v1/optimizations``."""

    kind: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


Mutation: TypeAlias = Callable[[Random], Upload]


def upload_of(kind: str, *parts: tuple[str, str, bytes], **headers: str) -> Upload:
    """A well-formed request with parts (name, file name, content)."""
    body = b"".join(
        b'--%b\r\nContent-Disposition: form-data; name="%b"; filename="%b"\r\n\r\n%b\r\n'
        % (_BOUNDARY.encode(), name.encode(), file.encode(), content)
        for name, file, content in parts
    )
    type_ = f"multipart/form-data; boundary={_BOUNDARY}"
    ended = body + f"--{_BOUNDARY}--\r\n".encode()
    return Upload(kind, ended, {"Content-Type": type_} | {k.replace("_", "-"): v for k, v in headers.items()})


def model_upload(kind: str, content: bytes, *data: tuple[str, bytes]) -> Upload:
    """A request with a model, quick options and external data (location, content)."""
    return upload_of(
        kind,
        ("model", "net.onnx", content),
        ("options", "", OPTIONS),
        *(("data", name, part) for name, part in data),
    )


def real_model(chance: Random) -> bytes:
    """A real network or a tiny one."""
    name = chance.choice(("", *_NETWORKS))
    return (_LIGHT / name).read_bytes() if name else tiny_model()


def _flipped(chance: Random) -> Upload:
    content = bytearray(real_model(chance))
    for _ in range(chance.choice((1, 3, 20, 200))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return model_upload("bits flipped", bytes(content))


def _truncated(chance: Random) -> Upload:
    content = real_model(chance)
    return model_upload("truncated", content[: chance.randrange(len(content))])


def _spliced(chance: Random) -> Upload:
    content = bytearray(real_model(chance))
    at, size = chance.randrange(len(content)), chance.choice((1, 16, 500))
    piece = chance.choice((chance.randbytes(size), bytes(size), bytes(content[:size]), b""))
    content[at : at + chance.choice((0, size))] = piece
    return model_upload("bytes inserted, repeated or removed", bytes(content))


def _foreign(chance: Random) -> Upload:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.onnx", bytes(20_000_000))
    content = chance.choice(
        (
            b"",
            b"\0",
            b"this is a text",
            b'{"graph": {}}',
            zipped.getvalue(),
            gzip.compress(tiny_model()),
            gzip.compress(bytes(50_000_000)),
            chance.randbytes(10_000),
            b"\xff" * 10_000,
            b"\x0a" * 10_000,
            b"PK\x03\x04" + bytes(100),
            b"\x08\x08",
        )
    )
    return model_upload("no model at all", content)


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*written, number))


def _message(field_number: int, content: bytes) -> bytes:
    return _varint(field_number << 3 | 2) + _varint(len(content)) + content


def _nested(chance: Random) -> Upload:
    """If in If in If: each level is a graph in an attribute in a node in a graph."""
    depth = chance.choice((30, 90, 150, 1000, 1_000_000))
    levels: list[bytes] = []
    size = 0
    for _ in range(depth):
        for number in (6, 5, 1):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            head = _varint(number << 3 | 2) + _varint(size)
            levels.append(head)
            size += len(head)
    graph = b"".join(reversed(levels))
    opset = _message(8, b"\x10\x11")
    return model_upload("nested deeply", b"\x08\x08" + _message(7, graph) + opset)


def _many(chance: Random) -> Upload:
    """Very many of something that is small on the wire."""
    number, inner = chance.choice(
        ((1, b""), (5, b""), (11, b""), (13, b""), (14, b""), (1, b"\x0a\x00" * 20))
    )
    graph = _message(number, inner) * chance.choice((250_000, 2_000_000))
    return model_upload("very many", b"\x08\x08" + _message(7, graph) + _message(8, b"\x10\x11"))


OF_BYTES: tuple[Mutation, ...] = (_flipped, _truncated, _spliced, _foreign, _nested, _many)
