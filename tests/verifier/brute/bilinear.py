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


def _transformed_shape(attributes: Attributes, kernel: Shape) -> Shape:
    need(len(kernel) == 4)
    outputs, channels, *extents = kernel
    for axis, algorithm in enumerate(_algorithms(attributes)):
        if algorithm:
            need(extents[axis] == _taps(algorithm))
            outputs, extents[axis] = outputs * len(algorithm[0]), 1
    return (outputs, channels, *extents)


def _kernel_shape(attributes: Attributes, transformed: Shape) -> Shape:
    need(len(transformed) == 4)
    outputs, channels, *extents = transformed
    for axis, algorithm in enumerate(_algorithms(attributes)):
        if algorithm:
            need(extents[axis] == 1 and outputs % len(algorithm[0]) == 0)
            outputs, extents[axis] = outputs // len(algorithm[0]), _taps(algorithm)
    return (outputs, channels, *extents)


def _tiled_shape(attributes: Attributes, data: Shape, transformed: Shape) -> Shape:
    return conv_shape(_plain(attributes), data, _kernel_shape(attributes, transformed))


def _plain(attributes: Attributes) -> Attributes:
    return {"padding": attributes.get("padding", "valid")}


def _transformed(attributes: Attributes, kernel: Real) -> Real:
    rows, columns = (algorithm[1] if algorithm else (None,) for algorithm in _algorithms(attributes))
    return np.concatenate(
        [_contracted(_contracted(kernel, row, 2), column, 3) for column in columns for row in rows]
    )


def _contracted(array: Real, factors: Sequence[Any] | None, axis: int) -> Real:
    if factors is None:
        return array
    return np.expand_dims(np.tensordot(array, np.array(factors, float), (axis, 0)), axis)


def _tiled(attributes: Attributes, data: Real, transformed: Real) -> Real:
    shape = _tiled_shape(attributes, data.shape, transformed.shape)
    kernel = _kernel_shape(attributes, transformed.shape)
    algorithms = [algorithm or (((1,),), ((1,),), ((1,),)) for algorithm in _algorithms(attributes)]
    steps = [len(result[0]) for _, _, result in algorithms]
    tiles = [math.ceil(shape[2 + axis] / steps[axis]) for axis in range(2)]
    margins = [
        margins_of(data.shape[2 + axis], kernel[2 + axis], 1, 1, attributes.get("padding", "valid"), axis)
        for axis in range(2)
    ]
    missing = [steps[axis] * tiles[axis] - shape[2 + axis] for axis in range(2)]
    widths = [(before, after + more) for (before, after), more in zip(margins, missing, strict=True)]
    image = np.pad(data, ((0, 0), (0, 0), *widths))
    result = np.zeros((*shape[:2], steps[0] * tiles[0], steps[1] * tiles[1]))
    points = itertools.product(zip(*algorithms[1], strict=True), zip(*algorithms[0], strict=True))
    kernels = np.split(transformed, len(algorithms[0][0]) * len(algorithms[1][0]))
    for at_point, ((across, _, to_columns), (down, _, to_rows)) in zip(kernels, points, strict=True):
        part = _of_tiles(_of_tiles(image, down, steps[0], tiles[0], 2), across, steps[1], tiles[1], 3)
        product = conv({}, part, at_point)
        for i, j in np.ndindex(steps[0], steps[1]):
            result[:, :, i :: steps[0], j :: steps[1]] += float(to_rows[i] * to_columns[j]) * product
    return result[:, :, : shape[2], : shape[3]]


def _of_tiles(image: Real, factors: Sequence[Any], step: int, tiles: int, axis: int) -> Real:
    """The sum of the tiles' elements with these factors; where tiles have one element each, the image."""
    if len(factors) == 1:
        return image * float(factors[0])
    places = step * np.arange(tiles)
    parts = (float(factor) * image.take(places + i, axis) for i, factor in enumerate(factors))
    return np.sum(list(parts), axis=0)


SHAPES: Mapping[str, ShapeOf] = {"bilinear_conv": _tiled_shape, "filter_transform": _transformed_shape}
VALUES: Mapping[str, ValueOf] = {"bilinear_conv": _tiled, "filter_transform": _transformed}
