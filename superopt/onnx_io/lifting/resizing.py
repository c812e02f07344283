"""Lift Resize: upsampling by whole factors, and interpolation between known sizes as products of matrices.

ONNX Runtime has fast kernels for images of two axes, and interpolates linearly or repeats; volumes and cubic
interpolation it computes element by element (``benchmarks composed``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from superopt.domains import Array
from superopt.ir.dimensions import Dimension, product
from superopt.ir.graph import Value
from superopt.ir.types import ElementType, TensorType
from superopt.onnx_io.lifting.elementwise import Lifter
from superopt.onnx_io.lifting.interpolation import COORDINATES, Interpolation
from superopt.onnx_io.lifting.linear_maps import mapped
from superopt.onnx_io.lifting.shape import reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.ops.elementwise.arithmetic import Identity
from superopt.ops.images.upsampling import LinearUpsample, NearestUpsample
from superopt.ops.shape import Broadcast

_SEQUENCE, _IMAGE, _VOLUME = 3, 4, 5
"""Ranks of what is resized: samples, channels, and one to three axes."""

_HALF_PIXEL = ("half_pixel", "pytorch_half_pixel")
"""Coordinate modes that differ only where the result has a single pixel."""

_REPEATING = (
    ("asymmetric", "floor"),
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
)
"""Nearest modes for which upsampling by whole factors repeats every pixel."""

_MOST_OF_VOLUME = 64
"""Elements along an axis of a volume up to which products with matrices are faster."""

_MOST_WEIGHTS = 2**20
"""Elements of the matrix of an axis up to which there is one."""


_Axis = tuple[Dimension, Dimension, float]


def _resize(site: Site) -> tuple[Value, ...]:
    own = site.type(0)
    if site.opset < 11 or own.rank not in (_SEQUENCE, _IMAGE, _VOLUME):
        raise NotLiftedError("it does not resize a sequence, an image or a volume")
    if own.element is not ElementType.FLOAT:
        raise NotLiftedError("it does not resize an image of single precision")
    policy = site.text("keep_aspect_ratio_policy", "stretch")
    if site.integer("antialias", 0) or site.integers("axes") or policy != "stretch":
        raise NotLiftedError("its resizing mode is not supported")
    mode, where = site.text("mode", "nearest"), site.text("coordinate_transformation_mode", "half_pixel")
    nearest = (where, site.text("nearest_mode", "round_prefer_floor"))
    resized = _resized(site, own)
    factors = _whole_factors(resized)
    if factors is not None:
        if set(factors) == {1} and where in (*_HALF_PIXEL, "asymmetric") and mode != "cubic":
            return (site.add(Identity(), site.value(0)),)
        if mode == "nearest" and nearest in _REPEATING:
            return (_repeated(site, own, factors),)
        if mode == "linear" and where in _HALF_PIXEL and own.rank < _VOLUME:
            return (_interpolated(site, own, factors),)
    return (_multiplied(site, own, resized, mode, where),)


def _resized(site: Site, own: TensorType) -> list[_Axis]:
    """The size, the new size and the scale of each axis; 0 for what is not known."""
    if site.has(3):
        pairs = zip(own.shape, site.sizes(3, "the size"), strict=True)
        return [(old, new, _scale(old, new)) for old, new in pairs]
    scales = zip(own.shape, _scales(site, own), strict=True)
    return [(size, _scaled(size, scale), scale) for size, scale in scales]


def _scale(old: Dimension, new: Dimension) -> float:
    if isinstance(old, int) and isinstance(new, int) and old:
        return new / old
    return 1.0 if old == new else 0.0


def _scaled(size: Dimension, scale: float) -> Dimension:
    """The size times the scale, rounded down."""
    if scale == 1:
        return size
    return int(size * scale) if isinstance(size, int) else 0


def _scales(site: Site, own: TensorType) -> list[float]:
    scales = site.constant(2)
    if scales is None or scales.size != own.rank:
        raise NotLiftedError("the scales are computed at run time")
    return [float(scale) for scale in scales.reshape(-1)]


def _whole_factors(resized: Sequence[_Axis]) -> tuple[int, ...] | None:
    """The factors of the axes behind the channels; None unless they are whole numbers."""
    factors = [int(scale) if scale.is_integer() else 0 for _, _, scale in resized]
    if factors[:2] != [1, 1] or min(factors) < 1:
        return None
    return tuple(factors[2:])


def _repeated(site: Site, own: TensorType, factors: Sequence[int]) -> Value:
    """Every element several times: along the depth of a volume by copies, then as images."""
    n, c, *sizes = own.shape
    data = site.value(0)
    if own.rank == _VOLUME:
        site.respell()
        (depth, h, w), deeper = sizes, factors[0]
        if deeper > 1:
            data = reshaped(site, data, (n, product((c, depth)), 1, product((h, w))))
            data = site.add(Broadcast((n, product((c, depth)), deeper, product((h, w)))), data)
        data = reshaped(site, data, (n, product((c, depth, deeper)), h, w))
        data = site.add(NearestUpsample((factors[1], factors[2])), data)
    elif own.rank == _SEQUENCE:
        data = reshaped(site, data, (n, c, 1, *sizes))
        data = site.add(NearestUpsample((1, factors[0])), data)
    else:
        return site.add(NearestUpsample((factors[0], factors[1])), data)
    return reshaped(site, data, _larger(own, factors))


def _interpolated(site: Site, own: TensorType, factors: Sequence[int]) -> Value:
    """A sequence as an image of one row, for which the runtime is faster."""
    if own.rank == _IMAGE:
        return site.add(LinearUpsample((factors[0], factors[1])), site.value(0))
    site.respell()
    n, c, size = own.shape
    row = reshaped(site, site.value(0), (n, c, 1, size))
    return reshaped(site, site.add(LinearUpsample((1, factors[0])), row), _larger(own, factors))


def _larger(own: TensorType, factors: Sequence[int]) -> tuple[Dimension, ...]:
    pairs = zip(own.shape[2:], factors, strict=True)
    return (*own.shape[:2], *(product(pair) for pair in pairs))


def _multiplied(site: Site, own: TensorType, resized: Sequence[_Axis], mode: str, where: str) -> Value:
    """Products with the weights of every axis that is resized, the last one first."""
    is_cubic = mode == "cubic" and own.rank == _IMAGE
    if where not in COORDINATES or not (is_cubic or (mode == "linear" and own.rank == _VOLUME)):
        raise NotLiftedError(f"it looks for {mode} pixels by {where}")
    interpolation = Interpolation(
        where,
        float(site.decimal("cubic_coeff_a", -0.75)) if is_cubic else None,
        excludes_outside=is_cubic and bool(site.integer("exclude_outside", 0)),
    )
    maps: list[tuple[int, Array]] = []
    for axis, (size, made, scale) in reversed(list(enumerate(resized))):
        if size == made and scale == 1:
            continue
        if axis < 2 or not isinstance(size, int) or not isinstance(made, int):
            raise NotLiftedError("the sizes of what it interpolates are only known at run time")
        longest = _MOST_WEIGHTS // max(made, 1) if is_cubic else _MOST_OF_VOLUME
        if not 0 < size <= longest or made < 1:
            raise NotLiftedError("its interpolation is faster than a product with its weights")
        maps.append((axis, interpolation.weights(size, made, scale)))
    if not maps:
        return site.add(Identity(), site.value(0))
    site.respell()
    return mapped(site, site.value(0), own.shape, maps, [made for _, made, _ in resized])


RESIZING: Mapping[str, Lifter] = {"Resize": _resize}
