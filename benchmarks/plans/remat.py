"""Compares orders and recomputation under memory limits with RAF's and Chen's.

    python -m benchmarks remat [NETWORK:BATCH ...] [--seconds 60]

Training steps (AdamW, cross-entropy) of the zoo. Times of nodes are those of a roofline: 5 us for a kernel,
900 GB/s, 15.7 TFLOP/s (a V100 without tensor cores). Nothing is run. All are evaluated by the same liveness.
A limit is a share of the tensors at the peak of the best order, beyond what is resident.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping

import onnx

from superopt import zoo
from superopt.onnx_io import load_model
from superopt.onnx_io.node_memory import TensorSize, tensor_sizes
from superopt.optimizer.memory.baselines import chen, raf_recompute
from superopt.optimizer.memory.fit import fit_order
from superopt.optimizer.memory.liveness import Program, Schedule, liveness
from superopt.optimizer.memory.nodes import NodeProgram
from superopt.optimizer.memory.order import raf_order, search_order
from superopt.optimizer.memory.recompute import Fitted
from superopt.optimizer.memory.subject import node_program
from superopt.training import StepSettings, train_graph

NETWORKS = ("light-bert:128", "light-resnet18:512", "bert-base:16")
SHARES = (0.8, 0.6, 0.4, 0.3)
COLUMNS = (
    *("network", "nodes", "resident MB", "as listed", "RAF's order", "our order"),
    *("limit", "RAF", "Chen", "ours", "again", "s"),
)
KERNEL, BYTES_PER_US, FLOPS_PER_US = 5.0, 900e3, 15.7e6
FREE = ("Constant", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
PRODUCTS = ("Gemm", "MatMul")
CONVOLUTIONS = ("Conv", "ConvTranspose")


def main() -> None:
    """Prints both tables, row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks remat", description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each search")
    given = parser.parse_args()
    sys.stdout.write(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n")
    for named in given.networks:
        for row in network_rows(named, given.seconds):
            sys.stdout.write(row + "\n")
            sys.stdout.flush()


def network_rows(named: str, seconds: float) -> list[str]:
    """The rows of a network: peaks in MB, added times in per cent."""
    nodes = step_program(named)
    program = nodes.program
    order = search_order(program, seconds)
    peaks = [liveness(program, one).peak for one in (program.order, raf_order(program), order)]
    segments = segments_of(nodes, order)
    shown = " | ".join(f"{(peak - program.resident) / 1e6:.0f}" for peak in peaks)
    rows: list[str] = []
    for share in SHARES:
        limit = program.resident + int(share * (peaks[-1] - program.resident))
        started = time.monotonic()
        found = fit_order(program, order, limit, started + seconds)
        took = time.monotonic() - started
        within = [one for one in segments if one.peak <= limit]
        cells = (
            f"| {named} | {len(program.operations):,} | {program.resident / 1e6:.0f} | {shown} | {share:.0%}",
            added(program, order, raf_recompute(program, order, limit), limit),
            added(program, order, min(within, key=lambda one: one.cost, default=None), limit),
            added(program, order, found.found, limit),
            f"{len(found.found.schedule) - len(order)} | {took:.0f} |",
        )
        rows.append(" | ".join(cells))
    return rows


def segments_of(nodes: NodeProgram, order: Schedule) -> list[Fitted]:
    """Chen's recomputation by 2 to 32 segments."""
    loss = max(index for index, node in enumerate(nodes.nodes) if "loss" in node.output)
    return [chen(nodes.program, order, loss, count) for count in range(2, 33)]


def added(program: Program, order: Schedule, found: Fitted | None, limit: int) -> str:
    """The time added to that of an order; a dash where the limit is not met."""
    if found is None or found.peak > limit:
        return "–"
    return f"{100 * (found.cost / program.cost(order) - 1):.2f}%"


def step_program(named: str) -> NodeProgram:
    """The training step of a network of the zoo (NAME:BATCH or NAME@TOKENS:BATCH), with times of the
    roofline."""
    name, _, batch = named.partition(":")
    name, _, tokens = name.partition("@")
    network = zoo.build(name, batch=int(batch or 1), sequence=int(tokens) if tokens else None)
    model = train_graph(network, StepSettings()).step.model.to_proto()
    sizes = tensor_sizes(model)
    costs = {index: roofline(node, sizes) for index, node in enumerate(model.graph.node)}
    return node_program(load_model(model), sizes, costs)


def roofline(node: onnx.NodeProto, sizes: Mapping[str, TensorSize]) -> float:
    """Microseconds of a node."""
    if node.op_type in FREE:
        return 0.0
    moved = sum(sizes[name].bytes for name in (*node.input, *node.output) if name)
    operations = 0
    if node.op_type in PRODUCTS:
        operations = 2 * math.prod(sizes[node.output[0]].shape) * sizes[node.input[0]].shape[-1]
    elif node.op_type in CONVOLUTIONS:
        image = node.output[0] if node.op_type == "Conv" else node.input[0]
        operations = 2 * math.prod(sizes[image].shape) * math.prod(sizes[node.input[1]].shape[1:])
    return KERNEL + max(moved / BYTES_PER_US, operations / FLOPS_PER_US)


if __name__ == "__main__":
    main()
