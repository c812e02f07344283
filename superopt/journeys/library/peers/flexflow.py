"""Parser of FlexFlow's rule files: a ``RuleCollection`` in JSON (CONTRACTS, "Peer rule files")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

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
from superopt.substitution_db.store.records import JsonObject

MOST_BYTES = 64_000_000
MOST_RULES = 100_000
LONGEST_NAME = 80
_LARGEST = 2**31


def read_flexflow(path: Path) -> tuple[PeerRule, ...]:
    """The rules of a file. Raises InvalidFileError if it is not a rule file of FlexFlow."""
    document = _parsed(path)
    rules = document.get("rule") if document.get("_t", "RuleCollection") == "RuleCollection" else None
    if not isinstance(rules, list):
        raise InvalidFileError(
            f'{path}: not a rule file of FlexFlow: expected {{"_t": "RuleCollection", "rule": [...]}}'
        )
    items = cast("list[object]", rules)
    if len(items) > MOST_RULES:
        raise InvalidFileError(f"{path}: expected at most {MOST_RULES} rules, got {len(items)}")
    return tuple(PeerRule(index, _name(rule, index), _reading(rule)) for index, rule in enumerate(items))


def _parsed(path: Path) -> JsonObject:
    try:
        document: object = json.loads(content_of(path, MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidFileError(f"{path}: expected a JSON object, got {type(document).__name__}")
    return cast("JsonObject", document)


def _name(rule: object, index: int) -> str:
    name = cast("JsonObject", rule).get("name") if isinstance(rule, dict) else None
    return name if isinstance(name, str) and _is_name(name) else f"rule {index}"


def _reading(rule: object) -> Reading:
    try:
        content = _object(rule, "the rule")
        source, target = (
            tuple(_operator(op, f"operator {i} of the {side}") for i, op in enumerate(operators))
            for side, operators in (
                ("source", _list(content, "srcOp", "the rule")),
                ("target", _list(content, "dstOp", "the rule")),
            )
        )
        mapped = _list(content, "mappedOutput", "the rule")
        outputs = tuple(_output(output, f"mapped output {i}") for i, output in enumerate(mapped))
    except InvalidEquationError as error:
        return Malformed(str(error))
    return translated(PeerGraphs(source, target, outputs), AxisOrder.INNERMOST_FIRST)


def _operator(value: object, where: str) -> PeerOperator:
    content = _object(value, where)
    kind = _word(content, "type", "OP_", where)
    parameters: dict[str, int] = {}
    for item in _list(content, "para", where):
        parameter = _object(item, f"{where}: a parameter")
        key = _word(parameter, "key", "PM_", f"{where}: a parameter")
        if key in parameters:
            raise InvalidEquationError(f"{where}: {key} is given twice")
        parameters[key] = _integer(parameter, "value", f"{where}: {key}")
    inputs = [
        _tensor(_object(item, f"{where}: input {i}"), "opId", "tsId", f"{where}: input {i}")
        for i, item in enumerate(_list(content, "input", where))
    ]
    return PeerOperator(kind, tuple(inputs), parameters)


def _output(value: object, where: str) -> tuple[PeerTensor, PeerTensor]:
    content = _object(value, where)
    return _tensor(content, "srcOpId", "srcTsId", where), _tensor(content, "dstOpId", "dstTsId", where)


def _tensor(content: JsonObject, operator: str, port: str, where: str) -> PeerTensor:
    return PeerTensor(_integer(content, operator, where), _integer(content, port, where))


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidEquationError(f"{where}: expected a JSON object, got {type(value).__name__}")
    return cast("JsonObject", value)


def _list(content: JsonObject, key: str, where: str) -> list[object]:
    value = content.get(key)
    if not isinstance(value, list):
        raise InvalidEquationError(f"{where}: expected a list for {key}, got {_shown(value)}")
    return cast("list[object]", value)


def _word(content: JsonObject, key: str, prefix: str, where: str) -> str:
    value = content.get(key)
    if not isinstance(value, str) or not _is_name(value):
        raise InvalidEquationError(f"{where}: expected a name for {key}, got {_shown(value)}")
    return value.removeprefix(prefix)


def _integer(content: JsonObject, key: str, where: str) -> int:
    value = content.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value < _LARGEST:
        raise InvalidEquationError(f"{where}: expected a 32-bit integer for {key}, got {_shown(value)}")
    return value


def _is_name(text: str) -> bool:
    """Whether the text can be shown as a name."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def _shown(value: object) -> str:
    if not isinstance(value, str | int | float):
        return {"NoneType": "nothing", "dict": "an object", "list": "a list"}[type(value).__name__]
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
