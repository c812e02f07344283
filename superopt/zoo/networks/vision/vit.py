"""ViT-Base/16 (Dosovitskiy et al. 2021), as PyTorch exports it at opset 17, with image preprocessing."""

from __future__ import annotations

import math

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.language.transformer import erf_gelu, first_token, layer_norm, linear
from superopt.zoo.networks.vision.images import Images

__all__ = ["vit_base"]

LAYERS = 12
HIDDEN = 768
HEADS = 12
HEAD = HIDDEN // HEADS
PATCH = 16
PATCHES = (224 // PATCH) ** 2
TOKENS = PATCHES + 1
EPSILON = 1e-6
RESIDUAL = 1 / math.sqrt(2 * LAYERS)


def vit_base(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    graph = GraphBuilder("vit-base", 17)
    images = Images(graph)
    image = images.standardised(graph.input("input", (batch, 3, 224, 224)))
    x = _embedded(graph, images, image)
    for index in range(LAYERS):
        name = f"blocks.{index}"
        normal = layer_norm(graph, f"{name}.norm1", x, HIDDEN, EPSILON)
        x = graph.node("Add", [x, _attention(graph, f"{name}.attn", normal, batch)], f"{name}.middle")
        normal = layer_norm(graph, f"{name}.norm2", x, HIDDEN, EPSILON)
        wide = linear(graph, f"{name}.mlp.fc1", normal, (HIDDEN, 4 * HIDDEN))
        wide = erf_gelu(graph, f"{name}.mlp.act", wide)
        narrow = linear(graph, f"{name}.mlp.fc2", wide, (4 * HIDDEN, HIDDEN), RESIDUAL)
        x = graph.node("Add", [x, narrow], f"{name}.out")
    x = first_token(graph, "head", layer_norm(graph, "norm", x, HIDDEN, EPSILON))
    graph.output(images.linear(x, "head", (HIDDEN, 1000), "output"), (batch, 1000))
    return graph.blueprint()


def _embedded(graph: GraphBuilder, images: Images, image: str) -> str:
    """A linear map of every patch, preceded by a class token, plus positions: [batch, 197, 768]. The batch
    size is read from the patches at run time to expand the class token."""
    x = images.linear_conv(image, "patch", (3, HIDDEN), PATCH, stride=PATCH, biased=True)
    x = graph.node("Reshape", [x, graph.integers("patch.flat", (0, HIDDEN, PATCHES))], "patch.flattened")
    x = graph.node("Transpose", [x], "patch.rows", {"perm": (0, 2, 1)})
    shape = graph.node("Shape", [x], "cls.shape")
    index = graph.buffer("cls.index", np.asarray(0, dtype=np.int64))
    size = graph.node("Gather", [shape, index], "cls.batch")
    size = graph.node("Unsqueeze", [size, graph.integers("cls.zero", [0])], "cls.vector")
    rest = graph.integers("cls.rest", (1, HIDDEN))
    shape = graph.node("Concat", [size, rest], "cls.expansion", {"axis": 0})
    token = graph.weight("cls_token", weights.normal((1, 1, HIDDEN), 1.0))
    token = graph.node("Expand", [token, shape], "cls.expanded")
    x = graph.node("Concat", [token, x], "tokens", {"axis": 1})
    positions = graph.weight("pos_embed", weights.normal((1, TOKENS, HIDDEN), 0.5))
    return graph.node("Add", [x, positions], "embeddings")


def _attention(graph: GraphBuilder, name: str, x: str, batch: int) -> str:
    """Attention with one linear map to queries, keys and values, separated by Gather."""
    joint = linear(graph, f"{name}.qkv", x, (HIDDEN, 3 * HIDDEN))
    shape = graph.integers(f"{name}.shape", (batch, TOKENS, 3, HEADS, HEAD))
    joint = graph.node("Reshape", [joint, shape], f"{name}.split")
    joint = graph.node("Transpose", [joint], f"{name}.heads", {"perm": (2, 0, 3, 1, 4)})
    query, key, value = (
        graph.node(
            "Gather",
            [joint, graph.buffer(f"{name}.{part}.index", np.asarray(index, dtype=np.int64))],
            f"{name}.{part}",
            {"axis": 0},
        )
        for index, part in enumerate(("query", "key", "value"))
    )
    query = graph.node("Mul", [query, graph.constant(f"{name}.scale", HEAD**-0.5)], f"{name}.scaled")
    turned = graph.node("Transpose", [key], f"{name}.turned", {"perm": (0, 1, 3, 2)})
    scores = graph.node("MatMul", [query, turned], f"{name}.scores")
    attended = graph.node("Softmax", [scores], f"{name}.weights", {"axis": -1})
    context = graph.node("MatMul", [attended, value], f"{name}.context")
    context = graph.node("Transpose", [context], f"{name}.rows", {"perm": (0, 2, 1, 3)})
    merged = graph.integers(f"{name}.merged.shape", (batch, TOKENS, HIDDEN))
    context = graph.node("Reshape", [context, merged], f"{name}.merged")
    return linear(graph, f"{name}.proj", context, (HIDDEN, HIDDEN), RESIDUAL)
