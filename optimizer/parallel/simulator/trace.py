"""Export a simulation as a trace for Perfetto and chrome://tracing (Trace Event Format, a JSON object)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from superopt.files import write_atomically
from superopt.optimizer.parallel.simulator.simulation import Simulation


def write_trace(simulation: Simulation, path: Path) -> None:
    """Writes the timeline atomically: nodes of the cluster are processes, and every device has one thread for
    computation and one for communication. Times are in microseconds."""
    events = [*_names(simulation), *_events(simulation)]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "cluster": simulation.prices.cluster.name,
            "objective": simulation.objective.value,
            "microseconds": simulation.microseconds,
        },
    }
    write_atomically(path, json.dumps(document, ensure_ascii=False).encode())


def _names(simulation: Simulation) -> Iterator[dict[str, object]]:
    cluster = simulation.prices.cluster
    for number in range(len(cluster.nodes)):
        yield _metadata("process_name", number, 0, f"node {number}")
    for device in cluster.devices:
        name = f"device {device.number} ({device.kind.name})"
        yield _metadata("thread_name", device.node, 2 * device.number, name)
        yield _metadata("thread_name", device.node, 2 * device.number + 1, f"{name}, sent and received")


def _metadata(name: str, process: int, thread: int, value: str) -> dict[str, object]:
    return {"name": name, "ph": "M", "pid": process, "tid": thread, "args": {"name": value}}


def _events(simulation: Simulation) -> Iterator[dict[str, object]]:
    cluster = simulation.prices.cluster
    for event in simulation.timeline():
        yield {
            "name": event.name,
            "cat": event.kind,
            "ph": "X",
            "ts": event.start,
            "dur": event.duration,
            "pid": cluster.devices[event.device].node,
            "tid": 2 * event.device + event.is_communication,
        }
