"""``--fp16`` and ``--runtime onnxruntime``: the model is converted after the search, where that pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from superopt import zoo
from superopt.cli.main import run
from superopt.errors import InvalidOptionError
from superopt.journeys.changes.conversions import converted_as_recorded, kinds_of, without_conversions
from superopt.journeys.in_process import check
from superopt.onnx_io import LoweredModel, load_model
from superopt.optimizer.conversion import FLOAT16, FUSED, candidates
from superopt.options import Options
from tests.conftest import WithLibrary
from tests.onnx_io.kit import feeds, model, node, operators, value, weight
from tests.onnx_io.kit import run as outputs_of

QUICK = ("--budget", "60", "--max-candidates", "0", "--threads", "1")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_library: WithLibrary) -> Path:
    monkeypatch.setenv("SUPEROPT_DATABASE_URL", with_library(tmp_path / "superopt.db"))
    return tmp_path / "model.onnx"


def products(scale: float = 0.1) -> onnx.ModelProto:
    """Two products with a function between."""
    weights = [weight("v", 64, 256), weight("w", 256, 32)]
    for one in weights:
        array = onnx.numpy_helper.to_array(one) * scale
        one.CopyFrom(onnx.numpy_helper.from_array(array.astype(np.float32), one.name))
    nodes = [node("MatMul", "x v", "a"), node("Tanh", "a", "b"), node("MatMul", "b w", "y")]
    return model(nodes, [value("x", ["n", 64])], [value("y", ["n", 32])], weights)


def report_of(path: Path, *options: str) -> dict[str, Any]:
    """The report of ``superopt optimize`` as it is typed; the model is ``out.onnx``."""
    out, report = path.with_name("out.onnx"), path.with_name("report.json")
    assert run(["optimize", str(path), "-o", str(out), "--report", str(report), *QUICK, *options]) == 0
    return json.loads(report.read_text())  # type: ignore[no-any-return]


def test_float16_is_smaller_and_equal_within_its_tolerance(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(products().SerializeToString())
    report = report_of(path, "--fp16", "--objective", "memory")
    assert "float16: used, equal, and smaller" in capsys.readouterr().out
    content = path.with_name("out.onnx").read_bytes()
    proto = onnx.ModelProto.FromString(content)
    stored = {tensor.data_type for tensor in proto.graph.initializer}
    assert stored == {onnx.TensorProto.FLOAT16}
    given = feeds(path.read_bytes())
    expected, got = (
        np.asarray(outputs_of(one, given)[0], np.float32) for one in (path.read_bytes(), content)
    )
    assert 0 < np.abs(got - expected).max() < 1e-2 * np.abs(expected).max()
    assert (report["returned"], report["equivalence"]["tolerance"]) == ("optimized", 1e-2)
    sides = report["inventory"]
    assert sides["after"]["weight_bytes"] * 2 == sides["before"]["weight_bytes"]
    assert report["options"]["budget"] == 60
    again = path.with_name("again.onnx")
    assert run(["replay", str(path), str(path.with_name("report.json")), "-o", str(again)]) == 0
    assert again.read_bytes() == content


@pytest.mark.parametrize(
    ("tried", "code", "message"),
    [
        ([{"kind": "float16", "variant": "", "accepted": True}], 1, "is not equivalent"),
        (5, 2, "conversions.tried: expected a list of objects, got 5"),
        ([5], 2, "conversions.tried: expected a list of objects, got [5]"),
    ],
)
def test_a_report_of_a_stranger_converts_nothing_wrongly(
    path: Path, tried: object, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(products(1e6).SerializeToString())
    report = report_of(path) | {"conversions": {"of": "original", "tried": tried}}
    assert report["returned"] == "original"
    forged, out = path.with_name("forged.json"), path.with_name("forged.onnx")
    forged.write_text(json.dumps(report))
    assert run(["replay", str(path), str(forged), "-o", str(out)]) == code
    assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("scale", "why"),
    [(0.1, "equal, but not certainly faster: measured"), (1e6, "not equal: ")],
    ids=["ONNX Runtime has no faster kernels", "weights that float16 cannot hold"],
)
def test_float16_that_does_not_pay_is_not_used(path: Path, scale: float, why: str) -> None:
    path.write_bytes(products(scale).SerializeToString())
    report = report_of(path, "--fp16")
    (tried,) = report["conversions"]["tried"]
    assert not tried["accepted"]
    assert tried["why"].startswith(why)
    assert report["returned"] == "original"
    assert path.with_name("out.onnx").read_bytes() == path.read_bytes()


def test_transformers_get_operators_of_the_runtime(path: Path) -> None:
    """ONNX Runtime fuses the attention of this model only before it is loaded."""
    zoo.save("light-bert", path)
    first = candidates(FUSED, path)[0]
    assert {"Attention", "SkipLayerNormalization", "BiasGelu"} <= set(operators(first.content).split())
    found = next(one for one in candidates(FUSED, path) if one.variant == "bert")
    recorded = {"conversions": {"tried": [{"kind": FUSED, "variant": "bert", "accepted": True}]}}
    source = LoweredModel.of_source(load_model(path), {})
    assert converted_as_recorded(source, recorded).to_bytes() == found.content
    other = path.with_name("other.onnx")
    other.write_bytes(found.content)
    assert check(path, other, samples=2).passed


def test_the_tools_print_nothing(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where ONNX Runtime's tool cannot infer shapes, it says so on standard output, and by warnings."""
    nodes = [node("MatMul", "x w", "p"), node("Strange", "p", "y", domain="my")]
    unknown = model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], [weight("w", 3, 3)])
    path.write_bytes(unknown.SerializeToString())
    candidates(FUSED, path)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_fused_in_other_models(path: Path) -> None:
    path.write_bytes(products().SerializeToString())
    report = report_of(path, "--runtime", "onnxruntime")
    (tried,) = report["conversions"]["tried"]
    assert (tried["kind"], tried["why"]) == (FUSED, "ONNX Runtime's tool found nothing to fuse")


def test_conversions_get_a_part_of_the_budget() -> None:
    both = Options(fp16=True, runtime="onnxruntime", budget=100)
    assert kinds_of(both) == (FUSED, FLOAT16)
    assert without_conversions(both).budget == pytest.approx(40)
    assert without_conversions(Options(budget=100)).budget == 100


def test_plans_for_clusters_are_not_converted() -> None:
    with pytest.raises(InvalidOptionError, match=r"^fp16: expected no cluster"):
        kinds_of(Options(fp16=True, cluster="dgx-h100:2"))
    with pytest.raises(InvalidOptionError, match=r"runtime: expected one of portable \(onnxruntime only"):
        Options(runtime="onnxruntime", cluster="dgx-h100:2")
