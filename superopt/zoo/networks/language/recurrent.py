"""Recurrent networks: an LSTM language model, unrolled or with ONNX's LSTM operator, and translation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.networks.language.transformer import linear

__all__ = ["light_lstm_lm", "lstm_lm", "lstm_lm_operator", "nmt"]

GATES = ("i", "f", "c", "o")

LAYERS = 2


@dataclass(frozen=True)
class Sizes:
    """Words of the vocabulary, the width of states and embeddings, and the steps of a sequence."""

    vocabulary: int
    width: int
    steps: int


MEDIUM = Sizes(vocabulary=10_000, width=650, steps=35)
LIGHT = Sizes(vocabulary=128, width=32, steps=8)


def lstm_lm(batch: int) -> Blueprint:
    """int64 tokens [batch, 35] -> logits [batch, 35, 10000]: the medium model of Zaremba et al. 2014.
    Unrolled with a matrix product for every gate of every step, as Keras computes an LSTM cell on a CPU; the
    initial states are inputs h0, c0, h1, c1, each [batch, 650]."""
    return _unrolled("lstm-lm", MEDIUM, batch)


def light_lstm_lm(batch: int) -> Blueprint:
    """int64 tokens [batch, 8] -> logits [batch, 8, 128]: the same with states of 32."""
    return _unrolled("light-lstm-lm", LIGHT, batch)


def _unrolled(name: str, sizes: Sizes, batch: int) -> Blueprint:
    graph = GraphBuilder(name, 13)
    shape = (sizes.vocabulary, sizes.width)
    columns = _embedded_columns(graph, "embedding", batch, sizes.steps, shape, "tokens")
    for layer in range(LAYERS):
        gates = _gates(graph, f"lstm_{layer}", sizes.width)
        h, c = (graph.input(f"{state}{layer}", (batch, sizes.width)) for state in "hc")
        outputs: list[str] = []
        for step, x in enumerate(columns):
            h, c = _gated_step(graph, f"lstm_{layer}.{step}", x, h, c, gates)
            outputs.append(h)
        columns = outputs
    x = _stacked(graph, columns, "hidden")
    logits = linear(graph, "decoder", x, (sizes.width, sizes.vocabulary))
    graph.output(logits, (batch, sizes.steps, sizes.vocabulary))
    return graph.blueprint()


def lstm_lm_operator(batch: int) -> Blueprint:
    """The same network as ``lstm_lm`` with ONNX's LSTM operator, as PyTorch exports ``nn.LSTM``."""
    vocabulary, width, steps = MEDIUM.vocabulary, MEDIUM.width, MEDIUM.steps
    graph = GraphBuilder("lstm-lm-operator", 14)
    tokens = graph.input("tokens", (batch, steps), np.int64)
    table = graph.weight("embedding.weight", weights.normal((vocabulary, width), 1.0))
    x = graph.node("Gather", [table, tokens], "embedding.out")
    x = graph.node("Transpose", [x], "embedding.steps", {"perm": (1, 0, 2)})
    for layer in range(LAYERS):
        name = f"lstm_{layer}"
        inputs = [
            x,
            graph.weight(f"{name}.W", weights.lecun((1, 4 * width, width), width)),
            graph.weight(f"{name}.R", weights.lecun((1, 4 * width, width), width)),
            graph.weight(f"{name}.B", weights.bias((1, 8 * width))),
            "",
            *(graph.input(f"{state}{layer}", (1, batch, width)) for state in "hc"),
        ]
        y = graph.node("LSTM", inputs, f"{name}.Y", {"hidden_size": width})
        x = graph.node("Squeeze", [y, graph.integers(f"{name}.axis", [1])], f"{name}.out")
    x = graph.node("Transpose", [x], "hidden", {"perm": (1, 0, 2)})
    graph.output(linear(graph, "decoder", x, (width, vocabulary)), (batch, steps, vocabulary))
    return graph.blueprint()


@dataclass(frozen=True)
class Gate:
    """The weights of one gate: ``kernel`` and ``recurrent`` [width, width], ``bias`` [width]."""

    kernel: str
    recurrent: str
    bias: str


def _gates(graph: GraphBuilder, name: str, width: int) -> Sequence[Gate]:
    square = (width, width)
    return [
        Gate(
            graph.weight(f"{name}.kernel_{gate}", weights.lecun(square, width)),
            graph.weight(f"{name}.recurrent_{gate}", weights.lecun(square, width)),
            graph.weight(f"{name}.bias_{gate}", weights.bias((width,))),
        )
        for gate in GATES
    ]


def _gated_step(
    graph: GraphBuilder, name: str, x: str, h: str, c: str, gates: Sequence[Gate]
) -> tuple[str, str]:
    linear_gates: list[str] = []
    for letter, gate in zip(GATES, gates, strict=True):
        label = f"{name}.{letter}"
        from_input = graph.node("MatMul", [x, gate.kernel], f"{label}.x")
        from_input = graph.node("Add", [from_input, gate.bias], f"{label}.biased")
        from_state = graph.node("MatMul", [h, gate.recurrent], f"{label}.h")
        linear_gates.append(graph.node("Add", [from_input, from_state], f"{label}.sum"))
    return _state(graph, name, linear_gates, c)


def _state(graph: GraphBuilder, name: str, gates: Sequence[str], c: str) -> tuple[str, str]:
    """The next (h, c) from the pre-activations of the gates i, f, c, o (Hochreiter and Schmidhuber 1997)."""
    i, f, o = (graph.node("Sigmoid", [gates[index]], f"{name}.{GATES[index]}.gate") for index in (0, 1, 3))
    candidate = graph.node("Tanh", [gates[2]], f"{name}.candidate")
    kept = graph.node("Mul", [f, c], f"{name}.kept")
    new = graph.node("Mul", [i, candidate], f"{name}.new")
    c = graph.node("Add", [kept, new], f"{name}.cell")
    return graph.node("Mul", [o, graph.node("Tanh", [c], f"{name}.tanh")], f"{name}.hidden"), c


def _embedded_columns(
    graph: GraphBuilder, name: str, batch: int, steps: int, sizes: tuple[int, int], tokens: str
) -> Sequence[str]:
    """int64 input [batch, steps] -> the embedding [batch, width] of every step."""
    indices = graph.input(tokens, (batch, steps), np.int64)
    table = graph.weight(f"{name}.weight", weights.normal(sizes, 1.0))
    rows = graph.node("Gather", [table, indices], f"{name}.out")
    return [
        graph.node(
            "Gather",
            [rows, graph.buffer(f"{name}.{step}", np.asarray(step, dtype=np.int64))],
            f"{name}.step{step}",
            {"axis": 1},
        )
        for step in range(steps)
    ]


def _stacked(graph: GraphBuilder, columns: Sequence[str], name: str) -> str:
    """Tensors [batch, width], one per step -> [batch, steps, width]."""
    axis = graph.integers(f"{name}.axis", [1])
    parts = [graph.node("Unsqueeze", [column, axis], f"{column}.column") for column in columns]
    return graph.node("Concat", parts, name, {"axis": 1})


NMT_WIDTH = 1024
NMT_VOCABULARY = 32_000
NMT_STEPS = 20


def nmt(batch: int) -> Blueprint:
    """int64 source [batch, 20] and target [batch, 20] -> logits [batch, 20, 32000].

    Encoder and decoder of two LSTM layers of 1024 (FlexFlow's experiment), global attention on the last layer
    of the decoder (Luong et al. 2015, the ``general`` score), 20 steps each; cells as PyTorch exports them.
    """
    graph = GraphBuilder("nmt", 13)
    net = Translation(graph, batch)
    zeros = graph.buffer("zero_state", np.zeros((batch, NMT_WIDTH), dtype=np.float32))
    columns = net.embedded("source")
    states: list[tuple[str, str]] = []
    for layer in range(LAYERS):
        columns, last = net.unrolled(f"encoder.{layer}", columns, (zeros, zeros))
        states.append(last)
    memory = _stacked(graph, columns, "memory")
    columns = net.embedded("target")
    for layer in range(LAYERS):
        columns, _ = net.unrolled(f"decoder.{layer}", columns, states[layer])
    attention = net.attention_weights()
    attended = [net.attended(f"attention.{step}", h, memory, attention) for step, h in enumerate(columns)]
    x = _stacked(graph, attended, "hidden")
    graph.output(
        linear(graph, "generator", x, (NMT_WIDTH, NMT_VOCABULARY)), (batch, NMT_STEPS, NMT_VOCABULARY)
    )
    return graph.blueprint()


class Translation:
    """Layers of the translation network for ``batch`` sentences."""

    def __init__(self, graph: GraphBuilder, batch: int) -> None:
        self._graph = graph
        self._batch = batch

    def embedded(self, side: str) -> Sequence[str]:
        """The embedding of every token of an input."""
        sizes = (NMT_VOCABULARY, NMT_WIDTH)
        return _embedded_columns(self._graph, f"{side}.embedding", self._batch, NMT_STEPS, sizes, side)

    def unrolled(
        self, name: str, columns: Sequence[str], state: tuple[str, str]
    ) -> tuple[Sequence[str], tuple[str, str]]:
        """One layer over all steps: the hidden states and the last (h, c)."""
        graph = self._graph
        kernels: list[tuple[str, str]] = []
        for side in ("ih", "hh"):
            draw = weights.lecun((4 * NMT_WIDTH, NMT_WIDTH), NMT_WIDTH)
            bias = graph.weight(f"{name}.bias_{side}", weights.bias((4 * NMT_WIDTH,)))
            kernels.append((graph.weight(f"{name}.weight_{side}", draw), bias))
        sizes = graph.integers(f"{name}.sizes", [NMT_WIDTH] * 4)
        h, c = state
        outputs: list[str] = []
        attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0, "transB": 1}
        for step, x in enumerate(columns):
            label = f"{name}.{step}"
            from_input = graph.node("Gemm", [x, *kernels[0]], f"{label}.x", attributes)
            from_state = graph.node("Gemm", [h, *kernels[1]], f"{label}.h", attributes)
            both = graph.node("Add", [from_input, from_state], f"{label}.sum")
            gates = graph.nodes("Split", [both, sizes], [f"{label}.{gate}" for gate in GATES], {"axis": 1})
            h, c = _state(graph, label, gates, c)
            outputs.append(h)
        return outputs, (h, c)

    def attention_weights(self) -> tuple[str, str]:
        """Weights of the score [1024, 1024] and of the combination [2048, 1024]."""
        score = weights.normal((NMT_WIDTH, NMT_WIDTH), 4.0 / math.sqrt(NMT_WIDTH))
        combination = weights.normal((2 * NMT_WIDTH, NMT_WIDTH), 2.0 / math.sqrt(NMT_WIDTH))
        return self._graph.weight("attention.score", score), self._graph.weight("attention.out", combination)

    def attended(self, name: str, h: str, memory: str, attention: tuple[str, str]) -> str:
        """tanh([context; h]·W) with the context softmax(h·W·memoryᵀ)·memory: [batch, 1024]."""
        graph = self._graph
        axis = graph.integers(f"{name}.axis", [1])
        query = graph.node(
            "Unsqueeze", [graph.node("MatMul", [h, attention[0]], f"{name}.query"), axis], f"{name}.row"
        )
        turned = graph.node("Transpose", [memory], f"{name}.turned", {"perm": (0, 2, 1)})
        scores = graph.node("MatMul", [query, turned], f"{name}.scores")
        chosen = graph.node("Softmax", [scores], f"{name}.weights", {"axis": -1})
        context = graph.node("MatMul", [chosen, memory], f"{name}.context")
        context = graph.node("Squeeze", [context, axis], f"{name}.flat")
        both = graph.node("Concat", [context, h], f"{name}.both", {"axis": 1})
        return graph.node(
            "Tanh", [graph.node("MatMul", [both, attention[1]], f"{name}.mixed")], f"{name}.out"
        )
