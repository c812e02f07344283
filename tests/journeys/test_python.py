"""``import superopt``: what is offered there, with its results, views and errors."""
# pyright: reportUnknownMemberType=false
# onnx leaves types out.

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import superopt
from superopt.errors import InvalidFileError, InvalidOptionError, SuperoptError, UnjudgedError
from superopt.optimizer.pipeline.reporting.report import CostSummary, LatencySummary
from tests.conftest import WithLibrary
from tests.onnx_io.kit import assert_same_results, model, node, value, weight

MODEL = model(
    [node("MatMul", "x w", "h"), node("MatMul", "h v", "p"), node("Relu", "p", "q"), node("Relu", "q", "y")],
    [value("x", [4, 8])],
    [value("y", [4, 8])],
    [weight("w", 8, 64), weight("v", 64, 8)],
)
"""Two products that can be one, and a node too many."""

PLANNED = model(
    [node("MatMul", "x w", "h"), node("Relu", "h", "y")],
    [value("x", [64, 64])],
    [value("y", [64, 64])],
    [weight("w", 64, 64)],
)

CLUSTER = """
name: pair
nodes:
  - count: 1
    devices: 2
    device: {flops: 10 TFLOP/s, memory_bandwidth: 900 GB/s}
    memory: 16 GiB
    link: {bandwidth: 25 GB/s, latency: 2 us}
network: {bandwidth: 10 GB/s, latency: 5 us}
"""

ANGRY = "<script>alert(1)</script>.onnx"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, with_library: WithLibrary) -> str:
    return with_library(tmp_path_factory.mktemp("rules") / "rules.db")


@pytest.fixture(scope="module")
def result(database: str, tmp_path_factory: pytest.TempPathFactory) -> superopt.Result:
    path = tmp_path_factory.mktemp("given") / "script.onnx"
    path.write_bytes(MODEL.SerializeToString())
    return superopt.optimize(path, objective="flops", budget=60.0, threads=1, database=database)


@pytest.fixture(scope="module")
def original(database: str, tmp_path_factory: pytest.TempPathFactory) -> superopt.Result:
    single = model([node("Relu", "x", "y")], [value("x", [4, 8])], [value("y", [4, 8])])
    path = tmp_path_factory.mktemp("single") / ANGRY.replace("/", "∕")
    path.write_bytes(single.SerializeToString())
    return superopt.optimize(
        path, objective="flops", budget=60.0, threads=1, max_candidates=5, database=database
    )


def test_what_is_offered_is_there_and_described() -> None:
    assert dir(superopt) == sorted(superopt.__all__)
    for name in superopt.__all__:
        offered = getattr(superopt, name)
        assert name == "__version__" or inspect.getdoc(offered), name
        if inspect.isfunction(offered):
            for parameter in inspect.signature(offered).parameters.values():
                assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL), name
                assert parameter.annotation is not parameter.empty, (name, parameter.name)


def test_nothing_is_loaded_before_its_use() -> None:
    program = "import sys, superopt; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert not {"numpy", "onnx", "onnxruntime", "torch", "sqlalchemy"} & set(done.stdout.split())


def test_the_model_is_a_proto(result: superopt.Result, tmp_path: Path) -> None:
    assert isinstance(result.model, onnx.ModelProto)
    onnx.checker.check_model(result.model, full_check=True)
    assert_same_results(MODEL.SerializeToString(), result.model.SerializeToString())
    result.save(tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == result.to_bytes()
    assert onnx.load(tmp_path / "out.onnx") == result.model
    result.save_with_data(tmp_path / "apart.onnx")
    assert_same_results(MODEL.SerializeToString(), onnx.load(tmp_path / "apart.onnx").SerializeToString())
    with pytest.raises(InvalidOptionError, match=r"^path: expected a str or pathlib.Path, got 3$"):
        result.save(3)  # type: ignore[arg-type]


def test_a_result_is_shown_in_a_line(result: superopt.Result, original: superopt.Result) -> None:
    measured, error = result.report.measured, result.report.equivalence.max_rel_error
    assert measured is not None
    assert result.optimized
    assert not original.optimized
    assert repr(result) == (
        f"Result(optimized, analytic 8,256 -> 544 flops, {measured.ratio:.2f}x [{measured.interval[0]:.2f}, "
        f"{measured.interval[1]:.2f}], 4 -> {len(result.model.graph.node)} nodes, equal to {error:.1g})"
    )
    assert repr(original) == "Result(original, 1 node, no rule lowers the predicted cost)"


def test_a_measured_gain_is_shown_with_its_interval(result: superopt.Result) -> None:
    measured = LatencySummary("us", 126.0, 100.0, 1.264, (1.204, 1.326), 0.98, 24, "onnxruntime", 1)
    equivalence = replace(result.report.equivalence, max_rel_error=7.4e-7)
    model = replace(result.report.model, nodes_before=910, nodes_after=612)
    cost = CostSummary("us", "measured", 126.0, 100.0)
    report = replace(result.report, measured=measured, cost=cost, equivalence=equivalence, model=model)
    shown = replace(result, report=report)
    assert repr(shown) == "Result(optimized, 1.26x [1.20, 1.33], 910 -> 612 nodes, equal to 7e-07)"
    assert shown.speedup == 1.264


def test_a_notebook_shows_a_table_without_markup_of_the_model(
    result: superopt.Result, original: superopt.Result
) -> None:
    page = original._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page
    assert "=&gt;" in result._repr_html_()
    assert result._repr_html_().count("<tr>") == result._repr_html_().count("</tr>") <= 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": 3}, "model: expected a path, bytes, an onnx.ModelProto or an onnx_ir.Model, got int"),
        ({"model": "nowhere.onnx"}, "nowhere.onnx does not exist"),
        ({"model": "no\0where.onnx"}, "no\0where.onnx cannot be read: embedded null byte"),
        ({"budget": "5"}, "budget: expected a number of seconds, above 0, got '5'"),
        ({"dims": {"batch": 0}}, "dims.batch: expected a whole number, at least 1 and "),
        ({"dims": [8]}, "dims: expected sizes by name, got [8]"),
        ({"inputs": {"x": object()}}, "inputs: x: expected an array of numbers or texts, got <object"),
        ({"inputs": {"x": [[1], [1, 2]]}}, "inputs: x: expected an array: "),
        ({"inputs": {1: 1.0}}, "inputs: expected names of inputs, got 1"),
        ({"inputs": 3}, "inputs: expected "),
        ({"keep": "node"}, "keep: expected a list of names, got 'node'"),
        ({"exclude_rules": 3}, "exclude_rules: expected a list of names, got 3"),
        (
            {"memory_limit": "2 GiB"},
            "memory_limit: expected a whole number of bytes, at least 1, got '2 GiB'",
        ),
        ({"objective": "speed"}, "objective: expected one of latency, throughput, flops, "),
        ({"cluster": 3}, "cluster: expected a text of 1 to 1000 characters, got 3"),
        ({"plan": "r.json"}, "plan: expected a cluster with it, got none"),
        ({"plan": 3, "cluster": "dgx-a100"}, "plan: expected the path of a report, got 3"),
        ({"database": 3}, "database: expected a URL, as sqlite:///rules.db, got 3"),
        ({"progress": 3}, "progress: expected a function of a superopt.Progress, got 3"),
        (
            {"example_inputs": 3},
            "example_inputs: expected None for a model that is no torch.nn.Module",
        ),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"model": MODEL, **arguments}
    with pytest.raises(SuperoptError) as raised:
        superopt.optimize(**given)  # type: ignore[arg-type]
    assert str(raised.value).startswith(message)


def test_progress_is_told(database: str) -> None:
    told: list[superopt.Progress] = []
    superopt.optimize(
        MODEL, objective="flops", budget=60.0, threads=1, database=database, progress=told.append
    )
    assert told
    assert {type(progress) for progress in told} == {superopt.Progress}


def test_an_exception_of_the_callback_ends_the_work(database: str) -> None:
    def stop(progress: superopt.Progress) -> None:
        raise StopAsyncIteration(progress.phase)

    with pytest.raises(StopAsyncIteration):
        superopt.optimize(MODEL, budget=3600.0, threads=1, database=database, progress=stop)


def test_a_result_is_replayed(result: superopt.Result, database: str, tmp_path: Path) -> None:
    result.save_report(tmp_path / "report.json")
    path = tmp_path / "report.json"
    for report in (result, result.report, path, json.loads(path.read_text())):
        again = superopt.replay(MODEL, report, database=database)
        assert again.to_bytes() == result.to_bytes()
    assert repr(again) == f"WrittenModel({len(result.model.graph.node)} nodes)"
    with pytest.raises(InvalidFileError, match="the report is of another model"):
        superopt.replay(PLANNED, result, database=database)
    with pytest.raises(InvalidOptionError, match="report: expected a path, a report, its values or a"):
        superopt.replay(MODEL, 3, database=database)  # type: ignore[arg-type]


def test_a_model_that_runs_on_given_inputs_alone_is_replayed_with_them(database: str) -> None:
    """Random numbers are no shape of its result."""
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (float[256,512] x, int64[2] shape) => (float[a,b] y)
           { p = MatMul(x, w) q = MatMul(p, v) y = Reshape(q, shape) }"""
    )
    model.graph.initializer.extend((weight("w", 512, 512), weight("v", 512, 2)))
    given = {"x": np.ones((256, 512), np.float32), "shape": np.array([2, 256], np.int64)}
    result = superopt.optimize(model, budget=6.0, threads=1, database=database, inputs=given)
    assert result.optimized
    assert superopt.replay(model, result, database=database, inputs=given).to_bytes() == result.to_bytes()
    with pytest.raises(UnjudgedError, match="does not run on random inputs"):
        superopt.replay(model, result, database=database)


def test_models_are_compared(result: superopt.Result, tmp_path: Path) -> None:
    other = onnx.ModelProto()
    other.CopyFrom(MODEL)
    other.graph.initializer[0].CopyFrom(weight("w", 8, 64, seed=1))
    np.savez(tmp_path / "x.npz", x=np.ones((4, 8), np.float32))
    assert superopt.check(MODEL, result.model, inputs=str(tmp_path / "x.npz"))
    assert superopt.check(result, MODEL, inputs={"x": np.ones((4, 8), np.float32)})
    with pytest.raises(InvalidFileError, match="input 'x': expected float32, got float64"):
        superopt.check(MODEL, result, inputs={"x": np.ones((4, 8))})
    assert not superopt.check(MODEL, other)
    with pytest.raises(InvalidOptionError, match=r"^samples: expected a whole number, at least 1, got 0$"):
        superopt.check(MODEL, MODEL, samples=0)


def test_inputs_are_given_as_arrays(database: str) -> None:
    """Sizes are taken from them, and texts need no pickling."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]>'
        "g (float[n, 8] file, string[n] s) => (float[n, 8] y, string[n] t)"
        "{ a = Relu(file) y = Relu(a) t = Identity(s) }"
    )
    given = {"file": np.ones((3, 8), np.float32), "s": np.array(["a", "b", "c"], object)}
    result = superopt.optimize(
        model, inputs=given, objective="flops", budget=60.0, threads=1, database=database
    )
    assert result.report.sizes.priced["n"] == 3
    assert superopt.optimize(result, inputs=given, objective="flops", budget=60.0, database=database)


def test_a_model_is_inspected(database: str) -> None:
    found = superopt.inspect(MODEL, database=database)
    assert dict(found.operators) == {"matmul": 2, "relu": 2}
    assert repr(found).startswith("Inspection(the model, 4 nodes, 0 opaque, ")


@pytest.mark.parametrize(
    ("equation", "verdict", "shown"),
    [
        ("relu(relu(x)) => relu(x)", "proved", "Judgement(proved: relu(relu(x)) => relu(x); axioms "),
        (
            "relu(add(x, y)) => add(relu(x), relu(y))",
            "refuted",
            "Judgement(refuted: relu(add(x, y)) => add(relu(x), relu(y)); x: ",
        ),
    ],
)
def test_equations_are_judged(equation: str, verdict: str, shown: str) -> None:
    judgement = superopt.prove(equation, timeout=60.0)
    assert judgement.verdict == verdict
    assert bool(judgement) == judgement.proved == (verdict == "proved")
    assert repr(judgement).startswith(shown)
    json.dumps(judgement.to_json())


def test_a_wrong_timeout_is_named() -> None:
    with pytest.raises(InvalidOptionError, match=r"^timeout: expected a number of seconds, above 0, got 0$"):
        superopt.prove("relu(relu(x)) => relu(x)", timeout=0)


def test_a_plan_is_made_evaluated_and_written(database: str, tmp_path: Path) -> None:
    cluster = tmp_path / "pair.yaml"
    cluster.write_text(CLUSTER)
    found = superopt.optimize(PLANNED, cluster=cluster, budget=60.0, threads=1, database=database)
    assert found.report.parallel is not None
    cost = found.report.cost
    assert (
        repr(found) == f"Result(optimized, {cost.source} {cost.before:,.0f} -> {cost.after:,.0f} us, 2 nodes)"
    )
    found.save_report(tmp_path / "plan.json")
    again = superopt.optimize(
        PLANNED, cluster=cluster, plan=tmp_path / "plan.json", search="none", budget=60.0, database=database
    )
    assert again.report.parallel is not None
    assert again.report.parallel["predicted"] == found.report.parallel["predicted"]
    devices, models = superopt.write_shards(PLANNED, found, tmp_path / "shards", database=database)
    assert models >= devices >= 1
    assert (tmp_path / "shards" / "manifest.json").exists()
    timeline = tmp_path / "timeline.json"
    assert superopt.write_timeline(PLANNED, found, timeline, cluster=cluster, database=database) > 0
    assert json.loads(timeline.read_text())
