"""Lift convolutions of volumes, as convolutions of images.

Where a kernel reads a single row and column, depth and positions are the axes of an image. Any other kernel
convolves the slices of the volume: each slice, and those around it that the kernel reads, are joined along
their channels. ONNX Runtime convolves volumes about as fast; what gains is that images are convolved by fewer
multiplications (docs/bilinear.md), from some number of channels on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from superopt.ir.dimensions import product
from superopt.ir.graph import Value
from superopt.onnx_io.lifting.cuts import between, surrounded
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.layers import convolution, padding_of
from superopt.onnx_io.lifting.shape import permuted, reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.elementwise.affine import BiasAdd
from superopt.ops.images.convolution import Conv
from superopt.ops.shape import Concat

_RANK = 5
"""Samples, channels, depth, rows and columns."""

_ENOUGH = 64
"""Channels from which on convolving slices by fewer multiplications gains more than joining them costs."""

_SLICES_FIRST = (0, 2, 1, 3, 4)


@dataclass(frozen=True, slots=True)
class _Window:
    """Sizes, margins, strides and dilations of a kernel, along depth, rows and columns."""

    sizes: tuple[int, ...]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]

    @staticmethod
    def of(site: Site) -> _Window:
        """The window of a node. Raises NotLiftedError where its numbers are not known."""
        if site.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            raise NotLiftedError("it convolves a volume with margins that follow from its size")
        sizes = tuple(size for size in site.type(1).shape[2:] if isinstance(size, int))
        pads = site.integers("pads") or (0,) * 6
        strides, dilations = (site.integers(name) or (1,) * 3 for name in ("strides", "dilations"))
        if (len(sizes), len(pads), len(strides), len(dilations)) != (3, 6, 3, 3) or min(pads) < 0:
            raise NotLiftedError("its window is not one of a volume")
        return _Window(sizes, pads[:3], pads[3:], strides, dilations)

    @property
    def is_along_depth(self) -> bool:
        """Whether it reads single rows and columns, and all of them."""
        flat = (*self.sizes[1:], *self.strides[1:])
        return set(flat) == {1} and not any((*self.before[1:], *self.behind[1:]))


def _conv(site: Site) -> tuple[Value, ...]:
    if site.type(0).rank != _RANK:
        return convolution(site)
    window = _Window.of(site)
    if not window.is_along_depth:
        outputs, channels = site.type(1).shape[:2]
        if set(window.strides) != {1}:
            raise NotLiftedError("it convolves a volume, with strides")
        if not isinstance(outputs, int) or not isinstance(channels, int) or min(outputs, channels) < _ENOUGH:
            raise NotLiftedError(f"it convolves a volume of fewer than {_ENOUGH} channels")
    return _volume(site, window)


def _conv_for_gradients(site: Site) -> tuple[Value, ...]:
    return _volume(site, _Window.of(site)) if site.type(0).rank == _RANK else convolution(site)


def _volume(site: Site, window: _Window) -> tuple[Value, ...]:
    own, kernel = site.type(0), site.type(1)
    declared = site.integers("kernel_shape")
    if declared is not None and declared != window.sizes:
        raise NotLiftedError(f"kernel_shape {declared} is not that of the weight")
    if site.integer("group", 1) != 1 or own.shape[1] != kernel.shape[1]:
        raise NotLiftedError("it convolves a volume in groups")
    if window.is_along_depth:
        return (_along_depth(site, window),)
    return (_by_slices(site, window),)


def _along_depth(site: Site, window: _Window) -> Value:
    (n, c, depth, h, w), outputs = site.type(0).shape, site.type(1).shape[0]
    image = reshaped(site, site.value(0), (n, c, depth, product((h, w))))
    kernel = reshaped(site, site.value(1), (outputs, c, window.sizes[0], 1))
    found = _convolved(site, window, image, kernel, 0)
    made = site.type_of(found).shape
    return reshaped(site, found, (*made[:3], h, w))


def _by_slices(site: Site, window: _Window) -> Value:
    (n, c, depth, h, w), outputs = site.type(0).shape, site.type(1).shape[0]
    (taps, *sizes), step = window.sizes, window.dilations[0]
    if window.strides[0] != 1 or not isinstance(depth, int):
        raise NotLiftedError("it convolves a volume with a stride, or of an open depth")
    margins = window.before[0], window.behind[0]
    whole = depth + sum(margins)
    made = whole - step * (taps - 1)
    if made < 1:
        raise NotLiftedError("its result has no slices")
    slices = surrounded(site, permuted(site, site.value(0), _SLICES_FIRST), 1, margins, 0)
    joined = slices
    if taps > 1:
        read = [between(site, slices, 1, step * tap, step * tap + made, whole) for tap in range(taps)]
        joined = site.add(Concat(2), *read)
    channels = product((taps, c))
    images = reshaped(site, joined, (product((n, made)), channels, h, w))
    kernel = permuted(site, site.value(1), _SLICES_FIRST)
    kernel = reshaped(site, kernel, (outputs, channels, *sizes))
    found = _convolved(site, window, images, kernel, 1)
    by_slice = reshaped(site, found, (n, made, *site.type_of(found).shape[1:]))
    return permuted(site, by_slice, _SLICES_FIRST)


def _convolved(site: Site, window: _Window, image: Value, kernel: Value, first: int) -> Value:
    """The convolution of an image along two neighbouring axes of the window, and the bias."""

    def pair(numbers: tuple[int, ...]) -> tuple[int, int]:
        return numbers[first], numbers[first + 1]

    dilation = pair(window.dilations) if first else (window.dilations[0], 1)
    padding = padding_of(pair(window.before) + pair(window.behind), pair(window.sizes), dilation)
    found = site.add(Conv(pair(window.strides), padding, dilation), image, kernel)
    if site.has(2):
        site.type(2)
        found = site.add(BiasAdd(axis=1), found, site.value(2))
    return found


CONVOLUTIONS: Mapping[str, Lifter] = {"Conv": _conv}
CONVOLUTIONS_FOR_GRADIENTS: Mapping[str, Lifter] = {"Conv": _conv_for_gradients}
"""Lifters where gradients are asked for, which volumes of few channels have, too."""

__all__ = ["CONVOLUTIONS", "CONVOLUTIONS_FOR_GRADIENTS"]
