"""The journey of docs/own-rules.md: a rule that a user wrote is proved, and makes a model cheaper."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from superopt.cli.main import run
from tests.conftest import WithLibrary

PAGE = Path(__file__).parents[2] / "docs" / "own-rules.md"
RULE = "reduce_sum[axis=-1](matmul(x, y)) => matmul(x, reduce_sum[axis=-1](y))"
FALSE = "mul(sigmoid(x), sigmoid(x)) => sigmoid(x)"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sum of the outputs of a dense layer, as the page makes it."""
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    exec(program, {})
    return tmp_path / "scores.onnx"


def test_a_rule_goes_from_text_to_a_cheaper_model(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_library: WithLibrary,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "rules.db"))
    Path("rules.txt").write_text(f"# A reason.\nsum-of-product: {RULE}\nsquared: {FALSE}\n")
    assert run(["library", "import", "rules.txt"]) == 0
    assert "2 new candidates" in capsys.readouterr().out
    assert run(["library", "verify"]) == 0
    assert "2 judged: 1 verified, 1 refuted" in capsys.readouterr().out

    words = ["-o", "out.onnx", "--objective", "flops", "--max-candidates", "100", "--report", "report.json"]
    assert run(["optimize", str(model), *words]) == 0
    report = json.loads(Path("report.json").read_text())
    assert RULE in {step["equation"] for step in report["trace"]}
    assert report["cost"]["after"] * 50 < report["cost"]["before"]
    assert report["equivalence"]["passed"]

    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "elsewhere.db"))
    assert run(["replay", str(model), "report.json", "-o", "again.onnx"]) == 1
    assert "is not among the verified rules" in capsys.readouterr().err
