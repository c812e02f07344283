"""Replay of reports: the model of a trace, the programs and the timeline of a plan."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from superopt import optimizer
from superopt.equations import abbreviated
from superopt.errors import InvalidFileError, InvalidOptionError, NotEquivalentError, UnjudgedError
from superopt.ir import Graph, Plan
from superopt.journeys.bodies.replay import names_in, recorded_body, with_recorded_bodies
from superopt.journeys.changes.adaptation import as_recorded
from superopt.journeys.changes.conversions import converted_as_recorded, is_converted, recorded_tolerance
from superopt.journeys.changes.memory_limits import arranged_as_recorded
from superopt.journeys.comparing import compared_sources
from superopt.journeys.in_process import verified_substitutions
from superopt.journeys.planning.recorded_plan import recorded_plan
from superopt.journeys.quarantine import quarantine
from superopt.journeys.suspect_evidence import suspect_evidence
from superopt.onnx_io import LiftedModel, LoweredModel, ModelSource, lift, load_model, lower
from superopt.optimizer import plan_of, recorded_trace
from superopt.optimizer.canonical import canonicalise
from superopt.optimizer.check import Equivalence, open_names
from superopt.optimizer.parallel.execution.program import save_program
from superopt.optimizer.parallel.shards import Segment, programmed
from superopt.optimizer.parallel.simulator import ParallelObjective, Simulation, simulate
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.pipeline.bisection import Suspect, exceeds_rounding, find_suspect, jumps
from superopt.optimizer.pipeline.reporting.report import section_of
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.optimizer.pipeline.selection import kept_nodes
from superopt.optimizer.pipeline.write import for_devices
from superopt.optimizer.search import retraced
from superopt.rewriting import Substitution
from superopt.substitution_db import open_or_temporary

_BISECTION_SECONDS = 120.0
"""Time limit of the search for the first step that changes outputs."""


@dataclass(frozen=True)
class Rewritten:
    """A model, its graph after the recorded trace, and the rules that may be applied."""

    lifted: LiftedModel
    graph: Graph
    rules: Sequence[Substitution]


def replay(
    model: ModelSource,
    report: Mapping[str, object],
    *,
    database: str | None = None,
    cluster: Cluster | None = None,
) -> LoweredModel:
    """The model produced by a recorded trace, byte for byte as written originally.

    Raises UnprovedRuleError for a step whose rule is not verified, InvalidFileError for a report that is
    damaged or of another model.
    """
    rewritten = _rewritten(model, report, database)
    lifted, graph = rewritten.lifted, rewritten.graph
    if "original" in (_returned(report), *_found_by_search(report)):
        converted = converted_as_recorded(lower(lifted, lifted.graph, Plan()), report)
        return arranged_as_recorded(converted, report)
    if not isinstance(report.get("parallel"), dict):
        converted = converted_as_recorded(lower(lifted, graph, plan_of(graph)), report)
        return arranged_as_recorded(converted, report)
    recorded = recorded_plan(lifted, graph, rewritten.rules, report, cluster)
    whole = recorded.graph if recorded.is_synchronised else graph
    return for_devices(lifted, whole, recorded.plan, recorded.cluster, recorded.devices)


def require_equal(
    model: ModelSource,
    lowered: LoweredModel,
    report: Mapping[str, object],
    *,
    database: str | None = None,
    inputs: Path | None = None,
) -> None:
    """Compares a replayed model with the original at the report's sizes, because reports are untrusted; with
    ``inputs`` of a file, too.

    Raises NotEquivalentError if the outputs differ; a rule found to blame becomes suspect. Raises
    UnjudgedError if no input is known on which the original runs.
    """
    is_arranged = bool(section_of(section_of(report, "memory"), "plan"))
    if _returned(report) == "original" and not is_arranged and not is_converted(report):
        return
    sizes = recorded_sizes(report)
    equivalence = _compared(model, lowered, sizes, tolerance=recorded_tolerance(report), inputs=inputs)
    if equivalence.passed:
        return
    if equivalence.undecided:
        raise UnjudgedError(
            f"the model produced by the trace cannot be compared with the original: {equivalence.why}; "
            "--no-check writes it without a comparison"
        )
    why = f"the model produced by the trace is not equivalent: {equivalence.why}"
    suspect = None
    if exceeds_rounding(equivalence):
        suspect = bisect_trace(model, report, database=database, inputs=inputs)
    if suspect is None or suspect.refused:
        raise NotEquivalentError(why)
    names, apart = _recorded_names(report), _names_apart(report)
    frozen = lowered.source.frozen
    quarantine(
        [suspect_evidence(suspect, dims=sizes, keep=names, apart=apart, frozen=frozen)],
        found_by="replay",
        model=Path(lowered.source.name).name,
        sha256=lowered.source.sha256,
        seed=0,
        database=database,
    )
    raise NotEquivalentError(
        f"{why}; rule {suspect.rule} is to blame and now suspect: {abbreviated(suspect.equation)}"
    )


def bisect_trace(
    model: ModelSource,
    report: Mapping[str, object],
    *,
    database: str | None = None,
    inputs: Path | None = None,
) -> Suspect | None:
    """The rule of the first step after which outputs differ by more than rounding; None if not found within
    ``_BISECTION_SECONDS``. Raises as ``replay``.
    """
    lifted, start, rules = _start(model, report, database)
    _, trace = retraced(start, recorded_trace(report), rules, lambda _: 0.0)
    ends, sizes = time.monotonic() + _BISECTION_SECONDS, recorded_sizes(report)

    def compare(graph: Graph) -> Equivalence | None:
        if time.monotonic() >= ends:
            return None
        return _compared(model, lower(lifted, graph, plan_of(graph)), sizes, inputs=inputs)

    return find_suspect(start, trace, rules, compare)


def repeated(
    model: ModelSource,
    report: Mapping[str, object],
    besides: Sequence[Substitution],
    *,
    database: str | None = None,
    seed: int = 0,
) -> Equivalence | None:
    """Whether outputs differ after a recorded trace, of the model or of one of its bodies; rules in
    ``besides`` are allowed like verified ones. None where a difference says nothing about a rule (see
    ``jumps``).

    Raises as ``replay`` does.
    """
    lifted, start, rules = _start(model, report, database)
    if jumps(start):
        return None
    graph = optimizer.replay(start, recorded_trace(report), (*rules, *besides))
    sizes = recorded_sizes(report)
    if "body" in report:
        model = LoweredModel.of_source(lifted.source, {}).to_bytes()
        known = open_names(lifted)
        sizes = {name: size for name, size in sizes.items() if name in known}
    return _compared(model, lower(lifted, graph, plan_of(graph)), sizes, seed)


def _compared(
    model: ModelSource,
    lowered: LoweredModel,
    sizes: Mapping[str, int],
    seed: int = 0,
    tolerance: float | None = None,
    inputs: Path | None = None,
) -> Equivalence:
    """Whether a model made from another is equal to it, or to the part of it that was cut out."""
    source = lowered.source.as_given if lowered.source.is_part else load_model(model, why_refused)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        path = Path(directory) / "model.onnx"
        lowered.save(path)
        other = load_model(path, why_refused)
        return compared_sources(source, other, dims=sizes, seed=seed, tolerance=tolerance, inputs=inputs)


def write_shards(
    model: ModelSource,
    report: Mapping[str, object],
    directory: Path,
    *,
    database: str | None = None,
    cluster: Cluster | None = None,
) -> tuple[int, int]:
    """Writes the programs of all devices of the report's plan; returns the numbers of devices and models.

    Raises as ``replay``, InvalidFileError for a report without a plan, InvalidOptionError if the directory
    exists or cannot be written.
    """
    rewritten = _rewritten(model, report, database)
    recorded = recorded_plan(rewritten.lifted, rewritten.graph, rewritten.rules, report, cluster)
    program = programmed(recorded.graph, recorded.plan, recorded.step)
    save_program(program, rewritten.lifted, recorded.graph, directory)
    segments = [entry.device for entry in program.entries if isinstance(entry, Segment)]
    return len(set(segments)), len(segments)


def simulation_of(
    model: ModelSource, report: Mapping[str, object], cluster: Cluster, *, database: str | None = None
) -> Simulation:
    """The report's plan simulated on a cluster. Raises as ``write_shards`` does, and InvalidOptionError where
    the cluster has fewer devices than the plan was made for."""
    rewritten = _rewritten(model, report, database)
    recorded = recorded_plan(rewritten.lifted, rewritten.graph, rewritten.rules, report, cluster)
    if len(cluster) < recorded.devices:
        raise InvalidOptionError(
            f"cluster {cluster.name}: expected the {recorded.devices} devices of the plan, got {len(cluster)}"
        )
    objective = ParallelObjective(recorded.objective)
    return simulate(recorded.graph, recorded.plan, cluster, objective, recorded.step)


def _rewritten(model: ModelSource, report: Mapping[str, object], database: str | None) -> Rewritten:
    steps = recorded_trace(report)
    lifted, start, rules = _start(model, report, database)
    graph = optimizer.replay(start, steps, rules)
    is_untouched_plan = isinstance(report.get("parallel"), dict) and not report.get("trace")
    return Rewritten(lifted, lifted.graph if is_untouched_plan else graph, rules)


def _start(
    model: ModelSource, report: Mapping[str, object], database: str | None
) -> tuple[LiftedModel, Graph, Sequence[Substitution]]:
    """The model, the graph that the recorded trace begins with, and the rules that may be applied."""
    source = load_model(model, why_refused)
    own, recorded = source.sha256, section_of(report, "model").get("sha256")
    if recorded != own:
        raise InvalidFileError(
            f"{source.name}: the report is of another model: expected sha256 {recorded}, got {own}"
        )
    source = replace(as_recorded(source, report), apart=_names_apart(report))
    if _returned(report) == "original":
        lifted = lift(source)
        return lifted, lifted.graph, ()
    with open_or_temporary(database) as opened:
        rules = verified_substitutions(opened)
    names = _recorded_names(report)
    if "body" in report:
        source = recorded_body(source, report, rules, names)
        names = names_in(source, names)
    else:
        source = with_recorded_bodies(source, report, rules, names)
    lifted = lift(source)
    return lifted, canonicalise(lifted, kept_nodes(lifted, names)).graph, rules


def _found_by_search(report: Mapping[str, object]) -> tuple[object, ...]:
    """What the search returned, where the model was changed after it."""
    arranged = section_of(section_of(report, "memory"), "plan")
    return section_of(report, "conversions").get("of"), arranged.get("of")


def _returned(report: Mapping[str, object]) -> str:
    returned = report.get("returned")
    if returned not in ("optimized", "original"):
        raise InvalidFileError(f"report: expected returned to be optimized or original, got {returned!r}")
    return str(returned)


def _recorded_names(report: Mapping[str, object]) -> tuple[str, ...]:
    """The nodes to keep. Raises InvalidFileError if the report does not list them."""
    names = section_of(report, "options").get("keep")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in cast("list[object]", names)):
        raise InvalidFileError(f"report: expected the names of kept nodes as options.keep, got {names!r}")
    return tuple(cast("list[str]", names))


def _names_apart(report: Mapping[str, object]) -> frozenset[str]:
    """The dimension names that do not imply equal sizes; empty if the report has none."""
    names = section_of(report, "sizes").get("apart")
    return frozenset(map(str, cast("list[object]", names))) if isinstance(names, list) else frozenset()


def recorded_sizes(report: Mapping[str, object]) -> Mapping[str, int]:
    """The requested sizes of symbolic dimensions. Raises InvalidFileError for an invalid size."""
    sizes = section_of(section_of(report, "options"), "dims")
    wrong = {name: size for name, size in sizes.items() if not isinstance(size, int) or size < 1}
    if wrong:
        raise InvalidFileError(f"report: expected sizes of at least 1 as options.dims, got {wrong}")
    return cast("Mapping[str, int]", sizes)
