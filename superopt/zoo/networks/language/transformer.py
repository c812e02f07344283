"""Transformer building blocks as exporters write them; tensors are [batch, sequence, hidden]."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from superopt.errors import InvalidOptionError
from superopt.zoo import weights
from superopt.zoo.builder import Attribute, GraphBuilder

__all__ = [
    "causal_mask", "decomposed_layer_norm", "erf_gelu", "first_token", "layer_norm", "linear", "product",
    "require_positions", "sinusoids", "tanh_gelu",
]  # fmt: skip


def require_positions(name: str, sequence: int, positions: int) -> None:
    """Raises InvalidOptionError for more tokens than there are embeddings of positions."""
    if sequence > positions:
        raise InvalidOptionError(f"{name}: expected at most {positions:,} tokens, got {sequence:,}")


def product(graph: GraphBuilder, name: str, x: str, sizes: tuple[int, int], gain: float = 1.0) -> str:
    """x·W without a bias."""
    draw = weights.normal(sizes, gain * math.sqrt(1.0 / sizes[0]))
    return graph.node("MatMul", [x, graph.weight(f"{name}.weight", draw)], f"{name}.product")


def linear(graph: GraphBuilder, name: str, x: str, sizes: tuple[int, int], gain: float = 1.0) -> str:
    """MatMul then Add with the bias as first operand, as exported from a traced ``nn.Linear`` over three
    dimensions."""
    draw = weights.normal(sizes, gain * math.sqrt(1.0 / sizes[0]))
    weight = graph.weight(f"{name}.weight", draw)
    bias = graph.weight(f"{name}.bias", weights.bias((sizes[1],)))
    out = graph.node("MatMul", [x, weight], f"{name}.product")
    return graph.node("Add", [bias, out], f"{name}.out")


def layer_norm(
    graph: GraphBuilder, name: str, x: str, hidden: int, epsilon: float, output: str | None = None
) -> str:
    """The LayerNormalization operator; requires opset 17."""
    scale = graph.weight(f"{name}.weight", weights.scale((hidden,)))
    bias = graph.weight(f"{name}.bias", weights.bias((hidden,)))
    attributes: dict[str, Attribute] = {"axis": -1, "epsilon": epsilon}
    return graph.node("LayerNormalization", [x, scale, bias], output or f"{name}.out", attributes)


def decomposed_layer_norm(
    graph: GraphBuilder, name: str, x: str, hidden: int, epsilon: float, output: str | None = None
) -> str:
    """(x - mean) / sqrt(mean of its square + epsilon) · weight + bias, as exported before opset 17."""
    over_last: dict[str, Attribute] = {"axes": [-1], "keepdims": 1}
    mean = graph.node("ReduceMean", [x], f"{name}.mean", over_last)
    centred = graph.node("Sub", [x, mean], f"{name}.centred")
    square = graph.node("Pow", [centred, graph.constant(f"{name}.two", 2.0)], f"{name}.square")
    variance = graph.node("ReduceMean", [square], f"{name}.variance", over_last)
    variance = graph.node("Add", [variance, graph.constant(f"{name}.epsilon", epsilon)], f"{name}.positive")
    normal = graph.node(
        "Div", [centred, graph.node("Sqrt", [variance], f"{name}.deviation")], f"{name}.normal"
    )
    scale = graph.weight(f"{name}.weight", weights.scale((hidden,)))
    bias = graph.weight(f"{name}.bias", weights.bias((hidden,)))
    scaled = graph.node("Mul", [normal, scale], f"{name}.scaled")
    return graph.node("Add", [scaled, bias], output or f"{name}.out")


def erf_gelu(graph: GraphBuilder, name: str, x: str) -> str:
    """x · (erf(x / sqrt 2) + 1) · 0.5, decomposed, since Gelu requires opset 20."""
    y = graph.node("Div", [x, graph.constant(f"{name}.root", math.sqrt(2.0))], f"{name}.scaled")
    y = graph.node("Erf", [y], f"{name}.erf")
    y = graph.node("Add", [y, graph.constant(f"{name}.one", 1.0)], f"{name}.shifted")
    y = graph.node("Mul", [x, y], f"{name}.product")
    return graph.node("Mul", [y, graph.constant(f"{name}.half", 0.5)], f"{name}.out")


def tanh_gelu(graph: GraphBuilder, name: str, x: str) -> str:
    """0.5 · x · (1 + tanh(sqrt(2 / pi) · (x + 0.044715 · x^3))), the gelu of GPT-2."""
    half = graph.node("Mul", [x, graph.constant(f"{name}.half", 0.5)], f"{name}.halved")
    cube = graph.node("Pow", [x, graph.constant(f"{name}.three", 3.0)], f"{name}.cube")
    cube = graph.node("Mul", [cube, graph.constant(f"{name}.factor", 0.044715)], f"{name}.scaled")
    inner = graph.node("Add", [x, cube], f"{name}.inner")
    inner = graph.node(
        "Mul", [inner, graph.constant(f"{name}.root", math.sqrt(2.0 / math.pi))], f"{name}.angle"
    )
    tanh = graph.node("Tanh", [inner], f"{name}.tanh")
    outer = graph.node("Add", [tanh, graph.constant(f"{name}.one", 1.0)], f"{name}.shifted")
    return graph.node("Mul", [half, outer], f"{name}.out")


def first_token(graph: GraphBuilder, name: str, x: str) -> str:
    """[batch, sequence, hidden] -> [batch, hidden]."""
    index = graph.buffer(f"{name}.index", np.asarray(0, dtype=np.int64))
    return graph.node("Gather", [x, index], f"{name}.first", {"axis": 1})


def causal_mask(sequence: int, forbidden: float) -> NDArray[np.float32]:
    """[1, 1, sequence, sequence]: 0 up to the diagonal, ``forbidden`` above it, to be added to scores."""
    return np.triu(np.full((1, 1, sequence, sequence), forbidden, dtype=np.float32), 1)


def sinusoids(sequence: int, width: int) -> NDArray[np.float32]:
    """[1, sequence, width]: sine and cosine, in turns, of position / 10000^(2i / width) (Vaswani et al. 2017,
    section 3.5)."""
    rates = 10_000.0 ** -(np.arange(0, width, 2) / width)
    angles = np.arange(sequence)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(1, sequence, width).astype(np.float32)
