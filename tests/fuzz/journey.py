"""One random model through the optimizer, and what is wrong with what comes out.

Models that are not finite everywhere are only checked, not compared: rules are equalities of real numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx

from superopt.ir import Plan
from superopt.journeys.in_process import verified_substitutions
from superopt.onnx_io import LiftedModel, lift, load_model, lower
from superopt.optimizer import Measured, Options, optimize
from superopt.optimizer.check import Reference, Sampling, check_equivalence, plan_inputs
from superopt.optimizer.check.equivalence import Sample
from superopt.optimizer.cost import CostStore, GraphCost, MemoryCostStore, Sizes
from superopt.optimizer.cost.runtime.session import LoadedModel, RuntimeRefusedError
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.optimizer.search import Backtracking, RuleSet, SearchLimits, Watch
from superopt.rewriting import Substitution
from superopt.substitution_db import open_database
from tests.fuzz.graphs import random_model
from tests.fuzz.stitched import Stitcher
from tests.fuzz.whim import Whim
from tests.onnx_io.test_random_models import Grower

COSTS = MemoryCostStore()


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one model: ``steps`` were applied; ``wrong`` says what is wrong with the outcome."""

    steps: int
    wrong: str = ""


def rewritten_at_whim(content: bytes, rules: Sequence[Substitution], seed: int) -> Finding:
    """Searches under random prices, writes the best graph, and runs it beside the original."""
    lifted = lift(load_model(content, why_refused))
    start = GraphCost.of(lifted.graph, Whim(seed), Sizes(lifted.graph, {}))
    limits = SearchLimits(deadline=float("inf"), alpha=1.2, max_candidates=150, seed=seed)
    found = Backtracking().run(start, RuleSet(rules), Watch(limits))
    lowered = lower(lifted, found.best.graph, Plan())
    return Finding(len(found.trace), _fault(content, lifted, lowered.to_bytes(), seed))


def _accepted(content: bytes) -> bool:
    """Whether the ONNX checker accepts a model."""
    try:
        onnx.checker.check_model(content, full_check=True)  # pyright: ignore[reportUnknownMemberType]
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def optimised(
    content: bytes, rules: Sequence[Substitution], costs: CostStore, seed: int, budget: float
) -> Finding:
    """The whole main job with a small budget; also wrong: slower by its report, or an internal error."""
    lifted = lift(load_model(content, why_refused))
    options = Options(budget=budget, threads=1, seed=seed, max_candidates=300)
    result = optimize(lifted, rules, options, Measured(costs))
    report = result.report
    if report.why.startswith("internal error"):
        return Finding(0, report.why)
    if report.returned == "original":
        return Finding(0)
    if report.measured is None or report.measured.interval[0] <= 1:
        return Finding(len(result.trace), "returned although it is not certainly faster")
    written = lower(lifted, result.graph, result.plan).to_bytes()
    return Finding(len(result.trace), _fault(content, lifted, written, seed))


@cache
def _rules(database: str | None) -> Sequence[Substitution]:
    return verified_substitutions(open_database(database))


def model_of(seed: int) -> bytes | None:
    """One model in three is made of ONNX nodes around images, one as exporters write them, one of operators.

    None where the drawn operator set has no form of an operator.
    """
    match seed % 3:
        case 0:
            return Grower(seed).model(2 + seed % 13).SerializeToString()
        case 1:
            return Stitcher(seed).model(2 + seed % 17).SerializeToString()
        case _:
            return random_model(seed)


def is_smooth(seed: int) -> bool:
    """Whether rounding changes no output of the model by much: then numbers are compared, not only shapes."""
    if seed % 3 != 1:
        return True
    stitcher = Stitcher(seed)
    stitcher.model(2 + seed % 17)
    return stitcher.is_smooth


def tried(seed: int, *, budget: float | None, database: str | None) -> Finding | None:
    """What one seed brings; None where it makes no model."""
    content = model_of(seed)
    if content is None:
        return None
    try:
        if budget is None:
            return rewritten_at_whim(content, _rules(database), seed)
        return optimised(content, _rules(database), COSTS, seed, budget)
    except Exception as error:  # noqa: BLE001 - a finding, whatever it is
        return Finding(0, f"{type(error).__name__}: {error}")


def _fault(content: bytes, lifted: LiftedModel, written: bytes, seed: int) -> str:
    """What is wrong with the rewritten model: what the checker or the runtime say, or other outputs."""
    if _accepted(content) and not _accepted(written):
        return "the checker refuses it"
    try:
        original = LoadedModel(content, threads=1)
    except RuntimeRefusedError:
        return ""
    try:
        other = LoadedModel(written, threads=1)
    except RuntimeRefusedError as error:
        return str(error)
    inputs = plan_inputs(lifted, original.inputs, {})
    reference = Reference(original, inputs, Sampling(samples=3, seed=seed), lifted.source)
    samples = tuple(reference.samples())
    if not samples or not all(_is_finite(sample.outputs) for sample in samples):
        return ""
    if not is_smooth(seed):
        return _other_shapes(samples, other)
    verdict = check_equivalence(reference, other)
    return "" if verdict.passed else verdict.why


def _other_shapes(samples: Sequence[Sample], other: LoadedModel) -> str:
    for sample in samples:
        shapes = [[np.shape(output) for output in some] for some in (sample.outputs, other.run(sample.feeds))]
        if shapes[0] != shapes[1]:
            return f"shapes {shapes[0]} became {shapes[1]}"
    return ""


def _is_finite(outputs: Sequence[object]) -> bool:
    return all(np.isfinite(np.asarray(output)).all() for output in outputs)
