"""Cluster descriptions: what they mean, and the one sentence for each way to get them wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.errors import InvalidFileError, InvalidOptionError
from superopt.optimizer.parallel.collectives import Collectives
from superopt.optimizer.parallel.communication import CollectiveKind, CollectiveStep
from superopt.optimizer.parallel.documents.cluster import (
    cluster_names,
    load_cluster,
    named_cluster,
    named_description,
    parse_cluster,
)
from superopt.optimizer.parallel.topology import Link
from tests.optimizer.parallel.bad_clusters import BAD, GOOD


@pytest.mark.parametrize("name", BAD)
def test_a_bad_description_is_one_sentence(name: str) -> None:
    text, sentence = BAD[name]
    with pytest.raises(InvalidFileError) as caught:
        parse_cluster(text, "c.yaml")
    assert str(caught.value) == f"c.yaml, {sentence}"


def test_the_description_of_the_contract() -> None:
    cluster = parse_cluster(GOOD, "c.yaml")
    assert (cluster.name, len(cluster), len(cluster.nodes)) == ("two", 16, 2)
    assert {device.memory_bytes for device in cluster.devices} == {80 * 2**30}
    assert cluster.link(0, 7) == Link(450e9, 2.0)
    assert cluster.link(0, 8) == Link(50e9, 5.0)


@pytest.mark.parametrize("name", [*cluster_names(), "dgx-a100:2"])
def test_a_known_cluster_can_be_described_to_others(name: str) -> None:
    assert parse_cluster(named_description(name), "c.yaml") == named_cluster(name)


def test_json_is_read_as_well() -> None:
    text = '{\n\t"nodes": [{"device": "t4", "devices": 2, "link": {"bandwidth": "128 Gbit/s"}}]}'
    cluster = parse_cluster(text, "c.json")
    assert (len(cluster), cluster.devices[0].memory_bytes) == (2, 16 * 10**9)
    assert cluster.link(1, 0) == Link(16e9, 0.0)


def test_nodes_differ_and_so_do_directions() -> None:
    cluster = parse_cluster(
        """
nodes:
  - {device: t4, network: {bandwidth: {up: 1 GB/s, down: 3 GB/s}, latency: 20 us}}
  - device: {flops: 2 TFLOP/s, memory_bandwidth: 100 GB/s}
    memory: 4 GiB
    devices: 4
    link: {bandwidth: 10 GB/s, latency: 1 us}
    sockets: 2
    bridge: {bandwidth: 5 GB/s, latency: 2 us}
network: {bandwidth: 2 GB/s, latency: 10 us}
""",
        "c.yaml",
    )
    assert cluster.link(0, 1) == Link(1e9, 20.0)
    assert cluster.link(1, 0) == Link(2e9, 20.0)
    assert cluster.link(1, 2) == Link(10e9, 1.0)
    assert cluster.link(1, 4) == Link(5e9, 2.0)
    assert [device.socket for device in cluster.devices] == [0, 0, 0, 1, 1]
    names = [cluster.channels[number].name for number in cluster.path(1, 4)]
    assert names == ["device 1 up", "node 1 socket 0 up", "node 1 socket 1 down", "device 4 down"]


@pytest.mark.parametrize("name", cluster_names())
def test_machines_by_name(name: str) -> None:
    one, three = named_cluster(f"{name}:1"), named_cluster(f"{name}:3")
    assert len(three) == 3 * len(one) > 0
    assert three.link(0, len(three) - 1).bandwidth < three.link(0, 1).bandwidth
    assert one.devices[0].kind.half_flops >= one.devices[0].kind.flops


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "summit",
            (
                "cluster: expected a file, one of summit-node, dgx-a100, dgx-h100, p4d, 4x-t4, "
                "disco-a, disco-b with a number of nodes as in dgx-h100:4, or autodist-a1 to "
                "autodist-b12, got 'summit'"
            ),
        ),
        ("dgx-h100:0", "cluster: expected 1 to 512 nodes of dgx-h100, got 0"),
        ("p4d:many", "cluster: expected 1 to 512 nodes of p4d, got many"),
    ],
)
def test_a_bad_name_is_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        named_cluster(name)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("name", "devices", "bandwidth", "flow"),
    [
        ("a2", [1] * 11, [40], None),
        ("b7", [4] * 4, [50], 1.25e9),
        ("b9", [1, 4], [10, 25], 1.25e9),
        ("b11", [4] * 4, [25, 50], 1.25e9),
        ("b12", [1, 4], [25, 50], 1.25e9),
    ],
)
def test_clusters_of_autodist(
    name: str, devices: list[int], bandwidth: list[int], flow: float | None
) -> None:
    cluster = named_cluster(f"autodist-{name}")
    assert [len(node.devices) for node in cluster.nodes] == devices
    networks = {node.network for node in cluster.nodes if node.network is not None}
    assert sorted(network.up / 1.25e8 for network in networks) == bandwidth
    assert {network.flow for network in networks} == {flow}
    assert parse_cluster(named_description(f"autodist-{name}"), name) == cluster


def test_single_transfers_are_slower_than_the_network() -> None:
    """A hierarchical all-reduce has four transfers between two nodes, a ring one."""
    text = """
nodes: [{count: 2, devices: 4, device: t4, link: {bandwidth: 100 GB/s}}]
network: {bandwidth: 4 GB/s, flow: 1 GB/s}
"""
    cluster = parse_cluster(text, "c")
    assert cluster.link(0, 4).bandwidth == 1e9
    assert cluster.link(0, 1).bandwidth == 100e9
    nothing = ((),) * 8
    step = CollectiveStep(CollectiveKind.ALL_REDUCE, tuple(range(8)), 10**9, nothing, nothing, 0)
    costs = {cost.algorithm: cost.microseconds for cost in Collectives(cluster).costs(step)}
    assert 1.7e6 < costs["ring"] < 1.8e6
    assert costs["hierarchical"] < 0.3e6


def test_a_device_may_be_a_cost_profile_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("nodes: [{device: mine.jsonl, memory: 1 GiB}]")
    (tmp_path / "mine.jsonl").write_text("{}")
    with pytest.raises(InvalidFileError, match=r"nodes\[0\].device: expected a cost profile: .*, line 1"):
        load_cluster(path)
