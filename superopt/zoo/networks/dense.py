"""Networks of dense layers and embedding tables: the parallelisation benchmarks of FlexFlow and Unity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder

__all__ = ["candle_uno", "dlrm", "light_mlp", "mlp", "mlp_mnist", "xdl"]

ROWS = 1_000_000
"""Rows of an embedding table."""

COLUMNS = 64


def mlp(batch: int) -> Blueprint:
    """[batch, 8192] -> [batch, 8192]: sixteen dense layers with relu between them (Unity, section 8.1)."""
    return _perceptron("mlp", (8192,) * 17, batch)


def mlp_mnist(batch: int) -> Blueprint:
    """[batch, 784] -> [batch, 10]: digits of 28 x 28 pixels (LeCun et al. 1998, section III.C.4: 300 and 100
    hidden units), with relu."""
    return _perceptron("mlp-mnist", (784, 300, 100, 10), batch)


def light_mlp(batch: int) -> Blueprint:
    """[batch, 64] -> [batch, 10]: digits of 8 x 8 pixels."""
    return _perceptron("light-mlp", (64, 32, 16, 10), batch)


def _perceptron(name: str, widths: Sequence[int], batch: int) -> Blueprint:
    graph = GraphBuilder(name, 13)
    x = graph.input("input", (batch, widths[0]))
    last = len(widths) - 2
    for index, sizes in enumerate(pairwise(widths)):
        x = _dense(graph, f"dense_{index}", x, sizes, None if index == last else "Relu")
    graph.output(x, (batch, widths[-1]))
    return graph.blueprint()


def dlrm(batch: int) -> Blueprint:
    """float [batch, 64] and eight int64 [batch, 1] -> a probability [batch, 1], as PyTorch exports it. Sizes
    of FlexFlow's experiment: bottom layers 512, 512, 64, top layers 1024, 1024, 1024, 1."""
    graph = GraphBuilder("dlrm", 13)
    x = graph.input("dense", (batch, 64))
    into = 64
    for index, out in enumerate((512, 512, 64)):
        x = _gemm(graph, f"bot_l.{index}", x, (into, out), "Relu")
        into = out
    x = graph.node("Concat", [x, *_tables(graph, batch, 8)], "interaction", {"axis": 1})
    into = 9 * COLUMNS
    for index, out in enumerate((1024, 1024, 1024)):
        x = _gemm(graph, f"top_l.{index}", x, (into, out), "Relu")
        into = out
    graph.output(_gemm(graph, "top_l.3", x, (into, 1), "Sigmoid"), (batch, 1))
    return graph.blueprint()


def xdl(batch: int) -> Blueprint:
    """Four int64 [batch, 1] -> scores [batch, 2]: tables, then layers of 256, 256 and 2 without biases."""
    graph = GraphBuilder("xdl", 13)
    x = graph.node("Concat", _tables(graph, batch, 4), "interaction", {"axis": 1})
    for index, (sizes, activation) in enumerate(
        (((256, 256), "Relu"), ((256, 256), "Relu"), ((256, 2), "Sigmoid"))
    ):
        name = f"dense_{index}"
        draw = weights.rectified(sizes, (0,)) if index else weights.lecun(sizes, sizes[0])
        kernel = graph.weight(f"{name}.kernel", draw)
        x = graph.node("MatMul", [x, kernel], f"{name}.product")
        x = graph.node(activation, [x], f"{name}.out")
    graph.output(x, (batch, 2))
    return graph.blueprint()


TOWERS = {"cell.rnaseq": 942, "drug.descriptors": 5270, "drug.fingerprints": 2048}
INPUTS = {
    "dose1": None,
    "dose2": None,
    "cell.rnaseq": "cell.rnaseq",
    "drug1.descriptors": "drug.descriptors",
    "drug1.fingerprints": "drug.fingerprints",
    "drug2.descriptors": "drug.descriptors",
    "drug2.fingerprints": "drug.fingerprints",
}
"""Each input and its encoder tower, if any; both drugs share one."""


def candle_uno(batch: int) -> Blueprint:
    """Doses, a cell's RNA, features of two drugs -> the growth rate [batch, 1], as Keras exports it."""
    graph = GraphBuilder("candle-uno", 13)
    layers = {
        tower: [_kernel(graph, f"{tower}.dense_{i}", (1000 if i else size, 1000)) for i in range(3)]
        for tower, size in TOWERS.items()
    }
    parts: list[str] = []
    for name, tower in INPUTS.items():
        x = graph.input(name, (batch, 1 if tower is None else TOWERS[tower]))
        if tower is not None:
            for index, layer in enumerate(layers[tower]):
                x = _apply(graph, f"{name}.dense_{index}", x, layer, "Relu")
                x = graph.node("Dropout", [x], f"{name}.dropout_{index}")
        parts.append(x)
    x = graph.node("Concat", parts, "concatenated", {"axis": 1})
    into = 5002
    for index in range(3):
        x = _dense(graph, f"dense_{index}", x, (into, 1000), "Relu")
        x = graph.node("Dropout", [x], f"dropout_{index}")
        into = 1000
    graph.output(_dense(graph, "output", x, (into, 1), None), (batch, 1))
    return graph.blueprint()


def _tables(graph: GraphBuilder, batch: int, count: int) -> Sequence[str]:
    """The sum of each bag of embeddings, here of one index: Gather then ReduceSum."""
    found: list[str] = []
    for index in range(count):
        name = f"emb_l.{index}"
        indices = graph.input(f"sparse_{index}", (batch, 1), np.int64)
        table = graph.weight(f"{name}.weight", weights.normal((ROWS, COLUMNS), 1.0))
        rows = graph.node("Gather", [table, indices], f"{name}.rows", {"axis": 0})
        axes = graph.integers(f"{name}.axes", [1])
        found.append(graph.node("ReduceSum", [rows, axes], f"{name}.out", {"keepdims": 0}))
    return found


def _gemm(graph: GraphBuilder, name: str, x: str, sizes: tuple[int, int], activation: str) -> str:
    into, out = sizes
    inputs = [
        x,
        graph.weight(f"{name}.weight", weights.rectified((out, into), (1,))),
        graph.weight(f"{name}.bias", weights.bias((out,))),
    ]
    attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0, "transB": 1}
    return graph.node(activation, [graph.node("Gemm", inputs, f"{name}.linear", attributes)], f"{name}.out")


def _kernel(graph: GraphBuilder, name: str, sizes: tuple[int, int]) -> tuple[str, str]:
    """A kernel for a rectified input, and its bias; may be used repeatedly."""
    kernel = graph.weight(f"{name}.kernel", weights.rectified(sizes, (0,)))
    return kernel, graph.weight(f"{name}.bias", weights.bias((sizes[1],)))


def _apply(graph: GraphBuilder, name: str, x: str, layer: tuple[str, str], activation: str | None) -> str:
    x = graph.node("MatMul", [x, layer[0]], f"{name}.product")
    x = graph.node("Add", [x, layer[1]], f"{name}.biased")
    return x if activation is None else graph.node(activation, [x], f"{name}.out")


def _dense(graph: GraphBuilder, name: str, x: str, sizes: tuple[int, int], activation: str | None) -> str:
    """x·W + b, then the activation: MatMul and Add as exported from Keras."""
    return _apply(graph, name, x, _kernel(graph, name, sizes), activation)
