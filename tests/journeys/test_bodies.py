"""Bodies of If, Loop and Scan in whole jobs: optimised, reported, replayed, inspected."""
# pyright: reportUnknownMemberType=false
# onnx leaves types out.

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.cli.main import run
from superopt.journeys import in_process
from superopt.journeys.bodies.optimizing import expanded
from superopt.journeys.reexamination import reexamine
from superopt.onnx_io import load_model
from superopt.onnx_io.bodies.rewriting import places
from superopt.optimizer.pipeline.reporting.report import Report
from superopt.substitution_db import RuleStatus, open_database
from tests.conftest import WithLibrary
from tests.journeys.planted_rule import plant
from tests.onnx_io.kit import run as outputs_of

ROWS = 256


def branch(name: str, *last: str) -> onnx.GraphProto:
    """x W + x V in a clumsy way, and a function of it."""
    t = [f"{name}{number}" for number in range(5 + len(last))]
    nodes = [
        helper.make_node("Transpose", ["x"], [t[0]], perm=[1, 0]),
        helper.make_node("Transpose", [t[0]], [t[1]], perm=[1, 0]),
        helper.make_node("MatMul", [t[1], "w"], [t[2]]),
        helper.make_node("MatMul", [t[1], "v"], [t[3]]),
        helper.make_node("Add", [t[2], t[3]], [t[4]]),
        *(helper.make_node(kind, [t[4 + place]], [t[5 + place]]) for place, kind in enumerate(last)),
    ]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(t[-1], TensorProto.FLOAT, None)])


def write_model(path: Path, *last: str) -> Path:
    """Two If nodes with equal bodies."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(64, 64)).astype(np.float32), n) for n in "wv"]
    nodes = [
        helper.make_node(
            "If",
            ["c"],
            [out],
            name,
            then_branch=branch(f"{name}t", "Sigmoid"),
            else_branch=branch(f"{name}e", *last),
        )
        for name, out in (("first", "p"), ("second", "q"))
    ]
    nodes.append(helper.make_node("Add", ["p", "q"], ["y"]))
    shape = [ROWS, 64]
    graph = helper.make_graph(
        nodes,
        "bodies",
        [
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, with_library: WithLibrary) -> tuple[Path, str]:
    """The directory of a job, with its model, result and report, and the database."""
    directory = tmp_path_factory.mktemp("bodies")
    database = with_library(directory / "rules.db")
    model = write_model(directory / "model.onnx", "Tanh")
    arguments = ["optimize", str(model), "-o", str(directory / "out.onnx"), "--database", database]
    assert (
        run([*arguments, "--report", str(directory / "report.json"), "--budget", "30", "--threads", "1"]) == 0
    )
    return directory, database


def report_in(directory: Path) -> dict[str, Any]:
    return json.loads((directory / "report.json").read_text())


def test_bodies_are_optimised_and_reported(done: tuple[Path, str]) -> None:
    report = report_in(done[0])
    assert report["returned"] == "optimized", report["why"]
    bodies = {body["path"]: body for body in report["bodies"]}
    assert set(bodies) == {
        f"{node}/{side}_branch" for node in ("first", "second") for side in ("then", "else")
    }
    for body in bodies.values():
        assert (body["nodes_before"], body["nodes_after"], body["returned"]) == (6, 2, "optimized")
    assert {body["same_as"] for body in bodies.values()} == {None, "first/then_branch", "first/else_branch"}
    first = bodies["first/then_branch"]
    assert "add(matmul(x, y), matmul(x, z))" in {step["equation"].split(" => ")[0] for step in first["trace"]}
    assert first["equivalence"]["passed"]
    assert first["measured"]["ratio"] > 1
    assert [step["rule"] for step in report["trace"]][:1] == ["body first/else_branch rewritten"]


def test_the_result_computes_the_same_in_every_branch(done: tuple[Path, str]) -> None:
    before, after = ((done[0] / name).read_bytes() for name in ("model.onnx", "out.onnx"))
    graph = onnx.load_from_string(after).graph
    assert {len(place.graph.node) for place in places(graph)} == {2}
    assert [list(tensor.dims) for tensor in graph.initializer] == [[64, 64]]
    x = np.random.default_rng(1).normal(size=(ROWS, 64)).astype(np.float32)
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": x}
        (one,), (other,) = outputs_of(before, feeds), outputs_of(after, feeds)
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def test_replay_writes_the_same_bytes(done: tuple[Path, str], tmp_path: Path) -> None:
    directory, database = done
    out = tmp_path / "again.onnx"
    arguments = ["replay", str(directory / "model.onnx"), str(directory / "report.json"), "-o", str(out)]
    assert run([*arguments, "--database", database]) == 0
    assert out.read_bytes() == (directory / "out.onnx").read_bytes()


def test_replay_refuses_a_body_with_a_rule_that_is_not_verified(
    done: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_in(done[0])
    step = next(s for body in report["bodies"] for s in body.get("trace", []) if s["kind"] == "rule")
    step["rule"] = "0" * 16
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    arguments = ["replay", str(done[0] / "model.onnx"), str(path), "-o", str(tmp_path / "o.onnx")]
    assert run([*arguments, "--database", done[1]]) != 0
    assert "is not among the verified rules" in capsys.readouterr().err


def test_the_summary_and_the_page_show_bodies(
    done: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert run(["report", str(done[0] / "report.json"), "-o", str(page)]) == 0
    assert "first/then_branch" in page.read_text()
    capsys.readouterr()
    model = str(done[0] / "model.onnx")
    assert run(["inspect", model, "--database", done[1]]) == 0
    shown = capsys.readouterr().out
    assert "Bodies, optimised as models of their own: 4 with 24 nodes" in shown
    assert "its bodies are models of their own" in shown
    inspection = in_process.inspect(model, database=done[1])
    assert [(body.path, body.nodes, body.same_as) for body in inspection.bodies][:1] == [
        ("first/else_branch", 6, None)
    ]


def test_where_a_whole_model_differs_its_bodies_are_left_alone(
    done: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run is about the graph around the bodies alone."""
    optimize = in_process.optimizer.optimize
    calls: list[bool] = []

    def differing(lifted: Any, *arguments: Any, **named: Any) -> Any:
        found = optimize(lifted, *arguments, **named)
        if ": " in lifted.source.name:  # a body
            return found
        calls.append(bool(lifted.source.prepared))
        rejected = tuple(replace(one, equal=False) for one in found.report.rejected)
        report: Report = replace(found.report, returned="original", why="not equal", rejected=rejected)
        return replace(found, report=report)

    monkeypatch.setattr(in_process.optimizer, "optimize", differing)
    options = in_process.Options(budget=20.0, threads=1)
    result = in_process.optimize_with(done[0] / "model.onnx", options, database=done[1])
    assert calls[0]
    assert {body.returned for body in result.report.bodies} == {"original"}
    assert all("the whole model is returned" in body.why for body in result.report.bodies)


def test_a_false_rule_is_caught_in_a_body_and_examined_there(done: tuple[Path, str], tmp_path: Path) -> None:
    database = str(shutil.copy(done[0] / "rules.db", tmp_path / "rules.db"))
    with open_database(database) as opened:
        identity = plant(opened)
    model = write_model(tmp_path / "model.onnx", "Softmax", "Tanh")
    arguments = ["optimize", str(model), "-o", str(tmp_path / "out.onnx"), "--database", database]
    assert (
        run([*arguments, "--report", str(tmp_path / "report.json"), "--budget", "30", "--threads", "1"]) == 0
    )
    report = report_in(tmp_path)
    assert [suspect["rule"] for suspect in report["suspects"]] == [identity]
    with open_database(database) as opened:
        rule = opened.rules.get(identity)
        assert rule is not None
        assert rule.status is RuleStatus.SUSPECT
        (evidence,) = rule.evidence
        assert evidence.report["body"] == "first/else_branch"
        found = reexamine(opened, identity, model)
    assert found.status is RuleStatus.SUSPECT
    assert "and now: " in found.standing[0], found.standing


def test_rules_that_round_more_are_not_used_in_bodies(
    done: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that is one convolution was slower within the model than measured alone."""
    optimize = in_process.optimizer.optimize
    calls: set[tuple[bool, bool]] = set()

    def observed(lifted: Any, rules: Any, options: in_process.Options, *others: Any, **named: Any) -> Any:
        calls.add((": " in lifted.source.name, options.exact_rounding))
        return optimize(lifted, rules, options, *others, **named)

    monkeypatch.setattr(in_process.optimizer, "optimize", observed)
    options = in_process.Options(budget=20.0, threads=1)
    in_process.optimize_with(done[0] / "model.onnx", options, database=done[1])
    assert calls == {(True, True), (False, False)}


def test_functions_are_inlined() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> agraph (float[2,3] x) => (float[2,3] y)'
        '{ y = my.f (x) } <opset_import: ["" : 17], domain: "my"> f (a) => (b) { c = Relu(a) b = Neg(c) }'
    )
    source = expanded(load_model(model), ())
    assert [node.op_type for node in source.proto.graph.node] == ["Relu", "Neg"]
    model.graph.node[0].name = "call"
    kept = expanded(load_model(model), ("call",))
    assert [node.op_type for node in kept.proto.graph.node] == ["f"]
