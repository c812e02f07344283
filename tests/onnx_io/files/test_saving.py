"""Models are written whole or not at all, with external data beside them where that is needed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidModelError, InvalidOptionError
from superopt.ir import Plan
from superopt.onnx_io import LoweredModel, lift, load_model, lower, require_destination
from tests.onnx_io.forcing import touched
from tests.onnx_io.kit import assert_same_results, model, node, session, tensor, value, weight

GIGABYTE = 1 << 30


def small() -> onnx.ModelProto:
    nodes = [node("MatMul", "x w", "a"), node("Add", "a b", "s"), node("Relu", "s", "y")]
    weights = [weight("w", 40, 30), weight("b", 30)]
    return model(nodes, [value("x", [2, 40])], [value("y", [2, 30])], weights)


def with_external_data(directory: Path) -> Path:
    """The small model with its matrix outside, and a Constant and a subgraph weight outside too."""
    made = small()
    inner = helper.make_graph(
        [node("Add", "y i", "z0")], "then", [], [value("z0", [2, 30])], [weight("i", 30)]
    )
    other = helper.make_graph([node("Identity", "y", "z1")], "else", [], [value("z1", [2, 30])])
    made.graph.node.extend([
        node("Constant", "", "yes", value=tensor("", 1, np.bool_)),
        node("If", "yes", "z", then_branch=inner, else_branch=other),
    ])  # fmt: skip
    made.graph.output.append(value("z", [2, 30]))
    inside = made.graph.node[4].attribute[0 if made.graph.node[4].attribute[0].name == "then_branch" else 1].g
    with (directory / "data.bin").open("wb") as file:
        for stored in (made.graph.initializer[0], inside.initializer[0]):
            stored.data_location = TensorProto.EXTERNAL
            for key, text in (("location", "data.bin"), ("offset", str(file.tell()))):
                stored.external_data.add(key=key, value=text)
            file.write(stored.raw_data)
            stored.ClearField("raw_data")
    path = directory / "external.onnx"
    path.write_bytes(made.SerializeToString())
    return path


def lowered(path: Path | onnx.ModelProto, *, anew: bool) -> LoweredModel:
    lifted = lift(load_model(path))
    return lower(lifted, touched(lifted.graph) if anew else lifted.graph, Plan())


@pytest.mark.parametrize("anew", [False, True])
def test_a_model_with_external_data_is_saved_with_external_data(tmp_path: Path, *, anew: bool) -> None:
    source = tmp_path / "in"
    target = tmp_path / "out"
    source.mkdir()
    target.mkdir()
    result = lowered(with_external_data(source), anew=anew)
    result.save(target / "model.onnx")
    (data,) = [path.name for path in target.iterdir() if path.name != "model.onnx"]
    assert data.startswith("superopt-")
    onnx.checker.check_model(str(target / "model.onnx"))
    assert_same_results(result.to_bytes(), result.to_bytes())
    given = {"x": np.random.default_rng(0).normal(size=(2, 40)).astype(np.float32)}
    runs = [session(str(path)).run(None, given) for path in (source / "external.onnx", target / "model.onnx")]
    for expected, got in zip(*runs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_bytes_are_self_contained(tmp_path: Path) -> None:
    content = lowered(with_external_data(tmp_path), anew=False).to_bytes()
    proto = onnx.ModelProto.FromString(content)
    assert [t.data_location for t in proto.graph.initializer] == [TensorProto.DEFAULT] * 2
    session(content)


@pytest.mark.parametrize("anew", [False, True])
def test_bytes_are_those_of_protobuf(tmp_path: Path, *, anew: bool) -> None:
    """They are put together from initialisers that are serialised one by one."""
    (tmp_path / "external").mkdir()
    for path in (small(), with_external_data(tmp_path / "external")):
        result = replace(lowered(path, anew=anew), unchanged=False)
        assert result.to_bytes() == result.to_proto().SerializeToString()


def test_saving_again_gives_the_same_files(tmp_path: Path) -> None:
    with_external_data(tmp_path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        lowered(tmp_path / "external.onnx", anew=True).save(tmp_path / name / f"{name}.onnx")
    one, two = ({path.name for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one - {"one.onnx"} == two - {"two.onnx"}
    assert (tmp_path / "one/one.onnx").read_bytes() == (tmp_path / "two/two.onnx").read_bytes()


def test_a_model_may_replace_its_source(tmp_path: Path) -> None:
    path = with_external_data(tmp_path)
    before = lowered(path, anew=False).to_bytes()
    lowered(path, anew=True).save(path)
    assert_same_results(before, lowered(path, anew=False).to_bytes())


@pytest.mark.parametrize("anew", [False, True])
def test_a_model_of_more_than_two_gigabytes(tmp_path: Path, *, anew: bool) -> None:
    """The weights are a sparse file: they are mapped, never read as a whole, and written as a sparse file."""
    rows = 40_000
    nodes = [node("Gather", "table i", "a"), node("Relu", "a", "r"), node("MatMul", "r small", "y")]
    table = TensorProto(name="table", data_type=TensorProto.FLOAT, dims=[rows, 1 << 14])
    table.data_location = TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    made = model(
        nodes, [value("i", [3], TensorProto.INT64)], [value("y", [3, 2])], [weight("small", 1 << 14, 2)]
    )
    made.graph.initializer.append(table)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())
    with (tmp_path / "table.bin").open("wb") as file:
        file.write(np.ones(1 << 14, np.float32))
        file.truncate(rows << 16)
    assert rows << 16 > 2 * GIGABYTE
    result = lowered(tmp_path / "model.onnx", anew=anew)
    with pytest.raises(InvalidModelError, match=r"has 2\.6 GB, and one ONNX file holds 2 GB"):
        result.to_bytes()
    (tmp_path / "out").mkdir()
    result.save(tmp_path / "out" / "model.onnx")
    files = {path.suffix: path.stat() for path in (tmp_path / "out").iterdir()}
    assert files[".data"].st_size > 2 * GIGABYTE
    assert files[".data"].st_blocks * 512 < GIGABYTE // 8
    assert files[".onnx"].st_size < 1 << 20
    written = lift(load_model(tmp_path / "out" / "model.onnx"))
    assert written.weight("table")[0, 0] == 1
    assert written.weight("table")[rows - 1].max() == 0


def test_weights_in_memory_of_any_size_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is too large for one file gets a second one, wherever its weights came from."""
    monkeypatch.setattr("superopt.onnx_io.files.saving.LIMIT", 2000)
    result = lowered(small(), anew=True)
    with pytest.raises(InvalidModelError, match="save it to a path"):
        result.to_bytes()
    result.save(tmp_path / "model.onnx")
    assert len(list(tmp_path.iterdir())) == 2
    given = {"x": np.ones((2, 40), np.float32)}
    expected = session(small().SerializeToString()).run(None, given)
    np.testing.assert_allclose(session(str(tmp_path / "model.onnx")).run(None, given), expected, rtol=1e-5)


def test_nothing_is_left_of_a_failed_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(b"precious")

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InvalidOptionError, match="cannot be written: No space left on device"):
        lowered(small(), anew=True).save(tmp_path / "model.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_bytes() == b"precious"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for place, message in {
        tmp_path: "expected a file to write, got a directory",
        tmp_path / "none" / "model.onnx": "expected the path of a file in a directory that exists",
    }.items():
        with pytest.raises(InvalidOptionError, match=message):
            lowered(small(), anew=False).save(place)


def test_weights_are_mapped_not_read(tmp_path: Path) -> None:
    lifted = lift(load_model(with_external_data(tmp_path)))
    array = lifted.weight("w")
    assert not array.flags.owndata
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, numpy_helper.to_array(weight("w", 40, 30)))


def test_a_model_over_two_gigabytes_is_refused_for_a_stream_before_any_work(tmp_path: Path) -> None:
    size = 3 * GIGABYTE
    made = model([node("MatMul", "x w", "y")], [value("x", [2, 1])], [value("y", [2, size // 4])])
    stored = made.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1, size // 4])
    stored.data_location = TensorProto.EXTERNAL
    stored.external_data.add(key="location", value="data.bin")
    with (tmp_path / "data.bin").open("wb") as file:
        file.truncate(size)
    large, pipe = tmp_path / "large.onnx", tmp_path / "pipe"
    large.write_bytes(made.SerializeToString())
    os.mkfifo(pipe)
    with pytest.raises(InvalidModelError, match=r"large\.onnx has 3\.2 GB, .* save it to a path"):
        require_destination(pipe, large)
    require_destination(tmp_path / "out.onnx", large)
    require_destination(Path(os.devnull), large)
