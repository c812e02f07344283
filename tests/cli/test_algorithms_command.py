"""superopt library algorithms: discover, write, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from superopt.cli.main import run

COMMAND = ["library", "algorithms"]


def test_what_is_found_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "algorithms.jsonl"
    arguments = ["--filter", "2,3", "--product", "2,2,2", "--flips", "1000000", "-o", str(path), "--json"]
    assert run([*COMMAND, *arguments]) == 0
    *filters, product = json.loads(capsys.readouterr().out)["algorithms"]
    assert {each["multiplications"] for each in filters} == {4}
    assert (product["map"], product["multiplications"], product["known"]) == ("2x2x2", 7, 7)
    assert run([*COMMAND, "--check", str(path)]) == 0
    assert f"{len(filters) + 1} algorithms compute their maps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--filter", "2"], "--filter 2: expected 2 whole numbers"),
        (["--product", "2,2,x"], "--product 2,2,x: expected 3 whole numbers"),
        (["--filter", "0,3"], "expected sizes of at least 1, got 0"),
        (["--filter", "12,12"], "expected at most 20 multiplications, got 23"),
        (["--product", "2,2,99"], "expected sizes of at most 16, got 99"),
        (["--check", "absent.jsonl"], "absent.jsonl: "),
    ],
)
def test_bad_requests_get_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*COMMAND, *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [["1", "0"], ["0", "2"]]}, "the matrices do not compute F(2,1)"),
        ({"left": [["1", "0"], ["0"]]}, "rows of different lengths"),
        ({"left": [["1", "0"]]}, "matrices with different numbers of rows"),
        ({"left": [["1", "0"], ["0", "1/0"]]}, "no bilinear algorithm"),
        ({"sizes": [2, 1, 1]}, "expected 2 sizes, got 3"),
        ({"sizes": [99999999, 1]}, "expected sizes of at most 16"),
        ({"kind": "other"}, "kind"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(
    changes: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two multiplications for two outputs of one tap, right but for the change."""
    identity = [["1", "0"], ["0", "1"]]
    right = {"kind": "filter", "sizes": [2, 1], "left": identity, "right": [["1"], ["1"]], "result": identity}
    path = tmp_path / "algorithms.jsonl"
    path.write_text("".join(f"{json.dumps({**right, 'provenance': '', **each})}\n" for each in ({}, changes)))
    assert run([*COMMAND, "--check", str(path)]) == 2
    complaint = capsys.readouterr().err
    assert f"{path}:2: " in complaint
    assert message in complaint


def test_rules_that_use_them_are_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--database", f"sqlite:///{tmp_path / 'rules.db'}", "--json"]
    assert run([*COMMAND, "--store", "--product", "1,2,2", "--flips", "1000", *where]) == 0
    assert json.loads(capsys.readouterr().out) == {"new": 1, "known": 0}
    assert run(["library", "list", "--operator", "bilinear_matmul", "--status", "candidate", *where]) == 0
    (rule,) = json.loads(capsys.readouterr().out)
    assert rule["provenance"] == "bilinear, 1x2x2"
