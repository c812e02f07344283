"""NASNet-A large, 6 @ 4032 (Zoph et al. 2018), as a frozen TensorFlow graph: scale and shift per channel."""

from __future__ import annotations

import math
from dataclasses import dataclass

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["nasnet_a"]

FILTERS = 168
"""Channels of a branch in the first cells: 4032 / 24."""

STEM = 96
REPEATS = 6
HALF = math.sqrt(0.5)
"""Gain of one of two branches that are summed."""


@dataclass(frozen=True)
class Map:
    """A tensor [batch, channels, size, size]."""

    name: str
    channels: int
    size: int


def nasnet_a(batch: int) -> Blueprint:
    """[batch, 3, 331, 331] -> [batch, 1000]."""
    graph = GraphBuilder("nasnet-a", 13)
    images = Images(graph)
    net = Cells(images)
    x = graph.input("input", (batch, 3, 331, 331))
    x = images.scale_and_shift(images.linear_conv(x, "conv0", (3, STEM), 3, stride=2), "conv0.bn", STEM)
    first = Map(x, STEM, 165)
    before = net.first_stem(first, "cell_stem_0", FILTERS // 4)
    now = net.reduction(before, first, "cell_stem_1", FILTERS // 2)
    for group in range(3):
        filters = FILTERS << group
        if group:
            now = net.reduction(now, before, f"reduction_cell_{group - 1}", filters)
        for index in range(REPEATS):
            now, before = net.normal(now, before, f"cell_{group * REPEATS + index}", filters), now
    flat = images.dropout(images.pool_and_flatten(images.relu(now.name)), "dropout")
    graph.output(images.linear(flat, "last_linear", (now.channels, 1000), "output"), (batch, 1000))
    return graph.blueprint()


class Cells:
    """The two cells of figure 4 of the paper; each reads the outputs of the two cells before it."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._graph = images.graph

    def first_stem(self, x: Map, name: str, filters: int) -> Map:
        """The reduction cell on the first convolution, which serves as both of its inputs."""
        return self._reduced(self._squeezed(x, f"{name}.conv_1x1", filters), x, name, filters)

    def reduction(self, now: Map, before: Map, name: str, filters: int) -> Map:
        """Halves the size, 4 · ``filters`` channels."""
        left = self._adjusted(before, now.size, f"{name}.prev", filters)
        return self._reduced(self._squeezed(now, f"{name}.conv_1x1", filters), left, name, filters)

    def normal(self, now: Map, before: Map, name: str, filters: int) -> Map:
        """Keeps the size, 6 · ``filters`` channels."""
        left = self._adjusted(before, now.size, f"{name}.prev", filters)
        right = self._squeezed(now, f"{name}.conv_1x1", filters)

        def separable(x: Map, place: str, kernel: int) -> str:
            return self._separable(x, f"{name}.comb_iter_{place}", filters, kernel).name

        def averaged(x: Map, place: str) -> str:
            return self._images.average_pool(x.name, f"{name}.comb_iter_{place}", 3, padding=1)

        parts = [
            left.name,
            self._sum(separable(right, "0_left", 5), separable(left, "0_right", 3), f"{name}.comb_iter_0"),
            self._sum(separable(left, "1_left", 5), separable(left, "1_right", 3), f"{name}.comb_iter_1"),
            self._sum(averaged(right, "2_left"), left.name, f"{name}.comb_iter_2"),
            self._sum(averaged(left, "3_left"), averaged(left, "3_right"), f"{name}.comb_iter_3"),
            self._sum(separable(right, "4_left", 3), right.name, f"{name}.comb_iter_4"),
        ]
        return Map(self._images.concat(parts, f"{name}.out"), 6 * filters, now.size)

    def _reduced(self, right: Map, left: Map, name: str, filters: int) -> Map:
        images = self._images
        size = -(-right.size // 2)
        pads = _same(right.size, 3, 2)

        def separable(x: Map, place: str, kernel: int, stride: int = 2) -> str:
            return self._separable(x, f"{name}.comb_iter_{place}", filters, kernel, stride).name

        def largest(place: str) -> str:
            return images.max_pool(right.name, f"{name}.comb_iter_{place}", padding=pads)

        zero = self._sum(separable(right, "0_left", 5), separable(left, "0_right", 7), f"{name}.comb_iter_0")
        one = self._sum(largest("1_left"), separable(left, "1_right", 7), f"{name}.comb_iter_1")
        averaged = images.average_pool(right.name, f"{name}.comb_iter_2_left", 3, stride=2, padding=pads)
        two = self._sum(averaged, separable(left, "2_right", 5), f"{name}.comb_iter_2")
        smooth = images.average_pool(zero, f"{name}.comb_iter_3_right", 3, padding=1)
        three = self._sum(smooth, one, f"{name}.comb_iter_3")
        small = separable(Map(zero, filters, size), "4_left", 3, 1)
        four = self._sum(small, largest("4_right"), f"{name}.comb_iter_4")
        return Map(images.concat([one, two, three, four], f"{name}.out"), 4 * filters, size)

    def _sum(self, left: str, right: str, name: str) -> str:
        return self._graph.node("Add", [left, right], name)

    def _squeezed(self, x: Map, name: str, filters: int) -> Map:
        """Relu, 1x1 convolution, scale and shift."""
        y = self._graph.node("Relu", [x.name], f"{name}.relu")
        y = self._images.conv(y, f"{name}.conv", (x.channels, filters), 1)
        return Map(self._images.scale_and_shift(y, f"{name}.bn", filters), filters, x.size)

    def _adjusted(self, x: Map, size: int, name: str, filters: int) -> Map:
        """The output of the second to last cell, at ``size``: by two shifted subsamplings if it is larger."""
        if x.size == size:
            return self._squeezed(x, name, filters)
        graph, images = self._graph, self._images
        y = graph.node("Relu", [x.name], f"{name}.relu")
        first = images.average_pool(y, f"{name}.path_1.avgpool", 1, stride=2)
        padded = graph.node(
            "Pad", [y, graph.integers(f"{name}.pads", (0, 0, 0, 0, 0, 0, 1, 1))], f"{name}.padded"
        )
        ranges = {"starts": (1, 1), "ends": (x.size + 1, x.size + 1), "axes": (2, 3)}
        bounds = [graph.integers(f"{name}.{key}", values) for key, values in ranges.items()]
        moved = graph.node("Slice", [padded, *bounds], f"{name}.moved")
        second = images.average_pool(moved, f"{name}.path_2.avgpool", 1, stride=2)
        halves = [
            images.conv(part, f"{name}.path_{index}.conv", (x.channels, filters // 2), 1)
            for index, part in enumerate((first, second), start=1)
        ]
        joined = images.concat(halves, f"{name}.joined")
        return Map(images.scale_and_shift(joined, f"{name}.bn", filters), filters, size)

    def _separable(self, x: Map, name: str, filters: int, kernel: int, stride: int = 1) -> Map:
        """Two times relu, depthwise and pointwise convolution, scale and shift."""
        y = x
        for index, step in ((1, stride), (2, 1)):
            label = f"{name}.{index}"
            pads = _same(y.size, kernel, step)
            z = self._graph.node("Relu", [y.name], f"{label}.relu")
            z = self._images.conv(
                z, f"{label}.depthwise", (y.channels, y.channels), kernel,
                stride=step, padding=pads, groups=y.channels,
            )  # fmt: skip
            z = self._images.linear_conv(z, f"{label}.pointwise", (y.channels, filters), 1)
            z = self._images.scale_and_shift(z, f"{label}.bn", filters, HALF if index == 2 else 1.0)
            y = Map(z, filters, -(-y.size // step))
        return y


def _same(size: int, kernel: int, stride: int) -> tuple[int, int, int, int]:
    """The padding that gives ceil(size / stride), with an odd remainder at the end."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    before, after = total // 2, total - total // 2
    return before, before, after, after
