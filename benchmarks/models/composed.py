"""Operators that are made of simpler ones: ONNX Runtime's own kernel beside the simpler operators.

    python -m benchmarks composed [NAME ...] [--seconds 4]

Each line is one node between activations, in ONNX Runtime with one thread: as it is, and written by the
operators that it is lifted to. ``parts`` says how many times as fast these are, from interleaved runs. Where
that is more than 1, canonicalisation writes the node so (docs/operators.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import numpy_helper

from superopt.ir import Graph, Plan, Weight
from superopt.onnx_io import lift, load_model, lower
from superopt.ops import Opaque
from superopt.optimizer.check import compare_latency

HEADER = "| node | operands | written as | parts | interval |\n|---|---|---|---|---|\n"
_ACTIVATION = "Abs"


@dataclass(frozen=True, slots=True)
class Node:
    """A node with operands of these shapes, then a constant: integers, or random numbers of a shape. Further
    ``constants`` are in the text form of ONNX, and the node's text names all operands: a0, …, and c."""

    text: str
    shapes: Sequence[Sequence[int]]
    integers: Sequence[int] = ()
    weight: Sequence[int] = ()
    constants: str = ""

    def model(self) -> onnx.ModelProto:
        """The node with an activation before each operand and behind the result."""
        inputs = ", ".join(f"float{list(shape)} x{at}" for at, shape in enumerate(self.shapes))
        operands = [f"a{at}" for at in range(len(self.shapes))] + ["c"] * bool(self.integers or self.weight)
        before = " ".join(f"a{at} = {_ACTIVATION}(x{at})" for at in range(len(self.shapes)))
        node = self.text.replace("(…)", f"({', '.join(operands)})")
        body = f"<{self.constants}> {{ {before} b = {node} y = {_ACTIVATION}(b) }}"
        model = onnx.parser.parse_model(
            f'<ir_version: 10, opset_import: ["": 21]> g ({inputs}) => (float y) {body}'
        )
        if self.integers:
            model.graph.initializer.append(numpy_helper.from_array(np.array(self.integers, np.int64), "c"))
        if self.weight:
            weight = np.random.default_rng(0).standard_normal(self.weight, np.float32)
            model.graph.initializer.append(numpy_helper.from_array(weight, "c"))
        return onnx.shape_inference.infer_shapes(model)


IMAGE, ROWS, VOLUME = (1, 64, 56, 56), (256, 768), (1, 16, 16, 32, 32)
CHANNELS = ((64,), (64,))
HEADS = ((1, 128, 12, 64), (1, 128, 12, 64))
NODES = {
    "ReduceMean along channels": Node("ReduceMean(…)", [IMAGE], integers=[1]),
    "ReduceSum along channels": Node("ReduceSum(…)", [IMAGE], integers=[1]),
    "ReduceMean of tokens": Node("ReduceMean(…)", [(1, 197, 768)], integers=[1]),
    "celu": Node("Celu <alpha = 2.0> (…)", [IMAGE]),
    "groups": Node("GroupNormalization <num_groups = 8> (…)", [IMAGE, *CHANNELS]),
    "l1": Node("ReduceL1(…)", [ROWS], [-1]),
    "l2": Node("ReduceL2(…)", [ROWS], [-1]),
    "l2 of channels": Node("ReduceL2(…)", [IMAGE], [1]),
    "sum of squares": Node("ReduceSumSquare(…)", [ROWS], [-1]),
    "log sum": Node("ReduceLogSum(…)", [ROWS], [-1]),
    "log sum exp": Node("ReduceLogSumExp(…)", [ROWS], [-1]),
    "log softmax of channels": Node("LogSoftmax <axis = 1> (…)", [IMAGE]),
    "matrix by vector": Node("MatMul(…)", [(768, 768), (768,)]),
    "matrices by vector": Node("MatMul(…)", [(8, 128, 64), (64,)]),
    "scores": Node('Einsum <equation = "bihd,bjhd->bhij"> (…)', HEADS),
    "scores, heads first": Node(
        'Einsum <equation = "bhid,bhjd->bhij"> (…)', [(1, 12, 128, 64), (1, 12, 128, 64)]
    ),
    "values": Node('Einsum <equation = "bhij,bjhd->bihd"> (…)', [(1, 12, 128, 128), HEADS[1]]),
    "dense": Node('Einsum <equation = "bqd,de->bqe"> (…)', [(1, 128, 768), (768, 768)]),
    "elements": Node('Einsum <equation = "bi,bi->bi"> (…)', [ROWS, ROWS]),
    "layers over two axes": Node("LayerNormalization <axis = -2> (…)", [IMAGE, (56, 56), (56, 56)]),
    "depthwise sequence": Node(
        "Conv <group = 256, kernel_shape = [31], pads = [15, 15]> (…)", [(1, 256, 400)], weight=(256, 1, 31)
    ),
    "sequence": Node("Conv <kernel_shape = [3], pads = [1, 1]> (…)", [(1, 64, 4000)], weight=(64, 64, 3)),
    "sequence of 20 channels": Node(
        "Conv <kernel_shape = [3], pads = [1, 1]> (…)", [(1, 20, 1000)], weight=(20, 20, 3)
    ),
    "maxima of a sequence": Node("MaxPool <kernel_shape = [3], strides = [2]> (…)", [(1, 64, 4000)]),
    "means of a sequence": Node("AveragePool <kernel_shape = [25], pads = [12, 12]> (…)", [(1, 64, 4000)]),
    "mean": Node("Mean(…)", [IMAGE, IMAGE]),
    "softsign": Node("Softsign(…)", [IMAGE]),
    "thresholded relu": Node("ThresholdedRelu(…)", [IMAGE]),
    "instances": Node("InstanceNormalization(…)", [IMAGE, *CHANNELS]),
    "transpose of three axes": Node("Transpose <perm = [0, 3, 2, 1]> (…)", [IMAGE]),
    "transpose around one": Node("Transpose <perm = [0, 3, 2, 1]> (…)", [(1, 1, 500, 256)]),
    "transpose of small blocks": Node("Transpose <perm = [0, 2, 1, 3]> (…)", [(8, 64, 16, 4)]),
    "depth to space": Node("DepthToSpace <blocksize = 2> (…)", [IMAGE]),
    "space to depth": Node("SpaceToDepth <blocksize = 2> (…)", [IMAGE]),
    "tile": Node("Tile(…)", [(1, 64, 28, 28)], [1, 1, 2, 2]),
    "gather": Node("Gather <axis = 1> (…)", [(64, 256, 64)], list(range(0, 200, 2))),
    "gather of columns": Node("Gather <axis = 1> (…)", [ROWS], list(range(767, -1, -1))),
    "cubic image": Node('Resize <mode = "cubic"> (a0, , , c)', [IMAGE], [1, 64, 112, 112]),
    "smaller cubic image": Node('Resize <mode = "cubic"> (a0, , , c)', [(1, 384, 37, 37)], [1, 384, 16, 16]),
    "cubic image of three channels": Node(
        'Resize <mode = "cubic"> (a0, , , c)', [(1, 3, 256, 256)], [1, 3, 1024, 1024]
    ),
    "volume": Node('Resize <mode = "nearest"> (a0, , , c)', [VOLUME], [1, 16, 32, 64, 64]),
    "linear volume": Node('Resize <mode = "linear"> (a0, , , c)', [VOLUME], [1, 16, 32, 64, 64]),
    "linear sequence": Node('Resize <mode = "linear"> (a0, , , c)', [(1, 64, 4000)], [1, 64, 8000]),
    "transform of 400": Node("DFT <onesided = 1> (…)", [(1, 100, 400, 1)]),
    "transform of 512": Node("DFT <onesided = 1> (…)", [(1, 100, 512, 1)]),
    "transforms of 400 in a second": Node(
        "STFT <onesided = 1> (a0, step, , length)",
        [(1, 16000)],
        constants="int64 step = {160}, int64 length = {400}",
    ),
}


def main() -> None:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks composed", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NODES], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each node")
    given = parser.parse_args()
    sys.stdout.write(HEADER)
    for name in given.names or NODES:
        sys.stdout.write(_row(name, NODES[name], given.seconds) + "\n")
        sys.stdout.flush()


def _row(name: str, node: Node, seconds: float) -> str:
    before = node.model().SerializeToString()
    after = in_parts(before)
    random = np.random.default_rng(0)
    feeds = {
        f"x{at}": np.abs(random.standard_normal(shape, np.float32)) for at, shape in enumerate(node.shapes)
    }
    found = compare_latency(before, after, feeds, threads=1, seconds=seconds)
    written = [made.op_type for made in onnx.ModelProto.FromString(after).graph.node]
    cells = (
        name,
        " ".join("x".join(map(str, shape)) for shape in node.shapes),
        ", ".join(op_type for op_type in written if op_type != _ACTIVATION),
        f"{found.ratio:.2f}",
        f"{found.low:.2f} to {found.high:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def in_parts(model: bytes) -> bytes:
    """The model with every node written by the operators that it is lifted to."""
    lifted = lift(load_model(model))
    if lifted.opaque:
        lifted = lift(load_model(model), for_gradients=True)
    nodes = {
        node.id: node if isinstance(node.operator, Opaque | Weight) else replace(node, origin=None)
        for node in lifted.graph
    }
    graph = Graph(nodes, lifted.graph.inputs, lifted.graph.outputs, lifted.graph.next_id)
    return lower(lifted, graph, Plan()).to_bytes()


if __name__ == "__main__":
    main()
