"""The whole journey on small models, in ONNX Runtime."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir import Graph
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.ops.elementwise.activation import Relu
from superopt.ops.images.convolution import Conv
from superopt.ops.matrix import Matmul
from superopt.optimizer import (
    Measured,
    Options,
    Pipeline,
    Request,
    html_of,
    optimize,
    plan_of,
    recorded_trace,
    replay,
)
from superopt.optimizer.check import Comparison
from superopt.optimizer.cost import GraphCost, MemoryCostStore, Nominal, Sizes
from superopt.optimizer.explanation.unused import ExplanationContext, unused_rules
from tests.onnx_io.kit import model as made
from tests.onnx_io.kit import node, value, weight
from tests.optimizer.graphs import Builder, chain, skewed_products
from tests.optimizer.models import lifted, model_of, run
from tests.optimizer.rules import ASSOCIATIVE, rules


def test_a_gain_is_found_checked_timed_and_returned(costs: MemoryCostStore) -> None:
    model = lifted(skewed_products())
    result = run(model, costs)
    report = result.report
    assert report.returned == "optimized"
    assert report.measured is not None
    assert report.measured.ratio > 1.5
    assert report.measured.interval[0] > 1
    assert report.equivalence.passed
    assert report.equivalence.samples == 4
    assert report.cost.after < report.cost.before
    assert [step.rule for step in report.trace] == [rules(ASSOCIATIVE)[0].rule_id]
    onnx.checker.check_model(onnx.load_from_string(lower(model, result.graph, result.plan).to_bytes()))


def test_replaying_the_report_gives_the_same_bytes(costs: MemoryCostStore) -> None:
    model = lifted(skewed_products())
    result = run(model, costs)
    report = json.loads(json.dumps(result.report.to_json(), allow_nan=False))
    again = replay(model.graph, recorded_trace(report), rules(ASSOCIATIVE))
    written = lower(model, result.graph, result.plan).to_bytes()
    assert result.trace
    assert lower(model, again, plan_of(again)).to_bytes() == written


def test_the_report_has_the_documented_fields(costs: MemoryCostStore) -> None:
    report = run(lifted(skewed_products()), costs).report.to_json()
    fields = {
        key: sorted(value) if isinstance(value, dict) else type(value).__name__
        for key, value in report.items()
    }
    assert fields == {
        "schema": "int",
        "sizes": ["apart", "checked", "given", "guessed", "priced", "request", "smaller", "timed"],
        "model": [
            "adapted", "computing_sizes", "frozen", "name", "nodes_after", "nodes_before", "opaque",
            "overridable", "sha256", "warnings",
        ],
        "options": [
            "alpha", "budget", "cluster", "cut_inputs", "cut_outputs", "dims", "exact_rounding",
            "exclude_rules", "external_data", "fp16", "freeze", "inline_functions", "inputs", "keep",
            "max_candidates", "memory_limit", "objective", "opset", "runtime", "search", "seed", "strategy",
            "target", "threads", "tolerance", "training",
        ],
        "rules": ["applied", "loaded", "matched", "stale"],
        "suspects": "list",
        "conversions": "NoneType",
        "cost": ["after", "before", "source", "unit"],
        "inventory": ["after", "before"],
        "measured": [
            "after", "before", "confidence", "interval", "ratio", "runs", "runtime", "threads", "unit",
        ],
        "equivalence": [
            "branches_missed", "error", "max_abs_error", "max_rel_error", "multiple", "own_error", "passed",
            "reference", "samples", "tolerance", "weak", "why",
        ],
        "search": [
            "best_at_seconds", "candidates", "curve", "reserved_seconds", "seconds", "stopped_by", "strategy",
        ],
        "trace": "list",
        "parallel": "NoneType",
        "training": "NoneType",
        "fusion": "list",
        "memory": ["after", "before", "limit", "measured", "plan", "unit", "why"],
        "returned": "str",
        "why": "str", "bodies": "list", "rejected": "list",
        "explanation": [
            "complete", "gains", "kernels", "regions", "seconds", "seconds_allowed", "tried", "unused",
        ],
        "versions": ["device", "onnx", "python", "runtime", "superopt", "target"],
    }  # fmt: skip
    (step,) = report["trace"]
    assert set(step) == {
        "kind",
        "rule",
        "equation",
        "backwards",
        "site",
        "choice",
        "cost_before",
        "cost_after",
    }
    assert step["kind"] == "rule"
    assert step["equation"] == "matmul(matmul(x, y), z) => matmul(x, matmul(y, z))"


@pytest.mark.parametrize(
    ("graph", "texts", "why"),
    [
        (chain([Relu()], 4, 4), (ASSOCIATIVE,), "no rule lowers the predicted cost"),
        (skewed_products(), (), "none of the proved rules can be used"),
    ],
    ids=["no-match", "no-rules"],
)
def test_without_a_gain_the_original_comes_back(
    graph: Graph, texts: tuple[str, ...], why: str, costs: MemoryCostStore
) -> None:
    content = model_of(graph)
    model = lift(load_model(content))
    result = run(model, costs, texts)
    assert (result.report.returned, result.report.why) == ("original", why)
    assert result.graph is model.graph
    compared = result.report.equivalence
    assert (compared.passed, compared.samples, compared.tolerance) == (True, 0, None)
    assert compared.why == "nothing was compared: the original is returned, byte for byte"
    assert lower(model, result.graph, result.plan).to_bytes() == content


def test_a_false_rule_is_caught_by_the_check(costs: MemoryCostStore) -> None:
    false = "matmul(matmul(x, y), z) => matmul(add(x, x), matmul(y, z))"
    result = run(lifted(skewed_products()), costs, (false,))
    assert result.report.returned == "original"
    assert result.report.why.startswith("not equal: output output_0: an element differs")
    assert not result.report.equivalence.passed
    assert result.trace == ()


def products_with_an_identity() -> LiftedModel:
    """Two products, faster in the other order, with a node between them that does nothing."""
    nodes = [
        node("MatMul", "x y", "a"),
        node("Identity", "a", "b"),
        node("MatMul", "b w", "c"),
        node("Relu", "c", "z"),
    ]
    ports = [value("x", [256, 256]), value("y", [256, 256])], [value("z", [256, 4])]
    return lift(load_model(made(nodes, *ports, [weight("w", 256, 4)]).SerializeToString()))


def test_every_rejected_variant_is_reported(costs: MemoryCostStore) -> None:
    """The model with only what does nothing removed is judged last; none was timed, so the first counts."""
    false = rules("matmul(matmul(x, y), z) => matmul(add(x, x), matmul(y, z))")
    request = Request(products_with_an_identity(), false, Options(budget=8.0, threads=1))
    report = Pipeline(request, Measured(costs)).run().report
    assert report.returned == "original"
    with_rule, bare = report.rejected
    assert (with_rule.rules, with_rule.equal, with_rule.why) == ((false[0].rule_id,), False, report.why)
    assert report.why.startswith("not equal: output z: an element differs")
    assert not report.equivalence.passed
    assert (bare.rules, bare.equal) == ((), True)
    assert bare.why.startswith("equal, but ONNX Runtime executes the same")
    assert report.explanation is not None
    assert [gain.rule for gain in report.explanation.tried] == [false[0].rule_id]
    page = html_of(json.loads(json.dumps(report.to_json())))
    assert f"with rule <code>{false[0].rule_id}</code>: not equal" in page


def test_the_variant_with_the_best_measurement_is_described(
    costs: MemoryCostStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canonical form is judged after it, and not timed."""

    def no_gain(*_: object, **__: object) -> Comparison:
        return Comparison(before=1000.0, after=1020.0, ratio=0.98, low=0.97, high=0.99, runs=9)

    monkeypatch.setattr("superopt.optimizer.pipeline.decision.compare_latency", no_gain)
    report = run(products_with_an_identity(), costs, (ASSOCIATIVE,)).report
    timed, bare = report.rejected
    assert timed.why == "equal, but not certainly faster: measured 0.980 (0.970 to 0.990) times as fast"
    assert (bare.rules, bare.equal) == ((), True)
    assert (report.returned, report.why) == ("original", timed.why)
    assert report.measured is not None
    assert report.measured.ratio == 0.98
    assert report.equivalence.passed


def test_a_predicted_gain_that_is_none_is_refused() -> None:
    class Wishful(MemoryCostStore):
        """Claims that whatever has no price yet is free once the original is priced."""

        def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
            found = super().get_many(list(keys))
            return found if len(self) < 5 else {key: 0.0 for key in keys if not key.endswith("blocked")}

    b = Builder()
    x = b.add(Matmul(), b.input("x", 256, 256), b.weight(256, 4))
    graph = b.graph(b.add(Relu(), b.add(Matmul(), x, b.input("y", 4, 256))))
    result = run(lifted(graph), Wishful(), ("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))",))
    assert result.report.cost.after <= result.report.cost.before
    assert result.report.returned == "original"
    assert result.report.why.startswith("equal, but not certainly faster: measured 0.")


def test_what_the_runtime_does_itself_is_no_gain(costs: MemoryCostStore) -> None:
    """No rule applies; the identities are removed, which the runtime does, too."""
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Identity", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    port = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in ("x", "y")]
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32) + 1, "w")
    proto = helper.make_model(
        helper.make_graph(nodes, "identities", port[:1], port[1:], [weight]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    report = run(lift(load_model(proto.SerializeToString())), costs).report
    assert report.returned == "original"
    assert report.why == "equal, but ONNX Runtime executes the same 2 kernels for both"
    assert report.measured is None


def test_excluded_rules_and_kept_nodes_are_respected(costs: MemoryCostStore) -> None:
    model = lifted(skewed_products())
    name = model.source.proto.graph.node[0].name
    assert name
    rule = rules(ASSOCIATIVE)[0].rule_id
    assert run(model, costs, exclude_rules=(rule,)).report.returned == "original"
    assert run(model, costs, keep=(name,)).report.returned == "original"
    with pytest.raises(InvalidOptionError, match="the model has no node 'nobody'"):
        run(model, costs, keep=("nobody",))
    with pytest.raises(InvalidOptionError, match="no verified rule 'nothing' to exclude"):
        run(model, costs, exclude_rules=("nothing",))


def test_the_report_explains_what_was_gained_where(costs: MemoryCostStore) -> None:
    explanation = run(lifted(skewed_products()), costs).report.explanation
    assert explanation is not None
    (gain,) = explanation.gains
    assert (gain.equation, gain.times) == ("matmul(matmul(x, y), z) => matmul(x, matmul(y, z))", 1)
    (region,) = explanation.regions
    assert region.rules == (gain.rule,)
    assert region.cost_before - region.cost_after == pytest.approx(gain.predicted)
    assert region.operators_before == region.operators_after == {"matmul": 2}
    assert region.before is not None
    assert [node.name for node in region.before.nodes] == [
        "x1", "x2", "matmul", "w1", "matmul",
    ]  # fmt: skip
    for table in (explanation.before, explanation.after):
        assert sum(kernel.share for kernel in table.kernels) == pytest.approx(1)
        assert table.flops == sum((kernel.flops or 0) * kernel.count for kernel in table.kernels)
        assert table.peak is not None
    assert explanation.before.flops > explanation.after.flops > 0
    slowest = explanation.before.kernels[0]
    assert (slowest.operators, slowest.type) == ("matmul", "f32[256, 256]")
    assert [node.op_type for node in slowest.nodes] == ["MatMul"]


@pytest.mark.parametrize(
    ("text", "options", "reason", "detail"),
    [
        ("relu(x) => relu(relu(x))", {}, "costlier", r"us more at the best of 1 kind of place"),
        (
            "relu(x) => matmul(x, x)",
            {},
            "not_applicable",
            "the target is ill-typed: matmul: dimensions 4 and 256 must be equal",
        ),
        (
            "matmul(x, y) => matmul(y, x) where dim(x, -1) = 3",
            {},
            "not_applicable",
            "a condition of the rule does not hold: dim(x, -1) = 3",
        ),
        (ASSOCIATIVE, {"exclude_rules": (rules(ASSOCIATIVE)[0].rule_id,)}, "excluded", "--exclude-rule"),
        ("relu(x) => identity(relu(x))", {}, "no_gain", "its result costs the same"),
    ],
)
def test_why_a_rule_was_not_used(
    text: str, options: dict[str, object], reason: str, detail: str, costs: MemoryCostStore
) -> None:
    explanation = run(lifted(skewed_products()), costs, (text,), budget=20.0, **options).report.explanation
    assert explanation is not None
    (unused,) = explanation.unused
    assert (unused.reason, unused.sites >= 1) == (reason, True)
    assert re.search(detail, unused.detail) or detail in unused.detail


def test_a_rule_that_would_split_a_fused_kernel() -> None:
    """By nominal prices: measured, the convolution and the ReLU on their own differ by less than noise."""
    b = Builder()
    image = b.add(Conv(padding="same"), b.input("x", 1, 16, 24, 24), b.weight(16, 16, 3, 3))
    graph = b.graph(b.add(Relu(), image))
    offered = rules("relu(x) => transpose(relu(transpose(x)))")
    context = ExplanationContext(
        start=GraphCost.of(graph, Nominal(), Sizes(graph, {})),
        applied=(),
        tried=frozenset(),
        final=graph,
        usable={offered[0].rule_id},
        excluded=frozenset(),
        protected=frozenset(),
        was_cut_short=False,
        unit="us",
        deadline=math.inf,
    )
    (unused,), complete = unused_rules(offered, context)
    assert complete
    assert (unused.reason, unused.sites) == ("breaks_fusion", 1)
    assert unused.detail.startswith("would split a kernel that the runtime fuses: ")


def test_the_place_is_taken_or_kept(costs: MemoryCostStore) -> None:
    model = lifted(skewed_products())
    also = "matmul(matmul(x, y), z) => add(matmul(x, matmul(y, z)), matmul(x, matmul(y, z)))"
    explanation = run(model, costs, (ASSOCIATIVE, also), budget=20.0, objective="flops").report.explanation
    assert explanation is not None
    (taken,) = explanation.unused
    assert taken.reason == "superseded"
    assert taken.detail == "another rule took the place: matmul(matmul(x, y), z) => matmul(x, matmul(y, z))"

    keep = (model.source.proto.graph.node[0].name,)
    explanation = run(model, costs, (ASSOCIATIVE,), budget=20.0, keep=keep).report.explanation
    assert explanation is not None
    assert [rule.reason for rule in explanation.unused] == ["kept"]


@pytest.mark.parametrize("objective", ["flops", "memory", "traffic", "launches"])
def test_what_does_not_lower_the_objective_is_no_gain(objective: str, costs: MemoryCostStore) -> None:
    """A convolution of a sequence, which would be written as one of an image of one row."""
    sequence = made(
        [node("Conv", "x w", "y", kernel_shape=[3], pads=[1, 1])],
        [value("x", [2, 16, 40])],
        [value("y", [2, 32, 40])],
        [weight("w", 32, 16, 3)],
    )
    report = run(lift(load_model(sequence)), costs, objective=objective).report
    assert (report.returned, report.why) == ("original", "the objective is not lower")
    assert report.cost.before == report.cost.after


@pytest.mark.parametrize("objective", ["flops", "memory"])
def test_other_objectives(objective: str, costs: MemoryCostStore) -> None:
    report = run(lifted(skewed_products()), costs, objective=objective).report
    assert report.cost.unit == {"flops": "flops", "memory": "bytes"}[objective]
    assert report.cost.source == "analytic"
    assert report.cost.after < report.cost.before


def test_what_is_given_is_checked_before_anything_is_measured(tmp_path: Path) -> None:
    class Untouched(MemoryCostStore):
        def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
            raise AssertionError("nothing is to be measured")

    path, model = tmp_path / "inputs.npz", lifted(skewed_products())
    np.savez(path, x1=np.zeros((256, 256), np.float32))
    for inputs, message in ((path, "are missing; it has x1"), (tmp_path / "none.npz", "numpy archive")):
        with pytest.raises(InvalidFileError, match=message):
            optimize(model, rules(ASSOCIATIVE), Options(inputs=inputs, threads=1), Measured(Untouched()))
