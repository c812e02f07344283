"""What ONNX Runtime runs is taken, whatever the checker or the model itself says; what is odd is kept."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir
import pytest

from superopt.errors import InvalidModelError
from superopt.ir import Plan
from superopt.onnx_io import LiftedModel, ModelSource, lift, load_model, lower
from superopt.ops import Opaque
from superopt.optimizer.pipeline.runnable import why_refused
from tests.onnx_io import forcing
from tests.onnx_io.kit import assert_same_results
from tests.onnx_io.tolerated import CHECKER, TOLERATED, nodes_in_any_order, output_without_shape, plain

every_tolerated_model = pytest.mark.parametrize("name", TOLERATED)


def lifted(source: ModelSource) -> LiftedModel:
    return lift(load_model(source, why_refused))


@every_tolerated_model
def test_it_runs_and_is_taken_with_a_warning(name: str) -> None:
    make, warning = TOLERATED[name]
    (said,) = lifted(make().SerializeToString()).source.warnings
    assert said.startswith(warning)


@every_tolerated_model
def test_without_a_runtime_the_checker_decides(name: str) -> None:
    make, warning = TOLERATED[name]
    if "declared" in warning:
        assert load_model(make()).warnings == (), "what the checker accepts"
    elif make is output_without_shape:
        assert load_model(make()).warnings[0].startswith(warning), "no more than a shape is missing"
    else:
        with pytest.raises(InvalidModelError, match="is not a valid ONNX model"):
            load_model(make())


def test_an_operator_that_the_runtime_does_not_know_may_have_an_output_without_shape() -> None:
    model = output_without_shape()
    model.opset_import.add(domain="com.acme", version=1)
    model.graph.node[-1].domain = "com.acme"
    given = load_model(model.SerializeToString(), lambda _: "an unknown operator")
    assert given.warnings[0].startswith(CHECKER)
    model.graph.output[0].name = "nothing"
    with pytest.raises(InvalidModelError, match="is not a valid ONNX model"):
        load_model(model.SerializeToString(), lambda _: "an unknown operator")


@every_tolerated_model
def test_it_is_written_as_it_was_and_computes_the_same_anew(name: str) -> None:
    content = TOLERATED[name][0]().SerializeToString()
    given = lifted(content)
    assert lower(given, given.graph, Plan()).to_bytes() == content
    written = lower(given, forcing.touched(given.graph), Plan()).to_bytes()
    assert_same_results(content, written)
    before, after = (onnx.ModelProto.FromString(model).graph.output for model in (content, written))
    assert before == after, "what is declared of outputs stays"


@pytest.mark.parametrize(
    "name", ["output of another rank", "inner tensor of another rank", "initialiser twice"]
)
def test_false_declarations_hide_nothing(name: str) -> None:
    assert not any(isinstance(node.operator, Opaque) for node in lifted(TOLERATED[name][0]()).graph)


def test_all_kinds_of_sources_are_judged_by_the_runtime(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(output_without_shape().SerializeToString())
    sources = (path, path.read_bytes(), output_without_shape(), onnx_ir.from_proto(output_without_shape()))
    assert {
        source.warnings[0][: len(CHECKER)] for source in (load_model(given, why_refused) for given in sources)
    } == {CHECKER}


def test_what_does_not_load_is_refused_in_the_words_of_the_checker() -> None:
    broken = plain()
    broken.graph.node[1].input[1] = "nowhere"
    with pytest.raises(InvalidModelError, match="is not a valid ONNX model: Nodes in a graph must be"):
        load_model(broken)


def test_the_reason_of_the_runtime_is_given_where_the_checker_alone_would_be_tolerated() -> None:
    """Nodes out of order are, and an output of a wrong type is not."""
    broken = plain()
    broken.graph.node.reverse()
    broken.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    with pytest.raises(
        InvalidModelError, match=r"in a graph must be .*; ONNX Runtime refuses the model: .*[Tt]ype"
    ):
        load_model(broken, why_refused)


def test_a_large_weight_of_a_model_in_any_order_is_stored_once() -> None:
    given = lifted(nodes_in_any_order())
    assert [tensor.name for tensor in given.source.proto.graph.initializer] == ["w", "b"]
    assert given.source.as_given.proto.graph.node[0].op_type == "Relu"
