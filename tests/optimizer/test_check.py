"""Equivalence and latency of whole models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.onnx_io import lift, load_model
from superopt.ops.matrix import Matmul
from superopt.optimizer.check import (
    Equivalence,
    Reference,
    Sampling,
    check_dims,
    check_equivalence,
    compare_latency,
    compare_outputs,
    declared_ports,
    load_inputs,
    plan_inputs,
)
from superopt.optimizer.check.roles import Integers, Mask
from superopt.optimizer.cost.runtime.ports import Port, misdeclared
from superopt.optimizer.cost.runtime.session import LoadedModel
from superopt.optimizer.pipeline.runnable import why_refused
from tests.onnx_io.kit import graph, node, tensor, value, weight
from tests.onnx_io.kit import model as small
from tests.optimizer.graphs import Builder
from tests.optimizer.models import model_of

FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, int, Sequence[int | str]]],
    outputs: Sequence[tuple[str, int, Sequence[int | str]]],
    weights: Sequence[onnx.TensorProto] = (),
) -> bytes:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        weights,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def verdict(first: bytes, second: bytes, **sampling: object) -> Equivalence:
    original = LoadedModel(first, 1)
    inputs = plan_inputs(lift(load_model(first)), original.inputs, {})
    reference = Reference(original, inputs, Sampling(**sampling))  # type: ignore[arg-type]
    return check_equivalence(reference, LoadedModel(second, 1))


def one_node(op_type: str, **attributes: float) -> bytes:
    node = helper.make_node(op_type, ["x"], ["y"], **attributes)
    return model([node], [("x", FLOAT, [2, 8])], [("y", FLOAT, [2, 8])])


@pytest.mark.parametrize(
    ("left", "right", "passes"),
    [
        (one_node("Relu"), one_node("Relu"), True),
        (one_node("Relu"), one_node("Abs"), False),
        (one_node("LeakyRelu", alpha=0.1), one_node("LeakyRelu", alpha=0.100005), True),
        (one_node("LeakyRelu", alpha=0.1), one_node("LeakyRelu", alpha=0.101), False),
        (one_node("Log"), one_node("Log"), True),
        (one_node("Sqrt"), one_node("Abs"), False),
        (one_node("RandomNormalLike"), one_node("RandomNormalLike"), False),
    ],
    ids=["same", "other", "within", "beyond", "nan-agrees", "nan-differs", "random"],
)
def test_outputs_decide(left: bytes, right: bytes, *, passes: bool) -> None:
    assert verdict(left, right).passed == passes


def test_random_models_cannot_be_certified() -> None:
    assert (
        "two runs of the original" in verdict(one_node("RandomNormalLike"), one_node("RandomNormalLike")).why
    )


def test_other_inputs_or_outputs_are_no_match() -> None:
    other = model([helper.make_node("Relu", ["z"], ["y"])], [("z", FLOAT, [2, 8])], [("y", FLOAT, [2, 8])])
    assert "different inputs" in verdict(one_node("Relu"), other).why


def chosen(conditions: bytes, *, stored: bool) -> bytes:
    """Where of a comparison of two constants with many equal elements, or of its stored result."""
    first, second = np.frombuffer(conditions, np.float32).reshape(2, 256)
    wrong = (first > second) | ((first == second) & np.isinf(first))
    weights = [tensor("c", wrong, np.bool_)] if stored else [tensor("a", first), tensor("b", second)]
    nodes = [] if stored else [node("Greater", "a b", "c")]
    nodes += [node("Relu", "x", "r"), node("Relu", "z", "s"), node("Where", "c r s", "y")]
    shape = [64, 256]
    return model(nodes, [("x", FLOAT, shape), ("z", FLOAT, shape)], [("y", FLOAT, shape)], weights)


def test_ties_of_constants_explain_no_other_elements() -> None:
    numbers = (
        np.where(np.random.default_rng(0).random((2, 256)) < 0.5, -np.inf, 1).astype(np.float32).tobytes()
    )
    assert verdict(chosen(numbers, stored=False), chosen(numbers, stored=False)).passed
    found = verdict(chosen(numbers, stored=False), chosen(numbers, stored=True))
    assert not found.passed
    assert "are none that the original has" in found.why


def test_constant_outputs_are_weak_evidence() -> None:
    zero = one_node("Clip")
    flat = model(
        [helper.make_node("Mul", ["x", "zero"], ["y"])],
        [("x", FLOAT, [2, 8])],
        [("y", FLOAT, [2, 8])],
        [onnx.numpy_helper.from_array(np.zeros((), np.float32), "zero")],
    )
    assert not verdict(zero, zero).weak
    assert verdict(flat, flat).weak
    assert verdict(flat, flat).passed


def test_outputs_without_a_number_certify_nothing() -> None:
    never = model(
        [helper.make_node("Div", ["x", "zero"], ["z"]), helper.make_node("Abs", ["z"], ["y"])],
        [("x", FLOAT, [2, 8])],
        [("y", FLOAT, [2, 8])],
        [onnx.numpy_helper.from_array(np.zeros((), np.float32), "zero")],
    )
    found = verdict(never, never)
    assert (found.passed, found.why.startswith("no output has a finite number")) == (False, True)


def test_inputs_are_known_before_the_runtime_opens_the_model() -> None:
    for content in (one_node("Relu"), embedding(7)):
        assert declared_ports(lift(load_model(content))) == LoadedModel(content, threads=1).inputs


def embedding(rows: int) -> bytes:
    table = np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32)
    return model(
        [
            helper.make_node("Unsqueeze", ["ids", "axes"], ["wide"]),
            helper.make_node("Gather", ["table", "wide"], ["rows"]),
            helper.make_node("Cast", ["mask"], ["kept"], to=FLOAT),
            helper.make_node("Mul", ["rows", "kept"], ["y"]),
        ],
        [("ids", INT, ["batch", "length"]), ("mask", INT, [1])],
        [("y", FLOAT, ["batch", "length", 4])],
        [
            onnx.numpy_helper.from_array(table, "table"),
            onnx.numpy_helper.from_array(np.asarray([1], np.int64), "axes"),
        ],
    )


def test_indices_stay_in_range_and_open_dimensions_vary() -> None:
    content = embedding(3)
    loaded = LoadedModel(content, 1)
    inputs = plan_inputs(lift(load_model(content)), loaded.inputs, {"length": 5})
    assert inputs.roles == {"ids": Integers(0, 3), "mask": Mask()}
    shapes = {s.feeds["ids"].shape for s in Reference(loaded, inputs, Sampling(samples=6)).samples()}
    assert shapes == {(1, 5), (2, 5), (3, 5)}
    assert verdict(content, content).samples == 4


def test_given_inputs_are_used_and_checked(tmp_path: Path) -> None:
    ports = (Port("x", "float32", (2, 8)),)
    good = tmp_path / "good.npz"
    np.savez(good, x=np.ones((2, 8), np.float32))
    assert load_inputs(good, ports)["x"].shape == (2, 8)
    for name, arrays, message in (
        ("name", {"z": np.ones((2, 8), np.float32)}, "input 'x' is missing; it has z"),
        ("type", {"x": np.ones((2, 8))}, "expected float32, got float64"),
        ("shape", {"x": np.ones((3, 8), np.float32)}, r"expected shape \[2, 8\], got \[3, 8\]"),
    ):
        path = tmp_path / f"{name}.npz"
        np.savez(path, **arrays)
        with pytest.raises(InvalidFileError, match=message):
            load_inputs(path, ports)
    for name, content in (
        ("text", b"no archive"),
        ("truncated", good.read_bytes()[:100]),
        ("array", b"\x93NUMPY\x01\x00"),
    ):
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(InvalidFileError, match="expected a numpy archive"):
            load_inputs(path, ports)


FOUND = small(
    [node("NonZero", "x", "places"), node("Relu", "x", "y")],
    [value("x", ["batch", 4])],
    [value("places", [2, "count"], TensorProto.INT64), value("y", ["rows", 4])],
)
"""The number of places depends on the contents of x; rows are another name for the batch."""

UNRANKED = small([node("Relu", "x", "y")], [value("x", None)], [value("y", ["rows", 4])])


def relu(*shape: int | str) -> onnx.ModelProto:
    """One node, whose output has open dimensions of other names."""
    return small(
        [node("Relu", "x", "y")], [value("x", shape)], [value("y", [f"{size}_out" for size in shape])]
    )


@pytest.mark.parametrize(
    ("model", "name"),
    [(relu("batch", 4), "batch"), (relu("?", 4), "x.0"), (FOUND, "count"), (UNRANKED, "x.0")],
)
def test_dimensions_of_inputs_and_those_that_depend_on_contents_have_sizes(
    model: onnx.ModelProto, name: str
) -> None:
    check_dims({name: 8}, lift(load_model(model, why_refused)))


@pytest.mark.parametrize(
    ("model", "dims", "message"),
    [
        (
            relu("batch", 4),
            {"bach": 8},
            "dim: the model has no open dimension 'bach'; it has: batch",
        ),
        (relu("batch", 4), {"batch": 0}, "dimension batch: expected a size of at least 1, got 0"),
        (
            relu("batch", 4),
            {"batch_out": 8},
            "dim: the model has no open dimension 'batch_out' (only outputs declare it); it has: batch",
        ),
        (
            FOUND,
            {"rows": 8},
            "dim: the model has no open dimension 'rows' (only outputs declare it); it has: batch, count",
        ),
        (
            relu(4),
            {"batch": 8},
            "dim: the model has no open dimension 'batch': all sizes of its inputs are fixed",
        ),
        (
            relu("batch", *(f"unk__{number}" for number in range(90))),
            {"bach": 8},
            (
                "dim: the model has no open dimension 'bach'; among its 91 are batch; "
                "`superopt inspect MODEL` lists those of its inputs"
            ),
        ),
    ],
)
def test_other_dimensions_have_none(model: onnx.ModelProto, dims: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        check_dims(dims, lift(load_model(model, why_refused)))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("dtype", "error", "agrees"),
    [("float32", 5e-6, True), ("float32", 5e-5, False), ("float16", 5e-3, True), ("float16", 5e-2, False)],
)
def test_tolerances_by_element_type(dtype: str, error: float, *, agrees: bool) -> None:
    left = np.linspace(1, 2, 50).astype(dtype)
    right = (left.astype(np.float64) * (1 + error)).astype(dtype)
    assert compare_outputs(["y"], [left], [right], None).agrees == agrees
    assert compare_outputs(["y"], [left], [right], 0.1).agrees


def test_sequences_and_integers_are_compared_exactly() -> None:
    ones = np.ones(3, np.int64)
    assert compare_outputs(["y"], [[ones, ones]], [[ones, ones]], None).agrees
    assert not compare_outputs(["y"], [[ones]], [[ones, ones]], None).agrees
    assert not compare_outputs(["y"], [ones], [2 * ones], 10.0).agrees


def products(count: int) -> bytes:
    b = Builder()
    x = b.input("x", 96, 96)
    for _ in range(count):
        x = b.add(Matmul(), x, b.weight(96, 96))
    return model_of(b.graph(x))


def test_a_model_is_not_faster_than_itself_but_faster_than_one_that_does_more() -> None:
    feeds = {"x": np.random.default_rng(0).standard_normal((96, 96)).astype(np.float32)}
    short, long = products(4), products(12)
    same = compare_latency(short, short, feeds, threads=1, seconds=1.0)
    assert 0.8 < same.ratio < 1.25
    assert same.low <= 1.02
    gain = compare_latency(long, short, feeds, threads=1, seconds=1.0)
    assert gain.is_faster
    assert gain.low <= gain.ratio <= gain.high
    assert gain.ratio > 1.5
    assert not compare_latency(short, long, feeds, threads=1, seconds=1.0).is_faster


def test_a_model_that_takes_texts_is_timed() -> None:
    """The runtime binds numbers alone."""
    nodes = [helper.make_node("Identity", ["s"], ["t"]), helper.make_node("MatMul", ["x", "x"], ["y"])]
    ports = [
        helper.make_tensor_value_info(name, element, shape)
        for name, element, shape in (
            ("s", TensorProto.STRING, [2]),
            ("x", TensorProto.FLOAT, [96, 96]),
            ("t", TensorProto.STRING, [2]),
            ("y", TensorProto.FLOAT, [96, 96]),
        )
    ]
    proto = helper.make_model(
        helper.make_graph(nodes, "texts", ports[:2], ports[2:]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    ).SerializeToString()
    feeds = {"s": np.full(2, "a", dtype=object), "x": np.ones((96, 96), np.float32)}
    assert compare_latency(proto, proto, feeds, threads=1, seconds=0.1).runs >= 3


def test_outputs_that_are_not_as_declared_are_timed_and_told() -> None:
    """The runtime writes into what it is given only where that has the declared shape."""
    branches = [graph([node("Identity", "a", "t")], [], [value("t", None)]),
                graph([node("Squeeze", "a zero", "e")], [], [value("e", None)])]  # fmt: skip
    nodes = [
        node("MatMul", "x w", "a"),
        node("ReduceMax", "x", "largest", keepdims=0),
        node("Less", "lowest largest", "yes"),
        node("If", "yes", "y", then_branch=branches[0], else_branch=branches[1]),
    ]
    weights = [weight("w", 64, 64), tensor("zero", [0], np.int64), tensor("lowest", -1e9)]
    made = small(nodes, [value("x", [1, 64, 64])], [value("y", [64, 64])], weights).SerializeToString()
    feeds = {"x": np.ones((1, 64, 64), np.float32)}
    loaded = LoadedModel(made, 1)
    assert misdeclared(loaded.outputs, loaded.run(feeds)) == (
        "output 'y' is declared as [64, 64], but is [1, 64, 64]",
    )
    assert compare_latency(made, made, feeds, threads=1, seconds=0.1).runs >= 3


@pytest.mark.parametrize("operator", ["SequenceConstruct", "Optional"])
def test_outputs_that_are_no_tensors_are_timed(operator: str) -> None:
    port = onnx.ValueInfoProto(name="y")
    made = small([node(operator, "x", "y")], [value("x", [3])], [port]).SerializeToString()
    feeds = {"x": np.ones(3, np.float32)}
    assert compare_latency(made, made, feeds, threads=1, seconds=0.1).runs >= 3
