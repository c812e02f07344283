"""What collectives cost: formulas, the cheapest algorithm, directions and contention."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep, communication
from superopt.optimizer.parallel.documents.cluster import parse_cluster
from superopt.optimizer.parallel.placement import Placement
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.topology import Cluster
from tests.optimizer.parallel.simulated import cluster

ONE = cluster(1, 8)
TWO = cluster(2, 4)
LARGE, SMALL = 8 * 10**9, 8


def step(kind: CollectiveKind, size: int, *group: int) -> CollectiveStep:
    whole = ((0, 1),)
    moved = size * (len(group) - 1) // len(group)
    return CollectiveStep(kind, group, size, (whole,) * len(group), (whole,) * len(group), moved)


EIGHT = tuple(range(8))

COSTS = [
    ("all-reduce by a ring", ONE, CollectiveKind.ALL_REDUCE, EIGHT, LARGE, "ring", 14 + 1e6 * 0.8 * 14 / 8),
    ("all-reduce by a tree", ONE, CollectiveKind.ALL_REDUCE, EIGHT, SMALL, "tree", 6),
    ("all-gather by a ring", ONE, CollectiveKind.ALL_GATHER, (0, 1, 2), LARGE, "ring", 2 + 1e6 * 0.8 * 2 / 3),
    ("all-gather by doubling", ONE, CollectiveKind.ALL_GATHER, EIGHT, LARGE, "tree", 3 + 1e6 * 0.8 * 7 / 8),
    ("reduce-scatter", ONE, CollectiveKind.REDUCE_SCATTER, (0, 1), LARGE, "ring", 1 + 1e6 * 0.8 / 2),
    ("all-to-all", ONE, CollectiveKind.ALL_TO_ALL, EIGHT, LARGE, "direct", 3 + 1e6 * 0.8 * 7 / 64),
    ("broadcast by a chain", ONE, CollectiveKind.BROADCAST, EIGHT, LARGE, "ring", 7 + 1e6 * 0.8),
    ("broadcast by a tree", ONE, CollectiveKind.BROADCAST, EIGHT, SMALL, "tree", 3),
    ("send", ONE, CollectiveKind.SEND, (0, 1), LARGE, "send", 1 + 1e6 * 0.8),
    ("send to another node", TWO, CollectiveKind.SEND, (0, 4), LARGE, "send", 2 + 1e6 * 8),
    ("all-reduce over nodes", TWO, CollectiveKind.ALL_REDUCE, EIGHT, LARGE, "tree", 8 + 1e6 * 8),
    ("small, over nodes", TWO, CollectiveKind.ALL_REDUCE, EIGHT, SMALL, "tree", 8),
]


@pytest.mark.parametrize("case", COSTS, ids=lambda case: case[0])
def test_costs(case: tuple[str, Cluster, CollectiveKind, tuple[int, ...], int, str, float]) -> None:
    _, machine, kind, group, size, algorithm, microseconds = case
    found = Collectives(machine).cost(step(kind, size, *group))
    assert found.algorithm == algorithm
    assert found.microseconds == pytest.approx(microseconds, rel=0.001, abs=0.1)


def test_a_hierarchy_saves_latency_between_nodes() -> None:
    far = parse_cluster(
        """
nodes: [{count: 4, devices: 4, device: t4, link: {bandwidth: 100 GB/s, latency: 1 us}}]
network: {bandwidth: 10 GB/s, latency: 100 us}
""",
        "far",
    )
    reduction = step(CollectiveKind.ALL_REDUCE, 10**7, *range(16))
    ways = {way.algorithm: way for way in Collectives(far).costs(reduction)}
    cheapest = Collectives(far).cost(reduction)
    assert cheapest.algorithm == "hierarchical"
    assert cheapest.microseconds == pytest.approx(6 + 2 * 75 + 6 * 100 + 2 * 3 / 4 * 1000)
    assert ways["ring"].microseconds == pytest.approx(30 * 100 + 2 * 15 / 16 * 1000)


def test_directions_differ() -> None:
    lopsided = parse_cluster(
        """
nodes:
  - {device: t4, network: {bandwidth: {up: 1 GB/s, down: 4 GB/s}, latency: 0 us}}
  - {device: t4}
network: {bandwidth: 8 GB/s, latency: 0 us}
""",
        "lopsided",
    )
    cost = Collectives(lopsided).cost
    assert cost(step(CollectiveKind.SEND, LARGE, 0, 1)).microseconds == pytest.approx(8e6)
    assert cost(step(CollectiveKind.SEND, LARGE, 1, 0)).microseconds == pytest.approx(2e6)
    assert cost(step(CollectiveKind.ALL_GATHER, LARGE, 0, 1)).microseconds == pytest.approx(4e6)


@pytest.mark.parametrize(("devices", "transfers"), [((0, 4), 1), ((0, 1, 4, 5), 2), (tuple(range(8)), 4)])
def test_what_leaves_a_node_shares_its_uplink(devices: tuple[int, ...], transfers: int) -> None:
    """Devices of the first node send their parts to devices of the second one, at the same time."""
    half = len(devices) // 2
    have, want = (Placement((half,), part) for part in (devices[:half], devices[half:]))
    steps = communication(have, want, (8,), 10**6)
    exchange = Exchange(steps, have.devices, Collectives(TWO), len(TWO))
    arrived, channels = exchange.run(np.zeros(8), np.zeros(len(TWO.channels)))
    one = 8 / half * 1000
    assert arrived[list(devices[half:])] == pytest.approx(np.full(half, 2 + transfers * one), abs=0.01)
    again, _ = exchange.run(np.zeros(8), channels)
    assert again[devices[-1]] == pytest.approx(2 + 2 * transfers * one, abs=0.01)


def test_collectives_in_turn_occupy_their_channels_to_the_end() -> None:
    """The second of two starts when the first has arrived; else its latency overlaps with the transfer."""
    description = """
nodes: [{devices: 4, device: t4, link: {bandwidth: 10 GB/s, latency: 50 us}}]
"""
    arrivals: dict[str, list[float]] = {}
    for field in ("", "collectives: serial", "collectives: {bandwidth: 1 GB/s, latency: 20 us}"):
        machine = parse_cluster(description + field, "c")
        reduced = step(CollectiveKind.ALL_REDUCE, 10**6, 0, 1, 2, 3)
        exchange = Exchange((reduced,), (0, 1, 2, 3), Collectives(machine), 4)
        channels = np.zeros(len(machine.channels))
        arrivals[field] = []
        for _ in range(2):
            arrived, channels = exchange.run(np.zeros(4), channels)
            arrivals[field].append(float(arrived.max()))
    overlapping, serial, measured = arrivals.values()
    assert overlapping[0] == serial[0] < overlapping[1] < serial[1] == 2 * serial[0]
    assert measured == [1020.0, 2040.0]
