"""DenseNet-121 (Huang et al. 2017): normalisation and relu before every convolution, growth 32."""

from __future__ import annotations

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["densenet121"]

GROWTH = 32
BOTTLENECK = 4 * GROWTH
LAYERS = (6, 12, 24, 16)


def densenet121(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    graph = GraphBuilder("densenet121", 13)
    images = Images(graph)
    x = graph.input("input", (batch, 3, 224, 224))
    x = images.linear_conv(x, "conv0", (3, 64), 7, stride=2, padding=3)
    x = images.max_pool(images.relu(images.batch_norm(x, "norm0", 64)), "pool0", padding=1)
    channels = 64
    for block, depth in enumerate(LAYERS, start=1):
        for layer in range(1, depth + 1):
            x = _layer(images, x, f"denseblock{block}.denselayer{layer}", channels)
            channels += GROWTH
        if block < len(LAYERS):
            name = f"transition{block}"
            x = images.relu(images.batch_norm(x, f"{name}.norm", channels))
            x = images.conv(x, f"{name}.conv", (channels, channels // 2), 1)
            x = images.average_pool(x, f"{name}.pool", 2, stride=2)
            channels //= 2
    x = images.pool_and_flatten(images.relu(images.batch_norm(x, "norm5", channels)))
    graph.output(images.linear(x, "classifier", (channels, 1000), "output"), (batch, 1000))
    return graph.blueprint()


def _layer(images: Images, x: str, name: str, channels: int) -> str:
    y = images.relu(images.batch_norm(x, f"{name}.norm1", channels))
    y = images.conv(y, f"{name}.conv1", (channels, BOTTLENECK), 1)
    y = images.relu(images.batch_norm(y, f"{name}.norm2", BOTTLENECK))
    y = images.conv(y, f"{name}.conv2", (BOTTLENECK, GROWTH), 3, padding=1)
    return images.concat([x, y], f"{name}.out")
