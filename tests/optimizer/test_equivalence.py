"""The equivalence check accepts what rounds as well as the original and refuses what means something else."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt import zoo
from superopt.errors import UnsupportedError
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.changes.probing import perturbed, saturations
from superopt.optimizer.check import Equivalence, Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.check.distance import MULTIPLE, Distance, distance
from superopt.optimizer.check.error_baseline import ErrorBaseline
from superopt.optimizer.check.precise import PreciseModel, PreciseRun
from superopt.optimizer.cost.runtime import Array, LoadedModel
from superopt.optimizer.pipeline.report import EquivalenceSummary
from tests.optimizer.plants import PLANTS, all_planted, planted

RANDOM = np.random.default_rng(7)


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


Made = tuple[str, str, str, Mapping[str, object]]


def network(
    nodes: Sequence[Made],
    weights: Mapping[str, object],
    inputs: Mapping[str, Sequence[int]],
    outputs: Mapping[str, int],
) -> onnx.ModelProto:
    """Nodes are (operator, operands, result, attributes); outputs give element types."""
    made: list[onnx.NodeProto] = []
    for operator, operands, result, attributes in nodes:
        node = helper.make_node(operator, operands.split(), result.split())
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        made.append(node)
    graph = helper.make_graph(
        made,
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """With the shapes of its outputs."""
    inferred = onnx.shape_inference.infer_shapes(model)
    known = {value.name: value for value in inferred.graph.value_info}
    for value in inferred.graph.output:
        if value.name in known:
            value.CopyFrom(known[value.name])
    del inferred.graph.value_info[:]
    return inferred


def image_network() -> onnx.ModelProto:
    """A detector in small: convolutions, normalisation, pooling, a resize, a gate, sigmoid at the end."""
    c = 8
    nodes: list[Made] = [
        ("Conv", "x w1 b1", "c1", {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        ("BatchNormalization", "c1 gamma beta mean variance", "n1", {"epsilon": 1e-5}),
        ("Clip", "n1 zero six", "r1", {}),
        ("AveragePool", "r1", "p1", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Conv", "p1 w2 b2", "c2", {"kernel_shape": [1, 1]}),
        ("LeakyRelu", "c2", "l2", {"alpha": 0.01}),
        ("Add", "l2 p1", "s2", {}),
        ("Relu", "s2", "r2", {}),
        ("GlobalAveragePool", "r2", "g", {}),
        ("HardSigmoid", "g", "gate", {"alpha": 0.2, "beta": 0.5}),
        ("Mul", "r2 gate", "m", {}),
        ("Resize", "m nothing scales", "u",
         {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}),
        ("Concat", "u r1", "cat", {"axis": 1}),
        ("Conv", "cat w3 b3", "z", {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}),
        ("Sigmoid", "z", "y", {}),
    ]  # fmt: skip
    weights = {
        "w1": normal(c, 3, 3, 3, scale=0.3), "b1": normal(c, scale=0.1),
        "gamma": 1 + normal(c, scale=0.1), "beta": 1 + normal(c), "mean": normal(c, scale=0.1),
        "variance": np.array([0.002, 0.5, 0.01, 1, 0.1, 2, 0.05, 0.7], np.float32),
        "zero": np.float32(0), "six": np.float32(6),
        "w2": normal(c, c, 1, 1, scale=0.5), "b2": normal(c, scale=0.1),
        "nothing": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32),
        "w3": normal(4, 2 * c, 3, 3, scale=0.3), "b3": normal(4) - 2,
    }  # fmt: skip
    return typed(network(nodes, weights, {"x": [1, 3, 16, 16]}, {"y": TensorProto.FLOAT}))


def text_network() -> onnx.ModelProto:
    """A layer of a transformer: attention, layer normalisation, a gelu by erf, softmax at the end."""
    d = 16
    nodes: list[Made] = [
        ("MatMul", "x wq", "q", {}), ("MatMul", "x wk", "k", {}),
        ("Transpose", "k", "kt", {"perm": [0, 2, 1]}),
        ("MatMul", "q kt", "scores", {}), ("Softmax", "scores", "weights", {"axis": -1}),
        ("MatMul", "weights x", "mixed", {}), ("Add", "mixed x", "sum", {}),
        ("LayerNormalization", "sum gamma beta", "n", {"axis": -1, "epsilon": 1e-5}),
        ("MatMul", "n w1", "h0", {}), ("Add", "h0 b1", "h", {}),
        ("Mul", "h root", "hr", {}), ("Erf", "hr", "e", {}), ("Add", "e one", "e1", {}),
        ("Mul", "h e1", "he", {}), ("Mul", "he half", "gelu", {}),
        ("MatMul", "gelu w2", "o", {}), ("Add", "o b2", "z", {}), ("Softmax", "z", "y", {"axis": -1}),
        ("ArgMax", "z", "index", {"axis": -1, "keepdims": 0}),
    ]  # fmt: skip
    weights = {
        "wq": normal(d, d, scale=0.2), "wk": normal(d, d, scale=0.2), "gamma": 1 + normal(d, scale=0.1),
        "beta": normal(d, scale=0.1), "w1": normal(d, d, scale=0.3), "b1": normal(d, scale=0.1),
        "root": np.float32(math.sqrt(0.5)), "one": np.float32(1), "half": np.float32(0.5),
        "w2": normal(d, 5, scale=0.3), "b2": normal(5, scale=0.1),
    }  # fmt: skip
    outputs = {"y": TensorProto.FLOAT, "index": TensorProto.INT64}
    return typed(network(nodes, weights, {"x": [2, 6, d]}, outputs))


def reference_of(model: onnx.ModelProto, **sampling: object) -> Reference:
    content = model.SerializeToString()
    lifted = lift(load_model(content))
    loaded = LoadedModel(content, 1)
    plan = plan_inputs(lifted, loaded.inputs, {})
    return Reference(loaded, plan, Sampling(**sampling), lifted.source)  # type: ignore[arg-type]


def verdict(model: onnx.ModelProto, other: onnx.ModelProto, **sampling: object) -> Equivalence:
    return check_equivalence(reference_of(model, **sampling), LoadedModel(other.SerializeToString(), 1))


@pytest.fixture(scope="module")
def networks() -> Mapping[str, Reference]:
    return {name: reference_of(model) for name, model in _NETWORKS.items()}


_NETWORKS = {"image": image_network(), "text": text_network()}


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_change_is_refused(kind: str, networks: Mapping[str, Reference]) -> None:
    places = 0
    for name, model in _NETWORKS.items():
        for seed in range(2):
            found = planted(model, kind, seed)
            if found is not None:
                places += 1
                where, content = found
                assert not check_equivalence(networks[name], LoadedModel(content, 1)).passed, (name, where)
    assert places, "a network with a place for it"


@pytest.mark.parametrize("name", ["squeezenet", "light-shufflenet"])
def test_changes_planted_in_a_real_network_are_refused(name: str) -> None:
    model = zoo.build(name)
    reference = reference_of(model)
    accepted = [
        (kind, where)
        for kind, where, content in all_planted(model)
        if check_equivalence(reference, LoadedModel(content, 1)).passed
    ]
    assert accepted == []


@pytest.mark.parametrize("name", _NETWORKS)
def test_a_model_equals_itself(name: str, networks: Mapping[str, Reference]) -> None:
    same = check_equivalence(networks[name], LoadedModel(_NETWORKS[name].SerializeToString(), 1))
    assert (same.passed, same.weak, same.max_abs_error) == (True, False, 0.0)
    assert same.evidence.reference == "double precision"
    assert same.evidence.error == same.evidence.own_error
    assert same.evidence.single == (1 if name == "image" else 0), "the linear resize"


def detector(scale: float, shift: float, *, split: bool = False) -> onnx.ModelProto:
    """sigmoid(100 w x + shift) with its sum in one piece or in two: near 0 rounding is all of the output."""
    weight = np.random.default_rng(3).standard_normal((64, 32)).astype(np.float32) * np.float32(scale)
    halves = {"w": weight} if not split else {"w": weight[:40], "v": weight[40:]}
    sums: list[Made] = [("MatMul", "x w", "z", {})] if not split else [
        ("Split", "x sizes", "left right", {"axis": 1}), ("MatMul", "left w", "a", {}),
        ("MatMul", "right v", "b", {}), ("Add", "a b", "z", {}),
    ]  # fmt: skip
    nodes: list[Made] = [*sums, ("Add", "z shift", "t", {}), ("Sigmoid", "t", "y", {})]
    weights = {**halves, "shift": np.full(32, shift, np.float32), "sizes": np.array([40, 24])}
    if not split:
        del weights["sizes"]
    return typed(network(nodes, weights, {"x": [4, 64]}, {"y": TensorProto.FLOAT}))


def test_rounding_that_saturation_makes_large_is_no_difference() -> None:
    original, rewritten = detector(0.3, -12), detector(0.3, -12, split=True)
    found = verdict(original, rewritten)
    assert found.passed, found.why
    assert found.max_rel_error < 1e-2


def test_what_saturation_hides_is_seen_before_it() -> None:
    """Every output is 0 or 1, bit for bit equal."""
    original, other = detector(1000.0, 0.0), detector(1000.1, 0.0)
    reference = reference_of(original)
    plain = saturations(original.SerializeToString())
    assert {name: saturation.operand for name, saturation in plain.items()} == {"y": "t"}
    found = check_equivalence(reference, LoadedModel(other.SerializeToString(), 1))
    assert not found.passed
    assert found.why.startswith("output t:")
    assert check_equivalence(
        reference, LoadedModel(detector(1000.0, 0.0, split=True).SerializeToString(), 1)
    ).passed


def variance(*, by_product: bool) -> onnx.ModelProto:
    """1 / sqrt(variance) of numbers near 10: as the mean of squares less the square of the mean most of it
    is rounding; a product with a vector of ones sums in another order."""
    mean: Made = ("ReduceMean", "t", "m", {"axes": [1]})
    square: list[Made] = [("Mul", "t t", "t2", {}), ("Mul", "m m", "m2", {})]
    mean_of_squares: Made = (
        ("MatMul", "t2 parts", "s", {}) if by_product else ("ReduceMean", "t2", "s", {"axes": [1]})
    )
    sums: list[Made] = [mean, *square, mean_of_squares, ("Sub", "s m2", "v", {})]
    weights: dict[str, object] = {"far": np.full(256, 10, np.float32), "tiny": np.float32(1e-2)}
    if by_product:
        weights["parts"] = np.full((256, 1), 1 / 256, np.float32)
    nodes: list[Made] = [("Add", "x far", "t", {}), *sums, ("Add", "v tiny", "w", {}), ("Sqrt", "w", "r", {}),
             ("Div", "tiny r", "y", {})]  # fmt: skip
    return typed(network(nodes, weights, {"x": [16, 256]}, {"y": TensorProto.FLOAT}))


def test_what_is_no_worse_than_the_original_passes() -> None:
    found = verdict(variance(by_product=False), variance(by_product=True))
    assert found.passed, found.why
    assert found.max_rel_error > found.tolerance
    evidence = found.evidence
    assert evidence.own_error is not None
    assert evidence.error is not None
    assert evidence.error.rms <= MULTIPLE.rms * evidence.own_error.rms + found.tolerance


def test_a_change_larger_than_the_rounding_is_refused() -> None:
    changed = variance(by_product=True)
    for tensor in changed.graph.initializer:
        if tensor.name == "parts":
            array = numpy_helper.to_array(tensor) * np.float32(1.001)
            tensor.CopyFrom(numpy_helper.from_array(array, "parts"))
    assert not verdict(variance(by_product=False), changed).passed


def choice(*, reversed_sum: bool, factor: float = 1.0) -> onnx.ModelProto:
    """Which of two numbers is larger: one sum in two orders, so that rounding decides where factor is 1."""
    weight = np.random.default_rng(5).standard_normal(64).astype(np.float32)
    first = np.arange(64)[::-1].copy() if reversed_sum else np.arange(64)
    second = np.random.default_rng(6).permutation(64)
    nodes: list[Made] = [
        ("Gather", "x first", "a", {"axis": 1}), ("Gather", "x second", "b", {"axis": 1}),
        ("Mul", "a u", "au", {}), ("Mul", "b v", "bv", {}),
        ("ReduceSum", "au axis", "p", {"keepdims": 1}), ("ReduceSum", "bv axis", "q", {"keepdims": 1}),
        ("Concat", "p q", "pq", {"axis": 1}), ("ArgMax", "pq", "index", {"axis": 1}),
    ]  # fmt: skip
    weights = {
        "first": first, "u": weight[first], "second": second, "v": weight[second] * np.float32(factor),
        "axis": np.array([1]),
    }  # fmt: skip
    return typed(network(nodes, weights, {"x": [8, 64]}, {"index": TensorProto.INT64}))


def test_ties_that_rounding_decides_may_flip_and_others_not() -> None:
    original = choice(reversed_sum=False)
    assert verdict(original, choice(reversed_sum=True), samples=2).passed
    different = verdict(original, choice(reversed_sum=True, factor=-1.0), samples=2)
    assert not different.passed
    assert "not where rounding alone changes the original" in different.why


def noise(*, scaled: bool) -> onnx.ModelProto:
    """Beside a sum, one that is 0 but for rounding, of weights less their mean. Inputs do not change it."""
    weights: dict[str, object] = {
        "w": np.random.default_rng(7).standard_normal((64, 200)).astype(np.float32),
        "axis": np.array([1]),
        "factor": np.float32(3),
    }
    nodes: list[Made] = [
        ("Add", "x w", "y", {}),
        ("ReduceMean", "w", "m", {"axes": [1]}),
        ("Sub", "w m", "d", {}),
    ]
    if scaled:
        nodes += [
            ("Mul", "d factor", "f", {}),
            ("ReduceSum", "f axis", "s", {}),
            ("Div", "s factor", "n", {}),
        ]
    else:
        nodes += [("ReduceSum", "d axis", "n", {})]
    outputs = {"y": TensorProto.FLOAT, "n": TensorProto.FLOAT}
    return typed(network(nodes, weights, {"x": [64, 200]}, outputs))


@pytest.mark.parametrize("deadline", [0.0, math.inf], ids=["by the spread", "by double precision"])
def test_an_output_that_is_only_rounding_may_round_otherwise(deadline: float) -> None:
    """It is no choice between numbers, although runs with other inputs repeat it exactly."""
    reference = reference_of(noise(scaled=False), deadline=deadline)
    found = check_equivalence(reference, LoadedModel(noise(scaled=True).SerializeToString(), 1))
    assert found.passed, found.why


def test_without_double_precision_the_spread_decides() -> None:
    """The deadline of the baseline has passed: nothing but the first perturbed runs is measured."""
    original, rewritten = variance(by_product=False), variance(by_product=True)
    reference = reference_of(original, deadline=time.monotonic() - 1)
    tuple(reference.samples())
    found = check_equivalence(reference, LoadedModel(rewritten.SerializeToString(), 1))
    assert found.passed, found.why
    assert found.evidence.reference == "spread of the original"
    assert found.evidence.why == "there was no time to run it in double precision"


def cancellation(*, reordered: bool) -> onnx.ModelProto:
    """The difference of two nearly equal products, most of it rounding, relative to inputs of any scale."""
    random = np.random.default_rng(8)
    first = random.standard_normal((256, 16)).astype(np.float32)
    second = (first + 1e-3 * random.standard_normal((256, 16))).astype(np.float32)
    if not reordered:
        weights: dict[str, object] = {"a": first, "b": second}
        nodes: list[Made] = [("MatMul", "x a", "p", {}), ("MatMul", "x b", "q", {}), ("Sub", "p q", "y", {})]
        return typed(network(nodes, weights, {"x": [16, 256]}, {"y": TensorProto.FLOAT}))
    order = np.argsort(random.random(256))
    weights = {"order": order, "a": first[order], "b": second[order]}
    nodes = [("Gather", "x order", "z", {"axis": 1}), ("MatMul", "z a", "p", {}), ("MatMul", "z b", "q", {}),
             ("Sub", "p q", "y", {})]  # fmt: skip
    return typed(network(nodes, weights, {"x": [16, 256]}, {"y": TensorProto.FLOAT}))


@pytest.mark.parametrize("precise_runs", [0, 1])
def test_the_own_error_on_one_sample_counts_on_the_others(
    precise_runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is time to run one sample in double precision, or none; the model is too large for other runs."""
    run, left = PreciseModel.run, iter(range(precise_runs))

    def run_while_time_is_left(
        model: PreciseModel, feeds: Mapping[str, Array], deadline: float, also: Sequence[str] = ()
    ) -> PreciseRun:
        if next(left, None) is None:
            raise UnsupportedError("there was no time to run it in double precision")
        return run(model, feeds, deadline, also)

    monkeypatch.setattr(PreciseModel, "run", run_while_time_is_left)
    monkeypatch.setattr(ErrorBaseline, "perturbed", lambda *_: ())
    found = verdict(cancellation(reordered=False), cancellation(reordered=True))
    assert found.passed == (precise_runs == 1), found.why
    assert found.samples == (4 if precise_runs else 1)


def test_the_tolerance_replaces_the_floor() -> None:
    original = _NETWORKS["text"]
    found = planted(original, "a factor of 1.001")
    assert found is not None
    other = onnx.ModelProto.FromString(found[1])
    assert not verdict(original, other).passed
    assert verdict(original, other, tolerance=0.1).passed
    assert verdict(original, other, tolerance=0.1).tolerance == 0.1


def test_double_precision_is_what_numpy_computes() -> None:
    model = detector(0.3, -2)
    run = PreciseModel(load_model(model), 1)
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    found = run.run({"x": x}, math.inf, ("t",))
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(float) for tensor in model.graph.initializer}
    expected = x.astype(float) @ weights["w"] + weights["shift"]
    np.testing.assert_allclose(found.tensors["t"], expected, rtol=1e-13)
    np.testing.assert_allclose(found.tensors["y"], 1 / (1 + np.exp(-expected)), atol=1e-15)
    assert (found.nodes, found.single) == (3, 0)
    with pytest.raises(UnsupportedError, match="no time"):
        run.run({"x": x}, time.monotonic() - 1)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "weight"),
    [
        ("MatMul", "x w", {}, (6, 9)),
        ("Gemm", "x w", {}, (6, 9)),
        ("Gemm", "x w row", {"alpha": 0.5, "beta": 2.0}, (6, 9)),
        ("Gemm", "x w row", {"transB": 1}, (9, 6)),
        ("Gemm", "x w column", {"transB": 1}, (9, 6)),
        ("Gemm", "y w row", {"transA": 1}, (6, 9)),
        ("Gather", "w indices", {"axis": 0}, (6, 9)),
        ("Gather", "w indices", {"axis": 1}, (6, 9)),
    ],
)
def test_large_matrices_are_converted_in_parts(
    kind: str, inputs: str, attributes: dict[str, object], weight: tuple[int, int]
) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 6)).astype(np.float32)
    contents = {
        "w": random.standard_normal(weight).astype(np.float32),
        "row": random.standard_normal(9).astype(np.float32),
        "column": random.standard_normal((4, 1)).astype(np.float32),
        "indices": np.array([[0, 5], [3, 3]]),
    }
    read = {name: content for name, content in contents.items() if name in inputs.split()}
    feeds = {"x": x, "y": x.T} if kind != "Gather" else {}
    nodes: list[Made] = [(kind, inputs, "z", attributes), ("Relu", "z", "out", {})]
    shapes = {name: list(array.shape) for name, array in feeds.items()}
    model = load_model(typed(network(nodes, dict(read), shapes, {"out": TensorProto.FLOAT})))
    whole, parts = (PreciseModel(model, 1, part_bytes=size).run(feeds, math.inf) for size in (1 << 20, 64))
    np.testing.assert_allclose(parts.tensors["out"], whole.tensors["out"], rtol=1e-13)
    assert parts.tensors["out"].dtype == np.float64
    assert (parts.nodes, parts.single) == (2, 0)


def test_convolutions_are_evaluated_in_double_precision() -> None:
    """The runtime has no kernel for them: the algebra's meaning, which the kernel of float32 confirms."""
    model = _NETWORKS["image"]
    x = np.random.default_rng(1).standard_normal((1, 3, 16, 16)).astype(np.float32)
    found = PreciseModel(load_model(model), 1).run({"x": x}, math.inf, ("c1",)).tensors["c1"]
    weights = {tensor.name: numpy_helper.to_array(tensor).astype(float) for tensor in model.graph.initializer}
    padded = np.pad(x.astype(float), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, weights["w1"]) + weights["b1"].reshape(1, -1, 1, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_perturbed_weights_are_one_unit_off() -> None:
    model = detector(0.3, -2)
    moved = onnx.ModelProto.FromString(perturbed(model.SerializeToString(), 0))
    for before, after in zip(model.graph.initializer, moved.graph.initializer, strict=True):
        left, right = numpy_helper.to_array(before), numpy_helper.to_array(after)
        assert np.array_equal(
            np.abs(right.view(np.int32) - left.view(np.int32)), np.ones_like(left, np.int32)
        )


@pytest.mark.parametrize(
    ("array", "reference", "largest", "rms", "typical"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, 0, 0),
        ([1.1, 2.0], [1.0, 2.0], 0.05, 0.1 / math.sqrt(5), 0.05),
        ([0.0, 0.0], [0.0, 0.0], 0, 0, 0),
        ([1e-30, 0.0], [0.0, 0.0], math.inf, math.inf, 0),
        ([math.nan, 3.0], [math.nan, 2.0], 0.5, 0.5, 0.5),
        ([1e300, -1e300], [1e300, 1e300], 2, math.sqrt(2), 1),
    ],
    ids=["equal", "one", "zeros", "from-zero", "nan", "huge"],
)
def test_distances(
    array: Sequence[float], reference: Sequence[float], largest: float, rms: float, typical: float
) -> None:
    found = distance(np.array(array), np.array(reference))
    assert (found.largest, found.rms, found.typical) == pytest.approx((largest, rms, typical))


def test_an_error_is_measured_in_what_is_allowed() -> None:
    own = Distance(1e-4, 1e-5, 1e-5)
    assert Distance(8e-4, 0, 0).excess(own, 0.0) == pytest.approx(1)
    assert Distance(0, 8e-5, 0).excess(own, 4e-5) == pytest.approx(1)
    assert Distance(0, 0, 4e-5).excess(own, 0.0) == pytest.approx(1)
    assert Distance(1e-9, 0, 0).excess(Distance(), 0.0) == math.inf
    assert Distance().excess(Distance(), 0.0) == 0


def test_the_report_says_by_what_it_was_measured(networks: Mapping[str, Reference]) -> None:
    same = check_equivalence(networks["text"], LoadedModel(_NETWORKS["text"].SerializeToString(), 1))
    summary = EquivalenceSummary.of(same)
    assert summary.reference is not None
    assert (summary.reference.kind, summary.reference.nodes) == ("double precision", 19)
    assert summary.multiple is not None
    assert (summary.multiple.largest, summary.multiple.rms, summary.multiple.typical) == (8, 4, 4)
    assert summary.error == summary.own_error != None  # noqa: E711
