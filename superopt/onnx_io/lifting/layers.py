"""Lift layers: matrix products, convolutions, poolings, normalisations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from superopt.ir.dimensions import Dimension, floor_divide, product
from superopt.ir.graph import Value
from superopt.ir.types import TensorType
from superopt.onnx_io.lifting.elementwise import Lifter, broadcast_shape, channel_axis
from superopt.onnx_io.lifting.shape import reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.base import Operator, axis_of
from superopt.ops.elementwise.activation import Softmax
from superopt.ops.elementwise.affine import Affine, BatchNormScale, BatchNormShift, BiasAdd
from superopt.ops.elementwise.arithmetic import Add, Scale
from superopt.ops.gradients.convolution import ConvDataGradient
from superopt.ops.images.convolution import Conv
from superopt.ops.images.pooling import AveragePool, MaxPool
from superopt.ops.images.transposed import ConvTranspose
from superopt.ops.images.upsampling import Upsample
from superopt.ops.images.windows import Padding
from superopt.ops.matrix import Matmul, Transpose
from superopt.ops.shape import Broadcast, Concat, Reshape, Split

AUTOMATIC_PADDING: Mapping[str, Padding] = {
    "VALID": "valid",
    "SAME_UPPER": "same_upper",
    "SAME_LOWER": "same_lower",
}


def _matmul(site: Site) -> tuple[Value, ...]:
    """A vector on the left is a row, one on the right a column, for which the runtime is faster."""
    left, right = site.type(0), site.type(1)
    if right.rank == 1 < left.rank:
        site.respell()
    operands = [site.value(0), site.value(1)]
    if left.rank == 1:
        operands[0] = site.add(Reshape((1, *left.shape)), operands[0])
    if right.rank == 1:
        operands[1] = site.add(Reshape((*right.shape, 1)), operands[1])
    result = matrix_product(site, *operands)
    kept = site.type_of(result).shape
    kept = kept if right.rank > 1 else kept[:-1]
    kept = kept if left.rank > 1 else (*kept[: max(0, right.rank - 2)], *kept[max(0, right.rank - 2) + 1 :])
    return (reshaped(site, result, kept),)


def matrix_product(site: Site, left: Value, right: Value) -> Value:
    """The product of the matrices of two tensors, whose other axes broadcast."""
    types = (site.type_of(left), site.type_of(right))
    operands = [left, right]
    if all(type_.rank > 2 for type_ in types):
        batch = broadcast_shape(types[0].shape[:-2], types[1].shape[:-2])
        for position, type_ in enumerate(types):
            full = (*batch, *type_.shape[-2:])
            if type_.shape != full:
                operands[position] = site.add(Broadcast(full), operands[position])
    return site.add(Matmul(), *operands)


def _gemm(site: Site) -> tuple[Value, ...]:
    element = site.type(0).element
    operands = [
        site.add(Transpose(), site.value(slot)) if site.integer(flag, 0) else site.value(slot)
        for slot, flag in enumerate(("transA", "transB"))
    ]
    result = site.add(Matmul(), *operands)
    alpha = site.fraction("alpha", 1)
    if alpha != 1:
        result = site.add(Scale(), result, site.number(alpha, element))
    if not site.has(2) or site.fraction("beta", 1) == 0:
        return (result,)
    term = site.value(2)
    beta = site.fraction("beta", 1)
    if beta != 1:
        site.type_of(term)
        term = site.add(Scale(), term, site.number(beta, element))
    return (_gemm_sum(site, result, term),)


def _gemm_sum(site: Site, product: Value, term: Value) -> Value:
    shape = site.type_of(product)
    own = site.type_of(term)
    if site.is_weight(2) and channel_axis(shape, own) == -1:
        vector = term if own.rank == 1 else site.add(Reshape((own.elements,)), term)
        return site.add(BiasAdd(axis=-1), product, vector)
    full = broadcast_shape(shape.shape, own.shape)
    return site.add(Add(), product, term if own.shape == full else site.add(Broadcast(full), term))


def _pair(site: Site, name: str, axes: int) -> tuple[int, int]:
    """An attribute with a number for each axis; of a single axis, which has one row, that for columns."""
    values = site.integers(name)
    if values is None:
        return (1, 1)
    if len(values) != axes:
        raise NotLiftedError(f"{name} has values for {len(values)} axes")
    return (values[0], values[1]) if axes == 2 else (1, values[0])


def _pads(site: Site, axes: int) -> tuple[int, int, int, int]:
    pads = site.integers("pads") or (0,) * 2 * axes
    if len(pads) != 2 * axes:
        raise NotLiftedError(f"pads has values for {len(pads) // 2} axes")
    if any(pad < 0 for pad in pads):
        raise NotLiftedError("padding is negative")
    return (pads[0], pads[1], pads[2], pads[3]) if axes == 2 else (0, pads[0], 0, pads[1])


def _padding(
    site: Site,
    axes: int,
    kernel: tuple[int, int] | None,
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> Padding:
    """``same`` where padding is symmetric and keeps the size, else ``valid``, else explicit numbers."""
    automatic = site.text("auto_pad", "NOTSET")
    if automatic != "NOTSET":
        if automatic not in AUTOMATIC_PADDING:
            raise NotLiftedError(f"auto_pad is {automatic}")
        if automatic != "VALID" and _may_crop(kernel, stride, dilation):
            raise NotLiftedError(f"auto_pad is {automatic}, and strides are longer than windows")
        return AUTOMATIC_PADDING[automatic]
    return padding_of(_pads(site, axes), kernel, dilation)


def padding_of(
    pads: tuple[int, int, int, int], kernel: tuple[int, int] | None, dilation: tuple[int, int]
) -> Padding:
    """The margins at the top, left, bottom and right; a word where nothing is added, or where they are
    symmetric and keep the size."""
    if kernel is not None:
        extents = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        if all(extent % 2 == 0 for extent in extents):
            same = tuple(extent // 2 for extent in extents)
            if pads == same + same:
                return "same"
    return pads if any(pads) else "valid"


def _may_crop(kernel: tuple[int, int] | None, stride: tuple[int, int], dilation: tuple[int, int]) -> bool:
    """Whether automatic padding may be below -1 on an axis: ONNX Runtime crops such an image on both ends."""
    extents = [d * (k - 1) + 1 for k, d in zip(kernel or (1, 1), dilation, strict=True)]
    return any(extent < step - 1 for extent, step in zip(extents, stride, strict=True))


_BLOCK = 16
"""Of so many channels, or fewer, ONNX Runtime makes blocks in its layout for images. Sequences have none."""

_SHORT = 8
"""Positions of a sequence up to which its layout does not matter."""


def _respell_in_blocks(site: Site, *channels: Dimension) -> None:
    """Declares that an operator over a sequence is faster as one over an image of one row, if all these
    channels are divided into blocks."""
    own = site.type(0)
    length = own.shape[-1]
    is_short = isinstance(length, int) and length <= _SHORT
    if own.rank == 3 and not is_short and all(isinstance(c, int) and c % _BLOCK == 0 for c in channels):
        site.respell()


def _axes_of(type_: TensorType, what: str) -> int:
    """The number of axes of windows: 2, or 1, which stands for an image of one row."""
    axes = type_.rank - 2
    if axes not in (1, 2):
        raise NotLiftedError(f"{what} is over {axes} axes, not 2")
    return axes


def _image(site: Site, value: Value) -> Value:
    """The tensor as an image: of one row, if it has none."""
    type_ = site.type_of(value)
    if type_.rank != 3:
        return value
    n, channels, length = type_.shape
    return site.add(Reshape((n, channels, 1, length)), value)


def _over_axes(site: Site, axes: int, image: Value) -> Value:
    """The image without its row, for windows over one axis."""
    if axes == 2:
        return image
    n, channels, _, length = site.type_of(image).shape
    return site.add(Reshape((n, channels, length)), image)


def convolution(site: Site) -> tuple[Value, ...]:
    """Over an image, or a sequence as an image of one row."""
    axes = _axes_of(site.type(0), "the convolution")
    stride, dilation = _pair(site, "strides", axes), _pair(site, "dilations", axes)
    declared = site.integers("kernel_shape")
    if declared is not None and declared != site.type(1).shape[2:]:
        raise NotLiftedError(f"kernel_shape {declared} is not that of the weight")
    image, kernel = _image(site, site.value(0)), _image(site, site.value(1))
    data, weight = site.type_of(image), site.type_of(kernel)
    sizes = weight.shape[2:]
    known = (sizes[0], sizes[1]) if isinstance(sizes[0], int) and isinstance(sizes[1], int) else None
    operator = Conv(stride, _padding(site, axes, known, stride, dilation), dilation)
    if operator.groups(data, weight) != site.integer("group", 1):
        raise NotLiftedError("the number of groups does not follow from the shapes")
    is_depthwise = weight.shape[1] == 1 and weight.shape[0] == data.shape[1]
    groups = 1 if is_depthwise else site.integer("group", 1)
    _respell_in_blocks(site, floor_divide(data.shape[1], groups), floor_divide(weight.shape[0], groups))
    if axes == 2:
        kernel = _cut_as_joined(site, data, weight)
    result = site.add(operator, image, kernel)
    if site.has(2):
        site.type(2)
        result = site.add(BiasAdd(axis=1), result, site.value(2))
    return (_over_axes(site, axes, result),)


def _conv_transpose(site: Site) -> tuple[Value, ...]:
    axes = _axes_of(site.type(0), "the transposed convolution")
    if (
        site.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID")
        or site.integers("output_shape") is not None
    ):
        raise NotLiftedError("its margins follow from the size of its result")
    declared = site.integers("kernel_shape")
    if declared is not None and declared != site.type(1).shape[2:]:
        raise NotLiftedError(f"kernel_shape {declared} is not that of the weight")
    stride, dilation = _pair(site, "strides", axes), _pair(site, "dilations", axes)
    kept = site.integers("output_padding") or (0,) * axes
    cut = _pads(site, axes) if site.text("auto_pad", "NOTSET") == "NOTSET" else (0, 0, 0, 0)
    top, left, bottom, right = cut
    below, beside = kept if len(kept) == 2 else (0, *kept)
    margins = (top, left, bottom - below, right - beside)
    groups = site.integer("group", 1)
    _respell_in_blocks(site)
    image, kernel = _image(site, site.value(0)), _image(site, site.value(1))
    operator: Operator = ConvTranspose(stride, _cut(site, stride, dilation, margins), dilation)
    if groups != 1 or min(margins) < 0:
        plain = ConvTranspose(stride, "valid", dilation)
        (uncut,) = plain.infer_whole(site.type_of(image), site.type_of(kernel))
        n, each, height, width = uncut.shape
        shape = (n, each * groups, height - margins[0] - margins[2], width - margins[1] - margins[3])
        operator = ConvDataGradient(shape, stride, cut if any(cut) else "valid", dilation)
    result = site.add(operator, image, kernel)
    if site.has(2):
        site.type(2)
        result = site.add(BiasAdd(axis=1), result, site.value(2))
    return (_over_axes(site, axes, result),)


def _cut(
    site: Site, stride: tuple[int, int], dilation: tuple[int, int], margins: tuple[int, int, int, int]
) -> Padding:
    """The margins of a transposed convolution, as a word where nothing is cut or where it keeps the size."""
    kernel = site.type(1).shape[2:]
    sizes = kernel if len(kernel) == 2 else (1, *kernel)
    same = tuple((k - 1) * d for k, d in zip(sizes, dilation, strict=True))
    if stride == (1, 1) and any(margins) and tuple(2 * cut for cut in margins) == same + same:
        return "same"
    return margins if any(margins) else "valid"


def _cut_as_joined(site: Site, data: TensorType, weight: TensorType) -> Value:
    """Return the kernel, divided if the image is a concat with upsampled parts. Rules divide kernels only
    where something was concatenated, and convolving upsampled parts separately, before upsampling, is
    profitable."""
    parts = site.joined(0, 1)
    is_whole = data.shape[1] == weight.shape[1]
    if not is_whole or not site.is_weight(1) or not any(isinstance(o, Upsample) for o, _ in parts):
        return site.value(1)
    sizes = tuple(type_.shape[1] for _, type_ in parts)
    return site.add(Concat(1), *site.add_many(Split(1, sizes), site.value(1)))


def _is_filled(site: Site, slot: int, number: int) -> bool:
    content = site.constant(slot)
    return content is not None and bool((content == number).all())


def _batch_normalization(site: Site) -> tuple[Value | None, ...]:
    if site.integer("training_mode", 0) or len([name for name in site.node.output if name]) > 1:
        raise NotLiftedError("it is in training mode")
    if not site.integer("spatial", 1):
        raise NotLiftedError("its statistics are not per channel")
    if site.type(0).rank < 2:
        raise NotLiftedError("the input has no channels")
    epsilon = site.fraction("epsilon", Fraction(1, 100000))
    if epsilon == 0 and _is_filled(site, 3, 0) and _is_filled(site, 4, 1):
        return (site.add(Affine(axis=1), site.value(0), site.value(1), site.value(2)),)
    for slot in range(1, 5):
        site.type(slot)
    if not (site.is_weight(3) and site.is_weight(4)):
        raise NotLiftedError("its statistics are computed at run time")
    factor = site.add(BatchNormScale(epsilon), site.value(1), site.value(4))
    term = site.add(BatchNormShift(), factor, site.value(2), site.value(3))
    return (site.add(Affine(axis=1), site.value(0), factor, term),)


def softmax(operator: Callable[[int], Operator]) -> Lifter:
    """Along any axis as it is."""

    def lifter(site: Site) -> tuple[Value, ...]:
        data, axis = normalised(site)
        return (reshaped(site, site.add(operator(axis), data), site.type(0).shape),)

    return lifter


def normalised(site: Site) -> tuple[Value, int]:
    """The operand of a softmax and its axis. Before operator set 13 it spans all axes from one on, which are
    joined."""
    own, data = site.type(0), site.value(0)
    if site.opset >= 13:
        return data, site.integer("axis", -1)
    axis = axis_of(site.node.op_type, site.integer("axis", 1), own.rank)
    if any(size != 1 for size in own.shape[axis + 1 :]):
        data = reshaped(site, data, (*own.shape[:axis], product(own.shape[axis:])))
    return data, axis


def window(site: Site, axes: int) -> tuple[tuple[int, int], tuple[int, int], Padding]:
    """Sizes, steps and padding of the windows of a pooling. Raises NotLiftedError."""
    if _pair(site, "dilations", axes) != (1, 1):
        raise NotLiftedError("its windows are dilated")
    kernel, stride = _pair(site, "kernel_shape", axes), _pair(site, "strides", axes)
    if site.integer("ceil_mode", 0) and site.text("auto_pad", "NOTSET") == "NOTSET":
        return kernel, stride, _rounded_up(site, axes, kernel, stride)
    return kernel, stride, _padding(site, axes, kernel, stride)


def _rounded_up(site: Site, axes: int, kernel: tuple[int, int], stride: tuple[int, int]) -> Padding:
    """Expresses rounding up of sizes (ceil_mode) as padding at the end, which neither a maximum nor a mean
    counts."""
    pads = list(_pads(site, axes))
    sizes = (1, *site.type(0).shape[2:])[-2:]
    widened = False
    for axis, size in enumerate(sizes):
        if not isinstance(size, int):
            raise NotLiftedError("it rounds an unknown size up (ceil_mode)")
        room = size + pads[axis] + pads[axis + 2] - kernel[axis]
        missing = -room % stride[axis]
        if missing and room + missing < size + pads[axis]:
            pads[axis + 2] += missing
            widened = True
    if not widened:
        return _padding(site, axes, kernel, stride)
    if site.integer("count_include_pad", 0):
        raise NotLiftedError("it rounds sizes up (ceil_mode) and counts padding")
    if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)):
        raise NotLiftedError("it rounds sizes up (ceil_mode) by a whole window")
    return (pads[0], pads[1], pads[2], pads[3])


def _max_pool(site: Site) -> tuple[Value | None, ...]:
    site.require_unused(1)
    axes = _axes_of(site.type(0), "the pooling")
    _respell_in_blocks(site)
    pooled = site.add(MaxPool(*window(site, axes)), _image(site, site.value(0)))
    return (_over_axes(site, axes, pooled), None)


def _average_pool(site: Site) -> tuple[Value, ...]:
    counted = site.integer("count_include_pad", 0)
    axes = _axes_of(site.type(0), "the pooling")
    _respell_in_blocks(site, site.type(0).shape[1])
    pooled = site.add(AveragePool(*window(site, axes), counted), _image(site, site.value(0)))
    return (_over_axes(site, axes, pooled),)


LAYERS: Mapping[str, Lifter] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Softmax": softmax(Softmax),
}
