"""Replay of what a report says was done to bodies, before the graph around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from superopt import optimizer
from superopt.errors import InvalidFileError
from superopt.journeys.bodies.optimizing import expanded
from superopt.onnx_io import LoweredModel, SourceModel, lift, lower
from superopt.onnx_io.bodies.rewriting import Body, BodyRewriting
from superopt.onnx_io.bodies.states import with_simple_control_flow
from superopt.onnx_io.protos import nodes_within
from superopt.optimizer import plan_of, recorded_trace
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.pipeline.reporting.report import SCHEMA
from superopt.optimizer.pipeline.runnable import loads_lowered
from superopt.optimizer.pipeline.selection import kept_nodes
from superopt.rewriting import Substitution


def with_recorded_bodies(
    source: SourceModel, report: Mapping[str, object], rules: Sequence[Substitution], keep: Sequence[str]
) -> SourceModel:
    """The model with functions, known branches and bodies as they were when the report's trace began; the
    model itself for a report from before bodies were optimised. Raises InvalidFileError for a damaged
    report."""
    if "bodies" not in report:
        return source
    return _Repetition(_traces(report), rules, keep).applied(expanded(source, keep))


def recorded_body(
    source: SourceModel, report: Mapping[str, object], rules: Sequence[Substitution], keep: Sequence[str]
) -> SourceModel:
    """The body that the report of a rule's effects is about, as it was when its trace began. Raises
    InvalidFileError if the model has no such body."""
    path = str(report.get("body"))
    repetition = _Repetition(_traces(report), rules, keep)
    repetition.applied(expanded(source, keep), path)
    if path not in repetition.sources:
        raise InvalidFileError(f"report: the model has no body {path!r}")
    return repetition.sources[path]


class _Repetition:
    """Rewrites the bodies with recorded traces again; ``sources`` are the bodies as their traces begin."""

    def __init__(
        self, traces: Mapping[str, object], rules: Sequence[Substitution], keep: Sequence[str]
    ) -> None:
        self.sources: dict[str, SourceModel] = {}
        self._traces = traces
        self._rules = rules
        self._keep = keep

    def applied(self, source: SourceModel, wanted: str = "") -> SourceModel:
        """The model with its bodies rewritten; without recorded traces the same model, unless a body is
        ``wanted``."""
        if not self._traces and not wanted:
            return source
        self._rewriting = BodyRewriting(source.proto, self._rewrite, keep=self._keep)
        return self._rewriting.enter(source)

    def _rewrite(self, body: Body) -> LoweredModel | None:
        prefix = f"{body.path}/"
        inner = with_simple_control_flow(body.source, loads_lowered, self._keep, prefix=prefix)
        inner = self._rewriting.enter(inner, prefix)
        self.sources[body.path] = inner
        if body.path not in self._traces:
            return None
        trace = self._traces[body.path]
        if trace is None:
            return LoweredModel.of_derived(inner) if inner.prepared else None
        lifted = lift(inner)
        steps = recorded_trace({"schema": SCHEMA, "trace": trace})
        start = canonicalise(lifted, kept_nodes(lifted, names_in(inner, self._keep)))
        graph = optimizer.replay(start.graph, steps, self._rules)
        return lower(lifted, graph, plan_of(graph))


def names_in(source: SourceModel, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the names that nodes of a body have."""
    known = {node.name for node in nodes_within(source.as_given.proto.graph)}
    return tuple(name for name in names if name in known)


def _traces(report: Mapping[str, object]) -> dict[str, object]:
    """The recorded trace of each body that is returned rewritten somewhere, by its path; None where only
    bodies in it were rewritten."""
    entries = report["bodies"]
    found = cast("list[object]", entries) if isinstance(entries, list) else [None]
    if not all(isinstance(one, dict) for one in found):
        raise InvalidFileError("report: expected a list of objects as bodies")
    bodies = cast("list[dict[str, object]]", found)
    wanted = {one.get("same_as") or one.get("path") for one in bodies if one.get("returned") == "optimized"}
    return {str(one.get("path")): one.get("trace") for one in bodies if one.get("path") in wanted}


__all__ = ["names_in", "recorded_body", "with_recorded_bodies"]
