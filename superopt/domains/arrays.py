"""Array backends: numpy on the host, CuPy on a CUDA device, or any other array library.

Shared code uses operators, indices that end with an ellipsis, and the functions of ``Namespace``, which are
those of the array API standard (data-apis.org/array-api, 2024.12). Only ``Device.put`` and ``Device.get``
move data between a device and the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from superopt.errors import InvalidOptionError, MissingServiceError

Array: TypeAlias = "npt.NDArray[Any]"
"""An array of any backend; typed as numpy's, whose interface includes the common one."""

Shape: TypeAlias = "tuple[int, ...]"

DEVICES = ("cpu", "cuda")


class Namespace(Protocol):
    """The functions used of a backend, as defined by the array API standard."""

    float32: npt.DTypeLike
    float64: npt.DTypeLike
    int64: npt.DTypeLike
    uint64: npt.DTypeLike

    def abs(self, x: Array, /) -> Array: ...

    def any(self, x: Array, /) -> Array: ...

    def astype(self, x: Array, dtype: npt.DTypeLike, /) -> Array: ...

    def broadcast_to(self, x: Array, /, shape: Shape) -> Array: ...

    def concat(self, arrays: Sequence[Array], /, *, axis: int) -> Array: ...

    def exp(self, x: Array, /) -> Array: ...

    def full_like(self, x: Array, /, fill_value: float) -> Array: ...

    def isnan(self, x: Array, /) -> Array: ...

    def maximum(self, x1: Array, x2: Array, /) -> Array: ...

    def ones_like(self, x: Array, /) -> Array: ...

    def permute_dims(self, x: Array, /, axes: Shape) -> Array: ...

    def reciprocal(self, x: Array, /) -> Array: ...

    def reshape(self, x: Array, /, shape: Shape) -> Array: ...

    def round(self, x: Array, /) -> Array: ...

    def sin(self, x: Array, /) -> Array: ...

    def sqrt(self, x: Array, /) -> Array: ...

    def stack(self, arrays: Sequence[Array], /, *, axis: int = 0) -> Array: ...

    def sum(self, x: Array, /, *, axis: int, dtype: npt.DTypeLike) -> Array: ...

    def take(self, x: Array, indices: Array, /, *, axis: int) -> Array: ...

    def where(self, condition: Array, x1: Array | float, x2: Array | float, /) -> Array: ...

    def zeros_like(self, x: Array, /) -> Array: ...


@dataclass(frozen=True)
class Device:
    """A device: ``put`` copies arrays from the host to it, ``get`` copies them back."""

    name: str
    put: Callable[[Array], Array]
    get: Callable[[Array], Array]


def _itself(array: Array) -> Array:
    return array


HOST = Device("cpu", _itself, _itself)


def device(name: str) -> Device:
    """The device of that name, one of DEVICES. Raises InvalidOptionError for another name, and
    MissingServiceError where the device is missing."""
    if name == "cpu":
        return HOST
    if name != "cuda":
        raise InvalidOptionError(f"device {name!r}: expected one of {', '.join(DEVICES)}")
    cupy = _cupy()
    if not cupy.cuda.is_available():
        raise MissingServiceError("device cuda: CuPy finds no CUDA device; leave --device out to use the CPU")
    try:
        one = cupy.asarray(np.ones((1, 1)))
        cupy.asnumpy(one @ one + one)
    except (ImportError, OSError, RuntimeError) as error:  # a library of CUDA that it needs is missing
        raise MissingServiceError(f"device cuda: CuPy cannot compute there: {error}") from None
    return Device("cuda", cupy.asarray, cupy.asnumpy)


def namespace(array: Array) -> Namespace:
    """The backend of an array."""
    if _is_of_numpy(array):
        return _NUMPY
    own = getattr(array, "__array_namespace__", None)
    return cast("Namespace", _cupy() if own is None else own())  # CuPy 14 does not say


def round_in_place(array: Array) -> None:
    """Rounds to the nearest whole number, halves to even."""
    if _is_of_numpy(array):
        np.rint(array, out=array)
    else:
        array[...] = namespace(array).round(array)


def reshaped(array: Array, shape: Shape) -> Array:
    """Changes the shape, keeping elements in row-major order."""
    return namespace(array).reshape(array, shape)


def aligned(left: Array, right: Array) -> tuple[Array, Array]:
    """Stacked arrays with equal ranks; missing axes are inserted after the stack axis."""
    rank = max(left.ndim, right.ndim)
    return _of_rank(left, rank), _of_rank(right, rank)


def padded(array: Array, widths: tuple[int, int, int, int], *, repeat_edge: bool = False) -> Array:
    """Pads the last two axes with zeros, or with the repeated border; widths are (top, left, bottom,
    right)."""
    top, left, bottom, right = widths
    xp = namespace(array)
    border = _itself if repeat_edge else xp.zeros_like
    if top or bottom:
        first, last = border(array[..., :1, :]), border(array[..., -1:, :])
        array = xp.concat([first] * top + [array] + [last] * bottom, axis=-2)
    if left or right:
        first, last = border(array[..., :1]), border(array[..., -1:])
        array = xp.concat([first] * left + [array] + [last] * right, axis=-1)
    return array


def windows(
    array: Array, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> Array:
    """[..., h, w] -> [..., rows, columns, kernel rows, kernel columns]; a view where possible."""
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if _is_of_numpy(array):
        return _strided_windows(array, kernel, stride, dilation, extents)
    last = [size - extent + 1 for size, extent in zip(array.shape[-2:], extents, strict=True)]
    rows = [slice(k * dilation[0], k * dilation[0] + last[0], stride[0]) for k in range(kernel[0])]
    columns = [slice(k * dilation[1], k * dilation[1] + last[1], stride[1]) for k in range(kernel[1])]
    stack = namespace(array).stack
    return stack([stack([array[..., r, c] for c in columns], axis=-1) for r in rows], axis=-2)


def _strided_windows(
    array: Array,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    extents: list[int],
) -> Array:
    """A read-only view, several times as fast to make as one by ``sliding_window_view``."""
    sizes = array.shape[-2:]
    if any(extent > size for size, extent in zip(sizes, extents, strict=True)):
        raise ValueError(f"expected windows of at most {sizes}, got {tuple(extents)}")
    positions = [(size - e) // s + 1 for size, e, s in zip(sizes, extents, stride, strict=True)]
    *outer, row, column = array.strides
    steps = (row * stride[0], column * stride[1], row * dilation[0], column * dilation[1])
    return as_strided(array, (*array.shape[:-2], *positions, *kernel), (*outer, *steps), writeable=False)


def _of_rank(array: Array, rank: int) -> Array:
    missing = rank - array.ndim
    return reshaped(array, (array.shape[0], *(1,) * missing, *array.shape[1:])) if missing else array


def _is_of_numpy(array: object) -> bool:
    return isinstance(array, np.ndarray)


class _Cuda(Protocol):
    def is_available(self) -> bool: ...


class _Cupy(Protocol):
    cuda: _Cuda

    def asarray(self, a: Array, /) -> Array: ...

    def asnumpy(self, a: Array, /) -> Array: ...


def _cupy() -> _Cupy:
    try:
        import cupy  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError as error:
        raise MissingServiceError(
            f"device cuda: CuPy is not there ({error}); install the extra [gpu]"
        ) from None
    return cast("_Cupy", cupy)


_NUMPY = cast("Namespace", np)
