"""Emit the gradient of a convolution with respect to its kernel, in the form that ONNX Runtime 1.31 computes
fastest on a CPU for the sizes at hand.

A *tap* is one position (i, j) of the kernel. Its gradient is the product of the cotangent, as a matrix with a
row per output channel, with the transposed matrix of the part of the image that the tap meets. Measured for
the kernels of ResNet-50 and MobileNet-v3 at batch 4 on one core, products per tap take 0.1 to 0.6 of the time
of one convolution of the image by the cotangent; with few channels, or with strides and a kernel for each
channel, that convolution is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from superopt.ir.dimensions import Dimension
from superopt.ir.graph import Node
from superopt.onnx_io.emit.recipes import Emission, OnnxAttribute, Operand, Recipe, Write, Writer, known
from superopt.ops.gradients.convolution import ConvWeightGradient

PRODUCTS_SINCE = 13
"""The operator set since which Pad, Slice and ReduceSum have sizes and axes as operands."""

_LEAST_CHANNELS = 16
"""Products per tap need as many channels of the image."""

_LEAST_POSITIONS = 64
"""Products per tap need as many positions of a window, in all samples together."""

_LEAST_CHANNEL_POSITIONS = 144
"""Element-wise products per tap need as many positions of a window."""

_EXCHANGED = (1, 0, 2, 3)


@dataclass(frozen=True, slots=True)
class KernelGeometry:
    """The sizes of a convolution: ``counts`` are the positions of its window by axis; ``needed`` are rows
    and columns that windows reach beyond the bottom and right of the image: negative where it is larger."""

    samples: Dimension
    channels: int
    outputs: int
    groups: int
    image: tuple[int, int]
    counts: tuple[int, int]
    kernel: tuple[int, int]
    leading: tuple[int, int]
    needed: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]

    @staticmethod
    def of(emission: Emission, node: Node) -> KernelGeometry:
        """The sizes of a gradient; raises UnsupportedError where they are not known."""
        operator = node.operator
        assert isinstance(operator, ConvWeightGradient)
        data, cotangent = (emission.type(value) for value in node.inputs)
        channels, *image = (known(operator.name, size) for size in data.shape[1:])
        outputs, *counts = (known(operator.name, size) for size in cotangent.shape[1:])
        per_group, *kernel = (known(operator.name, size) for size in operator.shape[1:])
        top, left, _, _ = operator.margins((image[0], image[1]), (kernel[0], kernel[1]))
        needed = [
            dilation * (size - 1) + stride * (count - 1) + 1 - whole - margin
            for dilation, size, stride, count, whole, margin in zip(
                operator.dilation, kernel, operator.stride, counts, image, (top, left), strict=True
            )
        ]
        return KernelGeometry(
            samples=data.shape[0],
            channels=channels,
            outputs=outputs,
            groups=channels // per_group,
            image=(image[0], image[1]),
            counts=(counts[0], counts[1]),
            kernel=(kernel[0], kernel[1]),
            leading=(top, left),
            needed=(needed[0], needed[1]),
            stride=operator.stride,
            dilation=operator.dilation,
        )

    @property
    def positions(self) -> int:
        """The positions of a window in one sample."""
        return self.counts[0] * self.counts[1]

    @property
    def per_group(self) -> int:
        """The channels of a group."""
        return self.channels // self.groups

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """The padding that the windows reach: top, left, bottom, right."""
        return (*self.leading, max(self.needed[0], 0), max(self.needed[1], 0))

    @property
    def taps(self) -> Iterator[tuple[int, int]]:
        """The kernel's positions in row-major order, dilated."""
        for row in range(self.kernel[0]):
            for column in range(self.kernel[1]):
                yield row * self.dilation[0], column * self.dilation[1]

    @property
    def reads_everything(self) -> bool:
        """Whether a kernel of one element reads every element of the image, in its order."""
        return self.kernel == (1, 1) and self.counts == self.image and not any(self.pads)


def conv_weight_gradient(emission: Emission, node: Node) -> Recipe:
    """One of the forms below, by sizes."""
    sizes = KernelGeometry.of(emission, node)
    return Recipe(node.values, tuple(map(Operand, node.inputs)), _form(sizes, emission.opset))


def _form(sizes: KernelGeometry, opset: int) -> Write:
    samples = sizes.samples if isinstance(sizes.samples, int) else 1
    if opset < PRODUCTS_SINCE:
        return _by_convolution(sizes)
    if sizes.groups == 1 and sizes.kernel == (1, 1):
        joint = sizes.channels * sizes.outputs
        saves_transposing = sizes.positions * (sizes.channels + sizes.outputs) > joint
        return _by_samples(sizes) if saves_transposing or samples == 1 else _by_taps(sizes)
    if sizes.groups == 1 and sizes.channels >= _LEAST_CHANNELS:
        is_small = samples * sizes.positions < _LEAST_POSITIONS
        return _by_convolution(sizes) if is_small else _by_taps(sizes)
    is_depthwise = sizes.groups == sizes.channels == sizes.outputs and sizes.groups > 1
    if is_depthwise and sizes.stride == (1, 1) and sizes.positions >= _LEAST_CHANNEL_POSITIONS:
        return _by_channels(sizes)
    return _by_convolution(sizes)


def _by_samples(sizes: KernelGeometry) -> Write:
    """A matrix product per sample and their sum, for a kernel of one element: nothing is transposed."""

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        (met,) = _met(writer, operands[0], sizes)
        columns, transposed, rows = (writer.temporary(hint) for hint in ("columns", "transposed", "rows"))
        products, total = writer.temporary("products"), writer.temporary("total")
        _reshape(writer, met, columns, (-1, sizes.channels, sizes.positions))
        _reshape(writer, operands[1], rows, (-1, sizes.outputs, sizes.positions))
        writer.node("Transpose", [columns], [transposed], {"perm": (0, 2, 1)})
        writer.node("MatMul", [rows, transposed], [products])
        if sizes.samples != 1:
            _sum(writer, products, total, (0,))
            products = total
        _reshape(writer, products, outputs[0], (sizes.outputs, sizes.channels, 1, 1))

    return write


def _by_taps(sizes: KernelGeometry) -> Write:
    """A matrix product of all samples for each tap."""

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        image, cotangent, rows = (writer.temporary(hint) for hint in ("image", "cotangent", "rows"))
        writer.node("Transpose", [operands[0]], [image], {"perm": _EXCHANGED})
        writer.node("Transpose", [operands[1]], [cotangent], {"perm": _EXCHANGED})
        _reshape(writer, cotangent, rows, (sizes.outputs, -1))
        products: list[str] = []
        for met in _met(writer, image, sizes):
            columns, product = writer.temporary("columns"), writer.temporary("product")
            _reshape(writer, met, columns, (sizes.channels, -1))
            writer.node("Gemm", [rows, columns], [product], {"transB": 1})
            products.append(product)
        _join(writer, products, outputs[0], sizes)

    return write


def _join(writer: Writer, products: Sequence[str], output: str, sizes: KernelGeometry) -> None:
    """Matrices [o, c], one for each tap, as [o, c, kh, kw]."""
    shape = (sizes.outputs, sizes.channels, *sizes.kernel)
    if len(products) == 1:
        _reshape(writer, products[0], output, shape)
        return
    layers = [writer.temporary("layer") for _ in products]
    for product, layer in zip(products, layers, strict=True):
        _reshape(writer, product, layer, (1, sizes.outputs, sizes.channels))
    joined, transposed = writer.temporary("joined"), writer.temporary("kernel")
    writer.node("Concat", layers, [joined], {"axis": 0})
    writer.node("Transpose", [joined], [transposed], {"perm": (1, 2, 0)})
    _reshape(writer, transposed, output, shape)


def _by_channels(sizes: KernelGeometry) -> Write:
    """For a kernel for each channel: an element-wise product and its sum for each tap."""

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        columns: list[str] = []
        for met in _met(writer, operands[0], sizes):
            hints = ("product", "positions", "sum", "column")
            product, positions, total, column = (writer.temporary(hint) for hint in hints)
            writer.node("Mul", [met, operands[1]], [product])
            _reshape(writer, product, positions, (-1, sizes.channels, sizes.positions))
            _sum(writer, positions, total, (0, 2))
            _reshape(writer, total, column, (sizes.channels, 1))
            columns.append(column)
        joined = writer.temporary("joined")
        writer.node("Concat", columns, [joined], {"axis": 1})
        _reshape(writer, joined, outputs[0], (sizes.channels, 1, *sizes.kernel))

    return write


def _met(writer: Writer, image: str, sizes: KernelGeometry) -> Iterator[str]:
    """For each tap, the elements of the image that it meets: [..., positions of the window]."""
    if sizes.reads_everything:
        yield image
        return
    top, left, bottom, right = sizes.pads
    if any(sizes.pads):
        padded = writer.temporary("padded")
        writer.node("Pad", [image, _sizes(writer, (0, 0, top, left, 0, 0, bottom, right))], [padded])
        image = padded
    for starts in sizes.taps:
        ends = [
            start + stride * (count - 1) + 1
            for start, stride, count in zip(starts, sizes.stride, sizes.counts, strict=True)
        ]
        met = writer.temporary("met")
        bounds = [_sizes(writer, numbers) for numbers in (starts, ends, (2, 3), sizes.stride)]
        writer.node("Slice", [image, *bounds], [met])
        yield met


def _by_convolution(sizes: KernelGeometry) -> Write:
    """A convolution of the image by the cotangent, samples and channels exchanged, strides and dilations
    exchanged."""
    attributes: dict[str, OnnxAttribute] = {
        "dilations": sizes.stride,
        "group": sizes.groups,
        "kernel_shape": sizes.counts,
        "pads": sizes.pads,
        "strides": sizes.dilation,
    }

    def write(writer: Writer, operands: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        exchanged = _by_channel(writer, operands[0], sizes)
        kernels, products = writer.temporary("kernels"), writer.temporary("products")
        writer.node("Transpose", [operands[1]], [kernels], {"perm": _EXCHANGED})
        writer.node("Conv", [exchanged, kernels], [products], attributes)
        if any(margin < 0 for margin in sizes.needed):
            cut = writer.temporary("cut")
            bounds = [_sizes(writer, numbers) for numbers in ((0, 0), sizes.kernel, (2, 3))]
            writer.node("Slice", [products, *bounds], [cut])
            products = cut
        writer.node("Transpose", [products], outputs, {"perm": _EXCHANGED})

    return write


def _by_channel(writer: Writer, operand: str, sizes: KernelGeometry) -> str:
    """[n, groups c, h, w] as [c, groups n, h, w]."""
    exchanged = writer.temporary("exchanged")
    if sizes.groups == 1:
        writer.node("Transpose", [operand], [exchanged], {"perm": _EXCHANGED})
        return exchanged
    apart, turned = writer.temporary("apart"), writer.temporary("turned")
    _reshape(writer, operand, apart, (-1, sizes.groups, sizes.per_group, *sizes.image))
    writer.node("Transpose", [apart], [turned], {"perm": (2, 1, 0, 3, 4)})
    _reshape(writer, turned, exchanged, (sizes.per_group, -1, *sizes.image))
    return exchanged


def _reshape(writer: Writer, operand: str, output: str, shape: Sequence[int]) -> None:
    writer.node("Reshape", [operand, _sizes(writer, shape)], [output])


def _sum(writer: Writer, operand: str, output: str, axes: Sequence[int]) -> None:
    writer.node("ReduceSum", [operand, _sizes(writer, axes)], [output], {"keepdims": 0})


def _sizes(writer: Writer, numbers: Sequence[int]) -> str:
    return writer.constant(np.array(list(numbers), np.int64), "sizes")


__all__ = ["conv_weight_gradient"]
