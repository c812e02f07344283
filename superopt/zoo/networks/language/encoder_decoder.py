"""The Transformer for translation (Vaswani et al. 2017): encoder and decoder, normalised after each sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.language.transformer import causal_mask, layer_norm, linear, product, sinusoids

__all__ = ["light_transformer", "transformer"]

FORBIDDEN = -1e9
EPSILON = 1e-6


@dataclass(frozen=True)
class Sizes:
    """The layers of each half, the width of tokens, heads, the width of the hidden dense layer, the tokens of
    the shared vocabulary, and the tokens of a sentence on either side."""

    layers: int = 6
    width: int = 512
    heads: int = 8
    intermediate: int = 2048
    vocabulary: int = 37_000
    sequence: int = 128


def transformer(batch: int) -> Blueprint:
    """int64 source [batch, 128] and target [batch, 128] -> logits [batch, 128, 37000]: the base model.
    Position i of the target sees positions up to i."""
    return Translation("transformer", Sizes(), batch).blueprint()


def light_transformer(batch: int) -> Blueprint:
    """int64 source [batch, 16] and target [batch, 16] -> logits [batch, 16, 128]: two layers of width 64 a
    half."""
    return Translation("light-transformer", Sizes(2, 64, 4, 128, 128, 16), batch).blueprint()


class Translation:
    """The network for ``batch`` pairs of sentences."""

    def __init__(self, name: str, sizes: Sizes, batch: int) -> None:
        self._graph = GraphBuilder(name, 17)
        self._sizes = sizes
        self._batch = batch

    def blueprint(self) -> Blueprint:
        """The finished network; embeddings of both sides and the last product share a table (section 3.4)."""
        graph, sizes = self._graph, self._sizes
        deviation = 1 / math.sqrt(sizes.width)
        table = graph.weight("embedding.weight", weights.normal((sizes.vocabulary, sizes.width), deviation))
        places = graph.constant("positions", sinusoids(sizes.sequence, sizes.width))
        memory = self._embedded("source", table, places)
        for index in range(sizes.layers):
            memory = self._encoder_layer(f"encoder.{index}", memory)
        mask = graph.constant("mask", causal_mask(sizes.sequence, FORBIDDEN))
        x = self._embedded("target", table, places)
        for index in range(sizes.layers):
            x = self._decoder_layer(f"decoder.{index}", x, memory, mask)
        head = graph.node("Transpose", [table], "generator.weight", {"perm": (1, 0)})
        logits = graph.node("MatMul", [x, head], "logits")
        graph.output(logits, (self._batch, sizes.sequence, sizes.vocabulary))
        return graph.blueprint()

    def _embedded(self, side: str, table: str, places: str) -> str:
        graph, sizes = self._graph, self._sizes
        tokens = graph.input(side, (self._batch, sizes.sequence), np.int64)
        rows = graph.node("Gather", [table, tokens], f"{side}.rows")
        root = graph.constant(f"{side}.root", math.sqrt(sizes.width))
        return graph.node("Add", [graph.node("Mul", [rows, root], f"{side}.scaled"), places], f"{side}.out")

    def _encoder_layer(self, name: str, x: str) -> str:
        x = self._summed(f"{name}.attention", x, self._attended(f"{name}.attention", x, x))
        return self._summed(f"{name}.dense", x, self._dense(f"{name}.dense", x))

    def _decoder_layer(self, name: str, x: str, memory: str, mask: str) -> str:
        x = self._summed(f"{name}.attention", x, self._attended(f"{name}.attention", x, x, mask))
        x = self._summed(f"{name}.memory", x, self._attended(f"{name}.memory", x, memory))
        return self._summed(f"{name}.dense", x, self._dense(f"{name}.dense", x))

    def _summed(self, name: str, x: str, branch: str) -> str:
        total = self._graph.node("Add", [x, branch], f"{name}.sum")
        return layer_norm(self._graph, f"{name}.norm", total, self._sizes.width, EPSILON)

    def _dense(self, name: str, x: str) -> str:
        width, intermediate = self._sizes.width, self._sizes.intermediate
        wide = linear(self._graph, f"{name}.in", x, (width, intermediate))
        wide = self._graph.node("Relu", [wide], f"{name}.relu")
        return linear(self._graph, f"{name}.out", wide, (intermediate, width))

    def _attended(self, name: str, x: str, memory: str, mask: str | None = None) -> str:
        """softmax(q·kᵀ / sqrt(head size) + mask)·v, projected; keys and values are of ``memory``."""
        graph, sizes = self._graph, self._sizes
        square = (sizes.width, sizes.width)
        size = sizes.width // sizes.heads

        def heads(part: str, of: str, perm: tuple[int, ...]) -> str:
            projected = product(graph, f"{name}.{part}", of, square)
            shape = graph.integers(f"{name}.{part}.shape", (self._batch, sizes.sequence, sizes.heads, size))
            split = graph.node("Reshape", [projected, shape], f"{name}.{part}.split")
            return graph.node("Transpose", [split], f"{name}.{part}.heads", {"perm": perm})

        query, key = heads("query", x, (0, 2, 1, 3)), heads("key", memory, (0, 2, 3, 1))
        scores = graph.node("MatMul", [query, key], f"{name}.scores")
        root = graph.constant(f"{name}.root", math.sqrt(size))
        scores = graph.node("Div", [scores, root], f"{name}.scaled")
        if mask is not None:
            scores = graph.node("Add", [scores, mask], f"{name}.masked")
        chosen = graph.node("Softmax", [scores], f"{name}.weights", {"axis": -1})
        value = heads("value", memory, (0, 2, 1, 3))
        context = graph.node("MatMul", [chosen, value], f"{name}.context")
        context = graph.node("Transpose", [context], f"{name}.rows", {"perm": (0, 2, 1, 3)})
        shape = graph.integers(f"{name}.merged.shape", (self._batch, sizes.sequence, sizes.width))
        merged = graph.node("Reshape", [context, shape], f"{name}.merged")
        return product(graph, f"{name}.output", merged, square)
