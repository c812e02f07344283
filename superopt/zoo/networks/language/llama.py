"""LLaMA decoders (Touvron et al. 2023; Grattafiori et al. 2024) of any size, and one block, at opset 17."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from superopt.errors import InvalidOptionError
from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.language.transformer import causal_mask, product

__all__ = ["Sizes", "light_llama", "llama", "llama_block", "sizes_of_width"]

THETA = 500000.0
FORBIDDEN = -3.4028234663852886e38


@dataclass(frozen=True)
class Sizes:
    """The width of tokens, heads of queries, ``groups`` heads of keys and values, the width of the hidden
    dense layer, the tokens of the vocabulary and of a sequence; ``tied`` where the last product shares the
    embedding table."""

    hidden: int
    heads: int
    groups: int
    intermediate: int
    vocabulary: int = 128_256
    sequence: int = 128
    tied: bool = True

    @property
    def head(self) -> int:
        """Columns of one attention head."""
        return self.hidden // self.heads


PUBLISHED: Mapping[int, Sizes] = {
    2048: Sizes(2048, 32, 8, 8192),
    3072: Sizes(3072, 24, 8, 8192),
    4096: Sizes(4096, 32, 8, 14336, tied=False),
    8192: Sizes(8192, 64, 8, 28672, tied=False),
    16384: Sizes(16384, 128, 8, 53248, tied=False),
}
"""LLaMA 3.2 1B and 3B, LLaMA 3.1 8B, 70B and 405B by width."""

LIGHT = Sizes(hidden=64, heads=4, groups=2, intermediate=256, vocabulary=128, sequence=16)


def sizes_of_width(hidden: int) -> Sizes:
    """The published sizes of a width, else heads of 64, a hidden layer four times as wide and a shared table,
    as LLaMA 3.2 1B has them; four queries share a key where the heads allow. Raises InvalidOptionError for a
    width that is no multiple of 64."""
    if hidden in PUBLISHED:
        return PUBLISHED[hidden]
    if hidden < 64 or hidden % 64:
        raise InvalidOptionError(f"LLaMA: expected a width that is a multiple of 64, got {hidden}")
    heads = hidden // 64
    return Sizes(hidden, heads, heads // 4 if heads % 4 == 0 else heads, 4 * hidden)


def llama(layers: int, hidden: int, batch: int, sequence: int = 128) -> Blueprint:
    """int64 tokens [batch, sequence] -> logits [batch, sequence, 128256]. Raises InvalidOptionError for a
    width that is no multiple of 64."""
    sizes = replace(sizes_of_width(hidden), sequence=sequence)
    return _decoder(f"llama-{layers}x{hidden}", layers, sizes, batch)


def light_llama(batch: int) -> Blueprint:
    """int64 tokens [batch, 16] -> logits [batch, 16, 128]: two blocks of width 64."""
    return _decoder("light-llama", 2, LIGHT, batch)


def llama_block(batch: int, sequence: int = 128) -> Blueprint:
    """float [batch, sequence, 2048] and int64 positions [batch, sequence] -> float
    [batch, sequence, 2048]."""
    graph = GraphBuilder("llama-block", 17)
    sizes = replace(PUBLISHED[2048], sequence=sequence)
    shape = (batch, sizes.sequence, sizes.hidden)
    x = graph.input("hidden_states", shape)
    block = Block(graph, sizes, batch)
    rotation = block.rotation(graph.input("position_ids", shape[:2], np.int64))
    mask = graph.constant("attn.mask", causal_mask(sizes.sequence, FORBIDDEN))
    graph.output(block.output(x, rotation, mask, "output"), shape)
    return graph.blueprint()


def _decoder(name: str, layers: int, sizes: Sizes, batch: int) -> Blueprint:
    graph = GraphBuilder(name, 17)
    tokens = graph.input("tokens", (batch, sizes.sequence), np.int64)
    shape = (sizes.vocabulary, sizes.hidden)
    table = graph.weight("embed_tokens.weight", weights.normal(shape, 1 / math.sqrt(sizes.hidden)))
    x = graph.node("Gather", [table, tokens], "embed_tokens.out")
    rotation = _rotation_tables(graph, sizes)
    mask = graph.constant("attn.mask", causal_mask(sizes.sequence, FORBIDDEN))
    for index in range(layers):
        prefix = f"layers.{index}."
        x = Block(graph, sizes, batch, prefix).output(x, rotation, mask, f"{prefix}output")
    x = Block(graph, sizes, batch).rms_norm(x, "norm")
    if sizes.tied:
        head = graph.node("Transpose", [table], "lm_head.weight", {"perm": (1, 0)})
        logits = graph.node("MatMul", [x, head], "logits")
    else:
        logits = product(graph, "lm_head", x, (sizes.hidden, sizes.vocabulary))
    graph.output(logits, (batch, sizes.sequence, sizes.vocabulary))
    return graph.blueprint()


def _rotation_tables(graph: GraphBuilder, sizes: Sizes) -> tuple[str, str]:
    """What ``Block.rotation`` computes, for the positions from 0 on, as exporters fold it: cosine and sine
    [1, 1, sequence, head]."""
    angles = np.outer(np.arange(sizes.sequence, dtype=np.float32), _frequencies(sizes.head))
    both = np.concatenate([angles, angles], axis=1)[None, None]
    return graph.constant("rotary.cos", np.cos(both)), graph.constant("rotary.sin", np.sin(both))


def _frequencies(head: int) -> NDArray[np.float32]:
    """[head / 2]: theta^(-2i / head)."""
    exponents = np.arange(0, head, 2, dtype=np.float32) / np.float32(head)
    return (THETA**-exponents).astype(np.float32)


class Block:
    """The parts of a decoder block for ``batch`` sequences; their names start with ``prefix``."""

    def __init__(self, graph: GraphBuilder, sizes: Sizes, batch: int, prefix: str = "") -> None:
        self._graph = graph
        self._sizes = sizes
        self._batch = batch
        self._prefix = prefix

    def output(self, x: str, rotation: tuple[str, str], mask: str, name: str) -> str:
        """The whole block: attention, then the gated dense layers, each added to its input."""
        graph, prefix = self._graph, self._prefix
        normal = self.rms_norm(x, f"{prefix}input_layernorm")
        x = graph.node("Add", [x, self._attention(normal, rotation, mask)], f"{prefix}middle")
        normal = self.rms_norm(x, f"{prefix}post_attention_layernorm")
        return graph.node("Add", [x, self._swiglu(normal)], name)

    def rms_norm(self, x: str, name: str) -> str:
        """x / sqrt(mean of x^2 + 1e-5) · weight over the last axis."""
        graph = self._graph
        square = graph.node("Pow", [x, graph.constant(f"{name}.two", 2.0)], f"{name}.square")
        mean = graph.node("ReduceMean", [square], f"{name}.mean", {"axes": [-1], "keepdims": 1})
        mean = graph.node("Add", [mean, graph.constant(f"{name}.epsilon", 1e-5)], f"{name}.positive")
        root = graph.node("Sqrt", [mean], f"{name}.root")
        inverse = graph.node("Div", [graph.constant(f"{name}.one", 1.0), root], f"{name}.inverse")
        normal = graph.node("Mul", [x, inverse], f"{name}.normal")
        return graph.node(
            "Mul",
            [graph.weight(f"{name}.weight", weights.scale((self._sizes.hidden,))), normal],
            f"{name}.out",
        )

    def rotation(self, positions: str) -> tuple[str, str]:
        """Cosine and sine [batch, 1, sequence, head] of position · theta^(-2i / head) (Su et al. 2021)."""
        graph, head = self._graph, self._sizes.head
        inverse = graph.constant("rotary.inv_freq", _frequencies(head).reshape(1, head // 2, 1))
        rows = graph.node("Unsqueeze", [positions, graph.integers("rotary.axis", [1])], "rotary.rows")
        rows = graph.node("Cast", [rows], "rotary.float", {"to": int(TensorProto.FLOAT)})
        angles = graph.node("MatMul", [inverse, rows], "rotary.product")
        angles = graph.node("Transpose", [angles], "rotary.angles", {"perm": (0, 2, 1)})
        both = graph.node("Concat", [angles, angles], "rotary.both", {"axis": -1})

        def over_heads(operator: str, label: str) -> str:
            value = graph.node(operator, [both], f"rotary.{label}")
            axis = graph.integers(f"rotary.{label}.axis", [1])
            return graph.node("Unsqueeze", [value, axis], f"rotary.{label}.heads")

        return over_heads("Cos", "cos"), over_heads("Sin", "sin")

    def _attention(self, x: str, rotation: tuple[str, str], mask: str) -> str:
        """Causal attention with grouped queries (Ainslie et al. 2023)."""
        graph, sizes, name = self._graph, self._sizes, f"{self._prefix}attn"
        query = self._rotated(self._heads(x, "q_proj", sizes.heads), "q_proj", rotation)
        key = self._rotated(self._heads(x, "k_proj", sizes.groups), "k_proj", rotation)
        key = self._repeated(key, "k_proj")
        value = self._repeated(self._heads(x, "v_proj", sizes.groups), "v_proj")
        turned = graph.node("Transpose", [key], f"{name}.turned", {"perm": (0, 1, 3, 2)})
        scores = graph.node("MatMul", [query, turned], f"{name}.scores")
        scale = graph.constant(f"{name}.scale", 1 / math.sqrt(sizes.head))
        scores = graph.node("Mul", [scores, scale], f"{name}.scaled")
        scores = graph.node("Add", [scores, mask], f"{name}.masked")
        attended = graph.node("Softmax", [scores], f"{name}.weights", {"axis": -1})
        context = graph.node("MatMul", [attended, value], f"{name}.context")
        context = graph.node("Transpose", [context], f"{name}.rows", {"perm": (0, 2, 1, 3)})
        shape = graph.integers(f"{name}.shape", (self._batch, sizes.sequence, sizes.hidden))
        merged = graph.node("Reshape", [context, shape], f"{name}.merged")
        return self._product("o_proj", merged, (sizes.hidden, sizes.hidden))

    def _swiglu(self, x: str) -> str:
        """down(silu(gate(x)) · up(x)) (Shazeer 2020)."""
        graph, name = self._graph, f"{self._prefix}mlp"
        into, out = self._sizes.hidden, self._sizes.intermediate
        gate = self._product("gate_proj", x, (into, out))
        sigmoid = graph.node("Sigmoid", [gate], f"{name}.sigmoid")
        gate = graph.node("Mul", [gate, sigmoid], f"{name}.silu")
        wide = graph.node("Mul", [gate, self._product("up_proj", x, (into, out))], f"{name}.product")
        return self._product("down_proj", wide, (out, into), 1.5)

    def _product(self, name: str, x: str, sizes: tuple[int, int], gain: float = 1.0) -> str:
        return product(self._graph, f"{self._prefix}{name}", x, sizes, gain)

    def _heads(self, x: str, name: str, heads: int) -> str:
        graph, head = self._graph, self._sizes.head
        y = self._product(name, x, (self._sizes.hidden, heads * head))
        name = f"{self._prefix}{name}"
        shape = graph.integers(f"{name}.shape", (self._batch, self._sizes.sequence, heads, head))
        y = graph.node("Reshape", [y, shape], f"{name}.split")
        return graph.node("Transpose", [y], f"{name}.heads", {"perm": (0, 2, 1, 3)})

    def _rotated(self, x: str, name: str, rotation: tuple[str, str]) -> str:
        """x · cos + (x with halves exchanged, the second negated) · sin."""
        graph, name, head = self._graph, f"{self._prefix}{name}", self._sizes.head

        def half(label: str, start: int, end: int) -> str:
            bounds = {"starts": start, "ends": end, "axes": 3, "steps": 1}
            inputs = [graph.integers(f"{name}.{label}.{key}", [value]) for key, value in bounds.items()]
            return graph.node("Slice", [x, *inputs], f"{name}.{label}")

        low, high = half("low", 0, head // 2), half("high", head // 2, head)
        negated = graph.node("Neg", [high], f"{name}.negated")
        turned = graph.node("Concat", [negated, low], f"{name}.turned", {"axis": -1})
        cosine = graph.node("Mul", [x, rotation[0]], f"{name}.cos")
        sine = graph.node("Mul", [turned, rotation[1]], f"{name}.sin")
        return graph.node("Add", [cosine, sine], f"{name}.rotated")

    def _repeated(self, x: str, name: str) -> str:
        """[batch, groups, sequence, head] -> [batch, heads, sequence, head]: each head for its queries."""
        graph, sizes, name = self._graph, self._sizes, f"{self._prefix}{name}"
        if sizes.groups == sizes.heads:
            return x
        repeats, rest = sizes.heads // sizes.groups, (sizes.sequence, sizes.head)
        x = graph.node("Unsqueeze", [x, graph.integers(f"{name}.axis", [2])], f"{name}.single")
        shape = graph.integers(f"{name}.expansion", (self._batch, sizes.groups, repeats, *rest))
        x = graph.node("Expand", [x, shape], f"{name}.expanded")
        shape = graph.integers(f"{name}.merged", (self._batch, sizes.heads, *rest))
        return graph.node("Reshape", [x, shape], f"{name}.repeated")
