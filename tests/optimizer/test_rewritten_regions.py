"""Regions that were rewritten, as a report gives them."""

from __future__ import annotations

from superopt.ops.images.convolution import Conv
from superopt.optimizer.cost import Flops, GraphCost, Sizes
from superopt.optimizer.explanation.rewritten_regions import rewritten_regions
from superopt.rewriting import apply_match, find_matches
from tests.equations.test_abbreviation import KARATSUBA, bilinear
from tests.optimizer.graphs import Builder
from tests.optimizer.models import lifted
from tests.optimizer.rules import rules


def test_an_algorithm_is_named_in_the_attributes_of_a_node() -> None:
    b = Builder()
    model = lifted(b.graph(b.add(Conv(padding="same_upper"), b.input("x", 1, 4, 6, 6), b.weight(4, 4, 2, 2))))
    (rule,) = rules(bilinear(KARATSUBA, KARATSUBA))
    (match,) = find_matches(model.graph, rule)
    rewrite = apply_match(model.graph, match)
    assert rewrite is not None
    before, after = (GraphCost.of(graph, Flops(), Sizes(graph, {})) for graph in (model.graph, rewrite.graph))
    (region,) = rewritten_regions(before, after, model, {})
    assert region.after is not None
    assert region.after.nodes[-1].name == "bilinear_conv"
    assert region.after.nodes[-1].attributes == ("rows=F(2,2)", "columns=F(2,2)", "padding=same_upper")
