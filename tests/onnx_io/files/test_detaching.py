"""Models are taken apart and put together again, byte for byte, and what is odd is left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io import load_model
from superopt.onnx_io.files.detaching import attach, detach
from superopt.protobuf_wire import external_bytes


def _model() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xy"]
    constant = numpy_helper.from_array(random.normal(size=(4, 64)).astype(np.float32), "held")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("MatMul", ["x", "large"], ["h"]),
        helper.make_node("Add", ["h", "small"], ["g"]),
        helper.make_node("Mul", ["g", "typed"], ["f"]),
        helper.make_node("Add", ["f", "c"], ["y"]),
    ]
    initializers = [
        numpy_helper.from_array(random.normal(size=(64, 64)).astype(np.float32), "large"),
        numpy_helper.from_array(random.normal(size=64).astype(np.float32), "small"),
        helper.make_tensor("typed", TensorProto.FLOAT, [4, 64 * 8], list(range(4 * 64 * 8))),
    ]
    initializers[2].dims[:] = [4 * 8, 64]
    initializers[0].doc_string = "kept"
    graph = helper.make_graph(nodes[:3], "net", ports[:1], [], initializers, doc_string="a graph")
    graph.node.extend([helper.make_node("Add", ["g", "c"], ["y"])])
    graph.output.extend(ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.metadata_props.add(key="who", value="somebody")
    model.doc_string = "a model"
    return model


def test_what_is_taken_apart_goes_together_again(tmp_path: Path) -> None:
    proto, path, apart = _model(), tmp_path / "net.onnx", tmp_path / "apart"
    apart.mkdir()
    path.write_bytes(proto.SerializeToString())
    detached = detach(path, apart, least=1 << 14)
    assert detached == apart / "net.onnx"
    locations = {
        t.name: t.data_location for t in onnx.load(detached, load_external_data=False).graph.initializer
    }
    assert locations == {"large": TensorProto.EXTERNAL, "small": 0, "typed": 0}
    assert onnx.load(detached).graph.initializer[0].raw_data == proto.graph.initializer[0].raw_data
    assert load_model(detached).has_external_data
    assert external_bytes(detached) == len(proto.graph.initializer[0].raw_data)
    assert external_bytes(path) == 0
    with (tmp_path / "again.onnx").open("wb") as target:
        attach(detached, target)
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


def test_a_model_is_not_taken_apart_in_its_own_directory(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(_model().SerializeToString())
    with pytest.raises(FileExistsError):
        detach(path, tmp_path, least=1 << 14)
    assert path.read_bytes() == _model().SerializeToString()


def test_data_of_constants_goes_back_too(tmp_path: Path) -> None:
    path = tmp_path / "outside.onnx"
    proto = _model()
    onnx.save(proto, path, save_as_external_data=True, size_threshold=0, convert_attribute=True)
    with (tmp_path / "inside.onnx").open("wb") as target:
        attach(path, target)
    inside = onnx.load(tmp_path / "inside.onnx")
    assert all(not t.external_data for t in (*inside.graph.initializer, inside.graph.node[0].attribute[0].t))
    for ours, theirs in zip(inside.graph.initializer, _model().graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(ours), numpy_helper.to_array(theirs))


@pytest.mark.parametrize(
    "content", [b"", b"no model" * 4000, b"\xff" * 40000, b"\x3a\xff\xff\xff\x7f" * 9000]
)
def test_what_is_no_model_is_left_alone(content: bytes, tmp_path: Path) -> None:
    path, apart = tmp_path / "net.onnx", tmp_path / "apart"
    apart.mkdir()
    path.write_bytes(content)
    assert detach(path, apart, least=1 << 10) is None
    assert list(apart.iterdir()) == []


def test_every_cut_of_a_model_is_left_alone_or_refused(tmp_path: Path) -> None:
    content = _model().SerializeToString()
    path = tmp_path / "net.onnx"
    for number, length in enumerate(range(100, len(content), 997)):
        path.write_bytes(content[:length])
        apart = tmp_path / str(number)
        apart.mkdir()
        assert detach(path, apart, least=1 << 14) is None


def test_small_models_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(_model().SerializeToString())
    assert detach(path, tmp_path, least=1 << 20) is None
