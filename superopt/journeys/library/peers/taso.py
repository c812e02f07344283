"""Parser of TASO's rule files: a protobuf ``RuleCollection`` (CONTRACTS, "Peer rule files").

Required fields are declared optional here, so that a rule without one is reported as malformed and the rest
of the file is still read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from superopt.errors import InvalidEquationError, InvalidFileError
from superopt.journeys.library.peers.reading import (
    AxisOrder,
    Malformed,
    PeerGraphs,
    PeerOperator,
    PeerRule,
    PeerTensor,
    Reading,
    content_of,
)
from superopt.journeys.library.peers.translation import translated

MOST_BYTES = 16_000_000
MOST_RULES = 100_000

OPERATOR_TYPES = (
    *("INPUT", "WEIGHT", "ANY", "CONV2D", "DROPOUT", "LINEAR", "POOL2D_MAX", "POOL2D_AVG", "RELU", "SIGMOID"),
    *("TANH", "BATCHNORM", "CONCAT", "SPLIT", "RESHAPE", "TRANSPOSE", "EW_ADD", "EW_MUL", "MATMUL", "MUL"),
    *("ENLARGE", "MERGE_GCONV", "CONSTANT_IMM", "CONSTANT_ICONV", "CONSTANT_ONE", "CONSTANT_POOL"),
)
PARAMETER_KEYS = (
    *("OP_TYPE", "NUM_INPUTS", "NUM_OUTPUTS", "GROUP", "KERNEL_H", "KERNEL_W", "STRIDE_H", "STRIDE_W", "PAD"),
    *("ACTI", "NUMDIM", "AXIS", "PERM", "OUTSHUFFLE", "MERGE_GCONV_COUNT"),
)
_MESSAGES = {
    "Parameter": (("key", ""), ("value", "")),
    "Tensor": (("opId", ""), ("tsId", "")),
    "Operator": (("type", ""), ("input", "Tensor"), ("para", "Parameter")),
    "MapOutput": (("srcOpId", ""), ("dstOpId", ""), ("srcTsId", ""), ("dstTsId", "")),
    "Rule": (("srcOp", "Operator"), ("dstOp", "Operator"), ("mappedOutput", "MapOutput")),
    "RuleCollection": (("rule", "Rule"),),
}
"""Fields of each message, numbered from 1: an int32, or a list of messages."""


class _Operator(Protocol):
    type: int
    input: Sequence[Message]
    para: Sequence[Message]


class _Rule(Protocol):
    srcOp: Sequence[Message]  # noqa: N815
    dstOp: Sequence[Message]  # noqa: N815
    mappedOutput: Sequence[Message]  # noqa: N815


class _Collection(Protocol):
    rule: Sequence[Message]


def read_taso(path: Path) -> tuple[PeerRule, ...]:
    """The rules of a file. Raises InvalidFileError if it is not a rule file of TASO."""
    message = _parsed(path)
    rules = cast("_Collection", message).rule
    if not rules or len(UnknownFieldSet(message)):
        raise InvalidFileError(f"{path}: not a rule file of TASO: it is no list of rules")
    if len(rules) > MOST_RULES:
        raise InvalidFileError(f"{path}: expected at most {MOST_RULES} rules, got {len(rules)}")
    return tuple(PeerRule(index, f"rule {index}", _reading(rule)) for index, rule in enumerate(rules))


def collection_class() -> type[Message]:
    """The message class of a whole file, to read or to write one."""
    return GetMessageClass(_pool().FindMessageTypeByName("taso.RuleCollection"))


@cache
def _pool() -> DescriptorPool:
    file = FileDescriptorProto(name="rules.proto", package="taso", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number)
            added.label = FieldDescriptorProto.LABEL_REPEATED if kind else FieldDescriptorProto.LABEL_OPTIONAL
            added.type = FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_INT32
            if kind:
                added.type_name = f".taso.{kind}"
    pool = DescriptorPool()
    pool.Add(file)
    return pool


def _parsed(path: Path) -> Message:
    message = collection_class()()
    try:
        message.ParseFromString(content_of(path, MOST_BYTES))
    except DecodeError:
        raise InvalidFileError(f"{path}: not a rule file of TASO: damaged, or another format") from None
    return message


def _reading(message: Message) -> Reading:
    rule = cast("_Rule", message)
    try:
        _require_known(message, "the rule")
        graphs = PeerGraphs(
            tuple(_operator(op, f"operator {i} of the source") for i, op in enumerate(rule.srcOp)),
            tuple(_operator(op, f"operator {i} of the target") for i, op in enumerate(rule.dstOp)),
            tuple(_output(output, f"mapped output {i}") for i, output in enumerate(rule.mappedOutput)),
        )
    except InvalidEquationError as error:
        return Malformed(str(error))
    return translated(graphs, AxisOrder.OUTERMOST_FIRST)


def _operator(message: Message, where: str) -> PeerOperator:
    operator = cast("_Operator", message)
    kind = _named(_integer(message, "type", where), OPERATOR_TYPES, f"{where}: unknown operator type")
    parameters: dict[str, int] = {}
    for parameter in operator.para:
        number = _integer(parameter, "key", f"{where}: a parameter")
        key = _named(number, PARAMETER_KEYS, f"{where}: unknown parameter")
        if key in parameters:
            raise InvalidEquationError(f"{where}: {key} is given twice")
        parameters[key] = _integer(parameter, "value", f"{where}: {key}")
    inputs = [_tensor(t, "opId", "tsId", f"{where}: input {i}") for i, t in enumerate(operator.input)]
    _require_known(message, where)
    return PeerOperator(kind, tuple(inputs), parameters)


def _output(message: Message, where: str) -> tuple[PeerTensor, PeerTensor]:
    return _tensor(message, "srcOpId", "srcTsId", where), _tensor(message, "dstOpId", "dstTsId", where)


def _tensor(message: Message, operator: str, port: str, where: str) -> PeerTensor:
    return PeerTensor(_integer(message, operator, where), _integer(message, port, where))


def _integer(message: Message, field: str, where: str) -> int:
    if not message.HasField(field):
        raise InvalidEquationError(f"{where} has no {field}")
    _require_known(message, where)
    return cast("int", getattr(message, field))


def _named(number: int, names: Sequence[str], complaint: str) -> str:
    if not 0 <= number < len(names):
        raise InvalidEquationError(f"{complaint} {number}")
    return names[number]


def _require_known(message: Message, where: str) -> None:
    unknown = [field.field_number for field in UnknownFieldSet(message)]
    if unknown:
        raise InvalidEquationError(f"{where} has field {unknown[0]}, which the format does not have")
