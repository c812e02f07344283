"""AutoDist's published protobuf format of strategies (petuum/autodist, strategy.proto, synchronizers.proto).

| message | fields |
|---|---|
| Strategy | id = 1, path = 2, repeated Node node_config = 3, GraphConfig graph_config = 4 |
| GraphConfig | repeated string replicas = 1 |
| Node | var_name = 1, PSSynchronizer = 2 or AllReduceSynchronizer = 3, partitioner = 4, parts as Nodes = 5 |
| PSSynchronizer | reduction_destination = 1, local_replication = 2, sync = 3, staleness = 4 |
| AllReduceSynchronizer | spec = 1, compressor = 2, group = 3 |

``spec`` is 0 AUTO, 1 NCCL, 2 RING; ``compressor`` 0 none, 1 Horovod's, 2 the same with error feedback;
``partitioner`` is the partition as a text, ``2,1``. Fields at their defaults are left out (proto3), and of a
field that is given twice the last one counts. Fields of other numbers are refused, since a strategy without
them would mean something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from superopt.errors import InvalidFileError
from superopt.optimizer.parallel.strategies.model import (
    Collective,
    Compressor,
    Part,
    Server,
    Spec,
    Strategy,
    Synchronizer,
    VariableSync,
)
from superopt.protobuf_wire import DELIMITED, WireError, delimited, fields, varint, varint_field

_VARINT = 0
_ID, _PATH, _NODE, _GRAPH = 1, 2, 3, 4
_REPLICAS = 1
_NAME, _SERVER, _COLLECTIVE, _PARTITIONER, _PART = 1, 2, 3, 4, 5
_DESTINATION, _REPLICATION, _SYNC, _STALENESS = 1, 2, 3, 4
_SPEC, _COMPRESSOR, _GROUP = 1, 2, 3
_SPECS = (Spec.AUTO, Spec.NCCL, Spec.RING)
_COMPRESSORS = (Compressor.NONE, Compressor.CAST, Compressor.CAST_WITH_FEEDBACK)
_SIGNED = 1 << 63


def strategy_to_wire(strategy: Strategy) -> bytes:
    """The message of a strategy."""
    replicas = b"".join(_text(_REPLICAS, name, keep=True) for name in strategy.replicas)
    return (
        _text(_ID, strategy.identity)
        + _text(_PATH, strategy.path)
        + b"".join(delimited(_NODE, _node(variable)) for variable in strategy.variables)
        + (delimited(_GRAPH, replicas) if replicas else b"")
    )


def _node(variable: VariableSync) -> bytes:
    parts = (_named(part.name, part.synchronizer) for part in variable.parts)
    return (
        _named(variable.name, variable.synchronizer)
        + _text(_PARTITIONER, ",".join(map(str, variable.partition)))
        + b"".join(delimited(_PART, part) for part in parts)
    )


def _named(name: str, synchronizer: Synchronizer | None) -> bytes:
    match synchronizer:
        case Server():
            content = delimited(
                _SERVER,
                _text(_DESTINATION, synchronizer.destination)
                + _number(_REPLICATION, int(synchronizer.local_replication))
                + _number(_SYNC, int(synchronizer.sync))
                + _number(_STALENESS, synchronizer.staleness),
            )
        case Collective():
            content = delimited(
                _COLLECTIVE,
                _number(_SPEC, _SPECS.index(synchronizer.spec))
                + _number(_COMPRESSOR, _COMPRESSORS.index(synchronizer.compressor))
                + _number(_GROUP, synchronizer.group),
            )
        case None:
            content = b""
    return _text(_NAME, name) + content


def _text(number: int, text: str, *, keep: bool = False) -> bytes:
    return delimited(number, text.encode()) if text or keep else b""


def _number(number: int, value: int) -> bytes:
    return varint_field(number, value % (2 * _SIGNED)) if value else b""


def strategy_from_wire(content: bytes, where: str) -> Strategy:
    """The strategy in a message; raises InvalidFileError for what is not one, with the field."""
    try:
        return _strategy(_Message.of(content, where, "Strategy"))
    except WireError:
        raise InvalidFileError(f"{where}: expected AutoDist's message Strategy, got other bytes") from None


@dataclass(frozen=True)
class _Message:
    """The fields of a message: numbers, or contents in bytes, in order."""

    where: str
    name: str
    numbers: dict[int, int]
    contents: dict[int, list[bytes]]

    @staticmethod
    def of(content: bytes, where: str, name: str) -> _Message:
        message = _Message(where, name, {}, {})
        for field in fields(content, 0, len(content)):
            if field.wire_type == _VARINT:
                value = varint(content, field.start, field.end)
                message.numbers[field.number] = value - 2 * _SIGNED if value >= _SIGNED else value
            elif field.wire_type == DELIMITED:
                message.contents.setdefault(field.number, []).append(content[field.start : field.end])
            else:
                kinds = f"expected wire type {_VARINT} or {DELIMITED}, got {field.wire_type}"
                raise message.error(f"field {field.number}: {kinds}")
        return message

    def error(self, what: str) -> InvalidFileError:
        return InvalidFileError(f"{self.where}: {self.name}: {what}")

    def require(self, numbers: Sequence[int], contents: Sequence[int]) -> None:
        """Raises InvalidFileError for a field that the format does not have, or has of another type."""
        for found, known in ((self.numbers, numbers), (self.contents, contents)):
            for number in found:
                if number not in known:
                    raise self.error(
                        f"field {number} is not in the published format, or of another type there"
                    )

    def text(self, number: int) -> str:
        found = self.contents.get(number)
        return self._decoded(found[-1]) if found else ""

    def texts(self, number: int) -> tuple[str, ...]:
        return tuple(map(self._decoded, self.contents.get(number, ())))

    def _decoded(self, content: bytes) -> str:
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise self.error(f"expected texts in UTF-8, got {content[:20]!r}") from None

    def messages(self, number: int, name: str) -> Iterator[_Message]:
        for content in self.contents.get(number, ()):
            yield _Message.of(content, self.where, name)

    def last(self, number: int, name: str) -> _Message | None:
        found = list(self.messages(number, name))
        return found[-1] if found else None


def _strategy(message: _Message) -> Strategy:
    message.require((), (_ID, _PATH, _NODE, _GRAPH))
    graph = message.last(_GRAPH, "GraphConfig")
    if graph is not None:
        graph.require((), (_REPLICAS,))
    return Strategy(
        tuple(map(_variable, message.messages(_NODE, "Node"))),
        () if graph is None else graph.texts(_REPLICAS),
        message.text(_ID),
        message.text(_PATH),
    )


def _variable(node: _Message) -> VariableSync:
    node.require((), (_NAME, _SERVER, _COLLECTIVE, _PARTITIONER, _PART))
    name = node.text(_NAME)
    partition = node.text(_PARTITIONER)
    try:
        degrees = tuple(int(word) for word in partition.split(",")) if partition else ()
    except ValueError:
        raise node.error(f"{name}: partitioner: expected numbers as 2,1, got {partition!r}") from None
    return VariableSync(
        name, _synchronizer(node), degrees, tuple(map(_part, node.messages(_PART, "part_config")))
    )


def _part(node: _Message) -> Part:
    node.require((), (_NAME, _SERVER, _COLLECTIVE))
    synchronizer = _synchronizer(node)
    if synchronizer is None:
        raise node.error(f"{node.text(_NAME)}: expected a synchroniser, got none")
    return Part(node.text(_NAME), synchronizer)


def _synchronizer(node: _Message) -> Synchronizer | None:
    server = node.last(_SERVER, "PSSynchronizer")
    collective = node.last(_COLLECTIVE, "AllReduceSynchronizer")
    if server is not None and collective is not None:
        raise node.error(f"{node.text(_NAME)}: expected one synchroniser, got two")
    if server is not None:
        server.require((_REPLICATION, _SYNC, _STALENESS), (_DESTINATION,))
        return Server(
            server.text(_DESTINATION),
            bool(server.numbers.get(_REPLICATION, 0)),
            bool(server.numbers.get(_SYNC, 0)),
            server.numbers.get(_STALENESS, 0),
        )
    if collective is not None:
        collective.require((_SPEC, _COMPRESSOR, _GROUP), ())
        return Collective(
            collective.numbers.get(_GROUP, 0),
            _SPECS[_choice(collective, _SPEC, "spec", len(_SPECS))],
            _COMPRESSORS[_choice(collective, _COMPRESSOR, "compressor", len(_COMPRESSORS))],
        )
    return None


def _choice(message: _Message, number: int, name: str, count: int) -> int:
    value = message.numbers.get(number, 0)
    if not 0 <= value < count:
        raise message.error(f"{name}: expected 0 to {count - 1}, got {value}")
    return value
