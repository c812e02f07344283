"""The main job on every model of ONNX's backend suite: what it returns passes its case, and nothing fails."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from superopt.errors import InvalidModelError
from superopt.onnx_io import lift, load_model, lower
from superopt.optimizer import Measured, Options, optimize
from superopt.optimizer.cost import CostStore
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.rewriting import Substitution


class Whole:
    """Optimises with a small budget; ``failures`` are the internal errors that reports tell of."""

    def __init__(self, rules: Sequence[Substitution], costs: CostStore, budget: float) -> None:
        self._rules = rules
        self._costs = costs
        self._options = Options(budget=budget, threads=1)
        self.failures: list[str] = []
        self.optimised = 0
        self.refused = 0

    def __call__(self, content: bytes) -> bytes:
        try:
            lifted = lift(load_model(content, why_refused))
        except InvalidModelError:
            self.refused += 1
            raise
        result = optimize(lifted, self._rules, self._options, Measured(self._costs))
        if result.report.why.startswith("internal error"):
            name = onnx.ModelProto.FromString(content).graph.name
            self.failures.append(f"{name}: {result.report.why}")
        self.optimised += result.report.returned == "optimized"
        return lower(lifted, result.graph, result.plan).to_bytes()
