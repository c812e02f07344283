"""VGG-19 (Simonyan and Zisserman 2015) with image preprocessing; dropout nodes are kept."""

from __future__ import annotations

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.images import Images

__all__ = ["vgg19"]

BLOCKS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""(channels, convolutions) before each pooling."""


def vgg19(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    graph = GraphBuilder("vgg19", 13)
    images = Images(graph)
    x = images.standardised(graph.input("input", (batch, 3, 224, 224)))
    into = 3
    for block, (channels, depth) in enumerate(BLOCKS, start=1):
        for index in range(1, depth + 1):
            x = images.conv(x, f"conv{block}_{index}", (into, channels), 3, padding=1, biased=True)
            x = images.relu(x)
            into = channels
        x = images.max_pool(x, f"pool{block}", kernel=2)
    x = graph.node("Flatten", [x], "flat", {"axis": 1})
    for index, into in ((6, 512 * 7 * 7), (7, 4096)):
        x = images.relu(images.linear(x, f"fc{index}", (into, 4096), f"fc{index}.out"))
        x = images.dropout(x, f"drop{index}")
    graph.output(images.linear(x, "fc8", (4096, 1000), "output"), (batch, 1000))
    return graph.blueprint()
