"""Operators of gradients at input shapes: strides, paddings, dilations and groups that leave rows over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from superopt.errors import IllTypedError
from superopt.ir import ElementType, TensorType
from superopt.ops import Operator
from superopt.ops.gradients.convolution import ConvDataGradient, ConvWeightGradient
from superopt.ops.gradients.pooling import AveragePoolGradient, LinearUpsampleGradient, MaxPoolGradient
from superopt.ops.gradients.transposes import (
    ChannelSum,
    LookupGradient,
    MatmulWeightGradient,
    SumTo,
    Unreshape,
)
from superopt.ops.images.convolution import Conv
from superopt.ops.images.pooling import AveragePool, MaxPool
from superopt.ops.images.windows import Padding

Shape = tuple[int, ...]

PADDINGS: tuple[Padding, ...] = ("valid", "same", "same_upper", "same_lower", (1, 0, 2, 1))
IMAGES: tuple[Shape, ...] = ((2, 4, 7, 6), (1, 4, 5, 8))


@dataclass(frozen=True)
class GradientCase:
    """An operator at operand shapes; operands in ``indices`` are whole numbers from 0 to 4."""

    operator: Operator
    shapes: tuple[Shape, ...]
    indices: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.operator!r} {' '.join('x'.join(map(str, shape)) for shape in self.shapes)}"


def float_type(shape: Shape) -> TensorType:
    return TensorType(ElementType.FLOAT, shape)


def result_of(operator: Operator, *shapes: Shape) -> Shape | None:
    """The shape of the result; None where the operator does not accept the shapes."""
    try:
        (result,) = operator.infer(*map(float_type, shapes))
    except IllTypedError:
        return None
    return tuple(int(str(size)) for size in result.shape)


def convolutions() -> Iterator[GradientCase]:
    settings = (
        (image, (outputs, per_group, *kernel), stride, padding, dilation)
        for image in IMAGES
        for outputs, per_group in ((6, 4), (4, 2), (8, 1))
        for kernel in ((3, 3), (1, 1), (2, 3))
        for stride in ((1, 1), (2, 1), (3, 2))
        for padding in PADDINGS
        for dilation in ((1, 1), (2, 1))
    )
    for image, kernel, stride, padding, dilation in settings:
        result = result_of(Conv(stride, padding, dilation), image, kernel)
        if result is not None:
            yield GradientCase(ConvDataGradient(image, stride, padding, dilation), (result, kernel))
            yield GradientCase(ConvWeightGradient(kernel, stride, padding, dilation), (image, result))


def wide_convolutions() -> Iterator[GradientCase]:
    """With enough channels and positions for products per tap, and a kernel for each channel."""
    settings = (
        (image, kernel, stride, padding, dilation)
        for image in ((2, 16, 13, 14), (1, 32, 14, 13))
        for kernel in ((6, image[1], 3, 3), (image[1], 1, 2, 3), (6, image[1], 1, 1), (80, image[1], 1, 1))
        for stride in ((1, 1), (2, 3))
        for padding in ("valid", "same", "same_upper", (1, 0, 2, 1))
        for dilation in ((1, 1), (2, 3))
    )
    for image, kernel, stride, padding, dilation in settings:
        result = result_of(Conv(stride, padding, dilation), image, kernel)
        if result is not None:
            yield GradientCase(ConvWeightGradient(kernel, stride, padding, dilation), (image, result))
            if kernel[2:] == (1, 1):
                yield GradientCase(ConvDataGradient(image, stride, padding, dilation), (result, kernel))


def poolings() -> Iterator[GradientCase]:
    settings = (
        (image, kernel, stride, padding)
        for image in IMAGES
        for kernel in ((3, 3), (2, 2), (1, 3))
        for stride in ((1, 1), (2, 3))
        for padding in PADDINGS
    )
    for image, kernel, stride, padding in settings:
        result = result_of(MaxPool(kernel, stride, padding), image)
        if result is not None:
            yield GradientCase(MaxPoolGradient(kernel, stride, padding), (image, result))
        for counted in (0, 1):
            result = result_of(AveragePool(kernel, stride, padding, counted), image)
            if result is not None:
                yield GradientCase(AveragePoolGradient(kernel, image, stride, padding, counted), (result,))


OTHERS = (
    *(
        GradientCase(SumTo(target), ((2, 3, 4),))
        for target in ((), (4,), (1,), (3, 1), (1, 3, 4), (2, 1, 1), (2, 3, 4))
    ),
    *(GradientCase(ChannelSum(axis), ((2, 3, 4),)) for axis in (0, 1, 2, -1)),
    GradientCase(ChannelSum(0), ((3,),)),
    *(
        GradientCase(MatmulWeightGradient(), (shape, (*shape[:-1], 5)))
        for shape in ((2, 3), (4, 2, 3), (2, 1, 3, 4))
    ),
    *(GradientCase(LookupGradient(6), (shape, (*shape, 3)), (0,)) for shape in ((), (5,), (2, 4))),
    GradientCase(Unreshape((3, 8)), ((2, 3, 4),)),
    *(GradientCase(LinearUpsampleGradient(stride), ((2, 3, 12, 20),)) for stride in ((2, 2), (3, 1), (4, 5))),
)

GRADIENT_CASES = (*convolutions(), *wide_convolutions(), *poolings(), *OTHERS)
