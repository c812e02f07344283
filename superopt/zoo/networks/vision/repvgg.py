"""RepVGG-A0 (Ding et al. 2021) in training form: sum of normalised 3x3, 1x1 and identity branches."""

from __future__ import annotations

import math

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["repvgg"]

STAGES = ((48, 1), (48, 2), (96, 4), (192, 14), (1280, 1))
"""(channels, blocks); the first block of each halves the size."""


def repvgg(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    graph = GraphBuilder("repvgg", 13)
    images = Images(graph)
    x = graph.input("input", (batch, 3, 224, 224))
    channels = 3
    for stage, (width, depth) in enumerate(STAGES):
        for index in range(depth):
            x = _block(images, x, f"stage{stage}.{index}", (channels, width), 2 if index == 0 else 1)
            channels = width
    flat = images.pool_and_flatten(x)
    graph.output(images.linear(flat, "linear", (channels, 1000), "output"), (batch, 1000))
    return graph.blueprint()


def _block(images: Images, x: str, name: str, channels: tuple[int, int], stride: int) -> str:
    same = channels[0] == channels[1] and stride == 1
    gain = math.sqrt((0.8 if same else 1.0) / 2)
    dense = images.conv(x, f"{name}.rbr_dense.conv", channels, 3, stride=stride, padding=1)
    dense = images.batch_norm(dense, f"{name}.rbr_dense.bn", channels[1], gain)
    one = images.conv(x, f"{name}.rbr_1x1.conv", channels, 1, stride=stride)
    one = images.batch_norm(one, f"{name}.rbr_1x1.bn", channels[1], gain)
    total = images.graph.node("Add", [dense, one], f"{name}.sum")
    if same:
        identity = images.batch_norm(x, f"{name}.rbr_identity", channels[1], math.sqrt(0.3))
        total = images.graph.node("Add", [total, identity], f"{name}.total")
    return images.relu(total)
