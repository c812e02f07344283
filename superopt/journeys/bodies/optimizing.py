"""Optimise the bodies of If, Loop and Scan, each as a model of its own, before the graph around them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from superopt import optimizer
from superopt.errors import INTERNAL_ERROR, InvalidInputError, MissingServiceError, UnprovedRuleError
from superopt.onnx_io import LiftedModel, LoweredModel, SourceModel, lift
from superopt.onnx_io.bodies.functions import with_functions_inlined
from superopt.onnx_io.bodies.loops import may_not_end
from superopt.onnx_io.bodies.rewriting import Body, BodyRewriting, Refused, has_bodies, nodes_in_bodies
from superopt.onnx_io.bodies.states import with_simple_control_flow
from superopt.onnx_io.changes.freezing import sizes_at
from superopt.onnx_io.protos import nodes_within
from superopt.optimizer import CancelToken, Options, Report
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.check import input_shapes, open_names
from superopt.optimizer.pipeline.bisection import Suspect
from superopt.optimizer.pipeline.bodies import BodySummary
from superopt.optimizer.pipeline.judge import Judge
from superopt.optimizer.pipeline.runnable import loads_lowered
from superopt.optimizer.pipeline.selection import kept_nodes
from superopt.rewriting import Substitution, find_matches

_LOG = logging.getLogger(__name__)

_MOST = 0.6
"""Share of the budget for bodies, if nearly all nodes of a model are in them."""

_LEAST_SECONDS = 1.0
"""A body gets this much of the time that is left, however small it is."""

_SPARE = 0.8
"""A body gets this much of what is due to it by its number of nodes, so that the last ones get theirs."""

_PATIENCE, _PATIENCE_PER_NODE = 500, 100
"""The search in a body ends after so many candidates without a better one."""

_TOO_SHORT = 0.3
"""Seconds; with less left, no body is started."""

OnSuspect = Callable[[Suspect, str], None]
"""Called with a rule that changed the outputs of the body at a path, which is then no longer used."""


def sizes_of_inputs(source: SourceModel, options: Options) -> Mapping[str, int]:
    """The sizes of open dimensions that are requested, or that given inputs have."""
    given = {} if options.inputs is None else sizes_at(source, input_shapes(options.inputs))
    return {**given, **options.dims}


def is_only_slower(report: Report) -> bool:
    """Whether all that speaks against a model with rewritten bodies is its time."""
    return all(rejection.equal for rejection in report.rejected)


def expanded(source: SourceModel, keep: Sequence[str]) -> SourceModel:
    """The model with calls of its own functions, and If nodes with known conditions, replaced by what they
    run."""
    return with_simple_control_flow(with_functions_inlined(source, keep), loads_lowered, keep)


@dataclass(eq=False)
class BodyOptimization:
    """Optimises the bodies of one model under a judge. ``dims`` are sizes of open dimensions; ``summaries``
    says what was done to each body, and ``suspects`` are rules that changed the outputs of one. The budget
    counts from ``started`` (monotonic clock)."""

    rules: Sequence[Substitution]
    options: Options
    dims: Mapping[str, int]
    judge: Judge
    started: float
    on_suspect: OnSuspect
    cancel: CancelToken = field(default_factory=CancelToken)
    summaries: dict[str, BodySummary] = field(default_factory=dict[str, BodySummary])
    suspects: list[Suspect] = field(default_factory=list[Suspect])
    _ends: float = 0.0
    _nodes: int = 1

    def has_any(self, source: SourceModel) -> bool:
        """Whether the model has bodies to optimise."""
        return has_bodies(source.proto.graph) and self.options.cluster is None

    def apply(self, source: SourceModel) -> SourceModel:
        """The model with better bodies; the same model if there are none. A failure leaves all bodies as they
        are, and is logged."""
        graph = source.proto.graph
        if not self.has_any(source):
            return source
        inside = nodes_in_bodies(graph)
        now = time.monotonic()
        left = self.started + self.options.budget - now
        self._ends = now + _MOST * left * inside / (inside + len(graph.node))
        self._nodes = inside
        self._rewriting = BodyRewriting(
            source.proto, self._optimized, self._repeated, self._refused, self.options.keep
        )
        try:
            return self._rewriting.enter(source)
        except (UnprovedRuleError, MissingServiceError):
            raise
        except Exception:  # noqa: BLE001 - logged; the graph around the bodies can still be optimised
            _LOG.exception("optimizing the bodies of %s failed", source.name)
            self.withdraw(f"{INTERNAL_ERROR} while optimizing bodies")
            return source

    def withdraw(self, why: str, within: str = "") -> None:
        """Records that the bodies, or those within one body, are returned as they were after all."""
        for path, summary in self.summaries.items():
            if path.startswith(within) and path != within and summary.returned == "optimized":
                self.summaries[path] = replace(
                    summary, returned="original", nodes_after=summary.nodes_before, why=why
                )

    def _optimized(self, body: Body) -> LoweredModel | None:
        nodes = len(body.graph.node)
        source = with_simple_control_flow(
            body.source, loads_lowered, self.options.keep, prefix=f"{body.path}/"
        )
        source = self._rewriting.enter(source, f"{body.path}/")
        try:
            report, model = self._judged(source, body.path, nodes)
        except InvalidInputError as error:
            report, model = str(error), None
        self._nodes -= nodes
        why = report if isinstance(report, str) else report.why
        if isinstance(report, str) and source.prepared:
            model = LoweredModel.of_derived(source)
        if model is None:
            self.withdraw(f"the body around it is returned as it was: {why}", f"{body.path}/")
        self.summaries[body.path] = BodySummary(
            body.path,
            nodes,
            nodes if model is None else model.node_count,
            "original" if model is None else "optimized",
            why,
            report=None if isinstance(report, str) else report,
        )
        return model

    def _judged(self, source: SourceModel, path: str, nodes: int) -> tuple[Report | str, LoweredModel | None]:
        """The report, or the reason why nothing was tried, and the accepted model. Rules whose rounding
        errors are larger are not used: what they give is measured alone, and within the model ONNX Runtime
        1.31 may take twice as long as before, which would cost the whole model its other rewrites."""
        lifted = lift(source)
        if may_not_end(source):
            return "a loop in it might not end on generated inputs", None
        names = {node.name for node in nodes_within(source.as_given.proto.graph)}
        keep = tuple(name for name in self.options.keep if name in names)
        if self._is_trivial(lifted, keep):
            return "no rule matches", None
        if self.cancel.is_interrupted:
            return "the search was interrupted before", None
        left = self._ends - time.monotonic()
        if left < _TOO_SHORT:
            return "no time was left for it", None
        known = open_names(lifted)
        share = _SPARE * left * nodes / max(self._nodes, nodes)
        budget = min(left, max(_LEAST_SECONDS, share))
        options = replace(
            self.options,
            budget=budget,
            dims={name: size for name, size in self.dims.items() if name in known},
            freeze={},
            inputs=None,
            keep=keep,
            memory_limit=None,
            patience=_PATIENCE + nodes * _PATIENCE_PER_NODE,
            exact_rounding=True,
        )
        result = optimizer.optimize(
            lifted,
            self.rules,
            options,
            self.judge,
            cancel=self.cancel,
            started=time.monotonic(),
            on_suspect=lambda suspect: self._distrust(suspect, path),
        )
        accepted = result.report.returned == "optimized"
        return result.report, result.model if accepted else None

    def _distrust(self, suspect: Suspect, path: str) -> None:
        self.suspects.append(suspect)
        self.on_suspect(suspect, path)
        self.rules = [rule for rule in self.rules if rule.rule_id != suspect.rule]

    def _is_trivial(self, lifted: LiftedModel, keep: Sequence[str]) -> bool:
        """Whether there is nothing to try, which takes milliseconds to find out."""
        if canonicalise(lifted, kept_nodes(lifted, keep)).steps:
            return False
        return not any(
            value.node not in lifted.graph.weight_only
            for rule in self.rules
            for match in find_matches(lifted.graph, rule)
            for value in match.outputs
        )

    def _repeated(self, path: str, first: str) -> None:
        one = self.summaries[first]
        self._nodes -= one.nodes_before
        self.summaries[path] = replace(one, path=path, same_as=first, report=None)

    def _refused(self, refused: Refused) -> None:
        self._nodes -= refused.nodes
        self.summaries[refused.path] = BodySummary(
            refused.path, refused.nodes, refused.nodes, "original", refused.why
        )


__all__ = ["BodyOptimization", "expanded"]
