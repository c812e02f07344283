"""Counts bytes brought to a device that caches part of a graph network's tensors, beside LRU and streaming.

    python -m benchmarks caching

Training of graph convolutional networks (hidden size 256) on graphs of the sizes in Roc's table 4.4; float32
features, adjacency as pairs of int32. A capacity is a share of the bytes of all tensors. Nothing is run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise

from superopt.errors import UnsupportedError
from superopt.optimizer.memory.liveness import Operation, Program
from superopt.optimizer.memory.offload import Offloading

COLUMNS = (
    *("graph", "layers", "operations", "capacity GB", "streaming GB", "LRU GB", "least GB"),
    *("streaming / least", "LRU / least"),
)
HIDDEN = 256
SHARES = (0.3, 0.4, 0.5, 0.7)
LAYERS = (2, 3)


@dataclass(frozen=True, slots=True)
class GraphData:
    """A data set: sizes of its graph, features and labels."""

    name: str
    vertices: int
    edges: int
    features: int
    labels: int


GRAPHS = (
    GraphData("Pubmed", 19_717, 108_365, 500, 3),
    GraphData("PPI", 56_944, 1_612_348, 700, 121),
    GraphData("Reddit", 232_965, 114_848_857, 602, 41),
    GraphData("Amazon", 9_430_088, 231_594_310, 300, 24),
)


class _Network:
    """Collects operations and sizes of tensors."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.operations: list[Operation] = []

    def given(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def run(self, name: str, reads: tuple[int, ...], size: int) -> int:
        result = self.given(size)
        self.operations.append(Operation(name, reads, (result,)))
        return result


def gcn(data: GraphData, layers: int) -> Program:
    """One epoch: each layer gathers neighbours and multiplies by a matrix, then the gradients of both."""
    network = _Network()
    widths = [data.features, *(HIDDEN for _ in range(layers - 1)), data.labels]
    tensor = [4 * data.vertices * width for width in widths]
    edges, features = network.given(8 * data.edges), network.given(tensor[0])
    weights = [network.given(4 * a * b) for a, b in pairwise(widths)]
    values, gathered = [features], list[int]()
    for layer in range(layers):
        gathered.append(network.run(f"gather{layer}", (edges, values[-1]), tensor[layer]))
        values.append(network.run(f"linear{layer}", (gathered[-1], weights[layer]), tensor[layer + 1]))
    gradient = network.run("loss", (values[-1],), tensor[-1])
    for layer in reversed(range(layers)):
        network.run(f"weight-gradient{layer}", (gathered[layer], gradient), network.sizes[weights[layer]])
        if layer:
            back = network.run(f"linear-gradient{layer}", (gradient, weights[layer]), tensor[layer])
            back = network.run(f"gather-gradient{layer}", (edges, back), tensor[layer])
            gradient = network.run(f"relu-gradient{layer}", (back, values[layer]), tensor[layer])
    return Program(tuple(network.operations), tuple(network.sizes), frozenset())


def main() -> None:
    """Prints the table row by row."""
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
    for data in GRAPHS:
        for layers in LAYERS:
            for share in SHARES:
                row = _row(data, layers, share)
                if row is not None:
                    sys.stdout.write(row + "\n")
                    sys.stdout.flush()


def _row(data: GraphData, layers: int, share: float) -> str | None:
    """None where an operation alone does not fit."""
    program = gcn(data, layers)
    capacity = int(share * sum(program.sizes))
    try:
        offloading = Offloading(program, capacity)
    except UnsupportedError:
        return None
    counts = [offloading.streaming(), offloading.least_recently_used(), offloading.least()]
    ratios = [f"{count / counts[-1]:.2f}" for count in counts[:2]]
    gigabytes = [f"{count / 1e9:.2f}" for count in (capacity, *counts)]
    return f"| {' | '.join((data.name, str(layers), str(len(program.operations)), *gigabytes, *ratios))} |"


if __name__ == "__main__":
    main()
