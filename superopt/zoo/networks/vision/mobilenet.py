"""MobileNet-v3 large (Howard et al. 2019), with hard-swish decomposed as in exports before opset 14."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images
from superopt.zoo.weights import RESIDUAL_GAIN

__all__ = ["mobilenet_v3"]

SWISH_GAIN = 1.06
"""Relative to relu: hard-swish of a standard normal has variance 0.304, relu 0.341."""

SQUEEZE_GAIN = 2.0
"""The gate of squeeze-excitation is about one half."""


@dataclass(frozen=True)
class Row:
    """A row of table 1 of the paper: parameters of a bottleneck."""

    kernel: int
    expanded: int
    out: int
    squeeze: Literal["SE", ""]
    activation: Literal["RE", "HS"]
    stride: int


ROWS = (
    Row(3, 16, 16, "", "RE", 1),
    Row(3, 64, 24, "", "RE", 2), Row(3, 72, 24, "", "RE", 1),
    Row(5, 72, 40, "SE", "RE", 2), Row(5, 120, 40, "SE", "RE", 1), Row(5, 120, 40, "SE", "RE", 1),
    Row(3, 240, 80, "", "HS", 2), Row(3, 200, 80, "", "HS", 1),
    Row(3, 184, 80, "", "HS", 1), Row(3, 184, 80, "", "HS", 1),
    Row(3, 480, 112, "SE", "HS", 1), Row(3, 672, 112, "SE", "HS", 1),
    Row(5, 672, 160, "SE", "HS", 2), Row(5, 960, 160, "SE", "HS", 1), Row(5, 960, 160, "SE", "HS", 1),
)  # fmt: skip


def mobilenet_v3(batch: int) -> Blueprint:
    """[batch, 3, 224, 224] -> [batch, 1000]."""
    graph = GraphBuilder("mobilenet-v3", 13)
    net = MobileNet(Images(graph, epsilon=1e-3))
    x = net.images.standardised(graph.input("input", (batch, 3, 224, 224)))
    x = net.swish(net.expanded(x, "features.0", (3, 16), 3, 2))
    channels = 16
    for index, row in enumerate(ROWS, start=1):
        x = net.bottleneck(x, f"features.{index}", channels, row)
        channels = row.out
    x = net.swish(net.expanded(x, "features.16", (channels, 960)))
    x = net.images.pool_and_flatten(x)
    x = net.swish(net.images.linear(x, "classifier.0", (960, 1280), "classifier.0.out", SWISH_GAIN))
    x = net.images.dropout(x, "classifier.2")
    graph.output(net.images.linear(x, "classifier.3", (1280, 1000), "output", SWISH_GAIN), (batch, 1000))
    return graph.blueprint()


class MobileNet:
    """The bottleneck of figure 4 of the paper, and its activations."""

    def __init__(self, images: Images) -> None:
        self.images = images
        self._graph = images.graph

    def expanded(self, x: str, name: str, channels: tuple[int, int], kernel: int = 1, stride: int = 1) -> str:
        """Convolution of an input without activation, then normalisation."""
        x = self.images.linear_conv(x, f"{name}.0", channels, kernel, stride=stride, padding=kernel // 2)
        return self.images.batch_norm(x, f"{name}.1", channels[1])

    def unit(
        self, x: str, name: str, channels: tuple[int, int], kernel: int,
        stride: int = 1, groups: int = 1, gain: float = 1.0,
    ) -> str:  # fmt: skip
        """Convolution of an activated input, then normalisation."""
        padding = kernel // 2
        x = self.images.conv(x, f"{name}.0", channels, kernel, stride=stride, padding=padding, groups=groups)
        return self.images.batch_norm(x, f"{name}.1", channels[1], gain)

    def bottleneck(self, x: str, name: str, channels: int, row: Row) -> str:
        """Expand, depthwise filter, squeeze-excite, project; with a residual sum where sizes agree."""
        activation = self.swish if row.activation == "HS" else self.images.relu
        gain = SWISH_GAIN if row.activation == "HS" else 1.0
        y = x
        if row.expanded != channels:
            y = activation(self.expanded(y, f"{name}.expand", (channels, row.expanded)))
        widths = (row.expanded, row.expanded)
        y = self.unit(y, f"{name}.filter", widths, row.kernel, row.stride, groups=row.expanded, gain=gain)
        if row.squeeze:
            y = self._excited(y, f"{name}.se", row.expanded)
            gain *= SQUEEZE_GAIN
        y = activation(y)
        residual = row.stride == 1 and channels == row.out
        gain *= RESIDUAL_GAIN if residual else 1.0
        y = self.unit(y, f"{name}.project", (row.expanded, row.out), 1, gain=gain)
        return self._graph.node("Add", [x, y], f"{name}.sum") if residual else y

    def swish(self, x: str) -> str:
        """x · min(max(x + 3, 0), 6) / 6."""
        product = self._graph.node("Mul", [x, self._clipped(x, f"{x}.swish")], f"{x}.swish.product")
        return self._sixth(product, f"{x}.swish")

    def _excited(self, x: str, name: str, channels: int) -> str:
        """x times a gate per channel, computed from the channels' means."""
        squeezed = _divisible(channels / 4)
        mean = self._graph.node("GlobalAveragePool", [x], f"{name}.mean")
        gate = self.images.relu(self.images.conv(mean, f"{name}.fc1", (channels, squeezed), 1, biased=True))
        gate = self.images.conv(gate, f"{name}.fc2", (squeezed, channels), 1, biased=True)
        gate = self._sixth(self._clipped(gate, f"{name}.gate"), f"{name}.gate")
        return self._graph.node("Mul", [gate, x], f"{name}.out")

    def _clipped(self, x: str, name: str) -> str:
        shifted = self._graph.node("Add", [x, self._graph.constant(f"{name}.three", 3.0)], f"{name}.shifted")
        bounds = [self._graph.constant(f"{name}.low", 0.0), self._graph.constant(f"{name}.high", 6.0)]
        return self._graph.node("Clip", [shifted, *bounds], f"{name}.clipped")

    def _sixth(self, x: str, name: str) -> str:
        return self._graph.node("Div", [x, self._graph.constant(f"{name}.six", 6.0)], f"{name}.out")


def _divisible(channels: float) -> int:
    """The nearest multiple of 8 that is at most 10 % smaller."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest
