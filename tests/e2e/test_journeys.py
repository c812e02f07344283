"""Whole journeys as a user makes them: optimise, replay, check, gate; interrupted and killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import superopt as superopt_package
from superopt.cli.main import run
from superopt.errors import NotEquivalentError
from superopt.journeys.replay import require_equal
from superopt.onnx_io import LoweredModel, load_model
from tests.e2e.conftest import CommandLine

CHANNELS = 64


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Batch normalisation, a factor and a term per channel, and a relu: three kernels that can be one."""
    random = np.random.default_rng(0)

    def vector(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.uniform(0.5, 1.5, shape).astype(np.float32), name)

    weights = [vector(name, CHANNELS) for name in ("scale", "bias", "mean", "var")]
    weights += [vector(name, CHANNELS, 1, 1) for name in ("factor", "term")]
    nodes = [
        helper.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["a"], name="norm"),
        helper.make_node("Mul", ["a", "factor"], ["b"], name="times"),
        helper.make_node("Add", ["b", "term"], ["c"], name="plus"),
        helper.make_node("Relu", ["c"], ["y"], name="rectified"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", CHANNELS, 96, 96])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", CHANNELS, 96, 96])
    graph = helper.make_graph(nodes, "steps", [x], [y], weights)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("model") / "steps.onnx"
    onnx.save(built, path)
    return path


@pytest.fixture(scope="module")
def optimised(model: Path, superopt: CommandLine) -> tuple[Path, Path]:
    """The optimised model and the report; its page lies beside it."""
    out, report = model.with_name("out.onnx"), model.with_name("report.json")
    reports = ("--report", report, "--report", report.with_suffix(".html"))
    done = superopt("optimize", model, "-o", out, *reports, "--budget", "30", "--threads", "1")
    assert done.returncode == 0, done.stderr
    return out, report


def test_three_steps_become_one_kernel(optimised: tuple[Path, Path]) -> None:
    out, path = optimised
    report = json.loads(path.read_text())
    assert report["returned"] == "optimized", report["why"]
    assert {step["kind"] for step in report["trace"]} == {"rule"}
    assert report["equivalence"]["passed"]
    assert report["measured"]["ratio"] > 1
    written = onnx.load(out)
    onnx.checker.check_model(written)
    assert len(written.graph.node) < 4
    dimension = written.graph.input[0].type.tensor_type.shape.dim[0]
    assert dimension.dim_param == "batch"


def test_the_page_of_a_report_is_made_from_its_json(
    optimised: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, report = optimised
    again = report.with_name("again.html")
    assert run(["report", str(report), "-o", str(again)]) == 0
    assert again.read_text() == report.with_suffix(".html").read_text()
    assert "What each rule gained" in again.read_text()
    damaged = report.with_name("damaged.json")
    nameless = report.with_name("nameless.json")
    nameless.write_text(json.dumps({**json.loads(report.read_text()), "model": None}))
    damaged.write_text('{"schema": 1}')
    for path, out, message in (
        (damaged, again, "expected an object as model, got None"),
        (nameless, again, "expected an object as model, got None"),
        (report, report.with_name("again.pdf"), "expected a file ending in .json or .html"),
    ):
        assert run(["report", str(path), "-o", str(out)]) == 2
        assert capsys.readouterr().err.startswith(f"superopt: report: {message}")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "--objective",
            "speed",
            "objective: expected one of latency, throughput, flops, memory, traffic, launches, training",
        ),
        ("--cluster", "nodes.yaml", "nodes.yaml: cannot be read as a cluster description"),
        ("--cluster", "dgx", "cluster: expected a file, one of summit-node, dgx-a100"),
        ("--plan", "report.json", "--plan requires --cluster"),
        ("--runtime", "tvm", "runtime: expected one of portable, onnxruntime, got 'tvm'"),
        ("--dim", "batch=\u0663", "dim: expected NAME=SIZE, as in batch=8, got 'batch=\u0663'"),
        ("--dim", "batch=0", "dim.batch: expected a whole number, at least 1"),
        ("--inputs", "nowhere.npz", "nowhere.npz: expected a numpy archive (.npz) of inputs: no such file"),
        ("--memory-limit", "1 parsec", "memory_limit: expected bytes, as in '2 GiB' or 500000000"),
        ("--report", "report.pdf", "report: expected a file ending in .json or .html"),
        (
            "--report",
            "nowhere/report.html",
            "nowhere/report.html: expected the path of a file in a directory",
        ),
        ("-o", "/", "/: expected a file to write, got a directory"),
        (
            "-o",
            "nowhere/out.onnx",
            "nowhere/out.onnx: expected the path of a file in a directory that exists",
        ),
    ],
)
def test_what_cannot_be_asked_for_is_said_at_once(
    option: str, value: str, message: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = model.with_name("refused.onnx")
    assert run(["optimize", str(model), "-o", str(out), option, value]) == 2
    assert capsys.readouterr().err.startswith(f"superopt: {message}")
    assert not out.exists()


def test_what_says_no_more_than_the_usual_may_be_said(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One device has the most throughput at the least latency; standard operators are the runtime's too."""
    options = [
        "--objective",
        "throughput",
        "--runtime",
        "onnxruntime",
        "--budget",
        "2",
        "--dry-run",
        "--json",
    ]
    assert run(["optimize", str(model), "-o", str(model.with_name("dry.onnx")), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["options"]["objective"], report["cost"]["unit"]) == ("throughput", "us")


def test_a_model_is_given_in_any_form(model: Path, environment: dict[str, str]) -> None:
    url = environment["SUPEROPT_DATABASE_URL"]
    forms = (str(model), model, model.read_bytes(), onnx.load(model), onnx_ir.load(model))
    results = [
        superopt_package.optimize(
            form, objective="flops", budget=8.0, threads=1, max_candidates=5, database=url
        )
        for form in forms
    ]
    nodes = [(r.report.model.nodes_before, r.report.cost.before, r.report.rules.loaded) for r in results]
    assert set(nodes) == {nodes[0]}


def test_replay_gives_the_same_bytes(
    model: Path, optimised: tuple[Path, Path], superopt: CommandLine
) -> None:
    out, report = optimised
    again = out.with_name("again.onnx")
    done = superopt("replay", model, report, "-o", again)
    assert done.returncode == 0, done.stderr
    assert again.read_bytes() == out.read_bytes()


def test_replay_refuses_a_rule_that_is_not_verified(
    model: Path, optimised: tuple[Path, Path], superopt: CommandLine
) -> None:
    report = json.loads(optimised[1].read_text())
    report["trace"][0]["rule"] = "0123456789abcdef"
    forged = optimised[1].with_name("forged.json")
    forged.write_text(json.dumps(report))
    done = superopt("replay", model, forged, "-o", forged.with_suffix(".onnx"))
    assert done.returncode == 1
    assert "0123456789abcdef" in done.stderr
    assert not forged.with_suffix(".onnx").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"returned": 5}, "report: expected returned to be optimized or original, got 5"),
        (
            {"returned": "optimized", "options": None},
            "report: expected the names of kept nodes as options.keep, got None",
        ),
        (
            {"returned": "optimized", "options": {"keep": 3}},
            "report: expected the names of kept nodes as options.keep, got 3",
        ),
    ],
)
def test_replay_refuses_a_damaged_report(
    damage: dict[str, object],
    message: str,
    model: Path,
    optimised: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
) -> None:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", environment["SUPEROPT_DATABASE_URL"])
    damaged, out = optimised[1].with_name("damaged-too.json"), optimised[1].with_name("never.onnx")
    damaged.write_text(json.dumps({**json.loads(optimised[1].read_text()), **damage}))
    assert run(["replay", str(model), str(damaged), "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"superopt: {message}\n"
    assert not out.exists()


def test_check_tells_equal_models_from_different_ones(
    model: Path, optimised: tuple[Path, Path], superopt: CommandLine
) -> None:
    assert superopt("check", model, optimised[0]).returncode == 0
    broken = onnx.load(model)
    del broken.graph.node[3]
    broken.graph.node[2].output[0] = "y"
    path = model.with_name("without-relu.onnx")
    onnx.save(broken, path)
    done = superopt("check", model, path, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["passed"] is False


def test_the_shipped_library_passes_the_gate(superopt: CommandLine) -> None:
    done = superopt("gate", "--json")
    assert done.returncode == 0, done.stdout
    answer = json.loads(done.stdout)
    assert answer["rules"] >= 30
    assert answer["offenders"] == []


@pytest.mark.parametrize(
    ("equation", "code"),
    [
        ("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))", 0),
        ("sub(x, y) => sub(y, x)", 1),
        ("mul(identity_matrix(), transpose(x)) => mul(identity_matrix(), x)", 3),
    ],
)
def test_prove_answers_by_its_exit_code(equation: str, code: int, superopt: CommandLine) -> None:
    done = superopt("prove", equation, "--json")
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["verdict"] == {0: "proved", 1: "refuted", 3: "unproved"}[code]


def test_a_killed_run_leaves_nothing_behind(
    tmp_path: Path, environment: dict[str, str], superopt: CommandLine
) -> None:
    built, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    assert superopt("zoo", "build", "light-squeezenet", "-o", built).returncode == 0
    running = subprocess.Popen(
        [sys.executable, "-m", "superopt", "optimize", built, "-o", out, "--budget", "120"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(6)
    running.kill()
    _, errors = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL, errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx"]
    assert superopt("library", "stats").returncode == 0


def test_replay_writes_only_what_is_equal(model: Path, optimised: tuple[Path, Path]) -> None:
    report = json.loads(optimised[1].read_text())
    other = onnx.load(model)
    weight = next(tensor for tensor in other.graph.initializer if tensor.data_type == TensorProto.FLOAT)
    weight.CopyFrom(numpy_helper.from_array(1.01 * numpy_helper.to_array(weight), weight.name))
    wrong = LoweredModel.of_source(load_model(other), {})
    with pytest.raises(NotEquivalentError, match="is not equivalent: "):
        require_equal(model, wrong, report | {"returned": "optimized"})
    require_equal(model, LoweredModel.of_source(load_model(model), {}), report)
