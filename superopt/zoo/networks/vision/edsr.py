"""EDSR for doubled resolution (Lim et al. 2017): the baseline of the paper, without its mean shift."""

from __future__ import annotations

from superopt.zoo import weights
from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["edsr"]

CHANNELS = 64
BLOCKS = 16
SIDE = 128


def edsr(batch: int) -> Blueprint:
    """[batch, 3, 128, 128] -> [batch, 3, 256, 256]."""
    graph = GraphBuilder("edsr", 13)
    images = Images(graph)
    image = graph.input("input", (batch, 3, SIDE, SIDE))
    head = images.linear_conv(image, "head", (3, CHANNELS), 3, padding=1, biased=True)
    x = head
    for block in range(BLOCKS):
        x = _residual(images, x, f"body.{block}")
    x = images.linear_conv(x, f"body.{BLOCKS}", (CHANNELS, CHANNELS), 3, padding=1, biased=True)
    x = graph.node("Add", [x, head], "body.sum")
    x = images.linear_conv(x, "tail.0", (CHANNELS, 4 * CHANNELS), 3, padding=1, biased=True)
    x = graph.node("DepthToSpace", [x], "tail.shuffled", {"blocksize": 2, "mode": "CRD"})
    x = images.linear_conv(x, "tail.1", (CHANNELS, 3), 3, padding=1, biased=True)
    graph.output(x, (batch, 3, 2 * SIDE, 2 * SIDE))
    return graph.blueprint()


def _residual(images: Images, x: str, name: str) -> str:
    """Two convolutions with a relu between them, added to their input."""
    channels = (CHANNELS, CHANNELS)
    inner = images.relu(images.linear_conv(x, f"{name}.conv1", channels, 3, padding=1, biased=True))
    gain = weights.RESIDUAL_GAIN
    branch = images.conv(inner, f"{name}.conv2", channels, 3, padding=1, biased=True, gain=gain)
    return images.graph.node("Add", [branch, x], f"{name}.sum")
