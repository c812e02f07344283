"""Which rules may be used at a model's operator set."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation
from superopt.optimizer.pipeline.selection import usable_rules
from superopt.options import Options
from superopt.rewriting import substitutions_of


@pytest.mark.parametrize(
    ("text", "oldest"),
    [
        ("mul(sigmoid(x), x) => silu(x)", 6),
        ("mul(x, hard_sigmoid[alpha=1/6](x)) => hard_swish(x)", 6),
        ("relu(relu(x)) => relu(x)", 6),
        ("sub(erf(x), erf(x)) => sub(erf(erf(x)), erf(erf(x)))", 9),
    ],
)
def test_operators_that_older_nodes_express_are_used_at_every_operator_set(text: str, oldest: int) -> None:
    """Swish came with operator set 24, HardSwish with 14; both are written as products before."""
    rules = substitutions_of(parse_equation(text), text)
    usable = [opset for opset in range(6, 26) if tuple(usable_rules(rules, Options(), opset))]
    assert usable == list(range(oldest, 26))
