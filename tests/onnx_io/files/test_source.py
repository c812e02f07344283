"""What is not a valid model is refused in one sentence; every way to hand over a valid one is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, numpy_helper

from superopt.errors import InvalidModelError
from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from tests.onnx_io.kit import model, node, tensor, value, weight


def good() -> onnx.ModelProto:
    return model([node("Relu", "x", "a"), node("Add", "a w", "y")], [value("x", [3])], [value("y", [3])],
                 [weight("w", 3)])  # fmt: skip


def cyclic() -> bytes:
    nodes = [node("Add", "x b", "a", name="first"), node("Relu", "a", "b", name="second")]
    return model(nodes, [value("x", [3])], [value("b", [3])]).SerializeToString()


def fails_the_checker() -> bytes:
    return model([node("Relu", "x x", "y")], [value("x", [3])], [value("y", [3])]).SerializeToString()


def short_weight() -> bytes:
    broken = good()
    broken.graph.initializer[0].raw_data = b"\0" * 11
    return broken.SerializeToString()


def weight_without_data() -> bytes:
    broken = good()
    broken.graph.initializer[0].ClearField("raw_data")
    return broken.SerializeToString()


def twice_the_same_weight() -> bytes:
    broken = good()
    broken.graph.initializer.append(broken.graph.initializer[0])
    return broken.SerializeToString()


def undeclared_weight() -> bytes:
    broken = good()
    broken.ir_version = 3
    return broken.SerializeToString()


def external(location: str) -> onnx.ModelProto:
    made = good()
    stored = made.graph.initializer[0]
    stored.ClearField("raw_data")
    stored.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", "12")):
        stored.external_data.add(key=key, value=text)
    return made


BAD_CONTENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "is empty"),
    "text": (lambda: b"This is a text.\nIt has two lines.\n", "is a text file"),
    "random bytes": (lambda: np.random.default_rng(0).bytes(5000), "is not an ONNX model"),
    "truncated": (lambda: good().SerializeToString()[:-20], "is not an ONNX model, or a truncated one"),
    "another protobuf": (lambda: weight("w", 3).SerializeToString(), "is not an ONNX model"),
    "cycle": (cyclic, r"has a cycle: node '(first|second)' \((Add|Relu)\) needs itself"),
    "checker": (fails_the_checker, "is not a valid ONNX model: Node with schema"),
    "short weight": (short_weight, r"tensor 'w' of shape \[3\] needs 12 bytes, got 11"),
    "no data": (weight_without_data, "tensor 'w' of shape .3. holds no data"),
    "same weight twice": (twice_the_same_weight, "two initialisers are called 'w'"),
    "undeclared weight": (undeclared_weight, "initialiser 'w' must be a graph input too"),
}


@pytest.mark.parametrize("name", BAD_CONTENTS)
def test_bad_content_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    make, message = BAD_CONTENTS[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(make())
    for source in (path, str(path), make()):
        with pytest.raises(InvalidModelError, match=message) as caught:
            load_model(source)
        assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="does not exist"):
        load_model(tmp_path / "none.onnx")
    with pytest.raises(InvalidModelError, match="is a directory"):
        load_model(tmp_path)


def outside_by_link(directory: Path) -> None:
    (directory.parent / "secret").write_bytes(bytes(12))
    (directory / "link").symlink_to(directory.parent / "secret")


def too_short(directory: Path) -> None:
    (directory / "weights").write_bytes(bytes(11))


def a_directory(directory: Path) -> None:
    (directory / "folder").mkdir()


BAD_LOCATIONS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "above": ("../secret", outside_by_link, "expected a path inside the directory of the model"),
    "absolute": ("/etc/passwd", outside_by_link, "expected a path inside the directory of the model"),
    "link": ("link", outside_by_link, "a link to outside"),
    "missing": ("none", outside_by_link, "which does not exist"),
    "directory": ("folder", a_directory, "which is not a regular file"),
    "short": ("weights", too_short, "needs 12 bytes at offset 0, got 12 of a file of 11"),
}


@pytest.mark.parametrize("name", BAD_LOCATIONS)
def test_external_data_must_lie_beside_the_model(name: str, tmp_path: Path) -> None:
    location, prepare, message = BAD_LOCATIONS[name]
    directory = tmp_path / "model"
    directory.mkdir()
    prepare(directory)
    (directory / "model.onnx").write_bytes(external(location).SerializeToString())
    with pytest.raises(InvalidModelError, match=message):
        load_model(directory / "model.onnx")


def test_weights_of_a_file_with_several_names_are_read(tmp_path: Path) -> None:
    (tmp_path / "stored").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
    (tmp_path / "weights").hardlink_to(tmp_path / "stored")
    (tmp_path / "model.onnx").write_bytes(external("weights").SerializeToString())
    source = load_model(tmp_path / "model.onnx")
    assert source.constants["w"].numpy().tolist() == [1, 2, 3]


def test_content_alone_cannot_have_external_data() -> None:
    with pytest.raises(InvalidModelError, match="keeps tensor 'w' in another file: give the path"):
        load_model(external("weights").SerializeToString())


def test_external_data_of_a_model_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    (tmp_path / "model.onnx").write_bytes(external("weights").SerializeToString())
    monkeypatch.chdir(tmp_path)
    lifted = lift(load_model("model.onnx"))
    assert lifted.weight("w").tolist() == [0, 1, 2]


def test_all_kinds_of_sources_give_the_same_graph(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(good().SerializeToString())
    sources = (path, str(path), path.read_bytes(), good(), onnx_ir.from_proto(good()), onnx_ir.load(path))
    signatures = {lift(load_model(source)).graph.signature for source in sources}
    assert len(signatures) == 1


def test_the_caller_may_change_what_he_gave() -> None:
    given = good()
    source = load_model(given)
    given.graph.node[0].op_type = "Sigmoid"
    assert source.proto.graph.node[0].op_type == "Relu"


@pytest.mark.parametrize("kind", ["in memory", "external", "over the limit"])
def test_an_onnx_ir_model_with_large_weights(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.random.default_rng(0).normal(size=(600, 600)).astype(np.float32)
    nodes = [node("MatMul", "x w", "y")]
    made = model(nodes, [value("x", [2, 600])], [value("y", [2, 600])], [tensor("w", array)])
    given = onnx_ir.from_proto(made)
    if kind == "over the limit":
        monkeypatch.setattr("superopt.onnx_io.files.from_onnx_ir.LIMIT", 1 << 20)
    if kind == "external":
        onnx_ir.save(given, tmp_path / "model.onnx", external_data="weights")
        given = onnx_ir.load(tmp_path / "model.onnx")
    lifted = lift(load_model(given))
    np.testing.assert_array_equal(lifted.weight("w"), array)
    assert given.graph.initializers["w"].const_value is not None
    assert lifted.source.has_external_data == (kind != "in memory")
    written = onnx.ModelProto.FromString(lower(lifted, lifted.graph, Plan()).to_bytes())
    np.testing.assert_array_equal(numpy_helper.to_array(written.graph.initializer[0]), array)


def test_an_onnx_ir_model_may_not_lead_outside_either(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    given = onnx_ir.from_proto(external("../secret"))
    onnx_ir.external_data.set_base_dir(given.graph, tmp_path / "model")
    with pytest.raises(InvalidModelError, match="expected a path inside the directory"):
        load_model(given)


def test_sparse_weights_and_training_leave_the_model_alone() -> None:
    sparse = good()
    sparse.graph.sparse_initializer.add().CopyFrom(
        onnx.helper.make_sparse_tensor(tensor("s", [1.0]), tensor("i", [2], np.int64), [3])
    )
    trained = good()
    trained.training_info.add().algorithm.CopyFrom(good().graph)
    for made, why in ((sparse, "sparse"), (trained, "training_info")):
        lifted = lift(load_model(made))
        assert {op_type for _, op_type, _ in lifted.opaque} == {"Relu", "Add"}
        assert all(why in reason for _, _, reason in lifted.opaque)
        assert lower(lifted, lifted.graph, Plan()).to_bytes() == made.SerializeToString()


def test_old_operator_sets_stay_as_they_are() -> None:
    old = model([node("Relu", "x", "y", consumed_inputs=[0])], [value("x", [3])], [value("y", [3])], opset=5)
    lifted = lift(load_model(old))
    assert lifted.opaque[0][2] == "operator set 5 is older than 7, where broadcasting was different"
