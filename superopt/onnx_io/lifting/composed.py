"""Lift operators that are made of simpler ones: activations, normalisations, blocks of images, copies."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from superopt.ir.dimensions import Dimension, floor_divide, product
from superopt.ir.graph import Value
from superopt.onnx_io.lifting.cuts import gathered
from superopt.onnx_io.lifting.elementwise import Lifter, pointwise, single_number
from superopt.onnx_io.lifting.layers import softmax
from superopt.onnx_io.lifting.reductions import usual_epsilon
from superopt.onnx_io.lifting.shape import permuted, reshaped
from superopt.onnx_io.lifting.site import NotLiftedError, Site
from superopt.onnx_io.lifting.transposes import moves_blocks_faster
from superopt.ops.elementwise.activation import Elu, LogSoftmax
from superopt.ops.elementwise.affine import Affine
from superopt.ops.elementwise.arithmetic import Add, Divide, Identity, Scale
from superopt.ops.elementwise.order import Absolute
from superopt.ops.elementwise.selection import Greater, Select
from superopt.ops.normalization import LayerNormalization
from superopt.ops.shape import Broadcast


def _celu(site: Site) -> tuple[Value, ...]:
    """alpha elu(x / alpha), where the elu has a slope of one."""
    site.respell()
    own, alpha = site.type(0), single_number(site.decimal("alpha", 1.0), "alpha")
    if alpha == 1:
        return (site.add(Elu(1), site.value(0)),)
    if alpha == 0:
        raise NotLiftedError("alpha is 0")
    shrunk = site.add(Scale(), site.value(0), site.number(1 / Fraction(alpha), own.element))
    return (site.add(Scale(), site.add(Elu(1), shrunk), site.number(alpha, own.element)),)


def _softsign(site: Site) -> tuple[Value, ...]:
    """x / (1 + |x|)."""
    own, data = site.type(0), site.value(0)
    size = site.add(Absolute(), data)
    return (site.add(Divide(), data, pointwise(site, Add(), size, site.number(1, own.element))),)


def _thresholded_relu(site: Site) -> tuple[Value, ...]:
    """x where it is greater than alpha, else 0."""
    own, data = site.type(0), site.value(0)
    bound = site.number(single_number(site.decimal("alpha", 1.0), "alpha"), own.element)
    above = pointwise(site, Greater(), data, bound)
    return (pointwise(site, Select(), above, data, site.number(0, own.element)),)


def _mean(site: Site) -> tuple[Value, ...]:
    """The sum of the operands over their number."""
    own, total, count = site.type(0), site.value(0), len(site.node.input)
    if count == 1:
        return (site.add(Identity(), total),)
    for slot in range(1, count):
        site.type(slot)
        total = pointwise(site, Add(), total, site.value(slot))
    return (site.add(Scale(), total, site.number(Fraction(1, count), own.element)),)


def _normalized(site: Site, groups: Dimension) -> tuple[Value, ...]:
    """The tensor [n, c, ...] less its mean, over its deviation, in each of so many groups of channels, then
    with a factor and a term for each channel."""
    own, epsilon = site.type(0), usual_epsilon(site)
    if own.rank < 3 or 0 in (groups, own.elements):
        raise NotLiftedError("it has no positions to reduce")
    grouped = (own.shape[0], groups, floor_divide(own.elements, product((own.shape[0], groups))))
    data = reshaped(site, site.value(0), grouped)
    rows = grouped[-1:]
    one, zero = (site.add(Broadcast(rows), site.number(number, own.element)) for number in (1, 0))
    normal = reshaped(site, site.add(LayerNormalization(epsilon), data, one, zero), own.shape)
    return (site.add(Affine(axis=1), normal, site.value(1), site.value(2)),)


def _instance_normalization(site: Site) -> tuple[Value, ...]:
    """Every channel of every sample by itself."""
    own = site.type(0)
    return _normalized(site, own.shape[1] if own.rank > 1 else 0)


def _group_normalization(site: Site) -> tuple[Value, ...]:
    """Every group of channels of every sample by itself."""
    site.respell()
    return _normalized(site, site.integer("num_groups", 1))


def _block(site: Site) -> int:
    """The size of blocks of an image."""
    size = site.integer("blocksize", 0)
    if site.moved(0).rank != 4 or size < 1:
        raise NotLiftedError("it does not rearrange blocks of an image")
    return size


def _depth_to_space(site: Site) -> tuple[Value, ...]:
    """Channels become positions in blocks: the block's position is first among them (DCR) or last (CRD)."""
    size, (n, c, h, w) = _block(site), site.moved(0).shape
    channels = floor_divide(c, size * size)
    if site.text("mode", "DCR") == "CRD":
        divided, permutation = (n, channels, size, size, h, w), (0, 1, 4, 2, 5, 3)
    else:
        divided, permutation = (n, size, size, channels, h, w), (0, 3, 4, 1, 5, 2)
    if moves_blocks_faster(site.moved(0).with_shape(divided), permutation):
        site.respell()
    moved = permuted(site, reshaped(site, site.value(0), divided), permutation)
    return (reshaped(site, moved, (n, channels, product((h, size)), product((w, size)))),)


def _space_to_depth(site: Site) -> tuple[Value, ...]:
    """Positions in blocks become channels, the block's position first."""
    size, (n, c, h, w) = _block(site), site.moved(0).shape
    rows, columns = floor_divide(h, size), floor_divide(w, size)
    divided = reshaped(site, site.value(0), (n, c, rows, size, columns, size))
    moved = permuted(site, divided, (0, 3, 5, 1, 2, 4))
    return (reshaped(site, moved, (n, product((c, size, size)), rows, columns)),)


def _tile(site: Site) -> tuple[Value, ...]:
    """Copies along a new axis before each axis that is repeated, joined with it."""
    own = site.moved(0)
    counts = site.sizes(1, "how often it repeats")
    if len(counts) != own.rank or 0 in counts:
        raise NotLiftedError("it repeats nothing")
    apart: list[Dimension] = []
    copied: list[Dimension] = []
    for size, count in zip(own.shape, counts, strict=True):
        apart += [size] if count == 1 else [1, size]
        copied += [size] if count == 1 else [count, size]
    result = reshaped(site, site.value(0), tuple(apart))
    if copied != apart:
        result = site.add(Broadcast(tuple(copied)), result)
    shape = tuple(product(pair) for pair in zip(own.shape, counts, strict=True))
    result = reshaped(site, result, shape)
    return (result if site.made else site.add(Identity(), result),)


def _gather(site: Site) -> tuple[Value, ...]:
    """Along any axis."""
    return gathered(site, along_any_axis=True)


COMPOSED: Mapping[str, Lifter] = {
    "Celu": _celu,
    "DepthToSpace": _depth_to_space,
    "GroupNormalization": _group_normalization,
    "Mean": _mean,
}
FOR_GRADIENTS: Mapping[str, Lifter] = {
    "Gather": _gather,
    "InstanceNormalization": _instance_normalization,
    "LogSoftmax": softmax(LogSoftmax),
    "Softsign": _softsign,
    "SpaceToDepth": _space_to_depth,
    "ThresholdedRelu": _thresholded_relu,
    "Tile": _tile,
}
"""Lifters where gradients are asked for: of operators that ONNX Runtime runs faster than what they are made
of (``benchmarks composed``), and of those that have a shorter gradient than their parts."""
