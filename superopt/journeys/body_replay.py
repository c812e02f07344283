"""Replay of what a report says was done to bodies, before the graph around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from superopt import optimizer
from superopt.errors import InvalidFileError
from superopt.journeys.bodies import expanded, loads_lowered
from superopt.onnx_io import LoweredModel, SourceModel, lift, lower
from superopt.onnx_io.bodies import Body, BodyRewriting
from superopt.onnx_io.branches import with_known_branches
from superopt.onnx_io.protos import nodes_within
from superopt.optimizer import plan_of, recorded_trace
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.pipeline.report import SCHEMA
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
    source = expanded(source, keep)
    traces = _traces(report)
    if not traces:
        return source

    def rewrite(body: Body) -> LoweredModel | None:
        prefix = f"{body.path}/"
        inner = with_known_branches(body.source, loads_lowered, keep, prefix=prefix)
        inner = rewriting.enter(inner, prefix)
        trace = traces.get(body.path)
        if trace is None:
            return None
        lifted = lift(inner)
        known = {node.name for node in nodes_within(inner.as_given.proto.graph)}
        kept = kept_nodes(lifted, [name for name in keep if name in known])
        steps = recorded_trace({"schema": SCHEMA, "trace": trace})
        graph = optimizer.replay(canonicalise(lifted, kept).graph, steps, rules)
        return lower(lifted, graph, plan_of(graph))

    rewriting = BodyRewriting(source.proto, rewrite, keep=keep)
    return rewriting.enter(source)


def _traces(report: Mapping[str, object]) -> dict[str, object]:
    """The recorded trace of each body that is returned rewritten somewhere, by its path."""
    entries = report["bodies"]
    found = cast("list[object]", entries) if isinstance(entries, list) else [None]
    if not all(isinstance(one, dict) for one in found):
        raise InvalidFileError("report: expected a list of objects as bodies")
    bodies = cast("list[dict[str, object]]", found)
    wanted = {one.get("same_as") or one.get("path") for one in bodies if one.get("returned") == "optimized"}
    return {str(one.get("path")): one.get("trace") for one in bodies if one.get("path") in wanted}


__all__ = ["with_recorded_bodies"]
