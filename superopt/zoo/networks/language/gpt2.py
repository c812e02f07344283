"""GPT-2 with its language-model head (Radford et al. 2019), as PyTorch exports it at opset 13."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.networks.language.transformer import decomposed_layer_norm, require_positions, tanh_gelu

__all__ = ["gpt2", "light_gpt2"]

EPSILON = 1e-5
FORBIDDEN = -10000.0


@dataclass(frozen=True)
class Sizes:
    """Blocks, the width of tokens, heads, positions with an embedding, the tokens of the vocabulary and of a
    sequence."""

    layers: int = 12
    hidden: int = 768
    heads: int = 12
    positions: int = 1024
    vocabulary: int = 50257
    sequence: int = 128

    @property
    def head(self) -> int:
        """Columns of one attention head."""
        return self.hidden // self.heads

    @property
    def residual(self) -> float:
        """Gain of residual branches (section 2.3 of the paper)."""
        return 1 / math.sqrt(2 * self.layers)


def gpt2(batch: int, sequence: int = 128) -> Blueprint:
    """int64 tokens [batch, sequence] -> logits [batch, sequence, 50257]; the head shares the embedding table.
    Raises InvalidOptionError for more than 1,024 tokens."""
    return _decoder("gpt2", Sizes(sequence=sequence), batch)


def light_gpt2(batch: int) -> Blueprint:
    """int64 tokens [batch, 16] -> logits [batch, 16, 128]: two blocks of width 64."""
    return _decoder("light-gpt2", Sizes(2, 64, 4, 32, 128, 16), batch)


def _decoder(name: str, sizes: Sizes, batch: int) -> Blueprint:
    require_positions(name, sizes.sequence, sizes.positions)
    graph = GraphBuilder(name, 13)
    layers = Layers(graph, sizes, batch)
    hidden = sizes.hidden
    tokens = graph.input("input_ids", (batch, sizes.sequence), np.int64)
    table = graph.weight("wte.weight", weights.normal((sizes.vocabulary, hidden), 1.0 / math.sqrt(hidden)))
    places = graph.weight("wpe.weight", weights.normal((sizes.positions, hidden), 1.0 / math.sqrt(hidden)))
    order = graph.buffer("position_ids", np.arange(sizes.sequence, dtype=np.int64)[None, :])
    words = graph.node("Gather", [table, tokens], "wte.out")
    x = graph.node("Add", [words, graph.node("Gather", [places, order], "wpe.out")], "embeddings")
    mask = graph.buffer("mask", np.tril(np.ones((1, 1, sizes.positions, sizes.positions), dtype=np.bool_)))
    for index in range(sizes.layers):
        name = f"h.{index}"
        normal = decomposed_layer_norm(graph, f"{name}.ln_1", x, hidden, EPSILON)
        x = graph.node("Add", [layers.attention(f"{name}.attn", normal, mask), x], f"{name}.middle")
        normal = decomposed_layer_norm(graph, f"{name}.ln_2", x, hidden, EPSILON)
        wide = layers.conv1d(f"{name}.mlp.c_fc", normal, (hidden, 4 * hidden))
        wide = tanh_gelu(graph, f"{name}.mlp.gelu", wide)
        narrow = layers.conv1d(f"{name}.mlp.c_proj", wide, (4 * hidden, hidden), sizes.residual)
        x = graph.node("Add", [x, narrow], f"{name}.out")
    x = decomposed_layer_norm(graph, "ln_f", x, hidden, EPSILON)
    head = graph.node("Transpose", [table], "lm_head.weight", {"perm": (1, 0)})
    graph.output(graph.node("MatMul", [x, head], "logits"), (batch, sizes.sequence, sizes.vocabulary))
    return graph.blueprint()


class Layers:
    """The parts of a block for ``batch`` sequences."""

    def __init__(self, graph: GraphBuilder, sizes: Sizes, batch: int) -> None:
        self._graph = graph
        self._sizes = sizes
        self._rows = (batch, sizes.sequence)

    def conv1d(self, name: str, x: str, widths: tuple[int, int], gain: float = 1.0) -> str:
        """GPT-2's linear layer, an ``addmm`` over flattened rows: Reshape, Gemm, Reshape."""
        graph, (into, out) = self._graph, widths
        inputs = [
            graph.node("Reshape", [x, graph.integers(f"{name}.rows", (-1, into))], f"{name}.flat"),
            graph.weight(f"{name}.weight", weights.normal(widths, gain / math.sqrt(into))),
            graph.weight(f"{name}.bias", weights.bias((out,))),
        ]
        attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0}
        y = graph.node("Gemm", inputs, f"{name}.product", attributes)
        shape = graph.integers(f"{name}.shape", (*self._rows, out))
        return graph.node("Reshape", [y, shape], f"{name}.out")

    def attention(self, name: str, x: str, mask: str) -> str:
        """Causal attention over one joint linear map to queries, keys and values."""
        graph, sizes, hidden = self._graph, self._sizes, self._sizes.hidden
        joint = self.conv1d(f"{name}.c_attn", x, (hidden, 3 * hidden))
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        graph.nodes("Split", [joint, graph.integers(f"{name}.sizes", [hidden] * 3)], parts, {"axis": 2})
        perms = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
        query, key, value = (self._heads(part, perm) for part, perm in zip(parts, perms, strict=True))
        scores = graph.node("MatMul", [query, key], f"{name}.scores")
        root = graph.constant(f"{name}.root", math.sqrt(sizes.head))
        scores = graph.node("Div", [scores, root], f"{name}.scaled")
        forbidden = graph.constant(f"{name}.forbidden", FORBIDDEN)
        scores = graph.node("Where", [self._causal(name, mask), scores, forbidden], f"{name}.masked")
        attended = graph.node("Softmax", [scores], f"{name}.weights", {"axis": -1})
        context = graph.node("MatMul", [attended, value], f"{name}.context")
        context = graph.node("Transpose", [context], f"{name}.rows", {"perm": (0, 2, 1, 3)})
        merged = graph.integers(f"{name}.merged.shape", (*self._rows, hidden))
        context = graph.node("Reshape", [context, merged], f"{name}.merged")
        return self.conv1d(f"{name}.c_proj", context, (hidden, hidden), sizes.residual)

    def _heads(self, part: str, perm: tuple[int, ...]) -> str:
        shape = (*self._rows, self._sizes.heads, self._sizes.head)
        split = self._graph.node(
            "Reshape", [part, self._graph.integers(f"{part}.shape", shape)], f"{part}.split"
        )
        return self._graph.node("Transpose", [split], f"{part}.heads", {"perm": perm})

    def _causal(self, name: str, mask: str) -> str:
        """The slice [1, 1, sequence, sequence] of the mask for all positions, with one Slice per axis, in
        every layer."""
        for axis in (2, 3):
            label = f"{name}.mask.{axis}"
            bounds = {"starts": 0, "ends": self._sizes.sequence, "axes": axis, "steps": 1}
            inputs = [self._graph.integers(f"{label}.{key}", [value]) for key, value in bounds.items()]
            mask = self._graph.node("Slice", [mask, *inputs], label)
        return mask
