"""The equivalence check accepts what rounds as well as the original and refuses what means something else."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from superopt import zoo
from superopt.errors import UnsupportedError
from superopt.onnx_io import lift, load_model
from superopt.onnx_io.changes.probing import saturations
from superopt.optimizer.check import Equivalence, Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.check.distance import MULTIPLE, Distance, distance
from superopt.optimizer.check.error_baseline import ErrorBaseline
from superopt.optimizer.check.precise import PreciseModel, PreciseRun
from superopt.optimizer.cost.runtime.session import Array, LoadedModel
from superopt.optimizer.pipeline.reporting.report import EquivalenceSummary
from tests.optimizer.equivalence_models import (
    NETWORKS,
    Made,
    detector,
    network,
    typed,
)
from tests.optimizer.plants import PLANTS, all_planted, planted


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
    return {name: reference_of(model) for name, model in NETWORKS.items()}


@pytest.mark.parametrize("kind", PLANTS)
def test_a_planted_change_is_refused(kind: str, networks: Mapping[str, Reference]) -> None:
    places = 0
    for name, model in NETWORKS.items():
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


@pytest.mark.parametrize("name", NETWORKS)
def test_a_model_equals_itself(name: str, networks: Mapping[str, Reference]) -> None:
    same = check_equivalence(networks[name], LoadedModel(NETWORKS[name].SerializeToString(), 1))
    assert (same.passed, same.weak, same.max_abs_error) == (True, False, 0.0)
    assert same.evidence.reference == "double precision"
    assert same.evidence.error == same.evidence.own_error
    assert same.evidence.single == (1 if name == "image" else 0), "the linear resize"


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
    original = NETWORKS["text"]
    found = planted(original, "a factor of 1.001")
    assert found is not None
    other = onnx.ModelProto.FromString(found[1])
    assert not verdict(original, other).passed
    assert verdict(original, other, tolerance=0.1).passed
    assert verdict(original, other, tolerance=0.1).tolerance == 0.1


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
    same = check_equivalence(networks["text"], LoadedModel(NETWORKS["text"].SerializeToString(), 1))
    summary = EquivalenceSummary.of(same)
    assert summary.reference is not None
    assert (summary.reference.kind, summary.reference.nodes) == ("double precision", 19)
    assert summary.multiple is not None
    assert (summary.multiple.largest, summary.multiple.rms, summary.multiple.typical) == (8, 4, 4)
    assert summary.error == summary.own_error != None  # noqa: E711
