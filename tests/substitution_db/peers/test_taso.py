"""TASO's format: what its rules mean here, and what is no rule."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from superopt.equations import format_equation
from superopt.errors import InvalidFileError
from superopt.journeys.library.peers import Claim, Inexpressible, Malformed, PeerFormat, format_of, read_rules
from superopt.journeys.library.peers.taso import collection_class, read_taso
from tests.substitution_db.peers.samples import CONV, Rule, taso_bytes, taso_file

NONE, RELU, TANH = (CONV.format(acti) for acti in (0, 2, 3))
POOL = "KERNEL_H=3 KERNEL_W=2 STRIDE_H=2 STRIDE_W=1 PAD=1 ACTI=0"
JOINED = "AXIS=0 NUMDIM=2 NUM_INPUTS=2"

MEANING = {
    "matrices": (
        Rule(
            ["MATMUL(-1, -2) ACTI=0", "MATMUL(0, -3) ACTI=2"],
            ["MATMUL(-2, -3) ACTI=0", "MATMUL(-1, 0) ACTI=2"],
        ),
        "relu(matmul(matmul(x, y), z)) => relu(matmul(x, matmul(y, z)))",
    ),
    "axes of matrices are negative, and the file says the rank": (
        Rule([f"CONCAT(-1, -2) {JOINED}", "RELU(0)"], ["RELU(-1)", "RELU(-2)", f"CONCAT(0, 1) {JOINED}"]),
        "relu(concat[axis=-2](x, y)) => concat[axis=-2](relu(x), relu(y)) where rank(x) = 2, rank(y) = 2",
    ),
    "a convolution says the size of its kernel and its activation": (
        Rule([f"CONV2D(-1, -2) {NONE}", "RELU(0)"], [f"CONV2D(-1, -2) {RELU}"]),
        (
            "relu(conv[padding=same](x, y)) => conv[padding=same, activation=relu](x, y) "
            "where dim(y, 2) = 3, dim(y, 3) = 3"
        ),
    ),
    "the kernels of a sum and of a concat are those of its parts": (
        Rule(
            ["EW_ADD(-2, -3)", "CONCAT(0, -4) AXIS=0 NUMDIM=4", f"CONV2D(-1, 1) {TANH}"],
            ["EW_ADD(-3, -2)", "CONCAT(0, -4) AXIS=0 NUMDIM=4", f"CONV2D(-1, 1) {TANH}"],
        ),
        (
            "conv[padding=same, activation=tanh](x, concat[axis=0](add(y, z), w)) => "
            "conv[padding=same, activation=tanh](x, concat[axis=0](add(z, y), w)) where dim(w, 2) = 3, dim(w, 3) = 3, "
            "dim(y, 2) = 3, dim(y, 3) = 3, dim(z, 2) = 3, dim(z, 3) = 3"
        ),
    ),
    "average pooling counts padding": (
        Rule(
            ["POOL2D_AVG(-1) KERNEL_H=3 KERNEL_W=3 STRIDE_H=1 STRIDE_W=1 PAD=0 ACTI=0"],
            ["CONSTANT_POOL() KERNEL_H=3 KERNEL_W=3", "CONV2D(-1, 0) STRIDE_H=1 STRIDE_W=1 PAD=0 ACTI=0"],
        ),
        "avgpool[kernel=3, padding=same, includes_padding=1](x) => conv[padding=same](x, avgpool_kernel[kernel=3])",
    ),
    "pooling with an activation is followed by it": (
        Rule([f"POOL2D_MAX(-1) {POOL[:-1]}1"], [f"POOL2D_MAX(-1) {POOL}", "SIGMOID(0)"]),
        "sigmoid(maxpool[kernel=(3, 2), stride=(2, 1)](x)) => sigmoid(maxpool[kernel=(3, 2), stride=(2, 1)](x))",
    ),
    "the halves of a split are two outputs": (
        Rule(
            ["RELU(-1)", "RELU(-2)"],
            ["CONCAT(-1, -2) AXIS=1 NUMDIM=4", "RELU(0)", "SPLIT(1) AXIS=1 NUM_OUTPUTS=2"],
            [(0, 0, 2, 0), (1, 0, 2, 1)],
        ),
        (
            "(relu(x), relu(y)) => (split0[axis=1](relu(concat[axis=1](x, y))), "
            "split1[axis=1](relu(concat[axis=1](x, y)))) where rank(x) = 4, rank(y) = 4"
        ),
    ),
    "three pieces, three operands": (
        Rule(
            ["CONCAT(-1, -2, -3) AXIS=0 NUMDIM=2 NUM_INPUTS=3", "SPLIT(0) AXIS=0 NUM_OUTPUTS=3", "RELU(1:1)"],
            ["RELU(-2)"],
        ),
        (
            "relu(split0[axis=-2](split1[axis=-2](concat[axis=-2](concat[axis=-2](x, y), z)))) => relu(y) "
            "where rank(x) = 2, rank(y) = 2, rank(z) = 2"
        ),
    ),
    "a permutation is a number to the base of the rank": (
        Rule(
            ["TRANSPOSE(-1) NUMDIM=2 PERM=2 OUTSHUFFLE=1", "TRANSPOSE(-2) NUMDIM=3 PERM=15 OUTSHUFFLE=0"],
            ["TRANSPOSE(-1) NUMDIM=2 PERM=2 OUTSHUFFLE=0", "TRANSPOSE(-2) NUMDIM=3 PERM=15 OUTSHUFFLE=0"],
            [(0, 0, 0, 0), (1, 0, 1, 0)],
        ),
        (
            "(transpose(x), transpose[perm=(1, 2, 0)](y)) => (transpose(x), transpose[perm=(1, 2, 0)](y)) "
            "where rank(x) = 2, rank(y) = 3"
        ),
    ),
    "constants": (
        Rule(
            ["CONSTANT_IMM()", "MATMUL(-1, 0) ACTI=0", "CONSTANT_ONE()", "EW_MUL(1, 2)", "MUL(3, -5)"],
            ["MUL(-1, -5)"],
        ),
        "scale(mul(matmul(x, identity_matrix()), ones()), y) => scale(x, y) where rank(x) = 2",
    ),
    "the identity kernel": (
        Rule(["CONSTANT_ICONV() KERNEL_H=3 KERNEL_W=3", f"CONV2D(-1, 0) {NONE}"], [], [(1, 0, -1, 0)]),
        "conv[padding=same](x, identity_kernel[kernel=3]) => x",
    ),
    "an enlarged kernel": (
        Rule(
            [f"CONV2D(-1, -2) {NONE.replace('KERNEL_H=3', 'KERNEL_H=1')}"],
            ["ENLARGE(-2) KERNEL_H=3 KERNEL_W=3", f"CONV2D(-1, 0) {NONE}"],
        ),
        "conv[padding=same](x, y) => conv[padding=same](x, enlarge[kernel=3](y)) where dim(y, 2) = 1, dim(y, 3) = 3",
    ),
    "groups": (
        Rule([f"CONV2D(-1, -2) {NONE} GROUP=2", "RELU(0)"], [f"CONV2D(-1, -2) {RELU} GROUP=2"]),
        (
            "relu(conv[padding=same](x, y)) => conv[padding=same, activation=relu](x, y) "
            "where dim(y, 2) = 3, dim(y, 3) = 3, groups(x, y) = 2"
        ),
    ),
    "the target may be an input; outputs of an input are told apart": (
        Rule(["EW_ADD(-1, -1:1)", "DROPOUT(0)", "RELU(-1)", "EW_MUL(-1, 1)"], [], [(3, 0, -1, 1)]),
        "mul(x, identity(add(x, y))) => y",
    ),
}


@pytest.mark.parametrize("case", MEANING)
def test_meaning(case: str, tmp_path: Path) -> None:
    rule, expected = MEANING[case]
    (read,) = read_taso(taso_file(tmp_path / "rules.pb", rule))
    assert isinstance(read.reading, Claim), read.reading
    assert format_equation(read.reading.written) == expected
    general = read.reading.general
    assert format_equation(general) == expected.partition(" where ")[0]
    assert (read.index, read.name) == (0, "rule 0")


R = ["RELU(-1)"]
MALFORMED = {
    "the target uses input -2, which the source lacks": Rule(R, ["EW_ADD(-1, -2)"]),
    "the target uses input -1:1, which the source lacks": Rule(R, ["RELU(-1:1)"]),
    "the target uses input -7, which the source lacks": Rule(R, [], [(0, 0, -7, 0)]),
    "the target uses input -2, on which no mapped output of the source depends": Rule(
        ["RELU(-2)", "RELU(-1)"], ["EW_ADD(-1, -2)"], [(1, 0, 0, 0)]
    ),
    "operator 0 of the source, INPUT: an input is written as a negative opId": Rule(["INPUT()"], R),
    "operator 0 of the source, CONV2D: lacks STRIDE_W, PAD": Rule(["CONV2D(-1, -2) STRIDE_H=1 ACTI=0"], R),
    "operator 0 of the target, MATMUL: lacks ACTI": Rule(["EW_ADD(-1, -2)"], ["MATMUL(-1, -2)"]),
    "operator 0 of the source, EW_ADD: expected 2 inputs, got 1": Rule(["EW_ADD(-1)"], R),
    "operator 0 of the source, CONCAT: expected NUM_INPUTS 3 inputs, got 2": Rule(
        ["CONCAT(-1, -2) AXIS=0 NUMDIM=2 NUM_INPUTS=3"], R
    ),
    "operator 0 of the source, CONCAT: AXIS 2 is out of range for 2 dimensions": Rule(
        ["CONCAT(-1, -2) AXIS=2 NUMDIM=2"], R
    ),
    "operator 0 of the source, CONCAT: expected AXIS from 0 to 15, got -1": Rule(
        ["CONCAT(-1, -2) AXIS=-1 NUMDIM=2"], R
    ),
    "operator 0 of the source, POOL2D_MAX: expected STRIDE_H at least 1, got 0": Rule(
        [f"POOL2D_MAX(-1) {POOL.replace('STRIDE_H=2', 'STRIDE_H=0')}"], R
    ),
    "operator 0 of the source, MATMUL: expected ACTI from 0 to 3, got 4": Rule(["MATMUL(-1, -2) ACTI=4"], R),
    "operator 0 of the source, TRANSPOSE: PERM 3 is not a permutation of 2 axes": Rule(
        ["TRANSPOSE(-1) NUMDIM=2 PERM=3"], R
    ),
    "operator 0 of the source, TRANSPOSE: PERM 6 is not a permutation of 2 axes": Rule(
        ["TRANSPOSE(-1) NUMDIM=2 PERM=6"], R
    ),
    "operator 0 of the source, RELU: reads operator 1, the source has 1": Rule(["RELU(1)"], R),
    "operator 1 of the source, RELU: reads output 1 of operator 0, which has 1": Rule(
        ["RELU(-1)", "RELU(0:1)"], R
    ),
    "the source is cyclic: operator 0 depends on itself": Rule(["RELU(0)"], R),
    "the target is cyclic: operator 1 depends on itself": Rule(
        R, ["RELU(-1)", "EW_ADD(0, 2)", "RELU(1)", "RELU(2)"]
    ),
    "no output of the source is mapped": Rule([], []),
    "mapped output 0: is mapped from input -1, not from an operator": Rule(R, R, [(-1, 0, 0, 0)]),
    "mapped output 0: reads operator 3, the source has 1": Rule(R, R, [(3, 0, 0, 0)]),
    "mapped output 0: reads output 1 of operator 0, which has 1": Rule(R, R, [(0, 0, 0, 1)]),
    "mapped output 1: output 0 of the source is mapped twice": Rule(
        R, ["RELU(-1)", "TANH(-1)"], [(0, 0, 0, 0), (0, 0, 1, 0)]
    ),
    "an output of the source is an input as it is, which matches everything": Rule(
        ["CONCAT(-1) AXIS=0 NUMDIM=2", "SPLIT(0) AXIS=0 NUM_OUTPUTS=1"], R
    ),
    "one tensor has 2 dimensions and 4": Rule(
        ["CONCAT(-1, -2) AXIS=0 NUMDIM=2", f"POOL2D_MAX(0) {POOL}"], ["POOL2D_MAX(-1) " + POOL]
    ),
}


@pytest.mark.parametrize("reason", MALFORMED)
def test_malformed(reason: str, tmp_path: Path) -> None:
    rule = MALFORMED[reason]
    outputs = rule.outputs or ([(len(rule.source) - 1, 0, len(rule.target) - 1, 0)] if rule.source else [])
    message = collection_class()()
    message.ParseFromString(taso_bytes([Rule(rule.source, rule.target, outputs or [(9, 9, 9, 9)])]))
    if not outputs:
        del message.rule[0].mappedOutput[:]
    (tmp_path / "rules.pb").write_bytes(message.SerializeToString())
    (read,) = read_taso(tmp_path / "rules.pb")
    assert isinstance(read.reading, Malformed)
    assert read.reading.reason.startswith(reason)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (Rule(["RESHAPE(-1)"], R), "the format does not say to what shape RESHAPE leads"),
        (Rule(["BATCHNORM(-1, -2, -3)"], R), "the format does not say which input of BATCHNORM is what"),
        (Rule(["ANY(-1)"], R), "ANY stands for every operator"),
        (
            Rule(
                [f"CONV2D(-1, -2) {NONE}"], ["MERGE_GCONV(-2) MERGE_GCONV_COUNT=2", f"CONV2D(-1, 0) {NONE}"]
            ),
            "no operator here merges the groups of a kernel",
        ),
        (Rule(["ENLARGE(-1, -2) KERNEL_H=3 KERNEL_W=3"], R), "ENLARGE takes its size from a second tensor"),
        (
            Rule([f"POOL2D_MAX(-1) {POOL.replace('KERNEL_H=3', 'KERNEL_H=70000')}"], R),
            "POOL2D_MAX: a window of 70000 is not judged, at most 64",
        ),
        (
            Rule(["RELU(-1)", *(f"RELU({i})" for i in range(64))], R),
            "the source has 65 operators, more than 64 are not judged",
        ),
        (
            Rule(["EW_ADD(-1, -1)", *(f"EW_ADD({i}, {i})" for i in range(60))], R),
            "the source written out has more than 300 operators",
        ),
    ],
)
def test_inexpressible(rule: Rule, reason: str, tmp_path: Path) -> None:
    (read,) = read_taso(taso_file(tmp_path / "rules.pb", rule))
    assert read.reading == Inexpressible(reason)


def _with(field: str, path: str) -> bytes:
    """A rule of which one field is missing."""
    message = collection_class()()
    message.ParseFromString(
        taso_bytes([Rule(["CONCAT(-1, -2) AXIS=0 NUMDIM=2"], ["CONCAT(-1, -2) AXIS=0 NUMDIM=2"])])
    )
    part = message.rule[0]
    for name in path.split("."):
        part = getattr(part, name)[0]
    part.ClearField(field)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (_with("type", "srcOp"), "operator 0 of the source has no type"),
        (_with("opId", "dstOp.input"), "operator 0 of the target: input 0 has no opId"),
        (_with("tsId", "srcOp.input"), "operator 0 of the source: input 0 has no tsId"),
        (_with("key", "srcOp.para"), "operator 0 of the source: a parameter has no key"),
        (_with("value", "srcOp.para"), "operator 0 of the source: AXIS has no value"),
        (_with("dstOpId", "mappedOutput"), "mapped output 0 has no dstOpId"),
        (b"\x0a\x04\x0a\x02\x08\x1a", "operator 0 of the source: unknown operator type 26"),
        (
            b"\x0a\x0d\x0a\x0b\x08" + b"\xff" * 9 + b"\x01",
            "operator 0 of the source: unknown operator type -1",
        ),
        (
            b"\x0a\x0a\x0a\x08\x08\x08\x1a\x04\x08\x0f\x10\x00",
            "operator 0 of the source: unknown parameter 15",
        ),
        (
            b"\x0a\x10\x0a\x0e\x08\x08\x1a\x04\x08\x0b\x10\x00\x1a\x04\x08\x0b\x10\x01",
            "operator 0 of the source: AXIS is given twice",
        ),
        (b"\x0a\x02\x38\x01", "the rule has field 7, which the format does not have"),
        (
            b"\x0a\x06\x0a\x04\x08\x08\x38\x01",
            "operator 0 of the source has field 7, which the format does not have",
        ),
        (b"\x0a\x00", "no output of the source is mapped"),
    ],
)
def test_malformed_messages(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "rules.pb").write_bytes(content)
    (read,) = read_taso(tmp_path / "rules.pb")
    assert isinstance(read.reading, Malformed)
    assert read.reading.reason.startswith(reason)


def test_one_malformed_rule_does_not_hide_the_others(tmp_path: Path) -> None:
    good = Rule(["RELU(-1)", "RELU(0)"], R)
    read = read_taso(taso_file(tmp_path / "rules.pb", good, Rule(["RELU(0)"], R), good))
    assert [type(rule.reading) for rule in read] == [Claim, Malformed, Claim]
    assert [rule.name for rule in read] == ["rule 0", "rule 1", "rule 2"]


FILE = taso_bytes([Rule(["RELU(-1)", "RELU(0)"], R)] * 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a rule file of TASO: it is no list of rules"),
        (FILE[:-3], "not a rule file of TASO: damaged"),
        (b"This is text, many lines of it.\n" * 9, "not a rule file of TASO"),
        (np.random.default_rng(3).bytes(4096), "not a rule file of TASO"),
        (b"\x12\x02\x08\x01", "it is no list of rules"),
        (FILE + b"\x10\x01", "it is no list of rules"),
        (b"\x0a\x00" * 100_001, "expected at most 100000 rules, got 100001"),
        (b"\x0a\x00" * 8_000_001, "expected at most 16000000 bytes, got 16000002"),
    ],
)
def test_what_is_no_rule_file_of_taso(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rules.pb"
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=message):
        read_taso(path)


def test_damaged_anywhere(tmp_path: Path) -> None:
    """Whatever byte is cut off or changed: rules, or one error of ours."""
    generator = np.random.default_rng(5)
    path = tmp_path / "rules.pb"
    for trial in range(300):
        content = bytearray(FILE)
        if trial % 2:
            content[generator.integers(len(content))] = generator.integers(256)
        else:
            del content[generator.integers(len(content)) :]
        path.write_bytes(bytes(content))
        try:
            read_taso(path)
        except InvalidFileError:
            continue


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.pb", tmp_path):
        with pytest.raises(InvalidFileError, match="cannot be read"):
            read_taso(path)


def test_formats_by_name(tmp_path: Path) -> None:
    names = {"a.pb": "taso", "a.JSON": "flexflow", "a.jsonl": "jsonl", "a.txt": "text", "a": "text"}
    assert {name: str(format_of(Path(name))) for name in names} == names
    (rule,) = read_rules(taso_file(tmp_path / "rules", Rule(R, R)), PeerFormat.TASO)
    assert isinstance(rule.reading, Claim)
