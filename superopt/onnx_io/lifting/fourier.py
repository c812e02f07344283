"""Lift discrete Fourier transforms of a known length: products with their matrix.

ONNX Runtime transforms lengths that are no power of two by longer transforms, ten times as slowly as by a
product; of powers of two, short ones (``benchmarks composed``).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from superopt.ir.dimensions import floor_divide
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.linear_maps import mapped
from superopt.onnx_io.lifting.shape import permuted, reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.base import axis_of
from superopt.ops.images.convolution import Conv

_LONGEST, _LONGEST_POWER = 1024, 512
"""Lengths up to which a product is faster: of any, and of a power of two."""

_AXIS_AS_OPERAND = 20
"""The operator set since which the axis of DFT is an operand."""

Weights = npt.NDArray[np.float64]


def _dft(site: Site) -> tuple[Value, ...]:
    """Along the axis before that of real and imaginary parts."""
    own, axis = site.type(0), _axis(site)
    is_inverse, is_half = bool(site.integer("inverse", 0)), bool(site.integer("onesided", 0))
    parts = own.shape[-1]
    if own.rank < 2 or axis != own.rank - 2 or parts not in (1, 2):
        raise NotLiftedError("it does not transform the rows of a tensor")
    if is_half and (is_inverse or parts == 2):
        raise NotLiftedError("it completes half of a spectrum")
    length = own.shape[axis]
    if site.has(1) and site.constant_integers(1, "its length") != (length,):
        raise NotLiftedError("it pads or cuts what it transforms")
    size = _product_length(own, length)
    basis = _basis(size, size // 2 + 1 if is_half else size)
    if is_inverse:
        basis = basis.conj() / size
    matrix = _real(basis) if parts == 2 else _interleaved(basis)
    site.respell()
    samples = own.shape[:-2]
    rows, made = (*samples, size * parts), (*samples, basis.shape[1], 2)
    return (mapped(site, site.value(0), rows, [(own.rank - 2, matrix)], made),)


def _stft(site: Site) -> tuple[Value, ...]:
    """The windowed transforms of sections of a real signal: a convolution of a sequence."""
    own = site.type(0)
    if own.rank not in (2, 3) or (own.rank == 3 and own.shape[2] != 1):
        raise NotLiftedError("it does not transform real signals")
    (step,) = site.constant_integers(1, "its step")
    window, lengths = site.constant(2), site.constant_integers(3, "its length") if site.has(3) else ()
    if site.has(2) and window is None:
        raise NotLiftedError("its window is computed at run time")
    if step < 1 or (window is None and not lengths):
        raise NotLiftedError("its sections have no length")
    size = _product_length(own, lengths[0] if lengths else len(np.asarray(window)))
    factors = np.ones(size) if window is None else np.asarray(window, np.float64)
    if factors.shape != (size,):
        raise NotLiftedError("its window has another length than its sections")
    basis = _basis(size, size // 2 + 1 if site.integer("onesided", 1) else size)
    kernel = _interleaved(basis * factors[:, np.newaxis]).T
    samples, signal = own.shape[0], own.shape[1]
    row = reshaped(site, site.value(0), (samples, 1, 1, signal))
    weight = site.array(kernel.reshape(len(kernel), 1, 1, size))
    found = site.add(Conv(stride=(1, step)), row, weight)
    sections = floor_divide(signal - size, step) + 1
    site.respell()
    by_section = permuted(site, reshaped(site, found, (samples, len(kernel), sections)), (0, 2, 1))
    return (reshaped(site, by_section, (samples, sections, basis.shape[1], 2)),)


def _axis(site: Site) -> int:
    rank = site.type(0).rank
    if site.opset >= _AXIS_AS_OPERAND:
        axes = site.constant_integers(2, "its axis") if site.has(2) else (-2,)
    else:
        axes = (site.integer("axis", 1),)
    return axis_of("dft", axes[0], rank)


def _product_length(own: TensorType, length: object) -> int:
    """The length of a transform that is faster as a product."""
    if own.element is not ElementType.FLOAT:
        raise NotLiftedError("it does not transform numbers of single precision")
    if not isinstance(length, int) or length < 1:
        raise NotLiftedError("its length is only known at run time")
    is_power = length & (length - 1) == 0
    if length > (_LONGEST_POWER if is_power else _LONGEST):
        raise NotLiftedError("it is faster than a product with the matrix of the transform")
    return length


def _basis(size: int, made: int) -> npt.NDArray[np.complex128]:
    """[size, made]: the powers of a root of unity."""
    angles = np.outer(np.arange(size), np.arange(made)) % size
    return np.exp(-2j * np.pi * angles / size)


def _interleaved(basis: npt.NDArray[np.complex128]) -> Weights:
    """[size, 2 made]: of each result the real and then the imaginary part."""
    return np.stack((basis.real, basis.imag), axis=-1).reshape(len(basis), -1)


def _real(basis: npt.NDArray[np.complex128]) -> Weights:
    """[2 size, 2 made]: for numbers of a real and an imaginary part."""
    both = np.stack((_interleaved(basis), _interleaved(1j * basis)), axis=1)
    return both.reshape(2 * len(basis), -1)


FOURIER: Mapping[str, Lifter] = {"DFT": _dft, "STFT": _stft}
