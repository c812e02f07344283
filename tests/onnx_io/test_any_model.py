"""Any valid ONNX model goes in and comes out: as it was when untouched, equivalent when written anew."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from superopt.onnx_io import lift, load_model
from tests.onnx_io import forcing
from tests.onnx_io.kit import assert_same_results, model, node, value
from tests.onnx_io.odd_models import ODD_MODELS

every_odd_model = pytest.mark.parametrize("name", ODD_MODELS)
each_way_to_write_it_anew = pytest.mark.parametrize(
    "rewrite", [forcing.written_anew, forcing.every_other_node_written_anew], ids=["all", "half"]
)


@every_odd_model
def test_an_untouched_model_comes_out_byte_for_byte(name: str) -> None:
    content = ODD_MODELS[name]().SerializeToString()
    assert forcing.written_as_it_was(content) == content


@every_odd_model
@each_way_to_write_it_anew
def test_a_model_written_anew_is_valid_and_computes_the_same(name: str, rewrite: forcing.Rewriting) -> None:
    content = ODD_MODELS[name]().SerializeToString()
    written = rewrite(content)
    if name != "standard domain spelled out":  # valid, but unknown to the checker
        onnx.checker.check_model(written, full_check=True)
    assert_same_results(content, written, rtol=2e-3 if name == "half precision" else 1e-5)


@every_odd_model
@each_way_to_write_it_anew
def test_what_the_model_promises_its_callers_stays(name: str, rewrite: forcing.Rewriting) -> None:
    before = ODD_MODELS[name]()
    after = onnx.ModelProto.FromString(rewrite(before.SerializeToString()))
    weights = {tensor.name for tensor in before.graph.initializer} if before.ir_version < 4 else set[str]()
    stored = {tensor.name for tensor in after.graph.initializer} if before.ir_version < 4 else set[str]()
    assert [v for v in after.graph.input if v.name not in stored] == [
        v for v in before.graph.input if v.name not in weights
    ]
    assert after.graph.output == before.graph.output
    for field in ("ir_version", "opset_import", "metadata_props", "doc_string", "functions", "domain"):
        assert getattr(after, field) == getattr(before, field)
    assert after.graph.doc_string == before.graph.doc_string
    assert after.graph.metadata_props == before.graph.metadata_props


@every_odd_model
def test_the_same_bytes_again(name: str) -> None:
    content = ODD_MODELS[name]().SerializeToString()
    assert forcing.written_anew(content) == forcing.written_anew(content)


def test_captured_values_keep_their_names() -> None:
    content = ODD_MODELS["branches that capture"]().SerializeToString()
    lifted = lift(load_model(content))
    branch = next(node for node in lifted.graph if node.operator.name == "opaque" and len(node.inputs) == 4)
    assert [lifted.names[value] for value in branch.inputs] == ["positive", "a", "x", "w"]
    written = onnx.ModelProto.FromString(forcing.written_anew(content))
    assert written.graph.node[0].output == ["a"]


def test_nodes_may_share_a_name() -> None:
    nodes = [node("Relu", "x", "a", name="twin"), node("Tanh", "a", "b", name="twin"), node("Elu", "b", "y")]
    content = model(nodes, [value("x", [3])], [value("y", [3])]).SerializeToString()
    assert forcing.written_as_it_was(content) == content
    given = {"x": np.array([-1, 0, 1], np.float32)}
    results = [ReferenceEvaluator(m).run(None, given) for m in (content, forcing.written_anew(content))]
    np.testing.assert_allclose(*results, rtol=1e-6)
