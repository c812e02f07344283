"""Single convolutions on which ``python -m benchmarks bilinear`` measures what bilinear algorithms gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution with bias and Relu over one image, sequence or volume, with half of its taps as
    padding."""

    name: str
    channels: int
    outputs: int
    sizes: tuple[int, ...]
    taps: tuple[int, ...]
    groups: int = 1


LAYERS = (
    Layer("3x3, 64 to 64, 56 x 56", 64, 64, (56, 56), (3, 3)),
    Layer("3x3, 128 to 128, 28 x 28", 128, 128, (28, 28), (3, 3)),
    Layer("3x3, 96 to 96, 52 x 52", 96, 96, (52, 52), (3, 3)),
    Layer("3x3, 96 to 32, 80 x 80", 96, 32, (80, 80), (3, 3)),
    Layer("3x3, 64 to 64, 160 x 160", 64, 64, (160, 160), (3, 3)),
    Layer("3x3, 256 to 256, 28 x 28", 256, 256, (28, 28), (3, 3)),
    Layer("3x3, 512 to 512, 28 x 28", 512, 512, (28, 28), (3, 3)),
    Layer("5x5, 64 to 64, 56 x 56", 64, 64, (56, 56), (5, 5)),
    Layer("5 taps, 256 to 512, length 512", 256, 512, (512,), (5,)),
    Layer("7 taps, 64 to 64, length 4000", 64, 64, (4000,), (7,)),
    Layer("3 taps, 512 to 512, length 256", 512, 512, (256,), (3,)),
    Layer("9 taps, 256 to 1024, length 512", 256, 1024, (512,), (9,)),
    Layer("11 taps, 128 to 128, length 4000", 128, 128, (4000,), (11,)),
    Layer("128 taps, 768 in 16 groups, length 499", 768, 768, (499,), (128,), 16),
    Layer("9x9, 64 to 64, 56 x 56", 64, 64, (56, 56), (9, 9)),
    Layer("3x3x3, 64 to 64, 16 x 32 x 32", 64, 64, (16, 32, 32), (3, 3, 3)),
    Layer("3x3x3, 128 to 128, 8 x 28 x 28", 128, 128, (8, 28, 28), (3, 3, 3)),
    Layer("3x3x3, 256 to 256, 8 x 16 x 16", 256, 256, (8, 16, 16), (3, 3, 3)),
)


def write_layers(layers: Sequence[Layer], path: Path) -> None:
    """Writes the layers as a model, one after the other."""
    random = np.random.default_rng(0)
    first = layers[0]
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    read, sizes = "x", list(first.sizes)
    for number, layer in enumerate(layers):
        channels = layer.channels // layer.groups
        fan = channels * int(np.prod(layer.taps))
        kernel = random.standard_normal((layer.outputs, channels, *layer.taps)) * np.sqrt(2 / fan)
        bias = random.standard_normal(layer.outputs) / 10
        names = (f"weight{number}", f"bias{number}")
        for name, array in zip(names, (kernel, bias), strict=True):
            weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        pads = [tap // 2 for tap in layer.taps] * 2
        attributes = {"pads": pads, "group": layer.groups}
        nodes.append(helper.make_node("Conv", [read, *names], [f"sum{number}"], **attributes))
        sizes = [size + tap // 2 * 2 - tap + 1 for size, tap in zip(sizes, layer.taps, strict=True)]
        read = f"y{number}"
        nodes.append(helper.make_node("Relu", [f"sum{number}"], [read]))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, first.channels, *first.sizes])
    made = helper.make_tensor_value_info(read, TensorProto.FLOAT, [1, layers[-1].outputs, *sizes])
    graph = helper.make_graph(nodes, "layers", [given], [made], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())


__all__ = ["LAYERS", "Layer", "write_layers"]
