"""The plan for several devices that a report has, and the graph that it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from superopt.axioms import load_axioms
from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.ir import Graph, Plan
from superopt.onnx_io import LiftedModel
from superopt.optimizer.parallel.documents.cluster import named_cluster
from superopt.optimizer.parallel.documents.plan_text import plan_from_json
from superopt.optimizer.parallel.licences import licences_of
from superopt.optimizer.parallel.search.subject import Subject, plannable
from superopt.optimizer.parallel.simulator import ParallelObjective, require_one_stage
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.strategies.model import strategy_of
from superopt.optimizer.parallel.strategies.plans import StrategyPlanner
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.parallel.training_plans.states import StepLayout, StepStates
from superopt.optimizer.pipeline.reporting.report import section_of
from superopt.rewriting import Substitution


@dataclass(frozen=True)
class RecordedPlan:
    """The plan of a report, with its graph, sizes and devices, and the states of a training step.
    ``is_synchronised``: it is by a strategy of synchronisation, so that the graph itself was written, with
    its sizes, and perhaps with gradients merged or divided."""

    graph: Graph
    plan: Plan
    step: StepStates | None
    cluster: str
    devices: int
    objective: str
    is_synchronised: bool


def recorded_plan(
    lifted: LiftedModel,
    graph: Graph,
    rules: Sequence[Substitution],
    report: Mapping[str, object],
    cluster: Cluster | None = None,
) -> RecordedPlan:
    """The plan that is recorded for a graph of the model. A graph that a synchronisation strategy changed is
    made again, for the ``cluster``, by default the known machine that the report names. Raises
    InvalidFileError for a report without a plan or with one that does not fit, and InvalidOptionError where
    the cluster is not known or has fewer devices, and for a training step that is a pipeline."""
    if not isinstance(report.get("parallel"), dict) or not isinstance(report.get("options"), dict):
        raise InvalidFileError("report: it has no plan: optimise with --cluster to get one")
    content, options = section_of(report, "parallel"), section_of(report, "options")
    described, dims = section_of(content, "cluster"), options.get("dims")
    objective = content.get("objective", options.get("objective"))
    name, devices = described.get("name"), described.get("devices")
    if not isinstance(name, str) or not isinstance(devices, int) or not isinstance(dims, dict):
        raise InvalidFileError("report: expected a name and a number of devices of the cluster, and dims")
    if objective not in [known.value for known in ParallelObjective]:
        raise InvalidFileError(f"report: expected the objective of a plan, got {objective!r}")
    sized = plannable(graph, cast("Mapping[str, int]", dims))
    layout = StepLayout.of(lifted.source.proto, lifted.source.name)
    is_synchronised = layout is not None and "synchronisation" in content
    if layout is not None and is_synchronised and _is_changed(content, sized):
        machine = _cluster(name, devices) if cluster is None else cluster
        _require_devices(machine, devices)
        licences = licences_of(rules, load_axioms().equations)
        planner = StrategyPlanner(sized, layout, Prices(machine), licences.allow)
        planned = planner.planned(strategy_of(content["synchronisation"], "report: synchronisation"))
        sized, layout = planned.graph, planned.layout
    plan = plan_from_json(content, Subject.of(sized), devices)
    step = None if layout is None else StepStates.of(sized, layout)
    if step is not None:
        require_one_stage([how.stage for how in plan.parallel.values()], plan.microbatches)
    return RecordedPlan(sized, plan, step, name, devices, str(objective), is_synchronised)


def _is_changed(content: Mapping[str, object], graph: Graph) -> bool:
    """Whether the plan is for a graph with other nodes."""
    operators = content.get("operators")
    entries = cast("Sequence[object]", operators) if isinstance(operators, list) else ()
    nodes = [cast("Mapping[str, object]", entry).get("node") for entry in entries if isinstance(entry, dict)]
    return any(node not in graph.nodes for node in nodes)


def _cluster(name: str, devices: int) -> Cluster:
    try:
        return named_cluster(name)
    except InvalidOptionError:
        raise InvalidOptionError(
            f"cluster: expected the description of {name!r}, with {devices} devices, since a strategy merges "
            "or divides gradients according to it; got none"
        ) from None


def _require_devices(cluster: Cluster, devices: int) -> None:
    if len(cluster) != devices:
        raise InvalidOptionError(
            f"cluster {cluster.name}: expected the {devices} devices that the plan was made for, got "
            f"{len(cluster)}"
        )


__all__ = ["RecordedPlan", "recorded_plan"]
