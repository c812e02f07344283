"""Blueprint of a network: weights are described and only generated on writing, to save memory."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto

from superopt.errors import InvalidOptionError
from superopt.files import (
    atomic_path,
    is_discarded,
    is_stream,
    refusing_what_fails,
    require_writable,
    write_atomically,
)
from superopt.zoo.streaming import BYTES_PER_NUMBER, serialized
from superopt.zoo.weights import Draw, Stream

__all__ = ["Blueprint"]

INLINE_LIMIT = 1_000_000_000
"""Weights above this number of bytes are written to a separate file."""

PROTO_LIMIT = 2_000_000_000
ALIGNMENT = 4096


@dataclass(frozen=True, eq=False)
class Blueprint:
    """``skeleton`` is the model; initialisers in ``draws``, by name, have no content in it. Both are
    immutable. Constants that affect shapes have content, so that types are inferred."""

    skeleton: onnx.ModelProto
    draws: Mapping[str, Draw]

    @property
    def parameters(self) -> int:
        """The number of trainable parameters: all random weights except the statistics of normalisations."""
        statistics = {
            name
            for node in self.skeleton.graph.node
            if node.op_type == "BatchNormalization"
            for name in node.input[3:5]
        }
        return sum(draw.size for name, draw in self.draws.items() if name not in statistics)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the random weights."""
        return sum(draw.size for draw in self.draws.values()) * BYTES_PER_NUMBER

    def model(self, seed: int) -> onnx.ModelProto:
        """The network with embedded weights. Raises InvalidOptionError if it is too large for one ONNX
        message; then it can only be saved."""
        if self.weight_bytes > PROTO_LIMIT:
            raise InvalidOptionError(
                f"{self.skeleton.graph.name} has {self.weight_bytes / 1e9:.1f} GB of weights, and one ONNX "
                "message holds 2 GB: save it to a path to put its weights into a second file"
            )
        model = onnx.ModelProto()
        model.CopyFrom(self.skeleton)
        stream = Stream(seed)
        for tensor in model.graph.initializer:
            if tensor.name in self.draws:
                tensor.raw_data = stream.array(self.draws[tensor.name]).tobytes()
        return model

    def save(self, path: Path, seed: int, inline_limit: int = INLINE_LIMIT) -> int:
        """Writes the network atomically and returns the number of bytes. Weights of more than
        ``inline_limit`` bytes go to a separate file that is named after its content; they are generated in
        pieces of at most one tensor. Raises InvalidOptionError where the files cannot be written, or a stream
        cannot hold the weights, and BrokenPipeError where the reader of a pipe has ended."""
        if is_discarded(path):
            return 0
        with refusing_what_fails(path):
            if self.weight_bytes <= (PROTO_LIMIT if is_stream(path) else inline_limit):
                with atomic_path(path) as part, part.open("wb") as file:
                    for piece in serialized(self.skeleton, self.draws, Stream(seed)):
                        file.write(piece)
                    return file.tell()
            return self._save_with_data(path, seed)

    def save_hollow(self, path: Path) -> None:
        """Writes the network with zeros as weights, in a second file of which file systems store nothing: for
        what depends on shapes alone."""
        model = onnx.ModelProto()
        model.CopyFrom(self.skeleton)
        data = path.with_suffix(".data")
        start = 0
        for tensor in model.graph.initializer:
            if tensor.name in self.draws:
                start = _place(tensor, data.name, start, self.draws[tensor.name])
        with data.open("wb") as file:
            file.truncate(start)
        path.write_bytes(model.SerializeToString())

    def _save_with_data(self, path: Path, seed: int) -> int:
        require_writable(path)
        if is_stream(path):
            raise InvalidOptionError(
                f"{path}: {self.skeleton.graph.name} has {self.weight_bytes / 1e9:.1f} GB of weights, which "
                "go into a second file: expected the path of a file"
            )
        model = onnx.ModelProto()
        model.CopyFrom(self.skeleton)
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            with part.open("xb") as file:
                digest, size = self._write_weights(file, model, seed)
            data = path.with_name(f"{path.stem}-{digest}.data")
            for tensor in model.graph.initializer:
                if tensor.name in self.draws:
                    tensor.external_data[0].value = data.name
            content = model.SerializeToString(deterministic=True)
            part.replace(data)
        finally:
            part.unlink(missing_ok=True)
        write_atomically(path, content)
        return size + len(content)

    def _write_weights(self, file: BinaryIO, model: onnx.ModelProto, seed: int) -> tuple[str, int]:
        digest = hashlib.blake2b(digest_size=8)
        stream = Stream(seed)
        for tensor in model.graph.initializer:
            if tensor.name not in self.draws:
                continue
            draw = self.draws[tensor.name]
            start = -(-file.tell() // ALIGNMENT) * ALIGNMENT
            file.seek(start)
            for piece in stream.pieces(draw):
                digest.update(piece.data)
                file.write(piece.data)
            _place(tensor, "", start, draw)
        return digest.hexdigest(), file.tell()


def _place(tensor: TensorProto, location: str, start: int, draw: Draw) -> int:
    """Says that the content of a tensor is in a file from a byte on; returns the byte after it."""
    length = draw.size * BYTES_PER_NUMBER
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(start)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return start + length
