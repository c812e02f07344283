"""ResNet-18, -50, -101 (He et al. 2016) and ResNeXt-50 32x4d (Xie et al. 2017), and small versions of two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images
from superopt.zoo.weights import RESIDUAL_GAIN

__all__ = ["light_resnet18", "light_resnet101", "resnet18", "resnet50", "resnet101", "resnext50"]


@dataclass(frozen=True)
class Stages:
    """The blocks of each of four stages, the planes of the first (each next stage has twice as many), the
    height and width of the images, and the classes."""

    depths: tuple[int, int, int, int]
    planes: int = 64
    image: int = 224
    classes: int = 1000


class Block(Protocol):
    """A residual block; it returns ``planes * expansion`` channels."""

    expansion: ClassVar[int]

    def add(self, graph: GraphBuilder, x: str, name: str, channels: int, planes: int, stride: int) -> str:
        """Adds a block behind ``x`` of ``channels`` channels."""
        ...


@dataclass(frozen=True)
class Basic:
    """Two 3x3 convolutions."""

    expansion: ClassVar[int] = 1

    def add(self, graph: GraphBuilder, x: str, name: str, channels: int, planes: int, stride: int) -> str:
        """[n, channels, h, w] -> [n, planes, h / stride, w / stride]."""
        images = Images(graph)
        gain = _gain(channels, planes, stride)
        y = images.conv(x, f"{name}.conv1", (channels, planes), 3, stride=stride, padding=1)
        y = images.relu(images.batch_norm(y, f"{name}.bn1", planes))
        y = images.conv(y, f"{name}.conv2", (planes, planes), 3, padding=1)
        y = images.batch_norm(y, f"{name}.bn2", planes, gain)
        x = _shortcut(graph, x, name, channels, planes, stride)
        return images.relu(graph.node("Add", [y, x], f"{name}.sum"))


@dataclass(frozen=True)
class Bottlenecks:
    """A 1x1, a 3x3 and a 1x1 convolution; the 3x3 one may be grouped."""

    groups: int = 1
    width_per_group: int = 64
    expansion: ClassVar[int] = 4

    def add(self, graph: GraphBuilder, x: str, name: str, channels: int, planes: int, stride: int) -> str:
        """[n, channels, h, w] -> [n, 4 planes, h / stride, w / stride]."""
        images = Images(graph)
        width, out = planes * self.width_per_group // 64 * self.groups, planes * self.expansion
        gain = _gain(channels, out, stride)
        y = images.conv(x, f"{name}.conv1", (channels, width), 1)
        y = images.relu(images.batch_norm(y, f"{name}.bn1", width))
        y = images.conv(y, f"{name}.conv2", (width, width), 3, stride=stride, padding=1, groups=self.groups)
        y = images.relu(images.batch_norm(y, f"{name}.bn2", width))
        y = images.batch_norm(images.conv(y, f"{name}.conv3", (width, out), 1), f"{name}.bn3", out, gain)
        x = _shortcut(graph, x, name, channels, out, stride)
        return images.relu(graph.node("Add", [y, x], f"{name}.sum"))


def resnet18(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]; blocks of two 3x3 convolutions."""
    return _residual("resnet18", Stages((2, 2, 2, 2)), Basic(), batch)


def light_resnet18(batch: int) -> Blueprint:
    """[batch, 3, 32, 32] -> [batch, 10]: ResNet-18 with a quarter of the channels."""
    return _residual("light-resnet18", Stages((2, 2, 2, 2), 16, 32, 10), Basic(), batch)


def resnet50(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    return _residual("resnet50", Stages((3, 4, 6, 3)), Bottlenecks(), batch)


def resnet101(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    return _residual("resnet101", Stages((3, 4, 23, 3)), Bottlenecks(), batch)


def light_resnet101(batch: int) -> Blueprint:
    """[batch, 3, 32, 32] -> [batch, 10]: six bottlenecks with an eighth of the channels of ResNet-101."""
    return _residual("light-resnet101", Stages((1, 1, 3, 1), 8, 32, 10), Bottlenecks(), batch)


def resnext50(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]; 3x3 convolutions in 32 groups."""
    return _residual("resnext50", Stages((3, 4, 6, 3)), Bottlenecks(groups=32, width_per_group=4), batch)


def _residual(name: str, stages: Stages, block: Block, batch: int) -> Blueprint:
    graph = GraphBuilder(name)
    images = Images(graph)
    x = graph.input("input", (batch, 3, stages.image, stages.image))
    channels = stages.planes
    x = images.linear_conv(x, "conv1", (3, channels), 7, stride=2, padding=3)
    x = images.relu(images.batch_norm(x, "bn1", channels))
    x = images.max_pool(x, "maxpool", padding=1)
    for stage, depth in enumerate(stages.depths):
        planes = stages.planes << stage
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            x = block.add(graph, x, f"layer{stage + 1}.{index}", channels, planes, stride)
            channels = planes * block.expansion
    flat = images.pool_and_flatten(x)
    logits = images.linear(flat, "fc", (channels, stages.classes), "output")
    graph.output(logits, (batch, stages.classes))
    return graph.blueprint()


def _gain(channels: int, out: int, stride: int) -> float:
    """The mean scale of the last normalisation of a block."""
    return math.sqrt(0.5) if _projects(channels, out, stride) else RESIDUAL_GAIN


def _projects(channels: int, out: int, stride: int) -> bool:
    return stride != 1 or channels != out


def _shortcut(graph: GraphBuilder, x: str, name: str, channels: int, out: int, stride: int) -> str:
    """``x`` itself, or a normalised 1x1 convolution of it where the shape changes."""
    if not _projects(channels, out, stride):
        return x
    images = Images(graph)
    x = images.conv(x, f"{name}.downsample.0", (channels, out), 1, stride=stride)
    return images.batch_norm(x, f"{name}.downsample.1", out, _gain(channels, out, stride))
