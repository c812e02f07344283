"""Ways to get a cluster description wrong, and the sentence for each."""
# ruff: noqa: E501, a sentence is a line

from __future__ import annotations

GOOD = """name: two
nodes:
  - {count: 2, devices: 8, device: h100-sxm, memory: 80 GiB,
     link: {bandwidth: 450 GB/s, latency: 2 us}}
network: {bandwidth: 50 GB/s, latency: 5 us}
"""

DEVICES = "h100-sxm, a100-sxm-80gb, a100-sxm-40gb, v100-sxm2, p100-sxm2, t4, titan-x, m60, 1080ti"
A_DEVICE = f"expected one of {DEVICES}, a cost profile *.jsonl, or fields flops and memory_bandwidth"
SIZES = "B, kB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB"


def but(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


BAD = {
    "an empty file": ("", "line 1, column 1: expected fields, got an empty document"),
    "only a comment": ("# nothing\n", "line 1, column 1: expected fields, got an empty document"),
    "text": (
        "a cluster",
        "line 1, column 1: expected a cluster description with the field nodes, got 'a cluster'",
    ),
    "a list": ("- 1\n", "line 1, column 1: expected a cluster description with the field nodes, got a list"),
    "nothing": ("~\n", "line 1, column 1: expected a cluster description with the field nodes, got nothing"),
    "no nodes": ("name: two\n", "line 1, column 1: expected the field nodes, got name"),
    "an unknown field": (
        but("name:", "nme:"),
        "line 1, column 1: expected one of the fields nodes, name, network, collectives, got 'nme'",
    ),
    "collectives of a kind": (
        but("network:", "collectives: parallel\nnetwork:"),
        "line 5, column 14: collectives: expected serial, or the fields bandwidth and latency, got 'parallel'",
    ),
    "collectives without latency": (
        but("network:", "collectives: {bandwidth: 1 GB/s}\nnetwork:"),
        "line 5, column 14: collectives: expected the field latency, got bandwidth",
    ),
    "a field twice": (
        but("name: two", "name: two\nname: three"),
        "line 2, column 1: expected every field once, got 'name'",
    ),
    "a name that is a number": (
        but("name: two", "name: 2"),
        "line 1, column 7: name: expected a name, got 2",
    ),
    "an empty name": (
        but("name: two", 'name: ""'),
        "line 1, column 7: name: expected a name, printable and of 1 to 100 characters, got ''",
    ),
    "a name of two lines": (
        but("name: two", 'name: "a\\nb"'),
        "line 1, column 7: name: expected a name, printable and of 1 to 100 characters, got 'a\\nb'",
    ),
    "a field that is a list": (
        but("name: two", "[a]: two"),
        "line 1, column 1: expected one of the fields nodes, name, network, collectives, got a list",
    ),
    "nodes that are fields": (
        "nodes: {count: 1}\n",
        "line 1, column 8: nodes: expected a list of at least one kind of node, got fields",
    ),
    "no kind of node": (
        "nodes: []\n",
        "line 1, column 8: nodes: expected a list of at least one kind of node, got an empty list",
    ),
    "a kind of node that is text": (
        "nodes: [h100-sxm]\n",
        "line 1, column 9: nodes[0]: expected a kind of node with the field device, got 'h100-sxm'",
    ),
    "an unknown field of nodes": (
        but("count", "cuont"),
        "line 3, column 6: nodes[0]: expected one of the fields device, count, devices, memory, link, network, sockets, bridge, got 'cuont'",
    ),
    "no device": (
        but("device: h100-sxm, ", ""),
        "line 3, column 5: nodes[0]: expected the field device, got count, devices, memory, link",
    ),
    "an unknown device": (
        but("h100-sxm", "h101"),
        f"line 3, column 36: nodes[0].device: {A_DEVICE}, got 'h101'",
    ),
    "a device that is a number": (
        but("h100-sxm", "100"),
        f"line 3, column 36: nodes[0].device: {A_DEVICE}, got 100",
    ),
    "a device that is a list": (
        but("h100-sxm", "[h100-sxm]"),
        f"line 3, column 36: nodes[0].device: {A_DEVICE}, got a list",
    ),
    "a file where none is read": (
        but("h100-sxm", "mine.jsonl"),
        "line 3, column 36: nodes[0].device: expected a device that needs no file, since none is read here, got 'mine.jsonl'",
    ),
    "a device without flops": (
        but("h100-sxm", "{memory_bandwidth: 1 TB/s}"),
        "line 3, column 36: nodes[0].device: expected the field flops, got memory_bandwidth",
    ),
    "a device without bandwidth": (
        but("h100-sxm", "{flops: 1 TFLOP/s}"),
        "line 3, column 36: nodes[0].device: expected the field memory_bandwidth, got flops",
    ),
    "an unknown field of a device": (
        but("h100-sxm", "{flops: 1 TFLOP/s, bandwidth: 1 TB/s}"),
        "line 3, column 55: nodes[0].device: expected one of the fields flops, memory_bandwidth, name, half_flops, launch, estimator, got 'bandwidth'",
    ),
    "flops without unit": (
        but("h100-sxm", "{flops: 1e12, memory_bandwidth: 1 TB/s}"),
        "line 3, column 44: nodes[0].device.flops: expected a rate of operations such as 989 TFLOP/s, with its unit, got '1e12'",
    ),
    "flops in another unit": (
        but("h100-sxm", "{flops: 1 TFLOPS, memory_bandwidth: 1 TB/s}"),
        "line 3, column 44: nodes[0].device.flops: expected a rate of operations such as 989 TFLOP/s, in one of FLOP/s, kFLOP/s, MFLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, got '1 TFLOPS'",
    ),
    "no flops at all": (
        but("h100-sxm", "{flops: 0 FLOP/s, memory_bandwidth: 1 TB/s}"),
        "line 3, column 44: nodes[0].device.flops: expected a rate of operations such as 989 TFLOP/s, from 1 MFLOP/s to 1000 PFLOP/s, got '0 FLOP/s'",
    ),
    "a slow launch": (
        but("h100-sxm", "{flops: 1 TFLOP/s, memory_bandwidth: 1 TB/s, launch: 11 s}"),
        "line 3, column 89: nodes[0].device.launch: expected a time such as 2 us, of at most 10 s, got '11 s'",
    ),
    "a count of none": (
        but("count: 2", "count: 0"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got 0",
    ),
    "a negative count": (
        but("count: 2", "count: -2"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got -2",
    ),
    "half a node": (
        but("count: 2", "count: 2.5"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got 2.5",
    ),
    "a count in quotes": (
        but("count: 2", "count: '2'"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got '2'",
    ),
    "a count of nothing": (
        but("count: 2", "count: "),
        "line 3, column 12: nodes[0].count: expected a whole number from 1 to 4096, got nothing",
    ),
    "a count in octal": (
        but("count: 2", "count: 0o2"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got '0o2'",
    ),
    "a count that is true": (
        but("count: 2", "count: true"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got true",
    ),
    "a count beyond all bounds": (
        but("count: 2", "count: 99999999999999999999"),
        "line 3, column 13: nodes[0].count: expected a whole number from 1 to 4096, got 99999999999999999999",
    ),
    "devices that are a list": (
        but("devices: 8", "devices: [8]"),
        "line 3, column 25: nodes[0].devices: expected a whole number from 1 to 4096, got a list",
    ),
    "too many devices in all": (
        but("count: 2", "count: 1000"),
        "line 3, column 3: nodes: expected at most 4096 devices in all, got 8000",
    ),
    "memory without unit": (
        but("80 GiB", "80"),
        "line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, with its unit, got 80",
    ),
    "memory in another unit": (
        but("80 GiB", "80 apples"),
        f"line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, in one of {SIZES}, got '80 apples'",
    ),
    "a bandwidth for memory": (
        but("80 GiB", "80 GB/s"),
        f"line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, in one of {SIZES}, got '80 GB/s'",
    ),
    "negative memory": (
        but("80 GiB", "-80 GiB"),
        "line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, got '-80 GiB'",
    ),
    "little memory": (
        but("80 GiB", "80 B"),
        "line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, from 1 MiB to 1 PB, got '80 B'",
    ),
    "memory beyond all bounds": (
        but("80 GiB", "1e99 GiB"),
        "line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, from 1 MiB to 1 PB, got '1e99 GiB'",
    ),
    "memory that is nothing": (
        but("80 GiB", "~"),
        "line 3, column 54: nodes[0].memory: expected a size such as 80 GiB, got nothing",
    ),
    "an inline device without memory": (
        but("device: h100-sxm, memory: 80 GiB", "device: {flops: 1 TFLOP/s, memory_bandwidth: 1 TB/s}"),
        "line 3, column 5: nodes[0]: expected the field memory, got count, devices, device, link",
    ),
    "no link": (
        but(",\n     link: {bandwidth: 450 GB/s, latency: 2 us}", ""),
        "line 3, column 5: nodes[0]: expected the field link between 8 devices, got count, devices, device, memory",
    ),
    "a link that is text": (
        but("link: {bandwidth: 450 GB/s, latency: 2 us}", "link: 450 GB/s"),
        "line 4, column 12: nodes[0].link: expected a connection with the field bandwidth, got '450 GB/s'",
    ),
    "a link without bandwidth": (
        but("bandwidth: 450 GB/s, ", ""),
        "line 4, column 12: nodes[0].link: expected the field bandwidth, got latency",
    ),
    "an unknown field of a link": (
        but("latency: 2", "latncy: 2"),
        "line 4, column 34: nodes[0].link: expected one of the fields bandwidth, latency, flow, got 'latncy'",
    ),
    "a link in flops": (
        but("450 GB/s", "450 TFLOP/s"),
        "line 4, column 24: nodes[0].link.bandwidth: expected a bandwidth such as 450 GB/s, in one of B/s, kB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s, PiB/s, b/s, bit/s, kb/s, kbit/s, Mb/s, Mbit/s, Gb/s, Gbit/s, Tb/s, Tbit/s, got '450 TFLOP/s'",
    ),
    "a link that stands still": (
        but("450 GB/s", "0 GB/s"),
        "line 4, column 24: nodes[0].link.bandwidth: expected a bandwidth such as 450 GB/s, from 1 kB/s to 1 PB/s, got '0 GB/s'",
    ),
    "one direction": (
        but("450 GB/s", "{up: 450 GB/s}"),
        "line 4, column 24: nodes[0].link.bandwidth: expected the field down, got up",
    ),
    "a third direction": (
        but("450 GB/s", "{up: 450 GB/s, down: 1 GB/s, left: 1 GB/s}"),
        "line 4, column 53: nodes[0].link.bandwidth: expected one of the fields up, down, got 'left'",
    ),
    "latency in bytes": (
        but("2 us", "2 B"),
        "line 4, column 43: nodes[0].link.latency: expected a time such as 2 us, in one of ns, us, µs, ms, s, got '2 B'",
    ),
    "latency without unit": (
        but("2 us", "2"),
        "line 4, column 43: nodes[0].link.latency: expected a time such as 2 us, with its unit, got 2",
    ),
    "negative latency": (
        but("2 us", "-2 us"),
        "line 4, column 43: nodes[0].link.latency: expected a time such as 2 us, got '-2 us'",
    ),
    "latency of an hour": (
        but("2 us", "3600 s"),
        "line 4, column 43: nodes[0].link.latency: expected a time such as 2 us, of at most 10 s, got '3600 s'",
    ),
    "sockets that do not divide the devices": (
        but("devices: 8", "devices: 8, sockets: 3, bridge: {bandwidth: 1 GB/s}"),
        "line 3, column 37: nodes[0].sockets: expected a divisor of 8 devices, got 3",
    ),
    "sockets without a bridge": (
        but("devices: 8", "devices: 8, sockets: 2"),
        "line 3, column 5: nodes[0]: expected the field bridge between 2 sockets, got count, devices, sockets, device, memory, link",
    ),
    "no network": (
        but("network: {bandwidth: 50 GB/s, latency: 5 us}\n", ""),
        "line 3, column 5: nodes[0]: expected the field network, here or for the whole cluster, for 2 nodes",
    ),
    "a network that is a list": (
        but("{bandwidth: 50 GB/s, latency: 5 us}", "[50 GB/s]"),
        "line 5, column 10: network: expected a connection with the field bandwidth, got a list",
    ),
    "an alias": (
        but("link: {", "link: &a {").replace("{bandwidth: 50 GB/s, latency: 5 us}", "*a"),
        "line 5, column 10: expected YAML or JSON: aliases are not allowed here",
    ),
    "two documents": (
        GOOD + "---\n" + GOOD,
        "line 6, column 1: expected YAML or JSON: but found another document",
    ),
    "a brace that is not closed": (
        but("2 us}}", "2 us}"),
        "line 5, column 1: expected YAML or JSON: expected ',' or '}', but got '<scalar>'",
    ),
    "a tab for indentation": (
        but("  - {", "\t- {"),
        "line 3, column 1: expected YAML or JSON: found character '\\t' that cannot start any token",
    ),
    "a control character": (
        but("name: two", "name: t\x01wo"),
        "line 1, column 8: expected text, got the character U+0001",
    ),
    "too deep": (
        "nodes: " + "[" * 30 + "]" * 30,
        "line 1, column 27: expected YAML or JSON: more than 20 levels are not allowed here",
    ),
    "JSON that ends too early": (
        '{"nodes": [',
        "line 1, column 12: expected YAML or JSON: expected the node content, but found '<stream end>'",
    ),
    "JSON with an unknown unit": (
        '{\n\t"nodes": [{"device": "t4", "memory": "16 gigs"}]}',
        f"line 2, column 39: nodes[0].memory: expected a size such as 80 GiB, in one of {SIZES}, got '16 gigs'",
    ),
    "an object of Python": (
        "!!python/object/apply:os.system [ls]\n",
        "line 1, column 1: expected YAML or JSON: tags are not allowed here",
    ),
    "too long": ("#" * 300000, "line 1, column 1: expected at most 262144 characters, got 300000"),
}
