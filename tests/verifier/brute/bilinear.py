"""Convolutions by bilinear algorithms, written anew in plain numpy: point by point over whole images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tests.verifier.brute.basics import Attributes, Real, Shape, ShapeOf, ValueOf, need
from tests.verifier.brute.windows import conv, conv_shape, margins_of

Vectors = Sequence[Sequence[Any]]


def _algorithms(attributes: Attributes) -> list[tuple[Vectors, ...]]:
    return [attributes.get("rows", ()), attributes.get("columns", ())]


def _taps(algorithm: tuple[Vectors, ...]) -> int:
    """The taps of the filter that it computes; what computes none does not fit."""
    need(len(algorithm) == 3 and len({len(matrix) for matrix in algorithm}) == 1)
    need(_is_filter(algorithm))
    return len(algorithm[1][0])


@lru_cache(maxsize=256)
def _is_filter(algorithm: tuple[Vectors, ...]) -> bool:
    reads, taps, outputs = (len(matrix[0]) for matrix in algorithm)
    return reads == outputs + taps - 1 and all(
        sum(left[i] * right[j] * result[k] for left, right, result in zip(*algorithm, strict=True))
        == (i == j + k)
        for i, j, k in itertools.product(range(reads), range(taps), range(outputs))
    )


def _zeros(attributes: Attributes) -> tuple[int, int]:
    """The zeros behind a kernel; where there are any, parts of an algorithm must take them."""
    zeros = attributes.get("zeros", (0, 0))
    for number, algorithm in zip(zeros, _algorithms(attributes), strict=True):
        need(number == 0 or (bool(algorithm) and 0 < number < _taps(algorithm) and _has_parts(algorithm)))
    return zeros


def _has_parts(algorithm: tuple[Vectors, ...]) -> bool:
    """Whether the next part of a kernel meets the beginning of a tile."""
    return _taps(algorithm) % len(algorithm[2][0]) == 0


def _transformed_shape(attributes: Attributes, kernel: Shape) -> Shape:
    need(len(kernel) == 4)
    outputs, channels, *extents = kernel
    for axis, (algorithm, zeros) in enumerate(zip(_algorithms(attributes), _zeros(attributes), strict=True)):
        if algorithm:
            parts, missing = divmod(extents[axis] + zeros, _taps(algorithm))
            need(missing == 0 and (parts == 1 or _has_parts(algorithm)) and not (parts == 1 and zeros))
            outputs, extents[axis] = outputs * len(algorithm[0]), parts
    return (outputs, channels, *extents)


def _kernel_shape(attributes: Attributes, transformed: Shape) -> Shape:
    need(len(transformed) == 4)
    outputs, channels, *extents = transformed
    for axis, (algorithm, zeros) in enumerate(zip(_algorithms(attributes), _zeros(attributes), strict=True)):
        if algorithm:
            need((extents[axis] == 1 or _has_parts(algorithm)) and outputs % len(algorithm[0]) == 0)
            outputs, extents[axis] = outputs // len(algorithm[0]), extents[axis] * _taps(algorithm) - zeros
    return (outputs, channels, *extents)


def _tiled_shape(attributes: Attributes, data: Shape, transformed: Shape) -> Shape:
    return conv_shape(_plain(attributes), data, _kernel_shape(attributes, transformed))


def _plain(attributes: Attributes) -> Attributes:
    return {"padding": attributes.get("padding", "valid"), "dilation": attributes.get("dilation", (1, 1))}


def _transformed(attributes: Attributes, kernel: Real) -> Real:
    rows, columns = (algorithm[1] if algorithm else (None,) for algorithm in _algorithms(attributes))
    below, beside = _zeros(attributes)
    whole = np.pad(kernel, ((0, 0), (0, 0), (0, below), (0, beside)))
    return np.concatenate(
        [_contracted(_contracted(whole, row, 2), column, 3) for column in columns for row in rows]
    )


def _contracted(array: Real, factors: Sequence[Any] | None, axis: int) -> Real:
    """The sums of each part with these factors, in the order of the parts."""
    if factors is None:
        return array
    parts = np.split(array, array.shape[axis] // len(factors), axis)
    sums = [np.tensordot(part, np.array(factors, float), (axis, 0)) for part in parts]
    return np.stack(sums, axis)


def _tiled(attributes: Attributes, data: Real, transformed: Real) -> Real:
    """Each residue of rows and columns modulo the dilation by itself."""
    shape = _tiled_shape(attributes, data.shape, transformed.shape)
    kernel = _kernel_shape(attributes, transformed.shape)
    padding, steps = attributes.get("padding", "valid"), attributes.get("dilation", (1, 1))
    margins = [
        margins_of(data.shape[2 + axis], kernel[2 + axis], 1, steps[axis], padding, axis) for axis in range(2)
    ]
    image = np.pad(data, ((0, 0), (0, 0), *margins))
    result = np.zeros(shape)
    for i, j in np.ndindex(*steps):
        part = result[:, :, i :: steps[0], j :: steps[1]]
        part[...] = _undilated(attributes, image[:, :, i :: steps[0], j :: steps[1]], transformed, part.shape)
    return result


def _undilated(attributes: Attributes, image: Real, transformed: Real, shape: Shape) -> Real:
    """Part by part: each is a convolution by itself, of the image from where the part begins."""
    sizes, algorithms = shape[2:], _algorithms(attributes)
    if 0 in sizes:
        return np.zeros(shape)
    taps = [_taps(algorithm) if algorithm else 0 for algorithm in algorithms]
    enough = [(0, sum(len(matrix[0]) for matrix in algorithm)) for algorithm in algorithms]
    image = np.pad(image, ((0, 0), (0, 0), *enough))
    parts = [transformed.shape[2 + axis] if algorithm else 1 for axis, algorithm in enumerate(algorithms)]
    sums: list[Real] = []
    for down, across in np.ndindex(*parts):
        weights = transformed[:, :, down : down + 1] if algorithms[0] else transformed
        weights = weights[..., across : across + 1] if algorithms[1] else weights
        seen = image[:, :, down * taps[0] :, across * taps[1] :]
        sums.append(_of_part(algorithms, seen, weights, sizes))
    return np.sum(sums, axis=0)


def _of_part(given: list[tuple[Vectors, ...]], image: Real, weights: Real, sizes: Sequence[int]) -> Real:
    algorithms = [algorithm or (((1,),), ((1,),), ((1,),)) for algorithm in given]
    steps = [len(result[0]) for _, _, result in algorithms]
    tiles = [math.ceil(size / step) for size, step in zip(sizes, steps, strict=True)]
    points = itertools.product(zip(*algorithms[1], strict=True), zip(*algorithms[0], strict=True))
    kernels = np.split(weights, len(algorithms[0][0]) * len(algorithms[1][0]))
    outputs = len(kernels[0])
    result = np.zeros((len(image), outputs, steps[0] * tiles[0], steps[1] * tiles[1]))
    for at_point, ((across, _, to_columns), (down, _, to_rows)) in zip(kernels, points, strict=True):
        part = _of_tiles(_of_tiles(image, down, steps[0], tiles[0], 2), across, steps[1], tiles[1], 3)
        product = conv({}, part, at_point)[:, :, : tiles[0], : tiles[1]]
        for i, j in np.ndindex(steps[0], steps[1]):
            result[:, :, i :: steps[0], j :: steps[1]] += float(to_rows[i] * to_columns[j]) * product
    return result[:, :, : sizes[0], : sizes[1]]


def _of_tiles(image: Real, factors: Sequence[Any], step: int, tiles: int, axis: int) -> Real:
    """The sum of the tiles' elements with these factors; where tiles have one element each, the image."""
    if len(factors) == 1:
        return image * float(factors[0])
    places = step * np.arange(tiles)
    parts = (float(factor) * image.take(places + i, axis) for i, factor in enumerate(factors))
    return np.sum(list(parts), axis=0)


SHAPES: Mapping[str, ShapeOf] = {"bilinear_conv": _tiled_shape, "filter_transform": _transformed_shape}
VALUES: Mapping[str, ValueOf] = {"bilinear_conv": _tiled, "filter_transform": _transformed}
