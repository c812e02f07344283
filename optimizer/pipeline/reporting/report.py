"""The report of an optimization: the steps, their gains, the returned model and the reason for it."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Literal, cast

from superopt.ir.graph import NodeId
from superopt.optimizer.canonical import CanonicalStep
from superopt.optimizer.check import Comparison, Equivalence
from superopt.optimizer.check.distance import MULTIPLE, Distance, Multiple
from superopt.optimizer.conversion import Conversions
from superopt.optimizer.cost import device_name, runtime_version
from superopt.optimizer.explanation import Explanation
from superopt.optimizer.pipeline.bisection import Suspect
from superopt.optimizer.pipeline.bodies import BodySummary
from superopt.optimizer.pipeline.reporting.inventory import Inventories
from superopt.optimizer.pipeline.reporting.sizes import SizesSummary
from superopt.optimizer.pipeline.verdict import Rejection
from superopt.optimizer.search import SearchResult, TraceStep

SCHEMA = 1

BYTE_FOR_BYTE = "the original is returned, byte for byte"


@dataclass(frozen=True, slots=True)
class OpaqueNode:
    """An ONNX node that rules do not affect."""

    node: str
    op_type: str
    why: str


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """The model before and after. ``overridable``: weights that are also inputs, and hence not constants;
    ``warnings``: defects of the model that do not prevent running it; ``frozen``: the sizes for which alone
    the model is written; ``adapted``: what else was changed on request before it was optimised;
    ``computing_sizes``: the number of nodes that compute from sizes alone, and stay as
    they are."""

    name: str
    sha256: str
    nodes_before: int
    nodes_after: int
    opaque: tuple[OpaqueNode, ...]
    overridable: int = 0
    warnings: tuple[str, ...] = ()
    frozen: Mapping[str, int] = field(default_factory=dict[str, int])
    computing_sizes: int = 0
    adapted: tuple[str, ...] = ()

    @property
    def is_as_given(self) -> bool:
        """Whether the original is the file that was given, and not one made from it on request."""
        return not (self.frozen or self.adapted)


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Rules given, rules with a match in the original, and rules in the trace. ``stale`` rules were proved
    and are not given, because the software has changed since."""

    loaded: int
    matched: int
    applied: int
    stale: int = 0


@dataclass(frozen=True, slots=True)
class CostSummary:
    """Predicted costs in the unit of the objective."""

    unit: str
    source: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latency of whole models in the runtime; ``interval`` contains the ratio with probability
    ``confidence``."""

    unit: str
    before: float
    after: float
    ratio: float
    interval: tuple[float, float]
    confidence: float
    runs: int
    runtime: str
    threads: int

    @staticmethod
    def of(comparison: Comparison, threads: int) -> LatencySummary:
        """The comparison as the report holds it."""
        return LatencySummary(
            unit="us",
            before=round(comparison.before, 3),
            after=round(comparison.after, 3),
            ratio=round(comparison.ratio, 6),
            interval=(round(comparison.low, 6), round(comparison.high, 6)),
            confidence=round(comparison.confidence, 6),
            runs=comparison.runs,
            runtime=runtime_version(),
            threads=threads,
        )


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """An error relative to the size of its reference: maximum, root mean square, and median of single
    elements; None where not a number."""

    largest: float | None
    rms: float | None
    typical: float | None

    @staticmethod
    def of(distance: Distance | Multiple) -> ErrorSummary:
        """The distance as the report holds it."""
        return ErrorSummary(*map(_finite, (distance.largest, distance.rms, distance.typical)))


@dataclass(frozen=True, slots=True)
class ReferenceSummary:
    """What errors of ``output`` were measured against, in the comparison closest to failing. In double
    precision, ``single`` of ``nodes`` ran in single precision; ``why`` says why there was no double
    precision."""

    kind: str
    output: str
    nodes: int
    single: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class EquivalenceSummary:
    """Distance of the outputs; None where there is no number. ``weak``: they hardly vary. ``error`` and
    ``own_error`` are those of the rewritten model and of the original against the ``reference``, ``multiple``
    is the allowed ratio. ``why`` gives the difference, or the reason why nothing was compared.
    ``branches_missed`` are branches of If nodes that ran on none of the samples."""

    passed: bool
    samples: int
    max_abs_error: float | None
    max_rel_error: float | None
    tolerance: float | None
    weak: bool = False
    why: str = ""
    branches_missed: Sequence[str] = ()
    reference: ReferenceSummary | None = None
    error: ErrorSummary | None = None
    own_error: ErrorSummary | None = None
    multiple: ErrorSummary | None = None

    @staticmethod
    def of(equivalence: Equivalence) -> EquivalenceSummary:
        """The verdict as the report holds it."""
        found = equivalence.evidence
        return EquivalenceSummary(
            equivalence.passed,
            equivalence.samples,
            _finite(equivalence.max_abs_error),
            _finite(equivalence.max_rel_error),
            equivalence.tolerance,
            equivalence.weak,
            equivalence.why,
            equivalence.branches_missed,
            ReferenceSummary(found.reference, found.output, found.nodes, found.single, found.why),
            None if found.error is None else ErrorSummary.of(found.error),
            None if found.own_error is None else ErrorSummary.of(found.own_error),
            ErrorSummary.of(MULTIPLE),
        )

    @staticmethod
    def untouched(tolerance: float | None, returned: str) -> EquivalenceSummary:
        """Nothing was compared, since the original is returned, as ``returned`` states; ``tolerance`` is the
        requested one."""
        return EquivalenceSummary(
            passed=True,
            samples=0,
            max_abs_error=None,
            max_rel_error=None,
            tolerance=tolerance,
            why=f"nothing was compared: {returned}",
        )


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """Search statistics; ``curve`` holds (seconds, best cost), ``reserved_seconds`` of the budget were kept
    for checking and timing results."""

    strategy: str
    seconds: float
    candidates: int
    best_at_seconds: float
    stopped_by: str
    curve: tuple[tuple[float, float], ...] = ()
    reserved_seconds: float = 0.0

    @staticmethod
    def of(strategy: str, result: SearchResult, reserved: float = 0.0) -> SearchSummary:
        """The result of a search as the report holds it."""
        return SearchSummary(
            strategy,
            round(result.seconds, 3),
            result.candidates,
            round(result.best_at_seconds, 3),
            result.stopped_by,
            tuple((round(seconds, 3), cost) for seconds, cost in result.curve),
            round(reserved, 3),
        )


@dataclass(frozen=True, slots=True)
class ArrangedNodes:
    """The order in which nodes of the returned model run to keep within a memory limit: ``schedule`` are
    numbers of the nodes that the model has without it, ``recomputed`` the names of those that run again,
    ``reordered`` whether others moved, ``allocator`` the source of memory in the session; ``of`` is what the
    search returned."""

    limit: int
    predicted: int
    allocator: str
    recomputed: tuple[str, ...]
    reordered: bool
    schedule: tuple[int, ...]
    of: str


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """Bytes of weights and of peak live tensors, of the original and of the returned model. With a limit,
    ``measured`` is the peak resident size of a process that runs the returned model, None where it could not
    be measured, ``plan`` the order of nodes, None where the runtime's own is used, and ``why`` the reason."""

    before: int
    after: int
    limit: int | None
    unit: str = "bytes"
    measured: int | None = None
    plan: ArrangedNodes | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Complete result of one optimization; ``to_json`` gives the documented schema. ``target`` is the device
    of the costs, None for a cluster. ``suspects`` are rules that changed outputs and were therefore not
    used, ``bodies`` what was done to each body of the model's nodes. ``inventory`` is what the model consists
    of, None for a cluster and where there was no time to count; ``conversions`` are those that were tried
    after the search; ``training`` is the step that was built and optimised in place
    of the model."""

    model: ModelSummary
    options: Mapping[str, object]
    rules: RuleCounts
    cost: CostSummary
    measured: LatencySummary | None
    equivalence: EquivalenceSummary
    search: SearchSummary
    canonical: tuple[CanonicalStep, ...]
    trace: tuple[TraceStep, ...]
    fusion: tuple[tuple[NodeId, ...], ...]
    returned: Literal["optimized", "original"]
    why: str
    explanation: Explanation | None = None
    memory: MemorySummary | None = None
    parallel: Mapping[str, object] | None = None
    target: str | None = None
    sizes: SizesSummary = field(default_factory=SizesSummary)
    rejected: tuple[Rejection, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    bodies: tuple[BodySummary, ...] = ()
    inventory: Inventories | None = None
    conversions: Conversions | None = None
    training: Mapping[str, object] | None = None

    def to_json(self) -> dict[str, object]:
        """The report as JSON values, schema 1."""
        return {
            "schema": SCHEMA,
            "model": asdict(self.model),
            "options": dict(self.options),
            "rules": asdict(self.rules),
            "suspects": [suspect.summary() for suspect in self.suspects],
            "cost": asdict(self.cost),
            "sizes": self.sizes.to_json(),
            "measured": None if self.measured is None else asdict(self.measured),
            "equivalence": asdict(self.equivalence),
            "search": asdict(self.search),
            "trace": [
                *(_canonical_to_json(step, self.cost.before) for step in self.canonical),
                *(step.to_json() for step in self.trace),
            ],
            "parallel": None if self.parallel is None else dict(self.parallel),
            "fusion": [list(group) for group in self.fusion],
            "conversions": None if self.conversions is None else self.conversions.to_json(),
            "inventory": None if self.inventory is None else self.inventory.to_json(),
            "memory": None if self.memory is None else asdict(self.memory),
            "returned": self.returned,
            "why": self.why,
            "training": None if self.training is None else dict(self.training),
            "bodies": [body.to_json() for body in self.bodies],
            "rejected": [rejection.to_json() for rejection in self.rejected],
            "explanation": None if self.explanation is None else self.explanation.to_json(),
            "versions": _versions() if self.target is None else {**_versions(), "target": self.target},
        }


def section_of(report: Mapping[str, object], name: str) -> Mapping[str, object]:
    """A section of a report as JSON values; empty where it has none."""
    section = report.get(name)
    return cast("Mapping[str, object]", section) if isinstance(section, dict) else {}


def _canonical_to_json(step: CanonicalStep, cost: float) -> dict[str, object]:
    """Convert a canonicalisation step to JSON values; its costs are those of the canonical graph, the first
    with a price."""
    names = {"kind": step.kind, "rule": step.what, "equation": step.what, "site": list(step.site)}
    return {**names, "cost_before": cost, "cost_after": cost}


def _versions() -> dict[str, str]:
    """Versions used, and the device."""
    return {
        "superopt": version("superopt"),
        "runtime": runtime_version(),
        "onnx": version("onnx"),
        "python": platform.python_version(),
        "device": device_name(),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
