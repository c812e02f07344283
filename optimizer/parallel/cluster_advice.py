"""Suggest a sufficient cluster for a model that does not fit: more devices, or devices with more memory."""

from __future__ import annotations

import time
from dataclasses import replace

from superopt.optimizer.parallel.documents.quantities import size_text, sufficient_size_text
from superopt.optimizer.parallel.search.planner import Planner
from superopt.optimizer.parallel.search.subject import Subject
from superopt.optimizer.parallel.topology import Cluster, Connection, Node

_MOST_DEVICES = 1024
_LEAST_SECONDS = 1.0
"""Seconds for larger clusters even after the planner's deadline."""

_NETWORK = Connection(12.5e9, 12.5e9, 5.0)
"""Assumed network for a cluster of one node without a network: 100 Gb/s."""


def does_not_fit(cluster: Cluster, plan: str, needs: int, has: int) -> str:
    """Return a sentence about a plan that ``needs`` more bytes on a device than that ``has``."""
    return (
        f"the model does not fit on {cluster.name}: {plan} needs {sufficient_size_text(needs)} on a device "
        f"that has {size_text(has)}"
    )


def suggest_cluster(subject: Subject, planner: Planner, here: int) -> str:
    """Return a sentence with the number of devices of the same kind that is sufficient, and with the memory
    that each device would otherwise need. ``here`` is the largest memory in bytes that the best plan for this
    cluster needs on a device."""
    larger = f"{sufficient_size_text(here)} on each of its devices"
    times, needed = 1, here
    ends = max(planner.deadline, time.monotonic() + _LEAST_SECONDS)
    while 2 * times * len(planner.cluster) <= _MOST_DEVICES and time.monotonic() <= ends:
        times *= 2
        more = repeated(planner.cluster, times)
        found = Planner(more, planner.objective, planner.licence).least_memory_plan(subject)
        if found.fits:
            return f"{len(more)} such devices would be enough, or {larger}"
        before, needed = needed, max(found.simulation.memory_bytes)
        if needed >= before:
            return f"more devices are not enough, because no plan divides it further; {larger} would be"
    return f"more than {times * len(planner.cluster)} such devices are needed, or {larger}"


def repeated(cluster: Cluster, times: int) -> Cluster:
    """A cluster with a multiple of the nodes."""
    count, nodes = len(cluster), len(cluster.nodes)
    return Cluster(
        cluster.name,
        tuple(
            replace(device, number=device.number + n * count, node=device.node + n * nodes)
            for n in range(times)
            for device in cluster.devices
        ),
        tuple(
            Node(
                tuple(device + n * count for device in node.devices),
                node.link,
                node.network or _NETWORK,
                node.sockets,
                node.bridge,
            )
            for n in range(times)
            for node in cluster.nodes
        ),
    )
