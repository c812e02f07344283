"""BERT-base, uncased (Devlin et al. 2019), node for node as PyTorch exports it at opset 17."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx

from superopt.zoo.builder import Attribute, GraphBuilder

__all__ = ["bert_base"]


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder and of one call of it."""

    batch: int
    sequence: int = 128
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    vocabulary: int = 30522
    positions: int = 512
    token_types: int = 2

    @property
    def head_size(self) -> int:
        """Columns of one attention head."""
        return self.hidden // self.heads


def bert_base(batch: int, seed: int) -> onnx.ModelProto:
    """Three int64 inputs [batch, 128] -> hidden states [batch, 128, 768] and pooled output [batch, 768]."""
    encoder = Encoder(batch)
    graph = GraphBuilder("bert-base", seed)
    shape = (batch, encoder.sequence)
    tokens = graph.input("input_ids", shape, np.int64)
    attended = graph.input("attention_mask", shape, np.int64)
    types = graph.input("token_type_ids", shape, np.int64)
    x = _embeddings(graph, encoder, tokens, types)
    mask = _additive_mask(graph, attended)
    for index in range(encoder.layers):
        name = f"encoder.layer.{index}"
        attention = _attention(graph, encoder, f"{name}.attention", x, mask)
        x = graph.node("Add", [attention, x], f"{name}.attention.output.sum")
        x = _layer_norm(graph, encoder, f"{name}.attention.output.LayerNorm", x)
        x = graph.node("Add", [_feed_forward(graph, encoder, name, x), x], f"{name}.output.sum")
        out = "last_hidden_state" if index == encoder.layers - 1 else f"{name}.output.LayerNorm.out"
        x = _layer_norm(graph, encoder, f"{name}.output.LayerNorm", x, out)
    graph.output(x, (batch, encoder.sequence, encoder.hidden))
    graph.output(_pooler(graph, encoder, x), (batch, encoder.hidden))
    return graph.model()


def _embeddings(graph: GraphBuilder, encoder: Encoder, tokens: str, types: str) -> str:
    def table(name: str, rows: int) -> str:
        return graph.weight(f"embeddings.{name}.weight", graph.weights.normal((rows, encoder.hidden), 1.0))

    positions = graph.weight("embeddings.position_ids", np.arange(encoder.sequence, dtype=np.int64)[None, :])
    words = graph.node("Gather", [table("word", encoder.vocabulary), tokens], "embeddings.words")
    kinds = graph.node("Gather", [table("token_type", encoder.token_types), types], "embeddings.types")
    places = graph.node("Gather", [table("position", encoder.positions), positions], "embeddings.places")
    both = graph.node("Add", [words, kinds], "embeddings.words_types")
    total = graph.node("Add", [both, places], "embeddings.sum")
    return _layer_norm(graph, encoder, "embeddings.LayerNorm", total)


def _additive_mask(graph: GraphBuilder, attended: str) -> str:
    """int64 [batch, sequence] of ones and zeros -> float [batch, 1, 1, sequence] of 0 and -10000."""
    axes = [graph.weight(f"mask.axis{axis}", np.asarray([axis], dtype=np.int64)) for axis in (1, 2)]
    x = graph.node("Unsqueeze", [attended, axes[0]], "mask.rows")
    x = graph.node("Unsqueeze", [x, axes[1]], "mask.heads")
    x = graph.node("Cast", [x], "mask.float", {"to": int(onnx.TensorProto.FLOAT)})
    x = graph.node("Sub", [graph.constant("mask.one", 1.0), x], "mask.hidden")
    return graph.node("Mul", [x, graph.constant("mask.minus_large", -10000.0)], "mask")


def _linear(graph: GraphBuilder, name: str, x: str, sizes: tuple[int, int]) -> str:
    """MatMul then Add, with the bias first, as traced ``nn.Linear`` over three dimensions comes out."""
    weight = graph.weight(f"{name}.weight", graph.weights.lecun(sizes, sizes[0]))
    bias = graph.weight(f"{name}.bias", graph.weights.bias((sizes[1],)))
    product = graph.node("MatMul", [x, weight], f"{name}.product")
    return graph.node("Add", [bias, product], f"{name}.out")


def _layer_norm(graph: GraphBuilder, encoder: Encoder, name: str, x: str, output: str | None = None) -> str:
    scale = graph.weight(f"{name}.weight", graph.weights.scale((encoder.hidden,)))
    bias = graph.weight(f"{name}.bias", graph.weights.bias((encoder.hidden,)))
    attributes: dict[str, Attribute] = {"axis": -1, "epsilon": 1e-12}
    return graph.node("LayerNormalization", [x, scale, bias], output or f"{name}.out", attributes)


def _attention(graph: GraphBuilder, encoder: Encoder, name: str, x: str, mask: str) -> str:
    """softmax(q·kᵀ / sqrt(head size) + mask)·v, projected back to the hidden size."""
    square = (encoder.hidden, encoder.hidden)
    in_heads = np.asarray([encoder.batch, encoder.sequence, encoder.heads, encoder.head_size], dtype=np.int64)

    def head(part: str, perm: tuple[int, ...]) -> str:
        label = f"{name}.self.{part}"
        shape = graph.weight(f"{label}.shape", in_heads)
        split = graph.node("Reshape", [_linear(graph, label, x, square), shape], f"{label}.split")
        return graph.node("Transpose", [split], f"{label}.heads", {"perm": perm})

    query = head("query", (0, 2, 1, 3))
    key = head("key", (0, 2, 3, 1))
    value = head("value", (0, 2, 1, 3))
    scores = graph.node("MatMul", [query, key], f"{name}.self.scores")
    root = graph.constant(f"{name}.self.root", math.sqrt(encoder.head_size))
    scores = graph.node("Div", [scores, root], f"{name}.self.scaled")
    scores = graph.node("Add", [scores, mask], f"{name}.self.masked")
    weights = graph.node("Softmax", [scores], f"{name}.self.weights", {"axis": -1})
    context = graph.node("MatMul", [weights, value], f"{name}.self.context")
    context = graph.node("Transpose", [context], f"{name}.self.rows", {"perm": (0, 2, 1, 3)})
    merged = np.asarray([encoder.batch, encoder.sequence, encoder.hidden], dtype=np.int64)
    shape = graph.weight(f"{name}.self.shape", merged)
    context = graph.node("Reshape", [context, shape], f"{name}.self.merged")
    return _linear(graph, f"{name}.output.dense", context, square)


def _feed_forward(graph: GraphBuilder, encoder: Encoder, name: str, x: str) -> str:
    wide = _linear(graph, f"{name}.intermediate.dense", x, (encoder.hidden, encoder.intermediate))
    wide = _gelu(graph, f"{name}.intermediate.gelu", wide)
    return _linear(graph, f"{name}.output.dense", wide, (encoder.intermediate, encoder.hidden))


def _gelu(graph: GraphBuilder, name: str, x: str) -> str:
    """x · (erf(x / sqrt 2) + 1) · 0.5, decomposed as opset 17 has no Gelu."""
    y = graph.node("Div", [x, graph.constant(f"{name}.root", math.sqrt(2.0))], f"{name}.scaled")
    y = graph.node("Erf", [y], f"{name}.erf")
    y = graph.node("Add", [y, graph.constant(f"{name}.one", 1.0)], f"{name}.shifted")
    y = graph.node("Mul", [x, y], f"{name}.product")
    return graph.node("Mul", [y, graph.constant(f"{name}.half", 0.5)], f"{name}.out")


def _pooler(graph: GraphBuilder, encoder: Encoder, x: str) -> str:
    """tanh of a linear map of the first token, [batch, hidden]."""
    index = graph.weight("pooler.index", np.asarray(0, dtype=np.int64))
    first = graph.node("Gather", [x, index], "pooler.first", {"axis": 1})
    shape = (encoder.hidden, encoder.hidden)
    weight = graph.weight("pooler.dense.weight", graph.weights.lecun(shape, encoder.hidden))
    bias = graph.weight("pooler.dense.bias", graph.weights.bias((encoder.hidden,)))
    attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0, "transB": 1}
    dense = graph.node("Gemm", [first, weight, bias], "pooler.dense.out", attributes)
    return graph.node("Tanh", [dense], "pooler_output")
