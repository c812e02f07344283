"""U-Net (Ronneberger et al. 2015) with padded convolutions, so that the output has the size of the image."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["light_unet", "unet"]

LEVELS = 4
"""Poolings on the way down, each of which halves height and width and doubles the channels."""

CLASSES = 2


@dataclass(frozen=True)
class Sizes:
    """Height and width of the image, and the channels at its full size."""

    image: int
    channels: int


def unet(batch: int) -> Blueprint:
    """[batch, 1, 512, 512] -> [batch, 2, 512, 512]."""
    return _unet("u-net", Sizes(512, 64), batch)


def light_unet(batch: int) -> Blueprint:
    """[batch, 1, 32, 32] -> [batch, 2, 32, 32]: the same with a sixteenth of the channels."""
    return _unet("light-u-net", Sizes(32, 4), batch)


def _unet(name: str, sizes: Sizes, batch: int) -> Blueprint:
    graph = GraphBuilder(name, 13)
    images = Images(graph)
    x = graph.input("input", (batch, 1, sizes.image, sizes.image))
    into, skipped = 1, list[str]()
    for level in range(LEVELS):
        out = sizes.channels << level
        x = _double(images, x, f"down{level}", into, out)
        skipped.append(x)
        x = images.max_pool(x, f"pool{level}", kernel=2)
        into = out
    x = _double(images, x, "bottom", into, 2 * into)
    for level in reversed(range(LEVELS)):
        out = sizes.channels << level
        x = _upsampled(graph, x, f"up{level}.transposed", 2 * out, out)
        x = images.concat([skipped[level], x], f"up{level}.both")
        x = _double(images, x, f"up{level}", 2 * out, out)
    logits = images.conv(x, "head", (sizes.channels, CLASSES), 1, biased=True)
    graph.output(logits, (batch, CLASSES, sizes.image, sizes.image))
    return graph.blueprint()


def _double(images: Images, x: str, name: str, into: int, out: int) -> str:
    """Two 3x3 convolutions, each with a relu; the image itself has values of both signs."""
    first = images.linear_conv if into == 1 else images.conv
    x = images.relu(first(x, f"{name}.conv1", (into, out), 3, padding=1, biased=True))
    return images.relu(images.conv(x, f"{name}.conv2", (out, out), 3, padding=1, biased=True))


def _upsampled(graph: GraphBuilder, x: str, name: str, into: int, out: int) -> str:
    """The up-convolution: [n, into, h, w] -> [n, out, 2h, 2w]. Windows do not overlap, so that an output
    element sums over the channels alone."""
    inputs = [
        x,
        graph.weight(f"{name}.weight", weights.rectified((into, out, 2, 2), (0,))),
        graph.weight(f"{name}.bias", weights.bias((out,))),
    ]
    attributes: dict[str, Attribute] = {
        "dilations": [1, 1],
        "group": 1,
        "kernel_shape": [2, 2],
        "pads": [0, 0, 0, 0],
        "strides": [2, 2],
    }
    return graph.node("ConvTranspose", inputs, f"{name}.out", attributes)
