"""SqueezeNet 1.1 (Iandola et al. 2016): no batch normalisation, two parallel convolutions per fire module."""

from __future__ import annotations

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["squeezenet"]

# What follows the first convolution: a pooling, or (squeeze, expand) channels of a fire module.
LAYERS: tuple[tuple[int, int] | None, ...] = (
    None, (16, 64), (16, 64),
    None, (32, 128), (32, 128),
    None, (48, 192), (48, 192), (64, 256), (64, 256),
)  # fmt: skip


def squeezenet(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    graph = GraphBuilder("squeezenet")
    images = Images(graph)
    x = graph.input("input", (batch, 3, 224, 224))
    x = images.relu(images.linear_conv(x, "features.0", (3, 64), 3, stride=2, biased=True))
    channels = 64
    for index, layer in enumerate(LAYERS, start=2):
        name = f"features.{index}"
        if layer is None:
            x = images.max_pool(x, name, ceil=1)
            continue
        squeeze, expand = layer
        x = images.relu(images.conv(x, f"{name}.squeeze", (channels, squeeze), 1, biased=True))
        one = images.relu(images.conv(x, f"{name}.expand1x1", (squeeze, expand), 1, biased=True))
        three = images.relu(images.conv(x, f"{name}.expand3x3", (squeeze, expand), 3, padding=1, biased=True))
        x = graph.node("Concat", [one, three], f"{name}.out", {"axis": 1})
        channels = 2 * expand
    x = images.relu(images.conv(x, "classifier.1", (channels, 1000), 1, biased=True))
    graph.output(images.pool_and_flatten(x), (batch, 1000))
    return graph.blueprint()
