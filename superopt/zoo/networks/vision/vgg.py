"""VGG-16 and VGG-19 (Simonyan and Zisserman 2015); dropout nodes are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["light_vgg16", "vgg16", "vgg19"]


@dataclass(frozen=True)
class Sizes:
    """(channels, convolutions) before each pooling, the height and width of the images, the width of the two
    hidden dense layers, and the classes."""

    blocks: Sequence[tuple[int, int]]
    image: int = 224
    hidden: int = 4096
    classes: int = 1000


SIXTEEN = Sizes(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)))
NINETEEN = Sizes(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)))
LIGHT = Sizes(((8, 2), (16, 2), (32, 3), (64, 3), (64, 3)), 32, 64, 10)


def vgg16(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]; the input is standardised already."""
    return _plain("vgg16", SIXTEEN, batch)


def light_vgg16(batch: int) -> Blueprint:
    """[batch, 3, 32, 32] -> [batch, 10]: VGG-16 with an eighth of the channels."""
    return _plain("light-vgg16", LIGHT, batch)


def vgg19(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000], with image preprocessing."""
    graph = GraphBuilder("vgg19", 13)
    x = Images(graph).standardised(_image(graph, NINETEEN, batch))
    return _layers(graph, x, NINETEEN, batch)


def _plain(name: str, sizes: Sizes, batch: int) -> Blueprint:
    graph = GraphBuilder(name, 13)
    return _layers(graph, _image(graph, sizes, batch), sizes, batch)


def _image(graph: GraphBuilder, sizes: Sizes, batch: int) -> str:
    return graph.input("input", (batch, 3, sizes.image, sizes.image))


def _layers(graph: GraphBuilder, x: str, sizes: Sizes, batch: int) -> Blueprint:
    images = Images(graph)
    into = 3
    for block, (channels, depth) in enumerate(sizes.blocks, start=1):
        for index in range(1, depth + 1):
            x = images.conv(x, f"conv{block}_{index}", (into, channels), 3, padding=1, biased=True)
            x = images.relu(x)
            into = channels
        x = images.max_pool(x, f"pool{block}", kernel=2)
    x = graph.node("Flatten", [x], "flat", {"axis": 1})
    into *= (sizes.image >> len(sizes.blocks)) ** 2
    for index in (6, 7):
        x = images.relu(images.linear(x, f"fc{index}", (into, sizes.hidden), f"fc{index}.out"))
        x = images.dropout(x, f"drop{index}")
        into = sizes.hidden
    graph.output(images.linear(x, "fc8", (into, sizes.classes), "output"), (batch, sizes.classes))
    return graph.blueprint()
