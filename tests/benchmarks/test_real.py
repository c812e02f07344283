"""``python -m benchmarks real`` on a small model: all forms, timed, kept, and printed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.models.peers_table import Standing
from benchmarks.real.cells import Cell, Contents, Gain, known_cells
from benchmarks.real.listed import DEVELOPMENT, HELD_OUT, MODELS
from benchmarks.real.origins import GivenFile, Packaged, fetched
from benchmarks.real.sizes import declared_shapes, fixed, open_dimensions
from benchmarks.real.table import brief, drawn, listed, publish, replaced, summary, table

SHAPES = {"x": (3, 64)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """relu(x · w) with an open batch, and a mask whose second axis has no name."""
    weight = numpy_helper.from_array(np.eye(64, dtype=np.float32), "w")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 64])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 64])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "mask"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "steps", [x, mask], [y], [weight])
    path = tmp_path_factory.mktemp("real") / "steps.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_sizes_are_those_asked_for_and_1_elsewhere(model: Path, tmp_path: Path) -> None:
    shapes = declared_shapes(model, SHAPES)
    assert shapes == {"x": (3, 64), "mask": (1, 1)}
    assert open_dimensions(model, shapes) == {"batch": 3, "mask.1": 1}
    path = fixed(model, shapes, tmp_path / "fixed.onnx")
    assert open_dimensions(path, shapes) == {}
    session = onnxruntime.InferenceSession(path)
    assert [port.shape for port in (*session.get_inputs(), *session.get_outputs())] == [
        [3, 64],
        [1, 1],
        [3, 64],
    ]


def test_a_name_that_stands_for_several_sizes_is_given_by_axis(model: Path) -> None:
    assert open_dimensions(model, {"x": (3, 64), "mask": (1, 5)}) == {"batch": 3, "mask.1": 5}
    renamed = onnx.load(model)
    renamed.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "batch"
    path = model.with_name("renamed.onnx")
    onnx.save(renamed, path)
    assert open_dimensions(path, {"x": (3, 64), "mask": (1, 5)}) == {"x.0": 3, "mask.1": 5}


def test_every_form_is_optimised_timed_and_kept(model: Path, tmp_path: Path) -> None:
    cells = tmp_path / "cells.jsonl"
    words = ("--models", model, "--shape", "x=3,64", "--budget", "6", "--seconds", "1", "--out", tmp_path)

    def ran(*more: str) -> str:
        command = [sys.executable, "-m", "benchmarks", "real", *map(str, words), "--cells", str(cells), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = ran("--forms", "exported", "fixed")
    kept = known_cells(cells)
    assert [(cell.model, cell.form, cell.outcome) for cell in kept] == [
        ("steps", "exported", "original"),
        ("steps", "fixed", "original"),
    ]
    for cell in kept:
        ours = cell.standing("superopt")
        assert ours is not None
        assert ours.low is not None
        assert ours.high is not None
        assert ours.ratio is not None
        assert ours.low <= ours.ratio <= ours.high
        assert cell.contents is not None
        assert cell.contents.nodes == 3
        assert cell.contents.unknown in (0, 1)  # a factor of an unknown size may be opaque
        assert cell.contents.quantised == 0
        at_peak = cell.at_peak
        assert at_peak is None or (0 < at_peak < 1 and cell.form == "fixed")  # else sizes are guessed
        assert cell.sizes == "x 3x64, mask 1x1"
    assert printed == f"{summary(kept)}\n{table(kept)}"
    assert ran("--forms", "fixed", "exported") == printed
    assert ran("--table") == printed
    assert json.loads(ran("--table", "--json"))[0]["model"] == "steps"


def test_a_model_that_is_not_there_is_a_row_that_says_so(tmp_path: Path) -> None:
    words = ("--models", tmp_path / "none.onnx", "--forms", "exported", "--out", tmp_path, "--json")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "real", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["outcome"]) == (1, "error")
    assert row["why"].endswith("none.onnx: no such file")


def test_models_are_named_once_each_and_both_sets_are_there() -> None:
    names = [model.name for model in MODELS]
    assert len(names) == len(set(names)) == len(DEVELOPMENT) + len(HELD_OUT)
    assert {model.kind for model in DEVELOPMENT} == {"development"}
    assert {model.kind for model in HELD_OUT} == {"held-out"}


def test_the_held_out_set_has_every_exporter_and_many_packages() -> None:
    exporters = {model.exporter.partition(" (")[0].partition(",")[0] for model in HELD_OUT}
    assert exporters >= {"PyTorch", "TensorFlow", "Keras", "Paddle", "scikit-learn", "JAX"}
    assert {"PyTorch, legacy", "PyTorch, dynamo"} <= {model.exporter for model in HELD_OUT}
    packages = {model.origin.requirement for model in HELD_OUT if isinstance(model.origin, Packaged)}
    assert len(packages) >= 8
    assert not packages & {m.origin.requirement for m in DEVELOPMENT if isinstance(m.origin, Packaged)}


def test_a_cell_of_a_missing_model_is_kept() -> None:
    cell = Cell.missing((MODELS[0].name, "exported", 60.0, 1), "no network")
    assert Cell.of(json.loads(json.dumps(asdict(cell)))) == cell


def cell_of(model: str, form: str, ratio: float, gains: tuple[Gain, ...] = (), quantised: int = 0) -> Cell:
    """A measured row: half of the remaining time is arithmetic at peak when the ratio is 2."""
    standings = (
        Standing("onnxsim", None, None, None, 0.1, "exit 1: no"),
        Standing("openvino", 3.0, 2.9, 3.1, 0.0, ""),
        Standing("superopt", ratio, ratio - 0.1, ratio + 0.1, 12.0, ""),
    )
    contents = Contents(nodes=10, unknown=2, quantised=quantised, flops=50_000_000, peak=200_000.0)
    return Cell(model, form, 60.0, 1, "x 1", "optimized", "equal | fast", contents, gains, 1000.0, standings)


AFFINE = Gain(
    "affine[axis=a](conv[stride=s, padding=(p, q)](x, y), z, w) => bias_add(x) where rank(x) = 4", 2, 50.0
)
CELLS = (
    cell_of("magika", "fixed", 1.5, quantised=3),
    cell_of("slider", "exported", 2.0, (AFFINE, Gain("relu(x) => x", 1, -1.0))),
    cell_of("slider", "fixed", 2.0, (AFFINE, Gain("relu(relu(x)) => relu(x)", 1, 5.0))),
)


def test_the_summary_has_a_row_for_each_model_and_a_mean_for_each_set() -> None:
    slider = "| held out | slider | PyTorch, legacy | 1.00 | none |  | 3.00 | **2.00** | 1.90 to 2.10"
    magika = "| development | magika | TensorFlow (tf2onnx) | 1.00 | none |  | 3.00 | **1.50** | 1.40 to 1.60"
    assert summary(CELLS).splitlines()[2:] == [
        f"{slider} | affine conv → bias_add | 2 of 10 | 50% |",
        f"{magika} |  | 2 of 10, 3 quantised |  |",
        "| held out | geometric mean |  |  | 1.00 | 1.00 | 3.00 | **2.00** |  |  |  |  |",
        "| development | geometric mean |  |  | 1.00 | 1.00 | 3.00 | **1.50** |  |  |  |  |",
    ]


def test_the_table_gives_equations_and_why_others_have_no_ratio() -> None:
    text = table(CELLS[1:2])
    assert "| equal / fast |" in text
    assert f"- slider, exported: 50.0 us in 2 places: `{AFFINE.equation}`\n" in text
    assert "relu(x) => x" not in text
    assert "- slider, exported, onnxsim: exit 1: no\n" in text


@pytest.mark.parametrize(
    ("equation", "expected"),
    [
        (AFFINE.equation, "affine conv → bias_add"),
        ("transpose(transpose(x)) => x", "transpose transpose → operand"),
        ("(split0[axis=a](x), split1[axis=a](x)) => (x, relu(x))", "split0 split1 → relu"),
        ("hard_sigmoid[alpha=min(a, b)](x) => relu(x)", "hard_sigmoid → relu"),
    ],
)
def test_an_equation_is_shortened_to_its_operators(equation: str, expected: str) -> None:
    assert brief(equation) == expected


def test_only_the_table_of_its_section_is_replaced() -> None:
    page = "# A\n\n### Real models\n\nText.\n\n| old |\n|---|\n\n### Zoo\n\n| kept |\n"
    expected = "# A\n\n### Real models\n\nText.\n\nnew\n\n### Zoo\n\n| kept |\n"
    assert replaced(page, "### Real models", "new\n") == expected
    assert replaced(expected.replace("new", "| x |"), "### Real models", "new\n") == expected
    with pytest.raises(ValueError, match="expected a section '## Results'"):
        replaced(page, "## Results", "new\n")


def test_the_documentation_has_the_sections_that_are_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/real.md"):
        (tmp_path / name).write_text((Path(__file__).parents[2] / name).read_text())
    publish(CELLS, tmp_path)
    once = (tmp_path / "README.md").read_text()
    assert summary(CELLS) in once
    assert "### Networks of the zoo" in once
    assert table(CELLS) in (tmp_path / "docs/real.md").read_text()
    assert (tmp_path / "docs/real.svg").read_text() == drawn(CELLS)
    publish(CELLS, tmp_path)
    assert (tmp_path / "README.md").read_text() == once


def test_the_page_lists_the_models() -> None:
    assert listed() in (Path(__file__).parents[2] / "docs/real.md").read_text()


def test_fetching_prints_where_models_are_and_which_are_not(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origins = [("steps", GivenFile(model)), ("none", GivenFile(tmp_path / "none.onnx"))]
    assert fetched(origins, tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"steps: {model}, ")
    assert lines[1] == f"none: not installed: {tmp_path}/none.onnx: no such file"
