"""Transformations of models by the shipped library: what the optimizer chooses, and rules at random."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from superopt.ir import Graph
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer import Options, plan_of
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.cost import Flops, GraphCost, Origin, Sizes
from superopt.optimizer.pipeline.selection import usable_rules
from superopt.optimizer.search import RuleSet, SearchLimits, Watch, search_named
from superopt.rewriting import Substitution, apply_match, find_matches

STEPS = 4


class Optimised:
    """What the search chooses when arithmetic operations are the cost, whether it is faster or not."""

    def __init__(self, rules: Sequence[Substitution]) -> None:
        self._rules = rules
        self._usable: dict[int | None, RuleSet] = {}

    def __call__(self, content: bytes) -> bytes:
        lifted = lift(load_model(content))
        rules = self._of_opset(lifted.source.opset)
        graph = canonicalise(lifted, frozenset()).graph
        start = GraphCost.of(graph, Flops(), Sizes(graph, {}, Origin(lifted)))
        found = search_named("auto").run(start, rules, Watch(SearchLimits(math.inf, max_candidates=50)))
        return lower(lifted, found.best.graph, plan_of(found.best.graph)).to_bytes()

    def _of_opset(self, opset: int | None) -> RuleSet:
        if opset not in self._usable:
            self._usable[opset] = RuleSet(usable_rules(self._rules, Options(), opset))
        return self._usable[opset]


class Rewritten:
    """Some rules applied where they match, whatever they cost, the choice seeded by the model."""

    def __init__(self, rules: Sequence[Substitution]) -> None:
        self._rules = rules
        self.applied = 0

    def __call__(self, content: bytes) -> bytes:
        lifted = lift(load_model(content))
        graph, choice = lifted.graph, random.Random(len(content))
        for _ in range(STEPS):
            graph = self._step(graph, choice)
        return lower(lifted, graph, plan_of(graph)).to_bytes()

    def _step(self, graph: Graph, choice: random.Random) -> Graph:
        rules = choice.sample(self._rules, len(self._rules))
        for rule in rules:
            for match in find_matches(graph, rule):
                rewrite = apply_match(graph, match)
                if rewrite is not None:
                    self.applied += 1
                    return rewrite.graph
        return graph
