"""Whatever is wrong with a model file: exit 2, one sentence, no traceback, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.e2e.conftest import CommandLine


def model_of(
    nodes: list[onnx.NodeProto], initializers: list[onnx.TensorProto] | None = None
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph(nodes, "g", [x], [y], initializers or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def truncated(path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    content = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [weight]).SerializeToString()
    path.write_bytes(content[: len(content) // 2])


def random_bytes(path: Path) -> None:
    path.write_bytes(np.random.default_rng(1).bytes(4096))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def text(path: Path) -> None:
    path.write_text("This is not a model.\n" * 20)


def cyclic(path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Add", ["a", "x"], ["b"])]
    nodes.append(helper.make_node("Relu", ["b"], ["y"]))
    path.write_bytes(model_of(nodes).SerializeToString())


def rejected_by_the_checker(path: Path) -> None:
    path.write_bytes(model_of([helper.make_node("Relu", ["x", "x"], ["y"])]).SerializeToString())


def escaping_external_data(path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../secret.bin")
    (path.parent.parent / "secret.bin").write_bytes(b"\0" * 24)
    path.write_bytes(model_of([helper.make_node("Add", ["x", "w"], ["y"])], [weight]).SerializeToString())


def directory(path: Path) -> None:
    path.mkdir()


def missing(path: Path) -> None:
    del path


@pytest.mark.parametrize(
    "spoil",
    [
        truncated,
        random_bytes,
        empty,
        text,
        cyclic,
        rejected_by_the_checker,
        escaping_external_data,
        directory,
        missing,
    ],
)
def test_bad_model_is_one_sentence_and_exit_2(
    spoil: Callable[[Path], None], tmp_path: Path, superopt: CommandLine
) -> None:
    place = tmp_path / "inside"
    place.mkdir()
    model, out = place / "model.onnx", place / "out.onnx"
    spoil(model)
    before = sorted(place.iterdir())
    done = superopt("optimize", model, "-o", out, "--budget", "60")
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("superopt: ")
    assert "Traceback" not in done.stderr
    assert "model.onnx" in done.stderr
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["optimize"], "Missing argument"),
        (["optimize", "m.onnx", "-o", "o.onnx", "--objective", "beauty"], "beauty"),
        (["optimize", "m.onnx", "-o", "o.onnx", "--budget", "-1"], "budget"),
        (["optimize", "m.onnx", "-o", "o.onnx", "--dim", "batch"], "batch"),
        (["zoo", "build", "resnet", "-o", "o.onnx"], "resnet50"),
        (["prove", "relu(x"], "line 1"),
        (["nonsense"], "nonsense"),
        (["library", "show", "0123456789abcdef"], "0123456789abcdef"),
    ],
)
def test_bad_usage_is_exit_2_and_says_what_is_wrong(
    arguments: list[str], words: str, superopt: CommandLine
) -> None:
    done = superopt(*arguments)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
