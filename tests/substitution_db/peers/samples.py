"""Rules as peers write them: a small notation, and files of it in TASO's and FlexFlow's format.

``"CONV2D(-1, -2) ACTI=2"`` is an operator that reads inputs 1 and 2 of the rule; ``"RELU(0)"`` reads
operator 0 of its side and ``"RELU(0:1)"`` its second output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from superopt.journeys.library.peers.taso import OPERATOR_TYPES, PARAMETER_KEYS, collection_class

CONV = "KERNEL_H=3 KERNEL_W=3 STRIDE_H=1 STRIDE_W=1 PAD=0 ACTI={}"
_OPERATOR = re.compile(r"(\w+)\(([^)]*)\)((?: \w+=-?\d+)*)")


@dataclass(frozen=True)
class Rule:
    """A rule in the notation; ``outputs`` are (operator, output, operator, output) of source and target."""

    source: Sequence[str]
    target: Sequence[str]
    outputs: Sequence[tuple[int, int, int, int]] = field(default=())
    name: str = ""

    @property
    def mapped(self) -> Sequence[tuple[int, int, int, int]]:
        """The outputs; without any, the last operators' first ones."""
        return self.outputs or ((len(self.source) - 1, 0, len(self.target) - 1, 0),)


def parsed(operator: str) -> tuple[str, list[tuple[int, int]], dict[str, int]]:
    """Kind, inputs and parameters."""
    match = _OPERATOR.fullmatch(operator)
    assert match, operator
    kind, inputs, parameters = match.groups()
    tensors = [
        tuple(map(int, f"{text.strip()}:0".split(":")[:2])) for text in inputs.split(",") if text.strip()
    ]
    said = dict(pair.split("=") for pair in parameters.split())
    return kind, [(a, b) for a, b in tensors], {key: int(value) for key, value in said.items()}


def taso_bytes(rules: Iterable[Rule]) -> bytes:
    """The rules as a TASO file."""
    collection = collection_class()()
    for rule in rules:
        message = collection.rule.add()
        for operators, side in ((rule.source, message.srcOp), (rule.target, message.dstOp)):
            for text in operators:
                kind, inputs, parameters = parsed(text)
                operator = side.add(type=OPERATOR_TYPES.index(kind))
                for op, ts in inputs:
                    operator.input.add(opId=op, tsId=ts)
                for key, value in parameters.items():
                    operator.para.add(key=PARAMETER_KEYS.index(key), value=value)
        for a, b, c, d in rule.mapped:
            message.mappedOutput.add(srcOpId=a, srcTsId=b, dstOpId=c, dstTsId=d)
    return collection.SerializeToString()


def flexflow_object(rules: Iterable[Rule]) -> Mapping[str, object]:
    """The rules as FlexFlow's JSON."""

    def operator(text: str) -> Mapping[str, object]:
        kind, inputs, parameters = parsed(text)
        return {
            "_t": "Operator",
            "type": f"OP_{kind}",
            "input": [{"_t": "Tensor", "opId": op, "tsId": ts} for op, ts in inputs],
            "para": [{"_t": "Parameter", "key": f"PM_{k}", "value": v} for k, v in parameters.items()],
        }

    return {
        "_t": "RuleCollection",
        "rule": [
            {
                "_t": "Rule",
                "name": rule.name,
                "srcOp": [operator(text) for text in rule.source],
                "dstOp": [operator(text) for text in rule.target],
                "mappedOutput": [
                    {"_t": "MapOutput", "srcOpId": a, "srcTsId": b, "dstOpId": c, "dstTsId": d}
                    for a, b, c, d in rule.mapped
                ],
            }
            for rule in rules
        ],
    }


def taso_file(path: Path, *rules: Rule) -> Path:
    """Writes a TASO file."""
    path.write_bytes(taso_bytes(rules))
    return path


def flexflow_file(path: Path, *rules: Rule) -> Path:
    """Writes a FlexFlow file."""
    path.write_text(json.dumps(flexflow_object(rules)))
    return path
