"""VDCNN with 29 layers (Conneau et al. 2017): texts of characters through convolutions of three taps."""

from __future__ import annotations

import numpy as np

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["vdcnn"]

LENGTH = 1024
ALPHABET = 69
EMBEDDING = 16
LEVELS = ((64, 5), (128, 5), (256, 2), (512, 2))
"""Channels and blocks of each length, which halves from one to the next."""

KEPT = 8
"""The largest elements of each channel that reach the dense layers."""

HIDDEN = 2048
CLASSES = 5


def vdcnn(batch: int) -> Blueprint:
    """Indices [batch, 1024] of characters -> [batch, 5]; blocks without shortcuts, halved by max-pooling."""
    graph = GraphBuilder("vdcnn", 13)
    images = Images(graph)
    text = graph.input("input", (batch, LENGTH), np.int64)
    table = graph.weight("embedding.weight", weights.normal((ALPHABET, EMBEDDING), 1.0))
    rows = graph.node("Gather", [table, text], "embedding.rows")
    x = graph.node("Transpose", [rows], "embedding.channels", {"perm": [0, 2, 1]})
    into = LEVELS[0][0]
    x = _convolved(graph, x, "first", weights.lecun((into, EMBEDDING, 3), 3 * EMBEDDING))
    for level, (channels, blocks) in enumerate(LEVELS):
        if level:
            attributes: dict[str, Attribute] = {"kernel_shape": [3], "pads": [1, 1], "strides": [2]}
            x = graph.node("MaxPool", [x], f"pool{level}", attributes)
        for number in range(2 * blocks):
            name = f"level{level}.{number}"
            x = _convolved(graph, x, name, weights.rectified((channels, into, 3), (1, 2)))
            x = images.relu(images.batch_norm(x, f"{name}.norm", channels))
            into = channels
    kept = graph.nodes("TopK", [x, graph.integers("kept", [KEPT])], ["largest", "places"], {"axis": 2})[0]
    x = graph.node("Flatten", [kept], "flat", {"axis": 1})
    into *= KEPT
    for number in (1, 2):
        x = images.relu(images.linear(x, f"fc{number}", (into, HIDDEN), f"fc{number}.out"))
        into = HIDDEN
    graph.output(images.linear(x, "fc3", (into, CLASSES), "output"), (batch, CLASSES))
    return graph.blueprint()


def _convolved(graph: GraphBuilder, x: str, name: str, kernel: weights.Draw) -> str:
    inputs = [
        x,
        graph.weight(f"{name}.weight", kernel),
        graph.weight(f"{name}.bias", weights.bias(kernel.shape[:1])),
    ]
    return graph.node("Conv", inputs, f"{name}.out", {"kernel_shape": [3], "pads": [1, 1]})
