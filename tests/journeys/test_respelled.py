"""Nodes that the runtime runs slower than what they are made of, through a whole job and its replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from superopt.cli.main import run
from tests.conftest import WithLibrary
from tests.onnx_io.kit import assert_same_results, model, node, operators, value

SHAPE = (64, 256)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    return tmp_path / "model.onnx"


def test_an_einsum_of_elements_becomes_a_product(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than a hundred times as fast, so that one decides on any machine."""
    nodes = [
        node("Tanh", "x", "a"),
        node("Einsum", "a w", "b", equation="bi,bi->bi"),
        node("Sigmoid", "b", "y"),
    ]
    given = model(nodes, [value("x", SHAPE), value("w", SHAPE)], [value("y", SHAPE)]).SerializeToString()
    path.write_bytes(given)
    out, report, again = (path.with_name(name) for name in ("out.onnx", "report.json", "again.onnx"))
    options = ("--report", str(report), "--budget", "20", "--threads", "1")
    assert run(["optimize", str(path), "-o", str(out), *options]) == 0
    assert operators(out.read_bytes()) == "Tanh Mul Sigmoid"
    assert_same_results(given, out.read_bytes())
    told = json.loads(report.read_text())
    assert told["returned"] == "optimized"
    (step,) = told["trace"]
    assert (step["kind"], step["rule"]) == ("canonicalise", "Einsum as the operators that it is made of")
    capsys.readouterr()
    assert run(["replay", str(path), str(report), "-o", str(again)]) == 0
    assert again.read_bytes() == out.read_bytes()


def test_a_node_that_is_named_stays(path: Path) -> None:
    named = node("Einsum", "x w", "y", equation="bi,bi->bi")
    named.name = "product"
    inputs = [value("x", SHAPE), value("w", SHAPE)]
    path.write_bytes(model([named], inputs, [value("y", SHAPE)]).SerializeToString())
    out = path.with_name("out.onnx")
    options = ("--keep", "product", "--budget", "10", "--threads", "1")
    assert run(["optimize", str(path), "-o", str(out), *options]) == 0
    assert out.read_bytes() == path.read_bytes()
