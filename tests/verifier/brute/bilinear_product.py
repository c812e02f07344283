"""Products by bilinear algorithms, written anew in plain numpy: multiplication by multiplication."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.verifier.brute.basics import Attributes, Real, Shape, ShapeOf, ValueOf, need

Vectors = Sequence[Sequence[Any]]


def _sizes(algorithm: tuple[Vectors, ...]) -> tuple[int, int, int]:
    """Rows, inner size and columns of the product that it computes; what computes none does not fit."""
    need(len(algorithm) == 3 and len({len(matrix) for matrix in algorithm}) == 1)
    lengths = [len(matrix[0]) for matrix in algorithm]
    fitting = [
        (n, k, m) for n, k, m in itertools.product(range(1, 6), repeat=3) if [n * k, k * m, n * m] == lengths
    ]
    need(fitting)
    rows, inner, columns = fitting[0]
    for one, two, three in np.ndindex(*lengths):
        products = (
            left[one] * right[two] * result[three] for left, right, result in zip(*algorithm, strict=True)
        )
        (i, a), (b, j) = divmod(one, inner), divmod(two, columns)
        need(sum(products) == (a == b and divmod(three, columns) == (i, j)))
    return rows, inner, columns


def _transformed_shape(attributes: Attributes, weight: Shape) -> Shape:
    need(len(weight) == 2)
    _, inner, columns = _sizes(attributes["algorithm"])
    need(weight[0] % inner == 0 and weight[1] % columns == 0)
    return (len(attributes["algorithm"][0]) * weight[0] // inner, weight[1] // columns)


def _transformed(attributes: Attributes, weight: Real) -> Real:
    _, inner, columns = _sizes(attributes["algorithm"])
    blocks = [part for row in np.split(weight, inner) for part in np.split(row, columns, axis=1)]
    return np.concatenate([_sum(row, blocks) for row in attributes["algorithm"][1]])


def _product_shape(attributes: Attributes, data: Shape, transformed: Shape) -> Shape:
    need(len(data) >= 2 and len(transformed) == 2)
    rows, inner, columns = _sizes(attributes["algorithm"])
    count = len(attributes["algorithm"][0])
    need(data[-2] % rows == 0 and transformed[0] % count == 0)
    need(data[-1] == transformed[0] // count * inner)
    return (*data[:-1], transformed[1] * columns)


def _product(attributes: Attributes, data: Real, transformed: Real) -> Real:
    result = np.zeros(_product_shape(attributes, data.shape, transformed.shape))
    rows, inner, columns = _sizes(attributes["algorithm"])
    blocks = [part for i in range(rows) for part in np.split(data[..., i::rows, :], inner, axis=-1)]
    places = [np.split(result[..., i::rows, :], columns, axis=-1) for i in range(rows)]
    multiplications = zip(*attributes["algorithm"], strict=True)
    for (left, _, factors), weight in zip(
        multiplications, np.split(transformed, len(attributes["algorithm"][0])), strict=True
    ):
        product = _sum(left, blocks) @ weight
        for factor, place in zip(factors, itertools.chain(*places), strict=True):
            np.add(place, float(factor) * product, out=place)
    return result


def _sum(factors: Sequence[Any], blocks: Sequence[Real]) -> Real:
    return np.sum([float(factor) * block for factor, block in zip(factors, blocks, strict=True)], axis=0)


SHAPES: Mapping[str, ShapeOf] = {"bilinear_matmul": _product_shape, "product_transform": _transformed_shape}
VALUES: Mapping[str, ValueOf] = {"bilinear_matmul": _product, "product_transform": _transformed}
