"""Products of a weight with a transposed row: as lowered (a Reshape) against an ONNX Transpose.

    python -m benchmarks row_products [--sizes 4096x25088 4096x4096] [--seconds 10]

Each line is one product in ONNX Runtime with one thread: the kernels that it executes in both forms, and how
many times as fast the lowered one is, from interleaved runs.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import onnx
from onnx import helper

from superopt.ir import ElementType, Graph, Input, TensorType, Weight
from superopt.onnx_io import build_model
from superopt.ops.matrix import Matmul, Transpose
from superopt.optimizer.check import compare_latency
from superopt.optimizer.cost.runtime.session import profiled_model

SIZES = ("4096x25088", "4096x4096", "1000x4096")
"""The dense layers of VGG-19."""


def main() -> None:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(prog="benchmarks row_products", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="rows x columns of the weight")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each size")
    given = parser.parse_args()
    sys.stdout.write("| weight | Transpose | lowered | times as fast | interval |\n|---|---|---|---|---|\n")
    for size in given.sizes:
        rows, columns = map(int, size.split("x"))
        sys.stdout.write(_row(rows, columns, given.seconds) + "\n")
        sys.stdout.flush()


def _row(rows: int, columns: int, seconds: float) -> str:
    random = np.random.default_rng(0)
    weight = random.standard_normal((rows, columns), np.float32)
    after = lowered(weight)
    before = with_transpose(after)
    feeds = {"x": random.standard_normal((1, columns), np.float32)}
    found = compare_latency(before, after, feeds, threads=1, seconds=seconds)
    cells = (
        f"{rows} x {columns}",
        _kernels(before, feeds),
        _kernels(after, feeds),
        f"{found.ratio:.2f}",
        f"{found.low:.2f} to {found.high:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def lowered(weight: np.ndarray) -> bytes:
    """The product of the weight with the transposed row ``x``, as superopt writes it."""
    editor = Graph.empty().edit()
    w = editor.add(Weight("w", TensorType(ElementType.FLOAT, weight.shape))).value
    x = editor.add(Input("x", TensorType(ElementType.FLOAT, (1, weight.shape[1])))).value
    editor.set_outputs(editor.add(Matmul(), [w, editor.add(Transpose(), [x]).value]).values)
    return build_model(editor.build(), {"w": weight})


def with_transpose(model: bytes) -> bytes:
    """The model with a Transpose in place of each Reshape."""
    proto = onnx.ModelProto.FromString(model)
    for node in proto.graph.node:
        if node.op_type == "Reshape":
            node.op_type = "Transpose"
            del node.input[1:]
            node.attribute.append(helper.make_attribute("perm", [1, 0]))
    return proto.SerializeToString()


def _kernels(model: bytes, feeds: dict[str, np.ndarray]) -> str:
    with profiled_model(model, 1) as loaded:
        loaded.run(feeds)
        return ", ".join(kernel.operator for kernel in loaded.end_profile()[-1])


if __name__ == "__main__":
    main()
