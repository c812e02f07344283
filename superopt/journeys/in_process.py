"""Optimise, check and inspect models in this process."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from superopt import optimizer
from superopt.axioms import load_axioms
from superopt.equations import format_equation
from superopt.errors import InvalidOptionError
from superopt.ir import Graph, Input, Weight
from superopt.journeys.bodies.inspection import InspectedBody, inspected_bodies
from superopt.journeys.bodies.optimizing import BodyOptimization, expanded, is_only_slower, sizes_of_inputs
from superopt.journeys.changes.adaptation import as_requested
from superopt.journeys.changes.conversions import converted, without_conversions
from superopt.journeys.changes.memory_limits import leaving_time, within_limit
from superopt.journeys.comparing import compared_sources
from superopt.journeys.given_inputs import GivenInputs, archive_of
from superopt.journeys.planning.targets import find_target
from superopt.journeys.result import Result, WrittenModel, model_of
from superopt.journeys.suspect_evidence import suspect_evidence
from superopt.object_cache import cached, source_key
from superopt.onnx_io import LiftedModel, LoweredModel, ModelSource, lift, load_model
from superopt.onnx_io.lifting.models import computes_sizes
from superopt.ops import Opaque
from superopt.optimizer import CancelToken, Measured, Options, Progress
from superopt.optimizer.check import (
    Equivalence,
    Sizing,
    declared_ports,
    guess_sizes,
    names_apart,
    plan_inputs,
    require_archive,
    settle_sizes,
)
from superopt.optimizer.check.guesses import example
from superopt.optimizer.cost import Origin, Sizes, physical_cores
from superopt.optimizer.cost.runtime.session import LoadedModel, RuntimeRefusedError
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.pipeline.bisection import Suspect
from superopt.optimizer.pipeline.judge import Judge
from superopt.optimizer.pipeline.prepare import Request, prepare
from superopt.optimizer.pipeline.reporting.inventory import Inventory, inventory_of
from superopt.optimizer.pipeline.runnable import runnable_original, weight_bytes, why_refused
from superopt.optimizer.pipeline.selection import is_safe_with_infinities
from superopt.options import DEFAULTS, require_python
from superopt.rewriting import Substitution, find_matches, substitutions_of
from superopt.substitution_db import open_or_temporary
from superopt.substitution_db.database import Database
from superopt.substitution_db.rules.currency import current_from_cache
from superopt.substitution_db.rules.versions import PublishedRules
from superopt.substitution_db.store.rows import equation_of

ProgressCallback = Callable[[Progress], None]

_SETTLING_SECONDS = 10.0
"""Time limit for finding sizes that a model runs with, in inspection."""


@dataclass(frozen=True)
class MatchingRule:
    """A rule that matches somewhere in a model, and at how many sites."""

    rule: str
    equation: str
    sites: int


@dataclass(frozen=True, repr=False)
class Inspection:
    """Description of a model.

    ``opaque`` holds (node, ONNX operator, reason), ``computing_sizes`` the operators and numbers of nodes
    that compute from sizes alone, ``dimensions`` the symbolic dimensions of inputs: name, inputs and axes
    that have it, and a typical size; ``runs``: whether the model runs at these sizes, None if it has no such
    dimension; ``bodies`` are those of If, Loop and Scan, with the rules that match in them counted neither in
    ``matches`` nor in ``operators``; ``stale`` rules were proved and are not used, because the software has
    changed since. ``inventory`` is what the model consists of at the typical sizes.
    """

    name: str
    nodes: int
    opset: int | None
    weight_bytes: int
    inputs: tuple[tuple[str, str], ...]
    outputs: tuple[tuple[str, str], ...]
    operators: tuple[tuple[str, int], ...]
    opaque: tuple[tuple[str, str, str], ...]
    computing_sizes: tuple[tuple[str, int], ...]
    symbols: Mapping[str, str]
    dimensions: tuple[tuple[str, tuple[tuple[str, int], ...], int], ...]
    rules: int
    matches: tuple[MatchingRule, ...]
    stale: int = 0
    runs: bool | None = None
    bodies: tuple[InspectedBody, ...] = ()
    inventory: Inventory | None = None

    def to_json(self) -> dict[str, object]:
        """The inspection as JSON values."""
        return {
            **asdict(self),
            "inputs": [{"name": name, "type": type_} for name, type_ in self.inputs],
            "outputs": [{"name": name, "type": type_} for name, type_ in self.outputs],
            "operators": dict(self.operators),
            "opaque": [{"node": node, "op_type": op, "why": why} for node, op, why in self.opaque],
            "computing_sizes": dict(self.computing_sizes),
            "symbols": dict(self.symbols),
            "dimensions": [
                {
                    "name": name,
                    "inputs": [{"name": port, "axis": axis} for port, axis in places],
                    "guess": guess,
                }
                for name, places, guess in self.dimensions
            ],
        }

    def __repr__(self) -> str:
        dimensions = "".join(f", {name} open" for name, _, _ in self.dimensions)
        return (
            f"Inspection({self.name}, {self.nodes} nodes, {len(self.opaque)} opaque{dimensions}, "
            f"{len(self.matches)} of {self.rules} rules match)"
        )

    @property
    def size_options(self) -> str:
        """Command-line options for the sizes of symbolic dimensions; empty without any."""
        return example({name: guess for name, _, guess in self.dimensions})


def optimize_with(
    model: ModelSource,
    options: Options,
    *,
    database: str | None = None,
    progress: ProgressCallback | None = None,
    started: float | None = None,
    library: int | None = None,
    cluster: Cluster | None = None,
    plan: Mapping[str, object] | None = None,
    know: Callable[[dict[str, object]], None] = lambda _: None,
    cancel: CancelToken | None = None,
    called: str = "",
) -> Result:
    """An equivalent model that is measurably better, or the original. Runs in this process without
    supervision (unlike ``superopt.optimize``). The budget counts from ``started`` (monotonic clock).

    ``library`` is the library version to use, if its proofs are still valid; by default the current one.
    ``plan`` is evaluated on the ``cluster`` in place of a search: a report, or the section about its plan.
    ``know`` is called with a description of the model, as JSON values, before work begins. ``cancel`` can
    end the search early. Messages name what a temporary file is ``called``. Raises InvalidModelError,
    InvalidOptionError, MissingServiceError.
    """
    began = time.monotonic() if started is None else started
    cancel = cancel or CancelToken()
    if options.inputs is not None:
        require_archive(options.inputs)
    searching = leaving_time(without_conversions(options))
    source = load_model(model, why_refused, called)
    know({"nodes": len(source.proto.graph.node)})
    source = as_requested(source, options)
    source = replace(source, apart=names_apart(source, options.dims, options.inputs))
    source = expanded(source, options.keep)
    lifted = lift(source)
    opaque = [{"node": node, "op_type": kind, "why": why} for node, kind, why in lifted.opaque]
    know({"opaque": opaque, "computing_sizes": len(lifted.computing_sizes)})
    know({"overridable": len(lifted.source.as_given.overridable)})
    with open_or_temporary(database) as opened:
        device = find_target(options.target, opened)
        published = opened.library.read(current_from_cache(), library)
        rules = _substitutions(published)
        library_used = {"version": published.version, "sha256": published.sha256}
        know({"library": library_used, "rules": len({rule.rule_id for rule in rules})})
        know({"stale": published.stale})
        suspects: list[dict[str, object]] = []

        def on_suspect(suspect: Suspect, body: str | None = None) -> None:
            suspects.append(
                suspect_evidence(
                    suspect,
                    dims=options.dims,
                    keep=options.keep,
                    apart=source.apart,
                    frozen=source.frozen,
                    bodies=[summary.to_json() for summary in bodies.summaries.values()],
                    body=body,
                )
            )
            know({"suspects": suspects})

        judge: Judge = Measured(opened.costs, device)
        if cluster is not None:
            from superopt.optimizer import Simulated

            judge = Simulated(cluster, load_axioms().equations, plan)
        sizes = sizes_of_inputs(source, options)
        bodies = BodyOptimization(rules, searching, sizes, judge, began, on_suspect, cancel)

        def found_in(model: LiftedModel) -> optimizer.Result:
            return optimizer.optimize(
                model, bodies.rules, searching, judge, progress, cancel, began, on_suspect
            )

        if bodies.has_any(source):
            prepare(Request(lifted, rules, options))
        rewritten = bodies.apply(source)
        found = found_in(lifted if rewritten is source else lift(rewritten))
        if found.report.returned == "original":
            bodies.withdraw(f"the whole model is returned as it was: {found.report.why}")
            if rewritten is not source and not is_only_slower(found.report):
                found = found_in(lifted)
        if source.frozen and found.report.search.stopped_by == "not_run":
            sizes = ", ".join(f"{name}={size}" for name, size in source.frozen.items())
            raise InvalidOptionError(
                f"freeze: expected sizes at which the model runs, got {sizes}: {found.report.why}"
            )
        found = within_limit(converted(found, lifted, options, began), lifted, options, began)
    report = replace(
        found.report,
        rules=replace(found.report.rules, stale=published.stale),
        bodies=tuple(bodies.summaries.values()),
        suspects=(*bodies.suspects, *found.report.suspects),
    )
    return Result(found.model, report, published)


def check(
    first: ModelSource | WrittenModel,
    second: ModelSource | WrittenModel,
    *,
    samples: int = 4,
    seed: int = 0,
    tolerance: float | None = None,
    inputs: GivenInputs | None = None,
    dims: Mapping[str, int] = DEFAULTS.dims,
) -> Equivalence:
    """Whether the second model is as accurate as the first on ``samples`` random inputs; the verdict is true
    if so.

    ``dims`` are sizes of symbolic dimensions; where the second model has a size and the first none, inputs
    have that size. ``inputs`` are arrays by the names of inputs, or an .npz file of them, to use as well.
    ``tolerance`` is the error allowed beyond the first model's own rounding error, by default one by element
    type. Raises InvalidModelError, InvalidOptionError.
    """
    require_python({"samples": samples, "seed": seed, "tolerance": tolerance, "dims": dims})
    with archive_of(inputs) as path:
        source, other = (load_model(model_of(model), why_refused) for model in (first, second))
        return compared_sources(
            source, other, samples=samples, seed=seed, tolerance=tolerance, inputs=path, dims=dims
        )


def inspect(model: ModelSource, *, database: str | None = None) -> Inspection:
    """Describes a model: operators, shapes, symbolic dimensions, nodes that stay as they are with reasons,
    and the proved rules that match. Raises InvalidModelError."""
    source = expanded(load_model(model, why_refused), ())
    lifted = lift(source)
    with open_or_temporary(database) as opened:
        published = opened.library.read(current_from_cache())
        rules = _substitutions(published)
    graph = lifted.graph
    sizing = _usual_sizes(lifted)
    return Inspection(
        name=lifted.source.name,
        nodes=len(lifted.source.as_given.proto.graph.node),
        opset=lifted.source.opset,
        weight_bytes=weight_bytes(lifted),
        inputs=tuple(
            (node.operator.label, str(node.types[0]))
            for node in (graph[node_id] for node_id in graph.inputs)
            if isinstance(node.operator, Input)
        ),
        outputs=tuple(
            (info.name, str(graph.type_of(value)))
            for info, value in zip(lifted.source.proto.graph.output, graph.outputs, strict=True)
        ),
        operators=_operators(graph),
        opaque=lifted.opaque,
        computing_sizes=tuple(Counter(lifted.computing_sizes).most_common()),
        symbols=lifted.symbols,
        dimensions=tuple((d.name, d.places, sizing.sizes[d.name]) for d in sizing.plan.dimensions),
        rules=len({rule.rule_id for rule in rules}),
        stale=published.stale,
        matches=_matches(graph, rules),
        runs=sizing.runs,
        bodies=inspected_bodies(source),
        inventory=inventory_of(
            LoweredModel.of_source(lifted.source, lifted.names),
            graph,
            Sizes(graph, sizing.assignment, Origin(lifted)),
        ),
    )


def _usual_sizes(lifted: LiftedModel) -> Sizing:
    """Typical sizes of symbolic dimensions with which the model runs; if none are found, untested ones."""
    plan = plan_inputs(lifted, declared_ports(lifted), {})
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:

        def opened() -> LoadedModel:
            return LoadedModel(runnable_original(lifted, Path(directory)), physical_cores())

        try:
            return settle_sizes(lifted, plan, (), opened, time.monotonic() + _SETTLING_SECONDS)
        except RuntimeRefusedError:
            return replace(guess_sizes(lifted, {}), runs=False)


def verified_substitutions(database: Database) -> tuple[Substitution, ...]:
    """The substitutions of all rules of the current version that are verified under the current axioms,
    operators and verifier, without directions that are unsafe for infinite numbers.
    """
    return _substitutions(database.library.read(current_from_cache()))


def _substitutions(library: PublishedRules) -> tuple[Substitution, ...]:
    code = source_key("domains", "equations", "ir", "ops", "optimizer/pipeline", "rewriting")
    rules = (text for rule in library.equations.items() for text in rule)
    return cached("substitutions", (code, *rules), lambda: _usable(library))


def _usable(library: PublishedRules) -> tuple[Substitution, ...]:
    return tuple(
        substitution
        for rule, equation in library.equations.items()
        for substitution in substitutions_of(equation_of(rule, equation), rule)
        if is_safe_with_infinities(substitution)
    )


def _operators(graph: Graph) -> tuple[tuple[str, int], ...]:
    names = (
        f"opaque {node.operator.op_type}" if isinstance(node.operator, Opaque) else node.operator.name
        for node in graph
        if not isinstance(node.operator, Input | Weight)
        and node.id not in graph.weight_only
        and not computes_sizes(node.operator)
    )
    return tuple(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _matches(graph: Graph, rules: Sequence[Substitution]) -> tuple[MatchingRule, ...]:
    counts: Counter[str] = Counter()
    equations: dict[str, str] = {}
    for rule in rules:
        sites = sum(
            1
            for match in find_matches(graph, rule)
            if any(value.node not in graph.weight_only for value in match.outputs)
        )
        if sites:
            counts[rule.rule_id] += sites
            equations[rule.rule_id] = format_equation(rule.equation)
    return tuple(MatchingRule(rule, equations[rule], sites) for rule, sites in counts.most_common())
