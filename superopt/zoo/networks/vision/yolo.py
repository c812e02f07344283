"""YOLOv3-tiny (Redmon and Farhadi 2018): a detector with outputs at two resolutions."""

from __future__ import annotations

import numpy as np

from superopt.zoo.blueprint import Blueprint
from superopt.zoo.builder import Attribute, GraphBuilder
from superopt.zoo.networks.vision.images import Images

__all__ = ["yolov3_tiny"]

SIDE = 416
CHANNELS = (16, 32, 64, 128, 256)
"""Of the first convolutions; a pooling after each halves height and width."""

OUTPUTS = 3 * (4 + 1 + 80)
"""Three boxes at each position: coordinates, confidence and 80 classes."""


def yolov3_tiny(batch: int) -> Blueprint:
    """[batch, 3, 416, 416] -> [batch, 255, 13, 13] and [batch, 255, 26, 26], before boxes are decoded."""
    graph = GraphBuilder("yolov3-tiny", 13)
    detector = _Detector(graph)
    x = graph.input("input", (batch, 3, SIDE, SIDE))
    into, skipped = 3, x
    for number, channels in enumerate(CHANNELS):
        skipped = detector.layer(x, f"conv{number}", (into, channels), 3)
        x = detector.images.max_pool(skipped, f"pool{number}", kernel=2)
        into = channels
    x = detector.layer(x, "conv5", (into, 512), 3)
    x = detector.images.max_pool(x, "pool5", kernel=2, stride=1, padding=(0, 0, 1, 1))
    x = detector.layer(x, "conv6", (512, 1024), 3)
    shared = detector.layer(x, "conv7", (1024, 256), 1)
    coarse = detector.layer(shared, "conv8", (256, 512), 3)
    graph.output(detector.head(coarse, "coarse", 512), (batch, OUTPUTS, SIDE // 32, SIDE // 32))
    x = detector.layer(shared, "conv9", (256, 128), 1)
    x = detector.images.concat([detector.doubled(x, "upsampled"), skipped], "both")
    x = detector.layer(x, "conv10", (128 + CHANNELS[-1], 256), 3)
    graph.output(detector.head(x, "fine", 256), (batch, OUTPUTS, SIDE // 16, SIDE // 16))
    return graph.blueprint()


class _Detector:
    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self.images = Images(graph)

    def layer(self, x: str, name: str, channels: tuple[int, int], kernel: int) -> str:
        """Convolution, normalisation and a relu with slope 0.1; the image itself has values of both signs."""
        convolved = self.images.linear_conv if channels[0] == 3 else self.images.conv
        x = convolved(x, name, channels, kernel, padding=kernel // 2)
        x = self.images.batch_norm(x, f"{name}.norm", channels[1])
        return self.graph.node("LeakyRelu", [x], f"{name}.active", {"alpha": 0.1})

    def head(self, x: str, name: str, channels: int) -> str:
        """A 1x1 convolution to the numbers that describe boxes."""
        return self.images.conv(x, name, (channels, OUTPUTS), 1, biased=True)

    def doubled(self, x: str, name: str) -> str:
        """Every pixel four times: [n, c, h, w] -> [n, c, 2h, 2w]."""
        scales = self.graph.constant(f"{name}.scales", np.asarray([1, 1, 2, 2], dtype=np.float32))
        attributes: dict[str, Attribute] = {
            "mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric",
        }  # fmt: skip
        return self.graph.node("Resize", [x, "", scales], name, attributes)
