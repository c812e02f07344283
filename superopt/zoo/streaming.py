"""Serialise a model piece by piece: the same bytes as protobuf, without holding them all in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import onnx
from google.protobuf.message import Message

from superopt.zoo.weights import Draw, Stream

__all__ = ["BYTES_PER_NUMBER", "serialized"]

GRAPH = onnx.ModelProto.DESCRIPTOR.fields_by_name["graph"].number
INITIALIZER = onnx.GraphProto.DESCRIPTOR.fields_by_name["initializer"].number
RAW_DATA = onnx.TensorProto.DESCRIPTOR.fields_by_name["raw_data"].number
BYTES_PER_NUMBER = 4


def serialized(
    model: onnx.ModelProto, draws: Mapping[str, Draw], stream: Stream
) -> Iterator[bytes | memoryview]:
    """``model`` with the content of the initialisers in ``draws``, which have none, taken from ``stream``.

    Fields come in the order of their numbers and a message is preceded by its length, which is known before
    its content is drawn (the encoding of protocol buffers).
    """
    graph = model.graph
    graph_head, graph_tail = _around(graph, INITIALIZER)
    tensors = [(tensor.SerializeToString(), draws.get(tensor.name)) for tensor in graph.initializer]
    framed = [(_frame(prefix, draw), draw) for prefix, draw in tensors]
    length = len(graph_head) + len(graph_tail) + sum(len(start) + _bytes(draw) for start, draw in framed)
    model_head, model_tail = _around(model, GRAPH)
    yield model_head + _prefix(GRAPH, length) + graph_head
    for start, draw in framed:
        yield start
        if draw is not None:
            yield from (piece.data.cast("B") for piece in stream.pieces(draw))
    yield graph_tail + model_tail


def _frame(prefix: bytes, draw: Draw | None) -> bytes:
    """All of an initialiser in its graph but what ``draw`` gives."""
    if draw is not None:
        prefix += _prefix(RAW_DATA, _bytes(draw))
    return _prefix(INITIALIZER, len(prefix) + _bytes(draw)) + prefix


def _bytes(draw: Draw | None) -> int:
    return 0 if draw is None else draw.size * BYTES_PER_NUMBER


def _around(message: Message, number: int) -> tuple[bytes, bytes]:
    """The fields before and behind the field ``number``, serialized."""
    return _fields(message, lambda other: other < number), _fields(message, lambda other: other > number)


def _fields(message: Message, chosen: Callable[[int], bool]) -> bytes:
    part = type(message)()
    for field, value in message.ListFields():
        if chosen(field.number):
            _copy_field(part, field.name, value)
    return part.SerializeToString()


def _copy_field(part: Message, name: str, value: object) -> None:
    if isinstance(value, str | bytes | int | float):
        setattr(part, name, value)
    elif isinstance(value, Message):
        getattr(part, name).CopyFrom(value)
    else:
        assert isinstance(value, Iterable)
        getattr(part, name).extend(value)


def _prefix(number: int, length: int) -> bytes:
    """Tag and length of a message or of bytes."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    groups: list[int] = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
