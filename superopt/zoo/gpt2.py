"""GPT-2 small with its language-model head (Radford et al. 2019), as PyTorch exports it at opset 13."""

from __future__ import annotations

import math

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.transformer import decomposed_layer_norm, tanh_gelu

__all__ = ["gpt2"]

LAYERS = 12
HIDDEN = 768
HEADS = 12
HEAD = HIDDEN // HEADS
POSITIONS = 1024
VOCABULARY = 50257
SEQUENCE = 128
EPSILON = 1e-5
FORBIDDEN = -10000.0
RESIDUAL = 1 / math.sqrt(2 * LAYERS)
"""Gain of residual branches (section 2.3 of the paper)."""


def gpt2(batch: int) -> Blueprint:
    """int64 tokens [batch, 128] -> logits [batch, 128, 50257]; the head shares the embedding table."""
    graph = GraphBuilder("gpt2", 13)
    tokens = graph.input("input_ids", (batch, SEQUENCE), np.int64)
    table = graph.weight("wte.weight", weights.normal((VOCABULARY, HIDDEN), 1.0 / math.sqrt(HIDDEN)))
    places = graph.weight("wpe.weight", weights.normal((POSITIONS, HIDDEN), 1.0 / math.sqrt(HIDDEN)))
    order = graph.buffer("position_ids", np.arange(SEQUENCE, dtype=np.int64)[None, :])
    words = graph.node("Gather", [table, tokens], "wte.out")
    x = graph.node("Add", [words, graph.node("Gather", [places, order], "wpe.out")], "embeddings")
    mask = graph.buffer("mask", np.tril(np.ones((1, 1, POSITIONS, POSITIONS), dtype=np.bool_)))
    for index in range(LAYERS):
        name = f"h.{index}"
        normal = decomposed_layer_norm(graph, f"{name}.ln_1", x, HIDDEN, EPSILON)
        x = graph.node("Add", [_attention(graph, f"{name}.attn", normal, mask, batch), x], f"{name}.middle")
        normal = decomposed_layer_norm(graph, f"{name}.ln_2", x, HIDDEN, EPSILON)
        wide = tanh_gelu(
            graph, f"{name}.mlp.gelu", _conv1d(graph, f"{name}.mlp.c_fc", normal, 4 * HIDDEN, batch)
        )
        narrow = _conv1d(graph, f"{name}.mlp.c_proj", wide, HIDDEN, batch, into=4 * HIDDEN, gain=RESIDUAL)
        x = graph.node("Add", [x, narrow], f"{name}.out")
    x = decomposed_layer_norm(graph, "ln_f", x, HIDDEN, EPSILON)
    head = graph.node("Transpose", [table], "lm_head.weight", {"perm": (1, 0)})
    graph.output(graph.node("MatMul", [x, head], "logits"), (batch, SEQUENCE, VOCABULARY))
    return graph.blueprint()


def _conv1d(
    graph: GraphBuilder, name: str, x: str, out: int, batch: int, *, into: int = HIDDEN, gain: float = 1.0
) -> str:
    """GPT-2's linear layer, an ``addmm`` over flattened rows: Reshape, Gemm, Reshape."""
    inputs = [
        graph.node("Reshape", [x, graph.integers(f"{name}.rows", (-1, into))], f"{name}.flat"),
        graph.weight(f"{name}.weight", weights.normal((into, out), gain / math.sqrt(into))),
        graph.weight(f"{name}.bias", weights.bias((out,))),
    ]
    attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0}
    y = graph.node("Gemm", inputs, f"{name}.product", attributes)
    return graph.node("Reshape", [y, graph.integers(f"{name}.shape", (batch, SEQUENCE, out))], f"{name}.out")


def _attention(graph: GraphBuilder, name: str, x: str, mask: str, batch: int) -> str:
    joint = _conv1d(graph, f"{name}.c_attn", x, 3 * HIDDEN, batch)
    parts = [f"{name}.{part}" for part in ("query", "key", "value")]
    graph.nodes("Split", [joint, graph.integers(f"{name}.sizes", [HIDDEN] * 3)], parts, {"axis": 2})

    def heads(part: str, perm: tuple[int, ...]) -> str:
        shape = graph.integers(f"{part}.shape", (batch, SEQUENCE, HEADS, HEAD))
        split = graph.node("Reshape", [part, shape], f"{part}.split")
        return graph.node("Transpose", [split], f"{part}.heads", {"perm": perm})

    query, key, value = (
        heads(part, perm)
        for part, perm in zip(parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)), strict=True)
    )
    scores = graph.node("MatMul", [query, key], f"{name}.scores")
    scores = graph.node("Div", [scores, graph.constant(f"{name}.root", math.sqrt(HEAD))], f"{name}.scaled")
    forbidden = graph.constant(f"{name}.forbidden", FORBIDDEN)
    scores = graph.node("Where", [_causal(graph, name, mask), scores, forbidden], f"{name}.masked")
    attended = graph.node("Softmax", [scores], f"{name}.weights", {"axis": -1})
    context = graph.node("MatMul", [attended, value], f"{name}.context")
    context = graph.node("Transpose", [context], f"{name}.rows", {"perm": (0, 2, 1, 3)})
    merged = graph.integers(f"{name}.merged.shape", (batch, SEQUENCE, HIDDEN))
    context = graph.node("Reshape", [context, merged], f"{name}.merged")
    return _conv1d(graph, f"{name}.c_proj", context, HIDDEN, batch, gain=RESIDUAL)


def _causal(graph: GraphBuilder, name: str, mask: str) -> str:
    """The slice [1, 1, 128, 128] of the mask for all 1024 positions, with one Slice per axis, in every
    layer."""
    for axis in (2, 3):
        label = f"{name}.mask.{axis}"
        bounds = {"starts": 0, "ends": SEQUENCE, "axes": axis, "steps": 1}
        inputs = [graph.integers(f"{label}.{key}", [value]) for key, value in bounds.items()]
        mask = graph.node("Slice", [mask, *inputs], label)
    return mask
