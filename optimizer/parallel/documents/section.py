"""The ``parallel`` section of a report: the plan and its predicted cost."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from superopt.ir.graph import NodeId
from superopt.ir.plan import Parallelism
from superopt.optimizer.parallel.documents.kernel_text import kernels_to_json
from superopt.optimizer.parallel.documents.plan_text import residence_to_json
from superopt.optimizer.parallel.licences import Licences
from superopt.optimizer.parallel.search.candidates import SimulatedPlan
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.strategies.model import Strategy
from superopt.optimizer.parallel.terms import kind_of
from superopt.optimizer.parallel.topology import Cluster

_MOST_EVENTS = 2000


def section(
    subject: Subject,
    chosen: SimulatedPlan,
    baselines: Mapping[str, float],
    cluster: Cluster,
    licences: Licences,
) -> dict[str, object]:
    """The section as JSON values; ``baselines`` are microseconds by name."""
    simulation, plan = chosen.simulation, chosen.plan
    events = list(itertools.islice(simulation.timeline(), _MOST_EVENTS + 1))
    return {
        "cluster": {
            "name": cluster.name,
            "devices": len(cluster),
            "nodes": len({device.node for device in cluster.devices}),
        },
        "objective": simulation.objective.value,
        "strategy": chosen.proposal.name,
        "origin": chosen.proposal.origin.value,
        "predicted": {
            "unit": "us",
            "total": round(simulation.microseconds, 3),
            "compute": round(float(simulation.busy_microseconds.max(initial=0.0)), 3),
            "communication": round(float(simulation.channel_microseconds.max(initial=0.0)), 3),
        },
        "baselines": [
            {"name": name, "total": round(total, 3)}
            for name, total in sorted(baselines.items(), key=lambda item: item[1])
        ],
        "memory": [
            {"device": device.number, "bytes": used, "limit": device.memory_bytes}
            for device, used in zip(cluster.devices, simulation.memory_bytes, strict=True)
        ],
        "communication_bytes": simulation.communication_bytes,
        "operators": _operators(subject, plan.parallel, licences),
        "residence": residence_to_json(plan, subject),
        "unproved": licences.missing(
            operation
            for operation in subject.operations
            if any(degree > 1 for degree in _degrees(plan.parallel.get(operation.node)))
        ),
        "stages": 1 + max((how.stage for how in plan.parallel.values()), default=0),
        "microbatches": plan.microbatches,
        "kernels": kernels_to_json(plan),
        "timeline": [
            {
                "device": event.device,
                "name": event.name,
                "kind": event.kind,
                "start": round(event.start, 3),
                "duration": round(event.duration, 3),
            }
            for event in events[:_MOST_EVENTS]
        ],
        "timeline_is_cut": len(events) > _MOST_EVENTS,
    }


def synchronisation(strategy: Strategy | None) -> dict[str, object]:
    """The part of the section about the strategy that the plan is made by; empty without one."""
    return {} if strategy is None else {"synchronisation": strategy.to_json()}


def limited_by(simulation: Simulation, cluster: Cluster) -> tuple[int, int]:
    """The bytes that the fullest device needs and has, by the resource that is short."""
    needs = zip(simulation.memory_bytes, (d.memory_bytes for d in cluster.devices), strict=True)
    return max(needs, key=lambda pair: pair[0] - pair[1])


def _degrees(how: Parallelism | None) -> tuple[int, ...]:
    return () if how is None else how.degrees


def _operators(
    subject: Subject, parallel: Mapping[NodeId, Parallelism], licences: Licences
) -> Sequence[dict[str, object]]:
    found: list[dict[str, object]] = []
    for operation in subject.operations:
        how = parallel.get(operation.node)
        if how is None:
            continue
        divided = [number for number, degree in enumerate(how.degrees) if degree > 1]
        rules = [licences.rule(operation, number) for number in divided]
        found.append(
            {
                "node": operation.node,
                "operator": operation.operator.name,
                "degrees": list(how.degrees),
                "kinds": [
                    kind_of(dimension) for dimension in operation.splits.dimensions[: len(how.degrees)]
                ],
                "devices": list(how.devices),
                "copies": how.copies,
                "stage": how.stage,
                "rule": rules[0] if len(rules) == 1 else rules or None,
            }
        )
    return found
