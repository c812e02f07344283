"""Where results may go: every command that writes a file writes into streams, too, and destroys none."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.cli.main import run

BUDGET = ("--budget", "10", "--max-candidates", "5", "--threads", "1")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, with weights beside it, and its report; a database."""
    path = tmp_path_factory.mktemp("outputs")
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 64]) for name in "xy")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    graph = helper.make_graph(nodes, "steps", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path / "model.onnx")
    onnx.save(model, path / "split.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    given = ["optimize", str(path / "split.onnx"), "-o", str(path / "out.onnx"), *BUDGET]
    assert run([*given, "--report", str(path / "report.json"), *database(path)]) == 0
    return path


def database(path: Path) -> tuple[str, str]:
    return "--database", f"sqlite:///{path / 'rules.db'}"


def is_model(content: bytes) -> bool:
    """Whether it is a whole model, with its weights."""
    (weight,) = onnx.load_from_string(content).graph.initializer
    return numpy_helper.to_array(weight).shape == (64, 64)


def is_network(content: bytes) -> bool:
    return onnx.load_from_string(content).graph.name == "squeezenet"


def is_page(content: bytes) -> bool:
    return content.startswith(b"<!doctype html>") and content.endswith(b"</html>")


def are_rules(content: bytes) -> bool:
    return all("equation" in json.loads(line) for line in content.splitlines())


def is_profile(content: bytes) -> bool:
    return json.loads(content.splitlines()[0])["kind"] == "superopt cost profile"


COMMANDS: list[tuple[str, Callable[[bytes], bool]]] = [
    ("optimize split.onnx --budget 10 --max-candidates 5 --threads 1 -o", is_model),
    ("replay split.onnx report.json -o", is_model),
    ("report report.json -o", is_page),
    ("zoo build squeezenet -o", is_network),
    ("library export", are_rules),
    ("profile --models model.onnx --threads 1 -o", is_profile),
]


@pytest.fixture(params=COMMANDS, ids=lambda case: " ".join(case[0].split()[:2]))
def command(
    request: pytest.FixtureRequest, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], Callable[[bytes], bool]]:
    """A command without its last argument, the output; and what this should be."""
    monkeypatch.chdir(directory)
    words, expected = request.param
    return [*words.split()], expected


def test_a_dash_is_standard_output_and_the_summary_goes_to_standard_error(
    command: tuple[list[str], Callable[[bytes], bool]],
    directory: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    words, expected = command
    assert run([*words, "-", *database(directory)]) == 0
    written = capfdbinary.readouterr()
    assert expected(written.out)
    assert written.err
    assert not (directory / "-").exists()


def test_a_pipe_is_written_into(
    command: tuple[list[str], Callable[[bytes], bool]], directory: Path, tmp_path: Path
) -> None:
    words, expected = command
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        assert run([*words, str(pipe), *database(directory)]) == 0
        assert expected(read.result())
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_json_and_a_result_do_not_share_standard_output(
    command: tuple[list[str], Callable[[bytes], bool]], directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words, _ = command
    assert run([*words, "-", "--json", *database(directory)]) == 2
    written = capfd.readouterr()
    assert json.loads(written.out)["error"]["message"] == " ".join(written.err.split()[1:])
    assert "--json uses standard output" in written.err


def test_external_data_lies_beside_the_path_that_was_given(directory: Path, tmp_path: Path) -> None:
    link, target = tmp_path / "link.onnx", tmp_path / "store" / "real.onnx"
    target.parent.mkdir()
    link.symlink_to(target)
    words = ["optimize", str(directory / "split.onnx"), "-o", str(link), *BUDGET]
    assert run([*words, *database(directory)]) == 0
    assert link.is_symlink()
    assert run(["check", str(directory / "model.onnx"), str(link)]) == 0
    assert [path.name for path in target.parent.iterdir()] == ["real.onnx"]


def test_a_data_file_is_named(
    tmp_path: Path, directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["optimize", str(directory / "split.onnx"), *BUDGET, *database(directory)]
    assert run([*words, "-o", "apart.onnx", "--external-data"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "written: apart.onnx, apart.onnx.data"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apart.onnx", "apart.onnx.data"]
    assert run([*words, "-o", "whole.onnx"]) == 0
    name = capsys.readouterr().out.splitlines()[-1].removeprefix("written: whole.onnx, ")
    assert re.fullmatch(r"superopt-[0-9a-f]{16}\.data", name)
    assert Path(name).is_file()
