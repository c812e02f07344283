"""Weights in a file beside the model, called after it."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest

from superopt.cli.main import run
from superopt.errors import InvalidOptionError
from superopt.onnx_io import LoweredModel, load_model
from superopt.onnx_io.files.external import is_external
from tests.conftest import WithLibrary
from tests.onnx_io.kit import assert_same_results, model, node, tensor, value, weight

MODEL = model(
    [node("MatMul", "x w", "a"), node("Add", "a b", "y")],
    [value("x", ["n", 32])],
    [value("y", ["n", 32])],
    [weight("w", 32, 32), tensor("b", [0.5] * 32)],
)


def test_weights_lie_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    LoweredModel.of_source(load_model(MODEL), {}).save_with_data(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    written = onnx.load(path, load_external_data=False)
    assert [is_external(one) for one in written.graph.initializer] == [True, False]
    assert (tmp_path / "net.onnx.data").stat().st_size == 4 * 32 * 32
    assert_same_results(MODEL.SerializeToString(), onnx.load(path).SerializeToString())
    again = tmp_path / "again.onnx"
    LoweredModel.of_source(load_model(path), {}).save_with_data(again)
    assert_same_results(MODEL.SerializeToString(), onnx.load(again).SerializeToString())


def test_a_stream_has_no_place_for_weights() -> None:
    with pytest.raises(InvalidOptionError, match="external-data: expected the path of a file to write, got"):
        LoweredModel.of_source(load_model(MODEL), {}).save_with_data(f"/dev/fd/{os.dup(1)}")


def test_the_command_writes_and_replays_both_files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    with_library: WithLibrary,
) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    given, out, report = (tmp_path / name for name in ("given.onnx", "out.onnx", "r.json"))
    given.write_bytes(MODEL.SerializeToString())
    quick = ("--max-candidates", "0", "--external-data")
    assert run(["optimize", str(given), "-o", str(out), "--report", str(report), *quick]) == 0
    content, data = out.read_bytes(), out.with_name("out.onnx.data").read_bytes()
    assert_same_results(given.read_bytes(), onnx.load(out).SerializeToString())
    out.unlink()
    assert run(["replay", str(given), str(report), "-o", str(out)]) == 0
    assert (out.read_bytes(), out.with_name("out.onnx.data").read_bytes()) == (content, data)
    assert run(["optimize", str(given), "-o", "-", *quick]) == 2
    assert "external-data: weights go to a file beside the model" in capsys.readouterr().err
