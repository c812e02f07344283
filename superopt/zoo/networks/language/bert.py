"""BERT (Devlin et al. 2019): base as PyTorch exports it at opset 17, large as it did at opset 13."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import onnx

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.networks.language.transformer import (
    decomposed_layer_norm,
    erf_gelu,
    first_token,
    layer_norm,
    linear,
    require_positions,
)

__all__ = ["bert_base", "bert_large", "light_bert"]


class Export(Enum):
    """Exporter version: OLD has no LayerNormalization and computes shapes at run time."""

    OLD = 13
    NEW = 17


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder and its input."""

    batch: int
    export: Export
    layers: int
    hidden: int
    heads: int
    intermediate: int
    sequence: int = 128
    vocabulary: int = 30522
    positions: int = 512
    token_types: int = 2

    @property
    def head_size(self) -> int:
        """Columns of one attention head."""
        return self.hidden // self.heads


def bert_base(batch: int, sequence: int = 128) -> Blueprint:
    """Three int64 inputs [batch, sequence] -> hidden states [batch, sequence, 768] and pooled output
    [batch, 768]. Raises InvalidOptionError for more than 512 tokens."""
    return _bert("bert-base", Encoder(batch, Export.NEW, 12, 768, 12, 3072, sequence))


def bert_large(batch: int, sequence: int = 128) -> Blueprint:
    """Three int64 inputs [batch, sequence] -> hidden states [batch, sequence, 1024] and pooled output
    [batch, 1024]. Raises InvalidOptionError for more than 512 tokens."""
    return _bert("bert-large", Encoder(batch, Export.OLD, 24, 1024, 16, 4096, sequence))


def light_bert(batch: int) -> Blueprint:
    """Three int64 inputs [batch, 32] -> hidden states [batch, 32, 128] and pooled output [batch, 128]: the
    sizes of BERT-Tiny (Turc et al. 2019)."""
    return _bert("light-bert", Encoder(batch, Export.NEW, 2, 128, 2, 512, sequence=32))


def _bert(name: str, encoder: Encoder) -> Blueprint:
    require_positions(name, encoder.sequence, encoder.positions)
    graph = GraphBuilder(name, encoder.export.value)
    shape = (encoder.batch, encoder.sequence)
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
    graph.output(x, (encoder.batch, encoder.sequence, encoder.hidden))
    graph.output(_pooler(graph, encoder, x), (encoder.batch, encoder.hidden))
    return graph.blueprint()


def _embeddings(graph: GraphBuilder, encoder: Encoder, tokens: str, types: str) -> str:
    def table(name: str, rows: int) -> str:
        return graph.weight(f"embeddings.{name}.weight", weights.normal((rows, encoder.hidden), 1.0))

    positions = graph.buffer("embeddings.position_ids", np.arange(encoder.sequence, dtype=np.int64)[None, :])
    words = graph.node("Gather", [table("word", encoder.vocabulary), tokens], "embeddings.words")
    kinds = graph.node("Gather", [table("token_type", encoder.token_types), types], "embeddings.types")
    places = graph.node("Gather", [table("position", encoder.positions), positions], "embeddings.places")
    both = graph.node("Add", [words, kinds], "embeddings.words_types")
    total = graph.node("Add", [both, places], "embeddings.sum")
    return _layer_norm(graph, encoder, "embeddings.LayerNorm", total)


def _additive_mask(graph: GraphBuilder, attended: str) -> str:
    """int64 [batch, sequence] of ones and zeros -> float [batch, 1, 1, sequence] of 0 and -10000."""
    axes = [graph.integers(f"mask.axis{axis}", [axis]) for axis in (1, 2)]
    x = graph.node("Unsqueeze", [attended, axes[0]], "mask.rows")
    x = graph.node("Unsqueeze", [x, axes[1]], "mask.heads")
    x = graph.node("Cast", [x], "mask.float", {"to": int(onnx.TensorProto.FLOAT)})
    x = graph.node("Sub", [graph.constant("mask.one", 1.0), x], "mask.hidden")
    return graph.node("Mul", [x, graph.constant("mask.minus_large", -10000.0)], "mask")


def _layer_norm(graph: GraphBuilder, encoder: Encoder, name: str, x: str, output: str | None = None) -> str:
    norm = layer_norm if encoder.export is Export.NEW else decomposed_layer_norm
    return norm(graph, name, x, encoder.hidden, 1e-12, output)


def _attention(graph: GraphBuilder, encoder: Encoder, name: str, x: str, mask: str) -> str:
    """softmax(q·kᵀ / sqrt(head size) + mask)·v, projected back to the hidden size."""
    square = (encoder.hidden, encoder.hidden)

    def head(part: str, perm: tuple[int, ...]) -> str:
        label = f"{name}.self.{part}"
        projected = linear(graph, label, x, square)
        shape = _shape(graph, encoder, f"{label}.shape", projected, (encoder.heads, encoder.head_size))
        split = graph.node("Reshape", [projected, shape], f"{label}.split")
        return graph.node("Transpose", [split], f"{label}.heads", {"perm": perm})

    query = head("query", (0, 2, 1, 3))
    key = head("key", (0, 2, 3, 1))
    value = head("value", (0, 2, 1, 3))
    scores = graph.node("MatMul", [query, key], f"{name}.self.scores")
    root = graph.constant(f"{name}.self.root", math.sqrt(encoder.head_size))
    scores = graph.node("Div", [scores, root], f"{name}.self.scaled")
    scores = graph.node("Add", [scores, mask], f"{name}.self.masked")
    attended = graph.node("Softmax", [scores], f"{name}.self.weights", {"axis": -1})
    context = graph.node("MatMul", [attended, value], f"{name}.self.context")
    context = graph.node("Transpose", [context], f"{name}.self.rows", {"perm": (0, 2, 1, 3)})
    shape = _shape(graph, encoder, f"{name}.self.shape", context, (encoder.hidden,))
    context = graph.node("Reshape", [context, shape], f"{name}.self.merged")
    return linear(graph, f"{name}.output.dense", context, square)


def _shape(graph: GraphBuilder, encoder: Encoder, name: str, like: str, rest: Sequence[int]) -> str:
    """The shape (batch, sequence, *rest): a constant, or computed from ``like`` as in old exports."""
    if encoder.export is Export.NEW:
        return graph.integers(name, (encoder.batch, encoder.sequence, *rest))
    parts: list[str] = []
    for axis in (0, 1):
        label = f"{name}.{axis}"
        shape = graph.node("Shape", [like], f"{label}.shape")
        index = graph.buffer(f"{label}.index", np.asarray(axis, dtype=np.int64))
        size = graph.node("Gather", [shape, index], f"{label}.size", {"axis": 0})
        parts.append(graph.node("Unsqueeze", [size, graph.integers(f"{label}.zero", [0])], f"{label}.vector"))
    parts += [graph.integers(f"{name}.{axis}", [size]) for axis, size in enumerate(rest, start=2)]
    return graph.node("Concat", parts, name, {"axis": 0})


def _feed_forward(graph: GraphBuilder, encoder: Encoder, name: str, x: str) -> str:
    wide = linear(graph, f"{name}.intermediate.dense", x, (encoder.hidden, encoder.intermediate))
    wide = erf_gelu(graph, f"{name}.intermediate.gelu", wide)
    return linear(graph, f"{name}.output.dense", wide, (encoder.intermediate, encoder.hidden))


def _pooler(graph: GraphBuilder, encoder: Encoder, x: str) -> str:
    """tanh of a linear map of the first token: [batch, hidden]."""
    first = first_token(graph, "pooler", x)
    weight = weights.lecun((encoder.hidden, encoder.hidden), encoder.hidden)
    inputs = [
        first,
        graph.weight("pooler.dense.weight", weight),
        graph.weight("pooler.dense.bias", weights.bias((encoder.hidden,))),
    ]
    attributes: dict[str, Attribute] = {"alpha": 1.0, "beta": 1.0, "transB": 1}
    return graph.node("Tanh", [graph.node("Gemm", inputs, "pooler.dense.out", attributes)], "pooler_output")
