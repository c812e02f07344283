"""Constants of one number are written for tensors whose sizes are open."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from superopt.equations import parse_equation
from superopt.ir import Plan
from superopt.onnx_io import lift, load_model, lower
from superopt.rewriting import apply_match, find_matches, substitutions_of
from tests.onnx_io.kit import operators, run

RULES = {
    "elu(x) => add(relu(x), sub(exp(minimum(x, full[value=0])), ones()))": {
        "Relu",
        "Min",
        "Exp",
        "Sub",
        "Add",
    },
    "elu(x) => add(elu(x), relu(full[value=0]()))": {"Elu", "Add"},
    "elu(x) => sub(elu(mul(x, ones())), full[value=0]())": {"Elu", "Mul", "Sub"},
}


@pytest.mark.parametrize("opset", [12, 17])
@pytest.mark.parametrize("text", RULES)
def test_values_are_the_same_at_all_sizes(text: str, opset: int) -> None:
    head = f'<ir_version: 7, opset_import: ["": {opset}]> g '
    given = onnx.parser.parse_model(head + "(float[N,3,T] x) => (float[N,3,T] y) { y = Elu(x) }")
    lifted = lift(load_model(given))
    (rule,) = substitutions_of(parse_equation(text), "rule")
    match = next(iter(find_matches(lifted.graph, rule)))
    rewrite = apply_match(lifted.graph, match)
    assert rewrite is not None
    written = lower(lifted, rewrite.graph, Plan()).to_proto()
    onnx.checker.check_model(written, full_check=True)
    contents = [model.SerializeToString() for model in (given, written)]
    assert RULES[text] <= set(operators(contents[1]).split())
    for size in [(2, 3, 5), (1, 3, 1), (4, 3, 7), (0, 3, 2)]:
        feeds = {"x": np.random.default_rng(0).normal(size=size).astype(np.float32)}
        (expected,), (got,) = (run(content, feeds) for content in contents)
        assert got.shape == size
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
