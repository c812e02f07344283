"""Transformations of models by the shipped library: what the optimizer chooses, and rules at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

import optimizer
from optimizer import Options, plan_of
from optimizer.cost import MemoryCostStore
from superopt.ir import Graph
from superopt.onnx_io import lift, load_model, lower
from superopt.rewriting import Substitution, apply_match, find_matches

STEPS = 4


class Optimised:
    """The optimizer with a small budget; any failure inside it is raised."""

    def __init__(self, rules: Sequence[Substitution]) -> None:
        self._rules = rules
        self._costs = MemoryCostStore()

    def __call__(self, content: bytes) -> bytes:
        lifted = lift(load_model(content))
        options = Options(objective="flops", budget=5, max_candidates=50, threads=1)
        result = optimizer.Journey(lifted, self._rules, options, self._costs).run()
        return lower(lifted, result.graph, result.plan).to_bytes()


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
