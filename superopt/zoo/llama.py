"""One decoder block of LLaMA 3.2 1B (Touvron et al. 2023; Grattafiori et al. 2024), exported at opset 17."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.transformer import product

__all__ = ["llama_block"]

HIDDEN = 2048
HEADS = 32
GROUPS = 8
"""Number of key and value heads; each serves four query heads."""

HEAD = HIDDEN // HEADS
INTERMEDIATE = 8192
SEQUENCE = 128
THETA = 500000.0
FORBIDDEN = -3.4028234663852886e38


def llama_block(batch: int) -> Blueprint:
    """float [batch, 128, 2048] and int64 positions [batch, 128] -> float [batch, 128, 2048]."""
    graph = GraphBuilder("llama-block", 17)
    x = graph.input("hidden_states", (batch, SEQUENCE, HIDDEN))
    positions = graph.input("position_ids", (batch, SEQUENCE), np.int64)
    block = Block(graph, batch)
    rotation = block.rotation(positions)
    attended = block.attention(block.rms_norm(x, "input_layernorm"), rotation)
    x = graph.node("Add", [x, attended], "middle")
    x = graph.node("Add", [x, block.swiglu(block.rms_norm(x, "post_attention_layernorm"))], "output")
    graph.output(x, (batch, SEQUENCE, HIDDEN))
    return graph.blueprint()


class Block:
    """The parts of a decoder block for ``batch`` sequences."""

    def __init__(self, graph: GraphBuilder, batch: int) -> None:
        self._graph = graph
        self._batch = batch

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
            "Mul", [graph.weight(f"{name}.weight", weights.scale((HIDDEN,))), normal], f"{name}.out"
        )

    def rotation(self, positions: str) -> tuple[str, str]:
        """Cosine and sine [batch, 1, 128, 64] of position · theta^(-2i / 64) (Su et al. 2021)."""
        graph = self._graph
        frequencies = THETA ** -(np.arange(0, HEAD, 2, dtype=np.float32) / np.float32(HEAD))
        inverse = graph.buffer("rotary.inv_freq", frequencies.astype(np.float32).reshape(1, HEAD // 2, 1))
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

    def attention(self, x: str, rotation: tuple[str, str]) -> str:
        """Causal attention with grouped queries (Ainslie et al. 2023)."""
        graph = self._graph
        query = self._rotated(self._heads(x, "q_proj", HEADS), "q_proj", rotation)
        key = self._rotated(self._heads(x, "k_proj", GROUPS), "k_proj", rotation)
        key = self._repeated(key, "k_proj")
        value = self._repeated(self._heads(x, "v_proj", GROUPS), "v_proj")
        turned = graph.node("Transpose", [key], "attn.turned", {"perm": (0, 1, 3, 2)})
        scores = graph.node("MatMul", [query, turned], "attn.scores")
        scores = graph.node("Mul", [scores, graph.constant("attn.scale", 1 / math.sqrt(HEAD))], "attn.scaled")
        hidden = np.triu(np.full((1, 1, SEQUENCE, SEQUENCE), FORBIDDEN, dtype=np.float32), 1)
        scores = graph.node("Add", [scores, graph.buffer("attn.mask", hidden)], "attn.masked")
        attended = graph.node("Softmax", [scores], "attn.weights", {"axis": -1})
        context = graph.node("MatMul", [attended, value], "attn.context")
        context = graph.node("Transpose", [context], "attn.rows", {"perm": (0, 2, 1, 3)})
        shape = graph.integers("attn.shape", (self._batch, SEQUENCE, HIDDEN))
        return product(
            graph, "o_proj", graph.node("Reshape", [context, shape], "attn.merged"), (HIDDEN, HIDDEN)
        )

    def swiglu(self, x: str) -> str:
        """down(silu(gate(x)) · up(x)) (Shazeer 2020)."""
        graph = self._graph
        gate = product(graph, "gate_proj", x, (HIDDEN, INTERMEDIATE))
        gate = graph.node("Mul", [gate, graph.node("Sigmoid", [gate], "mlp.sigmoid")], "mlp.silu")
        wide = graph.node("Mul", [gate, product(graph, "up_proj", x, (HIDDEN, INTERMEDIATE))], "mlp.product")
        return product(graph, "down_proj", wide, (INTERMEDIATE, HIDDEN), 1.5)

    def _heads(self, x: str, name: str, heads: int) -> str:
        graph = self._graph
        y = product(graph, name, x, (HIDDEN, heads * HEAD))
        shape = graph.integers(f"{name}.shape", (self._batch, SEQUENCE, heads, HEAD))
        y = graph.node("Reshape", [y, shape], f"{name}.split")
        return graph.node("Transpose", [y], f"{name}.heads", {"perm": (0, 2, 1, 3)})

    def _rotated(self, x: str, name: str, rotation: tuple[str, str]) -> str:
        """x · cos + (x with halves exchanged, the second negated) · sin."""
        graph = self._graph

        def half(label: str, start: int, end: int) -> str:
            bounds = {"starts": start, "ends": end, "axes": 3, "steps": 1}
            inputs = [graph.integers(f"{name}.{label}.{key}", [value]) for key, value in bounds.items()]
            return graph.node("Slice", [x, *inputs], f"{name}.{label}")

        low, high = half("low", 0, HEAD // 2), half("high", HEAD // 2, HEAD)
        negated = graph.node("Neg", [high], f"{name}.negated")
        turned = graph.node("Concat", [negated, low], f"{name}.turned", {"axis": -1})
        cosine = graph.node("Mul", [x, rotation[0]], f"{name}.cos")
        sine = graph.node("Mul", [turned, rotation[1]], f"{name}.sin")
        return graph.node("Add", [cosine, sine], f"{name}.rotated")

    def _repeated(self, x: str, name: str) -> str:
        """[batch, 8, 128, 64] -> [batch, 32, 128, 64], each head four times."""
        graph = self._graph
        repeats = HEADS // GROUPS
        x = graph.node("Unsqueeze", [x, graph.integers(f"{name}.axis", [2])], f"{name}.single")
        shape = graph.integers(f"{name}.expansion", (self._batch, GROUPS, repeats, SEQUENCE, HEAD))
        x = graph.node("Expand", [x, shape], f"{name}.expanded")
        shape = graph.integers(f"{name}.merged", (self._batch, HEADS, SEQUENCE, HEAD))
        return graph.node("Reshape", [x, shape], f"{name}.repeated")
