"""Apply constant matrices along axes of a tensor, as products of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.domains import Array
from superopt.ir.dimensions import Dimension, product
from superopt.ir.graph import Value
from superopt.onnx_io.lifting.layers import matrix_product
from superopt.onnx_io.lifting.shape import reshaped
from superopt.onnx_io.lifting.site import Site


def mapped(
    site: Site,
    data: Value,
    shape: Sequence[Dimension],
    maps: Sequence[tuple[int, Array]],
    made: Sequence[Dimension],
) -> Value:
    """A tensor, taken as one of that shape, whose vectors along an axis, of n elements, are multiplied by a
    matrix [n, m], for one axis after the other; the result in the shape ``made``."""
    sizes = list(shape)
    for axis, matrix in maps:
        before, behind = product(sizes[:axis]), product(sizes[axis + 1 :])
        size, sizes[axis] = matrix.shape
        if behind == 1:
            data = matrix_product(site, reshaped(site, data, (before, size)), site.array(matrix))
        else:
            images = reshaped(site, data, (before, size, behind))
            data = matrix_product(site, site.array(matrix.T), images)
    return reshaped(site, data, tuple(made))


__all__ = ["mapped"]
