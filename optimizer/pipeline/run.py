"""Run one optimization: a lifted model and proved rules in; best equivalent model, trace and report out."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from superopt.errors import INTERNAL_ERROR, InvalidInputError, MissingServiceError, UnprovedRuleError
from superopt.ir.graph import Graph
from superopt.ir.plan import Plan
from superopt.onnx_io import LiftedModel, LoweredModel
from superopt.optimizer.cost import Origin, Sizes
from superopt.optimizer.cost.runtime.session import RuntimeRefusedError
from superopt.optimizer.pipeline.bisection import OnSuspect
from superopt.optimizer.pipeline.judge import AnyTrial, Judge, NotRunError, UnchangedError
from superopt.optimizer.pipeline.original import Original
from superopt.optimizer.pipeline.prepare import Request, prepare, refusal_of
from superopt.optimizer.pipeline.reporting.inventory import Inventories, inventory_of
from superopt.optimizer.pipeline.reporting.report import (
    BYTE_FOR_BYTE,
    CostSummary,
    EquivalenceSummary,
    LatencySummary,
    ModelSummary,
    OpaqueNode,
    Report,
    RuleCounts,
    SearchSummary,
)
from superopt.optimizer.pipeline.verdict import Variant, Verdict, rejections
from superopt.optimizer.search import CancelToken, ProgressCallback, StoppedBy, TraceStep
from superopt.options import Options
from superopt.rewriting import Substitution

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """Outcome of an optimization: ``model`` is the one that was judged. ``graph`` is the lifted graph itself
    when the original is returned."""

    graph: Graph
    plan: Plan
    trace: tuple[TraceStep, ...]
    model: LoweredModel
    report: Report


def optimize(
    lifted: LiftedModel,
    rules: Sequence[Substitution],
    options: Options,
    judge: Judge,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    started: float | None = None,
    on_suspect: OnSuspect = lambda _: None,
) -> Result:
    """Optimizes a model within the budget; the judge determines the target and which model is returned.
    ``rules`` must all be verified; ``on_suspect`` is called immediately for rules that changed outputs,
    which are then no longer used. The budget counts from ``started`` (monotonic clock; default now) and
    includes time for writing the result. Raises InvalidInputError for inputs that do not fit the model,
    MissingServiceError for a missing device. Any other failure is logged, and the original is returned with
    the reason in the report."""
    began = time.monotonic() if started is None else started
    request = Request(lifted, rules, options, progress, cancel or CancelToken(), began, on_suspect)
    pipeline = Pipeline(request, judge)
    try:
        return pipeline.run()
    except (UnprovedRuleError, MissingServiceError):
        raise
    except MemoryError as error:
        _LOG.exception("optimizing %s failed", lifted.source.name)
        return pipeline.not_run(f"{refusal_of(options)}: {error or 'not enough memory'}")
    except Exception as error:
        if isinstance(error, InvalidInputError) and pipeline.trial is None:
            raise
        _LOG.exception("optimizing %s failed", lifted.source.name)
        return pipeline.original(f"{INTERNAL_ERROR}: {type(error).__name__}: {error}")


@dataclass
class Pipeline:
    """One optimization; ``run`` propagates every failure, for tests. Once there is a ``trial``, failures are
    not caused by invalid inputs."""

    request: Request
    judge: Judge
    trial: AnyTrial | None = field(default=None, init=False)

    def run(self) -> Result:
        """Prepares, searches, judges and writes."""
        prepared = prepare(self.request)
        trial = self.trial = self.judge.begin(prepared)
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            try:
                verdict = trial.run(Original(prepared, trial.provider, Path(directory)))
            except NotRunError as error:
                return self.not_run(str(error))
            except UnchangedError as unchanged:
                return self.original(str(unchanged))
            except RuntimeRefusedError as error:
                return self.not_run(f"the original does not run: {error}")
            variant, model = verdict.variant, verdict.model
            assert model is not None, "what was judged is returned"
            report = self._report(verdict, verdict.why)
            return Result(variant.graph, variant.plan, variant.trace, model, report)

    def original(self, why: str) -> Result:
        """Returns the original, with the reason."""
        return self._unchanged(why, "budget")

    def not_run(self, why: str) -> Result:
        """Returns the original, which does not run, with the reason."""
        return self._unchanged(why, "not_run")

    def _unchanged(self, why: str, stopped_by: StoppedBy) -> Result:
        lifted = self.request.lifted
        model = LoweredModel.of_source(lifted.source, lifted.names)
        return Result(lifted.graph, Plan(), (), model, self._report(None, why, stopped_by))

    def _report(
        self, accepted: Verdict[Variant] | None, why: str, stopped_by: StoppedBy = "budget"
    ) -> Report:
        """The report for the variant of a verdict, or for the original without one; ``stopped_by`` says why
        there was no search, if so."""
        request, trial, judged = self.request, self.trial, accepted
        if judged is None and trial is not None:
            judged = trial.described
        comparison = None if judged is None else judged.comparison
        equivalence = None if judged is None else judged.equivalence
        trace = () if accepted is None else accepted.variant.trace
        plan = Plan() if accepted is None else accepted.variant.plan
        report = Report(
            model=self._model(accepted),
            options={**request.options.to_json(), "threads": request.threads},
            rules=RuleCounts(
                len({rule.rule_id for rule in request.rules}), 0, len({step.rule for step in trace})
            ),
            cost=CostSummary("us", "analytic", 0.0, 0.0),
            measured=None if comparison is None else LatencySummary.of(comparison, request.threads),
            equivalence=(
                EquivalenceSummary.untouched(request.options.tolerance, self._returned(accepted))
                if equivalence is None
                else EquivalenceSummary.of(equivalence)
            ),
            search=SearchSummary(request.options.search, 0.0, 0, 0.0, stopped_by),
            canonical=() if accepted is None else accepted.variant.canonical,
            trace=trace,
            fusion=tuple(group.members for group in plan.fusion.values()),
            returned="original" if accepted is None else "optimized",
            why=why,
            target=self.judge.device,
            rejected=() if trial is None else rejections(trial.verdicts),
            suspects=() if trial is None else trial.suspects,
            inventory=self._inventory(accepted),
        )
        report = report if trial is None else trial.account(report)
        if request.cancel.is_interrupted:
            report = replace(report, search=replace(report.search, stopped_by="interrupted"))
        return report

    def _inventory(self, accepted: Verdict[Variant] | None) -> Inventories | None:
        """What the original and the returned model consist of; None where that cannot be counted, which must
        not affect the model, and where no time is left."""
        request, trial = self.request, self.trial
        if request.options.cluster is not None or request.schedule.explaining() <= 0:
            return None
        lifted = request.lifted
        sizes = Sizes(
            lifted.graph, request.options.dims if trial is None else trial.assignment, Origin(lifted)
        )
        try:
            original = LoweredModel.of_source(lifted.source, lifted.names)
            before = inventory_of(original, lifted.graph, sizes)
            if accepted is None or accepted.model is None:
                return Inventories(before, before)
            return Inventories(before, inventory_of(accepted.model, accepted.variant.graph, sizes))
        except Exception:  # noqa: BLE001 - logged, and the outcome goes out without its inventory
            _LOG.exception("counting what %s consists of failed", lifted.source.name)
            return None

    def _model(self, accepted: Verdict[Variant] | None) -> ModelSummary:
        lifted = self.request.lifted
        nodes = len(lifted.source.received.proto.graph.node)
        written = None if accepted is None else accepted.model
        return ModelSummary(
            name=Path(lifted.source.name).name,
            sha256=lifted.source.sha256,
            nodes_before=nodes,
            nodes_after=(
                len(lifted.source.as_given.proto.graph.node) if written is None else written.node_count
            ),
            opaque=tuple(OpaqueNode(*node) for node in lifted.opaque),
            overridable=len(lifted.source.as_given.overridable),
            warnings=lifted.source.warnings,
            frozen=dict(lifted.source.frozen),
            adapted=lifted.source.adapted,
            computing_sizes=len(lifted.computing_sizes),
        )

    def _returned(self, accepted: Verdict[Variant] | None) -> str:
        """Description of the returned model where nothing was compared."""
        if accepted is not None:
            return "the graph is unchanged"
        source = self.request.lifted.source
        if source.frozen or source.adapted:
            done = " and ".join((*source.adapted, *(("freezing",) if source.frozen else ())))
            return f"the model is returned as it was after {done}, with no rule applied"
        if self.request.lifted.source.has_external_data:
            return "the original is returned, with its external data in a separate file"
        return BYTE_FOR_BYTE
