"""NasRNN (Zoph and Le 2017), unrolled as in TASO's benchmark: eight gates over x·W_i + h·U_i per step."""

from __future__ import annotations

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder

__all__ = ["nasrnn"]

HIDDEN = 512
STEPS = 5
GATES = 8


def nasrnn(batch: int) -> Blueprint:
    """x0 ... x4 and h0, each [batch, 512] -> the last state [batch, 512]; all steps share their weights."""
    graph = GraphBuilder("nasrnn")
    shape = (HIDDEN, HIDDEN)
    into = [graph.weight(f"W{i}", weights.lecun(shape, HIDDEN)) for i in range(GATES)]
    back = [graph.weight(f"U{i}", weights.lecun(shape, HIDDEN)) for i in range(GATES)]
    inputs = [graph.input(f"x{step}", (batch, HIDDEN)) for step in range(STEPS)]
    state = graph.input("h0", (batch, HIDDEN))
    for step, x in enumerate(inputs):
        state = _cell(graph, f"step{step}", x, state, into, back)
    graph.output(state, (batch, HIDDEN))
    return graph.blueprint()


def _cell(graph: GraphBuilder, name: str, x: str, h: str, into: list[str], back: list[str]) -> str:
    def gate(index: int, activation: str) -> str:
        label = f"{name}.gate{index}"
        from_input = graph.node("MatMul", [x, into[index]], f"{label}.x")
        from_state = graph.node("MatMul", [h, back[index]], f"{label}.h")
        both = graph.node("Add", [from_input, from_state], f"{label}.sum")
        return graph.node(activation, [both], label)

    def joined(operator: str, left: str, right: str, label: str) -> str:
        return graph.node(operator, [left, right], f"{name}.{label}")

    def activated(activation: str, tensor: str) -> str:
        return graph.node(activation, [tensor], f"{tensor}.{activation.lower()}")

    a = joined("Add", gate(0, "Relu"), gate(3, "Sigmoid"), "a")
    b = joined("Add", gate(1, "Sigmoid"), gate(2, "Tanh"), "b")
    c = joined("Mul", gate(4, "Sigmoid"), gate(5, "Tanh"), "c")
    d = joined("Mul", gate(6, "Sigmoid"), gate(7, "Relu"), "d")
    e = joined("Add", activated("Sigmoid", b), activated("Tanh", c), "e")
    f = joined("Mul", activated("Tanh", a), activated("Tanh", d), "f")
    g = joined("Mul", activated("Tanh", e), activated("Tanh", f), "g")
    return activated("Tanh", g)
