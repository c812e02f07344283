"""ResNet-50 (He et al. 2016) and ResNeXt-50 32x4d (Xie et al. 2017): bottleneck blocks, plain or grouped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.images import Images
from superopt.zoo.weights import RESIDUAL_GAIN

__all__ = ["resnet50", "resnext50"]

EXPANSION = 4


@dataclass(frozen=True)
class Bottlenecks:
    """The widths of a family of bottleneck blocks."""

    groups: int
    width_per_group: int

    def width(self, planes: int) -> int:
        """Channels of the 3x3 convolution of a block with ``planes``."""
        return planes * self.width_per_group // 64 * self.groups


def resnet50(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    return _fifty_layers("resnet50", Bottlenecks(groups=1, width_per_group=64), batch)


def resnext50(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]; 3x3 convolutions in 32 groups."""
    return _fifty_layers("resnext50", Bottlenecks(groups=32, width_per_group=4), batch)


def _fifty_layers(name: str, blocks: Bottlenecks, batch: int) -> Blueprint:
    graph = GraphBuilder(name)
    images = Images(graph)
    x = graph.input("input", (batch, 3, 224, 224))
    x = images.linear_conv(x, "conv1", (3, 64), 7, stride=2, padding=3)
    x = images.relu(images.batch_norm(x, "bn1", 64))
    x = images.max_pool(x, "maxpool", padding=1)
    channels = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        planes = 64 << stage
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            x = _bottleneck(graph, x, f"layer{stage + 1}.{index}", channels, planes, stride, blocks)
            channels = planes * EXPANSION
    flat = images.pool_and_flatten(x)
    logits = images.linear(flat, "fc", (channels, 1000), "output")
    graph.output(logits, (batch, 1000))
    return graph.blueprint()


def _bottleneck(
    graph: GraphBuilder, x: str, name: str, channels: int, planes: int, stride: int, blocks: Bottlenecks
) -> str:
    images = Images(graph)
    width, out = blocks.width(planes), planes * EXPANSION
    projected = stride != 1 or channels != out
    gain = math.sqrt(0.5) if projected else RESIDUAL_GAIN
    y = images.conv(x, f"{name}.conv1", (channels, width), 1)
    y = images.relu(images.batch_norm(y, f"{name}.bn1", width))
    y = images.conv(y, f"{name}.conv2", (width, width), 3, stride=stride, padding=1, groups=blocks.groups)
    y = images.relu(images.batch_norm(y, f"{name}.bn2", width))
    y = images.batch_norm(images.conv(y, f"{name}.conv3", (width, out), 1), f"{name}.bn3", out, gain)
    if projected:
        x = images.conv(x, f"{name}.downsample.0", (channels, out), 1, stride=stride)
        x = images.batch_norm(x, f"{name}.downsample.1", out, gain)
    return images.relu(graph.node("Add", [y, x], f"{name}.sum"))
