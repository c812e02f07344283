"""The whole journey on unusual models: open, empty and immense dimensions, weights elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.errors import InvalidOptionError
from superopt.journeys.comparing import compared_sources
from superopt.onnx_io import lift, load_model
from superopt.ops.matrix import Matmul
from superopt.optimizer import Measured, Options, optimize
from superopt.optimizer.cost import GraphCost, Latency, MemoryCostStore, Origin, Sizes
from superopt.optimizer.pipeline.runnable import why_refused
from tests.onnx_io.kit import model as small
from tests.onnx_io.kit import node, tensor, value, weight
from tests.onnx_io.tolerated import TOLERATED
from tests.optimizer.graphs import Builder, skewed_products
from tests.optimizer.models import lifted, model_of, run
from tests.optimizer.rules import ASSOCIATIVE, rules


def test_open_dimensions_control_flow_and_unknown_types_go_through(costs: MemoryCostStore) -> None:
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["z"], [op])], op, [], [helper.make_tensor_value_info(op, 1, None)]
        )
        for op in ("Relu", "Neg")
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="first"),
            helper.make_node("MatMul", ["y", "v"], ["z"], name="second"),
            helper.make_node("If", ["flag"], ["out"], then_branch=branch[0], else_branch=branch[1]),
        ],
        "open",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 8])],
        [
            onnx.numpy_helper.from_array(np.ones((64, 64), np.float32), "w"),
            onnx.numpy_helper.from_array(np.ones((64, 8), np.float32), "v"),
        ],
    )
    for branch_graph in branch:
        branch_graph.output[0].CopyFrom(
            helper.make_tensor_value_info(branch_graph.output[0].name, TensorProto.FLOAT, ["n", 8])
        )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = lift(load_model(proto))
    report = run(model, costs, dims={"n": 32}).report
    assert report.trace or report.returned == "original"
    assert report.equivalence.passed
    with pytest.raises(InvalidOptionError, match="no open dimension 'm'"):
        run(model, costs, dims={"m": 32})


def test_a_size_that_no_memory_holds(costs: MemoryCostStore) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("MatMul", ["y", "v"], ["z"])]
    weights = {"w": np.ones((64, 64), np.float32), "v": np.ones((64, 8), np.float32)}
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 8])],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = lift(load_model(proto))
    options = Options(budget=6.0, threads=1, dims={"n": 99_999_999_999})
    report = optimize(model, rules(ASSOCIATIVE), options, Measured(costs)).report
    assert (report.returned, report.why) == (
        "original",
        (
            "the original does not run at n=99999999999 (input x: not enough memory for 6,399,999,999,936 "
            "elements); give other sizes, or --inputs"
        ),
    )
    assert report.search.stopped_by == "not_run"


def test_weights_in_files_of_their_own(tmp_path: Path, costs: MemoryCostStore) -> None:
    proto = onnx.load_from_string(model_of(skewed_products()))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = lift(load_model(path))
    result = run(model, costs)
    assert result.report.returned == "optimized"
    assert run(model, costs, ()).report.equivalence.why == (
        "nothing was compared: the original is returned, with its external data in a separate file"
    )


@pytest.mark.parametrize(("ir", "overridable"), [(3, 0), (8, 1)])
def test_weights_that_are_inputs_too_are_counted(ir: int, overridable: int, costs: MemoryCostStore) -> None:
    """Up to IR 3 every weight had to be an input; since then that says that callers may replace it."""
    proto = onnx.load_from_string(model_of(skewed_products()))
    for stored in proto.graph.initializer:
        port = helper.make_tensor_value_info(stored.name, stored.data_type, list(stored.dims))
        proto.graph.input.append(port)
    proto.ir_version = ir
    assert run(lift(load_model(proto)), costs, max_candidates=0).report.model.overridable == overridable


@pytest.mark.parametrize(("rows", "opset"), [(6, 17), (5, 99)])
def test_there_is_no_search_where_the_original_does_not_run(
    rows: int, opset: int, costs: MemoryCostStore
) -> None:
    """Sizes that do not fit, and an operator set that the runtime does not know."""
    proto = small(
        [node("MatMul", "x w", "y")],
        [value("x", [4, 5])],
        [value("y", [4, 3])],
        [weight("w", rows, 3)],
        opset=opset,
    )
    report = run(lift(load_model(proto, lambda _: "")), costs).report
    assert (report.returned, report.search.stopped_by) == ("original", "not_run")
    assert report.why.startswith("the original does not run: ")


FOUR_NUMBERS = helper.make_tensor_type_proto(TensorProto.FLOAT, [4])


@pytest.mark.parametrize(
    ("made", "op"),
    [
        (helper.make_optional_type_proto(FOUR_NUMBERS), node("OptionalGetElement", "sq", "z")),
        (helper.make_sequence_type_proto(FOUR_NUMBERS), node("ConcatFromSequence", "sq", "z", axis=0)),
    ],
    ids=["optional", "sequence"],
)
def test_inputs_that_are_not_tensors_are_named(
    made: onnx.TypeProto, op: onnx.NodeProto, tmp_path: Path, costs: MemoryCostStore
) -> None:
    proto = small(
        [op, node("Add", "x z", "y")],
        [value("x", [1]), helper.make_value_info("sq", made)],
        [value("y", ["n"])],
        opset=18,
    )
    archive = tmp_path / "inputs.npz"
    np.savez(archive, x=np.ones(1, np.float32))
    said = "inputs of sequence or optional type are not supported: 'sq'"
    source = load_model(proto)
    for inputs in (None, archive):
        report = run(lift(source), costs, inputs=inputs).report
        assert (report.returned, report.why, report.search.stopped_by) == ("original", said, "not_run")
        verdict = compared_sources(source, source, inputs=inputs)
        assert (verdict.passed, verdict.why) == (False, said)


def test_tensors_without_elements(costs: MemoryCostStore) -> None:
    builder = Builder()
    product = builder.add(Matmul(), builder.input("x", 0, 64), builder.weight(64, 64))
    model = lifted(builder.graph(builder.add(Matmul(), product, builder.weight(64, 64))))
    report = run(model, costs, (ASSOCIATIVE,)).report
    assert report.search.candidates > 0
    assert (report.equivalence.passed, report.measured is not None) == (True, True)


def test_what_an_unknown_node_reads_is_priced_at_known_sizes(costs: MemoryCostStore) -> None:
    """A token for every sample, expanded to a batch of open size, and quantised."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape zero one", "batch"),
        node("Concat", "batch rest", "wanted", axis=0),
        node("Expand", "token wanted", "tokens"),
        node("QuantizeLinear", "tokens scale zero_point", "quantised"),
        node("DequantizeLinear", "quantised scale zero_point", "rounded"),
        node("Add", "rounded x", "y"),
    ]
    weights = [
        *(
            tensor(name, numbers, np.int64)
            for name, numbers in (("zero", [0]), ("one", [1]), ("rest", [4, 16]))
        ),
        *(weight("token", 1, 4, 16), tensor("scale", 0.1), tensor("zero_point", 0, np.int8)),
    ]
    size = ["batch", 4, 16]
    lifted = lift(load_model(small([*nodes], [value("x", size)], [value("y", size)], weights, opset=13)))
    objective = Latency(costs, threads=1)
    start = GraphCost.of(lifted.graph, objective, Sizes(lifted.graph, {"batch": 3}, Origin(lifted)))
    objective.measure_again()
    quantising = [
        group.kernel for group in start.refreshed().groups if "QuantizeLinear" in group.kernel.operators
    ]
    assert [kernel.output_types[0].shape for kernel in quantising] == [(3, 4, 16)]


@pytest.mark.parametrize("name", TOLERATED)
def test_what_the_checker_rejects_is_optimised_where_it_runs(name: str, costs: MemoryCostStore) -> None:
    make, warning = TOLERATED[name]
    report = run(lift(load_model(make(), why_refused)), costs, budget=2.0).report
    assert report.equivalence.passed
    assert report.model.warnings[0].startswith(warning)
