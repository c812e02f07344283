"""Inception-v3 (Szegedy et al. 2016) without its auxiliary classifier, as torchvision exports it."""

from __future__ import annotations

import numpy as np

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import GraphBuilder
from superopt.zoo.networks.vision.images import Images, Pads, Pair

__all__ = ["inception_v3"]

SHIFTED = tuple(
    (deviation / 0.5, (mean - 0.5) / 0.5)
    for mean, deviation in zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)
)
"""Per channel, from ImageNet's statistics to mean and deviation 0.5, with which the weights were trained."""


def inception_v3(batch: int) -> Blueprint:
    """[batch, 3, 299, 299] -> [batch, 1000]."""
    graph = GraphBuilder("inception-v3", 13)
    net = Inception(graph)
    x = net.transformed(graph.input("input", (batch, 3, 299, 299)))
    x = net.unit(x, "Conv2d_1a_3x3", (3, 32), 3, stride=2)
    x = net.unit(x, "Conv2d_2a_3x3", (32, 32), 3)
    x = net.unit(x, "Conv2d_2b_3x3", (32, 64), 3, padding=1)
    x = net.images.max_pool(x, "maxpool1")
    x = net.unit(x, "Conv2d_3b_1x1", (64, 80), 1)
    x = net.unit(x, "Conv2d_4a_3x3", (80, 192), 3)
    x = net.images.max_pool(x, "maxpool2")
    channels = 192
    for name, pooled in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        x = net.block_a(x, name, channels, pooled)
        channels = 224 + pooled
    x = net.block_b(x, "Mixed_6a", channels)
    for name, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        x = net.block_c(x, name, width)
    x = net.block_d(x, "Mixed_7a")
    x = net.block_e(x, "Mixed_7b", 1280)
    x = net.block_e(x, "Mixed_7c", 2048)
    flat = net.images.dropout(net.images.pool_and_flatten(x), "dropout")
    graph.output(net.images.linear(flat, "fc", (2048, 1000), "output"), (batch, 1000))
    return graph.blueprint()


class Inception:
    """The blocks of figures 5 to 7 of the paper and their reductions."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.images = Images(graph, epsilon=1e-3)
        self._graph = graph

    def transformed(self, x: str) -> str:
        """Per-channel scale and shift: channels are extracted, scaled, shifted and concatenated."""
        graph = self._graph
        channels: list[str] = []
        for index, (scale, shift) in enumerate(SHIFTED):
            name = f"transform.{index}"
            number = graph.buffer(f"{name}.index", np.asarray(index, dtype=np.int64))
            channel = graph.node("Gather", [x, number], f"{name}.channel", {"axis": 1})
            channel = graph.node("Unsqueeze", [channel, graph.integers(f"{name}.axis", [1])], f"{name}.plane")
            channel = graph.node("Mul", [channel, graph.constant(f"{name}.scale", scale)], f"{name}.scaled")
            shifted = graph.node("Add", [channel, graph.constant(f"{name}.shift", shift)], f"{name}.shifted")
            channels.append(shifted)
        return self.images.concat(channels, "transform.out")

    def unit(
        self, x: str, name: str, channels: tuple[int, int], kernel: Pair, stride: int = 1, padding: Pads = 0
    ) -> str:
        """Convolution, normalisation, relu."""
        x = self.images.conv(x, f"{name}.conv", channels, kernel, stride=stride, padding=padding)
        return self.images.relu(self.images.batch_norm(x, f"{name}.bn", channels[1]))

    def block_a(self, x: str, name: str, channels: int, pooled: int) -> str:
        """1x1, 5x5, two 3x3, pooling (figure 5): 224 + ``pooled`` channels."""
        one = self.unit(x, f"{name}.branch1x1", (channels, 64), 1)
        five = self.unit(x, f"{name}.branch5x5_1", (channels, 48), 1)
        five = self.unit(five, f"{name}.branch5x5_2", (48, 64), 5, padding=2)
        double = self.unit(x, f"{name}.branch3x3dbl_1", (channels, 64), 1)
        double = self.unit(double, f"{name}.branch3x3dbl_2", (64, 96), 3, padding=1)
        double = self.unit(double, f"{name}.branch3x3dbl_3", (96, 96), 3, padding=1)
        return self.images.concat([one, five, double, self._pooled(x, name, channels, pooled)], f"{name}.out")

    def block_b(self, x: str, name: str, channels: int) -> str:
        """Halves the size and adds 480 channels."""
        three = self.unit(x, f"{name}.branch3x3", (channels, 384), 3, stride=2)
        double = self.unit(x, f"{name}.branch3x3dbl_1", (channels, 64), 1)
        double = self.unit(double, f"{name}.branch3x3dbl_2", (64, 96), 3, padding=1)
        double = self.unit(double, f"{name}.branch3x3dbl_3", (96, 96), 3, stride=2)
        return self.images.concat([three, double, self.images.max_pool(x, f"{name}.pool")], f"{name}.out")

    def block_c(self, x: str, name: str, width: int) -> str:
        """7x7 convolutions factored into 1x7 and 7x1 (figure 6): 768 channels."""
        wide: tuple[Pair, Pads] = ((1, 7), (0, 3))
        tall: tuple[Pair, Pads] = ((7, 1), (3, 0))

        def chain(label: str, kernels: list[tuple[Pair, Pads]]) -> str:
            y = self.unit(x, f"{name}.{label}_1", (768, width), 1)
            for index, (kernel, padding) in enumerate(kernels, start=2):
                out = 192 if index == len(kernels) + 1 else width
                y = self.unit(y, f"{name}.{label}_{index}", (width, out), kernel, padding=padding)
            return y

        one = self.unit(x, f"{name}.branch1x1", (768, 192), 1)
        seven = chain("branch7x7", [wide, tall])
        double = chain("branch7x7dbl", [tall, wide, tall, wide])
        return self.images.concat([one, seven, double, self._pooled(x, name, 768, 192)], f"{name}.out")

    def block_d(self, x: str, name: str) -> str:
        """Halves the size and gives 1280 channels."""
        three = self.unit(x, f"{name}.branch3x3_1", (768, 192), 1)
        three = self.unit(three, f"{name}.branch3x3_2", (192, 320), 3, stride=2)
        seven = self.unit(x, f"{name}.branch7x7x3_1", (768, 192), 1)
        seven = self.unit(seven, f"{name}.branch7x7x3_2", (192, 192), (1, 7), padding=(0, 3))
        seven = self.unit(seven, f"{name}.branch7x7x3_3", (192, 192), (7, 1), padding=(3, 0))
        seven = self.unit(seven, f"{name}.branch7x7x3_4", (192, 192), 3, stride=2)
        return self.images.concat([three, seven, self.images.max_pool(x, f"{name}.pool")], f"{name}.out")

    def block_e(self, x: str, name: str, channels: int) -> str:
        """Parallel 1x3 and 3x1 convolutions (figure 7): 2048 channels."""

        def fan(y: str, label: str, into: int) -> str:
            wide = self.unit(y, f"{name}.{label}a", (into, 384), (1, 3), padding=(0, 1))
            tall = self.unit(y, f"{name}.{label}b", (into, 384), (3, 1), padding=(1, 0))
            return self.images.concat([wide, tall], f"{name}.{label}")

        one = self.unit(x, f"{name}.branch1x1", (channels, 320), 1)
        three = fan(self.unit(x, f"{name}.branch3x3_1", (channels, 384), 1), "branch3x3_2", 384)
        double = self.unit(x, f"{name}.branch3x3dbl_1", (channels, 448), 1)
        double = self.unit(double, f"{name}.branch3x3dbl_2", (448, 384), 3, padding=1)
        double = fan(double, "branch3x3dbl_3", 384)
        return self.images.concat([one, three, double, self._pooled(x, name, channels, 192)], f"{name}.out")

    def _pooled(self, x: str, name: str, channels: int, out: int) -> str:
        averaged = self.images.average_pool(x, f"{name}.averaged", 3, padding=1, counted=1)
        return self.unit(averaged, f"{name}.branch_pool", (channels, out), 1)
