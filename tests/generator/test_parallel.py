"""Parallel rules: what Unity's figures show is proved, what is wrong is refuted, discovery finds them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from superopt.axioms import load_axioms
from superopt.equations import parse_equation
from superopt.generator import generate, load_preset
from superopt.generator.generalise.sampling import Sampler
from superopt.optimizer.pipeline.selection import usable_rules
from superopt.options import Options
from superopt.rewriting import substitutions_of
from superopt.verifier.verification import Status, verify

FIGURES = {
    "9 data": "matmul(x, y) = combine[axis=-2, degree=d](matmul(partition[axis=-2, degree=d](x), "
    "replicate[degree=d](y)))",
    "9 parameter": "matmul(x, y) = combine[axis=-1, degree=d](matmul(replicate[degree=d](x), "
    "partition[axis=-1, degree=d](y)))",
    "9 reduction": "matmul(x, y) = reduce[degree=d](matmul(partition[axis=-1, degree=d](x), "
    "partition[axis=-2, degree=d](y)))",
    "10 two layers": "matmul(relu(matmul(x, y)), z) = reduce[degree=d](matmul(relu(matmul("
    "replicate[degree=d](x),"
    " partition[axis=-1, degree=d](y))), partition[axis=-2, degree=d](z)))",
    "10 heads": "matmul(x, y) = combine[axis=0, degree=d](matmul(partition[axis=0, degree=d](x),"
    " partition[axis=0, degree=d](y)))",
    "10 scores": "combine[axis=0, degree=d](partition[axis=0, degree=d](softmax(x)))"
    " = combine[axis=0, degree=d](softmax(partition[axis=0, degree=d](x))) where axis(x, 0) != axis(x, -1)",
    "11a": "relu(x) = combine[axis=a, degree=d](relu(partition[axis=a, degree=d](x)))",
    "11b": "add(x: f32[1, n], y: f32[1, n])"
    " = reduce[degree=2](reduce_sum[axis=0](partition[axis=0, degree=2](concat[axis=0](x, y))))",
    "16a": "replicate[degree=d](relu(matmul(x, y))) = relu(replicate[degree=d](reduce[degree=d](matmul("
    "partition[axis=-1, degree=d](x), partition[axis=-2, degree=d](y)))))",
    "16b": "matmul(concat[axis=-1](x, y), concat[axis=-2](z, w)) = add("
    "reduce[degree=d](matmul(partition[axis=-1, degree=d](x), partition[axis=-2, degree=d](z))),"
    "reduce[degree=d](matmul(partition[axis=-1, degree=d](y), partition[axis=-2, degree=d](w))))",
    "16c": "reduce_sum[axis=0](x) = reduce[degree=d](reduce_sum[axis=0](partition[axis=0, degree=d](x)))",
}
"""Figure 16b and 16c without their embeddings, which no operator describes: an embedding followed by a sum
over its bag is the sum, divided within the bag; the products that follow embeddings are divided as they are.
"""

WRONG = {
    "reduce undoes no replicate": "reduce[degree=d](replicate[degree=d](x)) = x",
    "relu of a sum is no sum": "reduce[degree=d](relu(matmul(partition[axis=-1, degree=d](x),"
    " partition[axis=-2, degree=d](y)))) = relu(matmul(x, y))",
    "a term is added to each part of a sum": "add(matmul(x, y), z) = reduce[degree=d](add(matmul("
    "partition[axis=-1, degree=d](x), partition[axis=-2, degree=d](y)), replicate[degree=d](z)))",
    "copies of a sum are not its terms": "reduce[degree=2](replicate[degree=4](x)) = replicate[degree=2](x)",
    "a product of sums": "reduce[degree=d](mul(replicate[degree=d](x), replicate[degree=d](y))) = mul("
    "reduce[degree=d](replicate[degree=d](x)), reduce[degree=d](replicate[degree=d](y)))",
    "rows are no columns": "combine[axis=-2, degree=d](matmul(partition[axis=-2, degree=d](x),"
    " replicate[degree=d](y))) = matmul(y, x)",
    "what was divided stays divided": "relu(partition[axis=a, degree=d](x)) = relu(x)",
}

PRODUCTS = {"partition", "combine", "replicate", "reduce", "matmul"}

ILL_TYPED = {
    "softmax along its axis": "softmax(x) = combine[axis=-1, degree=d](softmax(partition[axis=-1, "
    "degree=d](x)))",
    "normalised rows": "layer_normalization(x, v, w) = combine[axis=-1, degree=d](layer_normalization("
    "partition[axis=-1, degree=d](x), partition[axis=0, degree=d](v), partition[axis=0, degree=d](w)))",
    "a weight that is not everywhere": "matmul(x, y)"
    " = combine[axis=-2, degree=d](matmul(partition[axis=-2, degree=d](x), y))",
    "joined parts": "concat[axis=a](x, y) = combine[axis=a, degree=d](concat[axis=a]("
    "partition[axis=a, degree=d](x), partition[axis=a, degree=d](y)))",
    "a fused activation of terms of a sum": "conv[activation=relu](x, y) = reduce[degree=d]("
    "conv[activation=relu]("
    "partition[axis=1, degree=d](x), partition[axis=1, degree=d](y)))",
    "a combine of what is whole": "combine[axis=a, degree=d](relu(x)) = relu(x)",
    "sums over replicas of two kinds": "reduce[degree=2](matmul(replicate[degree=2]("
    "partition[axis=-1, degree=2](x)),"
    " replicate[degree=2](partition[axis=-2, degree=2](y)))) = replicate[degree=2](matmul(x, y))",
}


@pytest.mark.parametrize("figure", FIGURES)
def test_figures_of_unity_are_proved_for_every_degree(figure: str) -> None:
    verdict = verify(parse_equation(FIGURES[figure]), load_axioms())
    assert verdict.status is Status.VERIFIED, verdict.reason


@pytest.mark.parametrize("why", WRONG)
def test_wrong_rules_are_refuted(why: str) -> None:
    assert verify(parse_equation(WRONG[why]), load_axioms()).status is Status.REFUTED


@pytest.mark.parametrize("why", ILL_TYPED)
def test_tasks_that_do_not_find_what_they_need_are_ill_typed(why: str) -> None:
    verdict = verify(parse_equation(ILL_TYPED[why]), load_axioms())
    assert verdict.status is Status.UNPROVED
    assert verdict.reason.startswith("malformed: ")


def test_discovery_finds_how_a_product_is_divided() -> None:
    preset = load_preset("parallel")
    products = [stage for stage in preset.stages if {i.name for i in stage.instances} == PRODUCTS]
    found = {c.text for c in generate(replace(preset, stages=tuple(products[:1])), max_ops=4).candidates}
    d = "degree=degree"
    assert {
        f"matmul(partition[axis=-2, {d}](x), replicate[{d}](y)) <=> partition[axis=-2, {d}](matmul(x, y))",
        f"matmul(replicate[{d}](x), partition[axis=-1, {d}](y)) <=> partition[axis=-1, {d}](matmul(x, y))",
        f"reduce[{d}](matmul(partition[axis=-1, {d}](x), partition[axis=-2, {d}](y))) => matmul(x, y)",
        f"matmul(combine[axis=-1, {d}](x), combine[axis=-2, {d}](y)) <=> reduce[{d}](matmul(x, y))",
    } <= found


def test_no_rule_brings_parallel_operators_into_a_graph_without() -> None:
    parts = "partition[axis=-1, degree=2](x), partition[axis=-2, degree=2](y)"
    text = f"matmul(x, y) <=> reduce[degree=2](matmul({parts}))"
    (only,) = substitutions_of(parse_equation(text), "a rule")
    assert only.backwards


def test_what_a_divided_operator_needs_of_its_values_is_learnt_once() -> None:
    """Exponents for exp, an order for relu: sampling asks for what the operator needs, divided or not."""
    for operator in ("exp", "relu", "silu"):
        equation = parse_equation(
            f"combine[axis=0, degree=2]({operator}(partition[axis=0, degree=2](x))) = {operator}(x)"
        )
        assert Sampler().holds(equation, {"x": (2, 4)})


def test_rules_about_divided_tensors_are_matched_in_no_graph() -> None:
    texts = (
        "combine[axis=a, degree=d](relu(x)) <=> relu(combine[axis=a, degree=d](x))",
        "relu(relu(x)) => relu(x)",
    )
    rules = [rule for text in texts for rule in substitutions_of(parse_equation(text), text)]
    assert [rule.rule_id for rule in usable_rules(rules, Options(), None)] == [texts[1]]
