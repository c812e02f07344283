"""``--freeze``: a model for fixed sizes, from the command line, from Python, and back by its report."""
# pyright: reportUnknownMemberType=false
# onnx leaves types out.

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import superopt
from superopt.cli.main import run
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.journeys import in_process, optimize_job
from superopt.journeys.changes.freezing import as_recorded, as_requested
from superopt.journeys.optimize_job import Attached
from superopt.journeys.replay import replay
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.changes.freezing import freeze, frozen_sizes
from superopt.options import Options
from tests.conftest import WithLibrary
from tests.onnx_io.kit import assert_same_results, model, node, operators, tensor, value, weight

QUICK = ("--budget", "60", "--max-candidates", "20", "--objective", "flops", "--threads", "1")

HEADS = model(
    [
        node("Shape", "x", "s"),
        node("Slice", "s first second", "batch"),
        node("Concat", "batch rest", "shape", axis=0),
        node("Reshape", "x shape", "rows"),
        node("MatMul", "rows v", "p"),
        node("MatMul", "p w", "y"),
    ],
    [value("x", ["n", "t"]), value("z", ["n", 1])],
    [value("y", ["n", None, 4])],
    [tensor("first", [0], np.int64), tensor("second", [1], np.int64), tensor("rest", [-1, 8], np.int64),
     weight("v", 8, 64), weight("w", 64, 4)],
)  # fmt: skip
"""Two products, of which the one of the weights is computed in advance, after a reshape to computed sizes."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    path = tmp_path / "heads.onnx"
    path.write_bytes(HEADS.SerializeToString())
    return path


def inputs_file(directory: Path) -> Path:
    path = directory / "inputs.npz"
    np.savez(path, x=np.ones((3, 16), np.float32), z=np.ones((3, 1), np.float32))
    return path


def report_of(path: Path, *options: str) -> dict[str, Any]:
    """The report of ``superopt optimize`` as it is typed; the model is ``out.onnx``."""
    out, report = path.with_name("out.onnx"), path.with_name("report.json")
    assert run(["optimize", str(path), "-o", str(out), "--report", str(report), *QUICK, *options]) == 0
    return json.loads(report.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("candidates", [20, 0])
def test_the_written_model_is_for_these_sizes(
    path: Path, candidates: int, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"n": 3, "t": 16}
    report = report_of(path, "--freeze", "n=3", "--freeze", "t=16", "--max-candidates", str(candidates))
    shown = capsys.readouterr().out
    assert "frozen" in shown
    assert "for n=3 t=16 only" in shown
    out = path.with_name("out.onnx")
    content = out.read_bytes()
    assert set(operators(content).split()) <= {"Reshape", "MatMul"}
    assert_same_results(path.read_bytes(), content, **sizes)
    assert frozen_sizes(onnx.load_from_string(content)) == sizes
    assert report["model"]["frozen"] == report["options"]["freeze"] == sizes
    assert report["model"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (report["model"]["nodes_before"], report["sizes"]["priced"]) == (6, {})
    again = path.with_name("again.onnx")
    assert run(["replay", str(path), str(path.with_name("report.json")), "-o", str(again)]) == 0
    assert again.read_bytes() == content
    assert run(["check", str(path), str(out)]) == 0


def test_what_is_gained_over_the_given_model_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = report_of(path, "--freeze", "n=3", "--freeze", "t=16")["sizes"]["given"]
    assert given["sizes"] == {"n": 3, "t": 16}
    assert 0 < given["low"] <= given["ratio"] <= given["high"]
    assert "times as fast as the model with open sizes" in capsys.readouterr().out
    assert report_of(path, "--dim", "n=3", "--dim", "t=16")["sizes"]["given"] is None


def test_what_is_not_frozen_stays_open(path: Path) -> None:
    report = report_of(path, "--freeze", "t=16", "--dim", "n=3")
    assert (report["model"]["frozen"], report["sizes"]["priced"]) == ({"t": 16}, {"n": 3})
    content = path.with_name("out.onnx").read_bytes()
    for rows in (1, 3, 5):
        assert_same_results(path.read_bytes(), content, n=rows, t=16)


def test_all_sizes_are_those_of_given_inputs(path: Path) -> None:
    report = report_of(path, "--freeze", "all", "--inputs", str(inputs_file(path.parent)))
    assert report["options"]["freeze"] == "all"
    assert report["model"]["frozen"] == {"n": 3, "t": 16}
    replayed = replay(path, report)
    assert replayed.to_bytes() == path.with_name("out.onnx").read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--freeze batch=1", "freeze: the model has no open dimension 'batch'; it has: n, t"),
        ("--freeze all", "freeze: all takes the sizes of given inputs: give --inputs, or NAME=SIZE"),
        ("--freeze n=1 --dim n=2", "dimension n: expected --dim or --freeze, got both"),
        ("--freeze n", "freeze: expected NAME=SIZE, as in batch=8, got 'n'"),
        ("--freeze n=0", "freeze.n: expected a whole number, at least 1 and at most"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(
    path: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["optimize", str(path), "-o", str(path.with_name("out.onnx")), *QUICK, *options.split()]) == 2
    assert f"superopt: {message}" in capsys.readouterr().err


def test_inputs_that_lack_an_array_do_not_say_every_size(path: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.npz"
    np.savez(part, x=np.ones((3, 16), np.float32))
    with pytest.raises(InvalidOptionError, match=r"part.npz does not say the size of z.0$"):
        as_requested(load_model(path), Options(freeze="all", inputs=part))


def test_python_freezes_too(path: Path) -> None:
    result = superopt.optimize(
        path, freeze={"n": 3, "t": 16}, objective="flops", budget=60.0, max_candidates=20, threads=1
    )
    assert result.report.model.frozen == {"n": 3, "t": 16}
    assert_same_results(path.read_bytes(), result.to_bytes(), n=3, t=16)


@pytest.mark.parametrize("candidates", [20, 0])
def test_a_model_with_large_weights_is_frozen_too(
    path: Path, candidates: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights are moved to another file while it is optimised."""
    monkeypatch.setattr(optimize_job, "_LARGE", 1 << 8)
    options: dict[str, object] = {"objective": "flops", "budget": 60.0, "max_candidates": candidates}
    arguments: dict[str, object] = {
        "model": str(path),
        "output": None,
        "options": {**options, "freeze": {"n": 3, "t": 16}},
        "database": os.environ["SUPEROPT_DATABASE_URL"],
        "started": None,
    }
    result = optimize_job.optimized(arguments, lambda _: None)
    assert isinstance(result, Attached)
    out = tmp_path / "out.onnx"
    result.save(out)
    assert frozen_sizes(onnx.load(out)) == {"n": 3, "t": 16}
    assert_same_results(path.read_bytes(), out.read_bytes(), n=3, t=16)
    assert replay(path, result.to_json()).to_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        ({"n": 0}, "report: expected sizes of at least 1 as model.frozen, got {'n': 0}"),
        ({"m": 1}, "report: freeze: the model has no open dimension 'm'; it has: n, t"),
    ],
)
def test_a_report_that_does_not_fit_is_refused(path: Path, frozen: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        as_recorded(load_model(path), {"model": {"frozen": frozen}})
    assert str(caught.value) == message


def test_models_are_compared_at_the_frozen_sizes(path: Path) -> None:
    """Outputs that differ there are found."""
    report_of(path, "--freeze", "n=3", "--freeze", "t=16")
    frozen = path.with_name("out.onnx")
    assert in_process.check(path, frozen).passed
    wrong = onnx.load(frozen)
    for tensors in wrong.graph.initializer:
        if tensors.data_type == onnx.TensorProto.FLOAT:
            tensors.raw_data = (2 * onnx.numpy_helper.to_array(tensors)).tobytes()
    other = path.with_name("wrong.onnx")
    onnx.save(wrong, other)
    assert not in_process.check(path, other).passed


def test_sizes_at_which_the_model_does_not_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of 12 are no multiple of 8."""
    out = path.with_name("out.onnx")
    command = ["optimize", str(path), "-o", str(out), *QUICK, "--freeze", "n=3", "--freeze", "t=12"]
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "freeze: expected sizes at which the model runs, got n=3, t=12: the original does not run" in said
    assert not out.exists()


def test_ranks_and_named_sizes_stay_declared_behind_a_node_that_nobody_knows() -> None:
    """Without them nothing behind such a node has a known rank."""
    shape = ["n", "t", 8]
    made = model(
        [
            node("Unheard", "x", "h", domain="somewhere"),
            node("Relu", "h", "r"),
            node("MatMul", "r w", "y"),
        ],
        [value("x", shape)],
        [value("y", ["n", "t", 4])],
        [weight("w", 8, 4)],
        domains={"somewhere": 1},
    )
    made.graph.value_info.append(value("h", ["n", "unk__1", 8]))
    lifted = lift(freeze(load_model(made, why_refused=lambda _: ""), {"n": 2, "t": 3}))
    assert [operator for _, operator, _ in lifted.opaque] == ["Unheard"]
