"""FlexFlow's format: dimensions from the innermost, linear layers, parallel operators, and what is no rule."""

# ruff: noqa: E501

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from superopt.equations import format_equation
from superopt.errors import InvalidFileError
from superopt.journeys.library.peers import Claim, Inexpressible, Malformed
from superopt.journeys.library.peers.flexflow import read_flexflow
from tests.substitution_db.peers.samples import CONV, Rule, flexflow_file, flexflow_object

INNER = "NUM_INPUTS=2 AXIS=0 NUMDIM=3"
SECOND = "NUM_INPUTS=2 AXIS=1 NUMDIM=3"
SPREAD = "PARALLEL_DIM=1 PARALLEL_DEGREE=2"


@pytest.mark.parametrize(
    ("rule", "equation"),
    [
        (
            Rule(
                ["LINEAR(-1, -4) ACTI=2", "LINEAR(-2, -4) ACTI=2", f"CONCAT(0, 1) {SECOND}"],
                [f"CONCAT(-1, -2) {SECOND}", "LINEAR(0, -4) ACTI=2"],
            ),
            "concat[axis=-2](relu(matmul(x, y)), relu(matmul(z, y))) => relu(matmul(concat[axis=-2](x, z), y)) where rank(y) = 2",
        ),
        (
            Rule(
                ["LINEAR(-1, -4) ACTI=0", "LINEAR(-1, -5) ACTI=0"],
                [f"CONCAT(-4, -5) {INNER}", "LINEAR(-1, 0) ACTI=0", "SPLIT(1) NUM_OUTPUTS=2 AXIS=0"],
                [(0, 0, 2, 0), (1, 0, 2, 1)],
            ),
            (
                "(matmul(x, y), matmul(x, z)) => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), "
                "split1[axis=-1](matmul(x, concat[axis=-1](y, z)))) where rank(y) = 2, rank(z) = 2"
            ),
        ),
        (
            Rule(["LINEAR(-1, -4, -5) ACTI=3"], ["LINEAR(-1, -4, -5) ACTI=0", "TANH(0)"]),
            "tanh(bias_add[axis=-1](matmul(x, y), z)) => tanh(bias_add[axis=-1](matmul(x, y), z)) where rank(y) = 2, rank(z) = 1",
        ),
        (
            Rule(["EW_MUL(-1, -2)", "EW_ADD(0, -3)"], ["EW_MUL(-2, -1)", "EW_ADD(-3, 0)"]),
            "add(mul(x, y), z) => add(z, mul(y, x))",
        ),
        (
            Rule(["TRANSPOSE(-1) NUMDIM=3 PERM=15 OUTSHUFFLE=0"], ["TRANSPOSE(-1) NUMDIM=3 PERM=15"]),
            "transpose[perm=(2, 0, 1)](x) => transpose[perm=(2, 0, 1)](x)",
        ),
    ],
)
def test_meaning(rule: Rule, equation: str, tmp_path: Path) -> None:
    (read,) = read_flexflow(flexflow_file(tmp_path / "rules.json", rule))
    assert isinstance(read.reading, Claim), read.reading
    assert format_equation(read.reading.written) == equation


DIVIDED = {
    "axes are counted from the inside, and copies have none": (
        Rule(
            [
                "PARTITION(-1) PARALLEL_DIM=2 PARALLEL_DEGREE=4",
                "REPLICATE(-2) PARALLEL_DIM=1 PARALLEL_DEGREE=4",
                "MATMUL(0, 1) ACTI=1",
            ],
            ["MATMUL(-1, -2) ACTI=1", "PARTITION(0) PARALLEL_DIM=2 PARALLEL_DEGREE=4"],
        ),
        (
            "sigmoid(matmul(partition[axis=-3, degree=4](x), replicate[degree=4](y))) "
            "=> partition[axis=-3, degree=4](sigmoid(matmul(x, y)))"
        ),
    ),
    "those of images and vectors are written from the outside, as in axioms": (
        Rule(
            [
                f"CONV2D(-1, -2) {CONV.format(0)}",
                "COMBINE(-3) PARALLEL_DIM=0 PARALLEL_DEGREE=2",
                "LINEAR(-4, -5, 1) ACTI=0",
            ],
            [
                "PARTITION(-1) PARALLEL_DIM=2 PARALLEL_DEGREE=2",
                "PARTITION(-2) PARALLEL_DIM=2 PARALLEL_DEGREE=2",
                f"CONV2D(0, 1) {CONV.format(0)}",
                "REDUCE(2) PARALLEL_DIM=4 PARALLEL_DEGREE=2",
                "COMBINE(-3) PARALLEL_DIM=0 PARALLEL_DEGREE=2",
                "LINEAR(-4, -5, 4) ACTI=0",
            ],
            [(0, 0, 3, 0), (2, 0, 5, 0)],
        ),
        (
            "(conv[padding=same](x, y), bias_add[axis=-1](matmul(z, w), combine[axis=0, degree=2](u))) "
            "=> (reduce[degree=2](conv[padding=same](partition[axis=1, degree=2](x), partition[axis=1, degree=2](y))), "
            "bias_add[axis=-1](matmul(z, w), combine[axis=0, degree=2](u))) "
            "where dim(y, 2) = 3, dim(y, 3) = 3, rank(u) = 1, rank(w) = 2"
        ),
    ),
    "kernels and groups are those of the undivided tensors": (
        Rule(
            [
                "PARTITION(-1) PARALLEL_DIM=3 PARALLEL_DEGREE=2",
                "REPLICATE(-2) PARALLEL_DIM=4 PARALLEL_DEGREE=2",
                f"CONV2D(0, 1) {CONV.format(2)} GROUP=2",
            ],
            [f"CONV2D(-1, -2) {CONV.format(2)} GROUP=2", "PARTITION(0) PARALLEL_DIM=3 PARALLEL_DEGREE=2"],
        ),
        (
            "conv[padding=same, activation=relu](partition[axis=0, degree=2](x), replicate[degree=2](y)) "
            "=> partition[axis=0, degree=2](conv[padding=same, activation=relu](x, y)) "
            "where dim(y, 2) = 3, dim(y, 3) = 3, groups(x, y) = 2"
        ),
    ),
    "a degree of 1 divides nothing": (
        Rule(
            [
                "PARTITION(-1) PARALLEL_DIM=0 PARALLEL_DEGREE=1",
                "SOFTMAX(0) SOFTMAX_DIM=1",
                "REDUCE(1) PARALLEL_DIM=0 PARALLEL_DEGREE=1",
            ],
            ["SOFTMAX(-1) SOFTMAX_DIM=1"],
        ),
        "softmax[axis=-2](x) => softmax[axis=-2](x)",
    ),
}


@pytest.mark.parametrize("case", DIVIDED)
def test_divided_tensors(case: str, tmp_path: Path) -> None:
    rule, equation = DIVIDED[case]
    (read,) = read_flexflow(flexflow_file(tmp_path / "rules.json", rule))
    assert isinstance(read.reading, Claim), read.reading
    assert format_equation(read.reading.written) == equation


@pytest.mark.parametrize("kind", ["PARTITION", "COMBINE", "REPLICATE", "REDUCE"])
def test_divided_rules_must_be_rules(kind: str, tmp_path: Path) -> None:
    rules = (
        Rule([f"{kind}(-1) {SPREAD}"], ["RELU(-2)"], name="lacking"),
        Rule([f"{kind}(-1) PARALLEL_DIM=1", "RELU(0)"], ["RELU(-1)"]),
        Rule([f"{kind}(-1, -2) {SPREAD}", "RELU(0)"], ["RELU(-1)"]),
        Rule([f"{kind}(-1) PARALLEL_DIM=0 PARALLEL_DEGREE=1"], ["RELU(-1)"]),
        Rule([f"{kind}(-1) PARALLEL_DIM=0 PARALLEL_DEGREE=128"], ["RELU(-1)"]),
    )
    read = read_flexflow(flexflow_file(tmp_path / "rules.json", *rules))
    assert [rule.name for rule in read][:2] == ["lacking", "rule 1"]
    assert [rule.reading for rule in read] == [
        Malformed("the target uses input -2, which the source lacks"),
        Malformed(f"operator 0 of the source, {kind}: lacks PARALLEL_DEGREE"),
        Malformed(f"operator 0 of the source, {kind}: expected 1 inputs, got 2"),
        Malformed("an output of the source is an input as it is, which matches everything"),
        Inexpressible("the source multiplies degrees to 128, more than 64 are not judged"),
    ]


def test_what_divides_replicas_is_not_said_in_equations(tmp_path: Path) -> None:
    rule = Rule(
        [f"PARTITION(-4) {SPREAD.replace('DIM=1', 'DIM=2')}", "LINEAR(-1, 0) ACTI=0"],
        ["LINEAR(-1, -4) ACTI=0"],
    )
    (read,) = read_flexflow(flexflow_file(tmp_path / "rules.json", rule))
    assert read.reading == Inexpressible("dimension 2 of a tensor with 2 is that of its replicas")


Change = Callable[[dict[str, Any]], object]
MALFORMED: dict[str, Change] = {
    "the rule: expected a list for srcOp, got nothing": lambda rule: rule.pop("srcOp"),
    "the rule: expected a list for dstOp, got an object": lambda rule: rule.update(dstOp={}),
    "the rule: expected a list for mappedOutput, got 3": lambda rule: rule.update(mappedOutput=3),
    "operator 0 of the source: expected a JSON object, got str": lambda rule: rule.update(srcOp=["RELU"]),
    "operator 0 of the source: expected a name for type, got 8": lambda rule: rule["srcOp"][0].update(type=8),
    'operator 0 of the source: expected a name for type, got "\\u001b[2J"': lambda rule: rule["srcOp"][
        0
    ].update(type="\x1b[2J"),
    "operator 0 of the source, FLAT: unknown operator type": lambda rule: rule["srcOp"][0].update(
        type="OP_FLAT"
    ),
    "operator 0 of the source: input 1: expected a JSON object, got int": lambda rule: rule["srcOp"][
        0
    ].update(input=[{"opId": -1, "tsId": 0}, 4]),
    "operator 0 of the source: input 0: expected a 32-bit integer for opId, got true": lambda rule: rule[
        "srcOp"
    ][0].update(input=[{"opId": True, "tsId": 0}]),
    "operator 0 of the source: input 0: expected a 32-bit integer for tsId, got 0.5": lambda rule: rule[
        "srcOp"
    ][0].update(input=[{"opId": -1, "tsId": 0.5}]),
    "operator 0 of the source: input 0: expected a 32-bit integer for opId, got -99999999999999999999": (
        lambda rule: rule["srcOp"][0].update(input=[{"opId": -99999999999999999999, "tsId": 0}])
    ),
    'operator 0 of the source: AXIS: expected a 32-bit integer for value, got "0"': lambda rule: rule[
        "srcOp"
    ][0].update(para=[{"key": "PM_AXIS", "value": "0"}]),
    "operator 0 of the source: AXIS is given twice": lambda rule: rule["srcOp"][0].update(
        para=[{"key": "PM_AXIS", "value": 0}] * 2
    ),
    "operator 0 of the source, CONCAT: unknown parameter SIZE": lambda rule: rule["srcOp"][0]["para"].append(
        {"key": "PM_SIZE", "value": 0}
    ),
    "mapped output 0: expected a 32-bit integer for dstTsId, got nothing": lambda rule: rule["mappedOutput"][
        0
    ].pop("dstTsId"),
}


@pytest.mark.parametrize("reason", MALFORMED)
def test_malformed(reason: str, tmp_path: Path) -> None:
    good = Rule([f"CONCAT(-1, -2) {INNER}"], [f"CONCAT(-1, -2) {INNER}"])
    document: Any = copy.deepcopy(flexflow_object([good, good]))
    MALFORMED[reason](document["rule"][0])
    (tmp_path / "rules.json").write_text(json.dumps(document))
    first, second = read_flexflow(tmp_path / "rules.json")
    assert first.reading == Malformed(reason)
    assert isinstance(second.reading, Claim)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"rule": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[]", "expected a JSON object, got list"),
        (b"{}", "not a rule file of FlexFlow"),
        (b'{"rule": {}}', "not a rule file of FlexFlow"),
        (b'{"_t": "Rule", "rule": []}', "not a rule file of FlexFlow"),
        (b'{"rule": [' + b"1," * 100_000 + b"1]}", "expected at most 100000 rules, got 100001"),
        (b" " * 64_000_001, "expected at most 64000000 bytes, got 64000001"),
    ],
)
def test_what_is_no_rule_file_of_flexflow(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=message):
        read_flexflow(path)


def test_odd_files_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text('{"rule": [3, null, {"name": "a\\u001b[2J"}, {"name": 7}, {"name": "' + "a" * 81 + '"}]}')
    read = read_flexflow(path)
    assert [rule.name for rule in read] == ["rule 0", "rule 1", "rule 2", "rule 3", "rule 4"]
    assert all(isinstance(rule.reading, Malformed) for rule in read)
    path.write_text('{"_t": "RuleCollection", "rule": []}')
    assert read_flexflow(path) == ()
