"""Transform products at the points of tiles back to images."""

from __future__ import annotations

from superopt.onnx_io.emit.bilinear_form import Axis, Form, floats
from superopt.onnx_io.emit.tensor_nodes import Size, TensorNodes

EXPAND = 8
"""The operator set since which there is Expand."""


def write_image(nodes: TensorNodes, form: Form, image: str, products: str, output: str) -> None:
    """The transform back and the interleaving of tiles, of columns and then of rows. Transposes move one axis
    between others larger than 1, which the runtime does by copying blocks."""
    if form.is_open:
        _open_image(nodes, form, image, products, output)
    else:
        _known_image(nodes, form, products, output)


def _known_image(nodes: TensorNodes, form: Form, products: str, output: str) -> None:
    """An image of known sizes; there may be no samples."""
    height, width = form.rows.tiling.tiles, form.columns.tiling.tiles
    maps = form.outputs * form.rows.points
    if form.columns.transformed:
        products = _matrix_product(nodes, form, form.columns, products, maps * height * width)
        if form.columns.tiling.step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        width = form.columns.tiling.outputs
        products = _cut(nodes, form.columns, products, (form.samples, maps, height))
    if form.rows.transformed:
        products = _matrix_product(nodes, form, form.rows, products, form.outputs * height * width)
        step = form.rows.tiling.step
        if step > 1 and width > 1:
            separate = nodes.reshaped(products, (form.samples, step, form.outputs * height, width))
            products = nodes.transposed(separate, (0, 2, 1, 3))
        elif step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        height = form.rows.tiling.outputs
        products = _cut(nodes, form.rows, products, (form.samples, form.outputs), (width,))
    nodes.reshaped(products, (form.samples, form.outputs, height, width), output)


def _matrix_product(nodes: TensorNodes, form: Form, axis: Axis, products: str, size: int) -> str:
    """[n, points size] -> [n, outputs of a tile, size]."""
    flat = nodes.reshaped(products, (form.samples, axis.points, size))
    matrix = nodes.numbers(floats(axis.tiling.result).T)
    if form.samples == -1 and nodes.writer.opset >= EXPAND:
        matrix = nodes.for_each_sample(matrix, flat)
    return nodes.node("MatMul", [matrix, flat])


def _cut(
    nodes: TensorNodes, axis: Axis, image: str, before: tuple[int, ...], behind: tuple[int, ...] = ()
) -> str:
    """Without the outputs of the last tile that are too many."""
    tiling = axis.tiling
    computed = tiling.tiles * tiling.step
    if computed == tiling.outputs:
        return image
    separate = nodes.reshaped(image, (*before, computed, *behind))
    return nodes.beginning(separate, len(before), tiling.outputs)


def _open_image(nodes: TensorNodes, form: Form, image: str, products: str, output: str) -> None:
    """An image of at least one sample whose height or width is open: where a Reshape needs it, it is computed
    from the shape of the input. Outputs that are too many are cut off once, at the end."""
    rows, columns = form.rows, form.columns
    sizes = {axis.number: _tiles_and_outputs(nodes, axis, image) for axis in (rows, columns)}
    (height, _), (width, _) = sizes[rows.number], sizes[columns.number]
    if columns.transformed:
        products = _back(nodes, columns, products)
        if columns.tiling.step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        products = nodes.reshaped(products, (0, form.outputs * rows.points, height, -1))
        width = nodes.times(width, columns.tiling.step)
    if rows.transformed:
        products = _back(nodes, rows, products)
        if rows.tiling.step > 1:
            separate = nodes.reshaped(products, (0, rows.tiling.step, -1, width))
            products = nodes.transposed(separate, (0, 2, 1, 3))
        products = nodes.reshaped(products, (0, form.outputs, -1, width))
    partial = [axis for axis in form.transformed if axis.has_partial_tile]
    ends = [sizes[axis.number][1] for axis in partial]
    nodes.cut(products, [axis.number for axis in partial], ends, output)


def _back(nodes: TensorNodes, axis: Axis, products: str) -> str:
    """[n, points size, ...] -> [n, outputs of a tile, size]."""
    flat = nodes.reshaped(products, (0, axis.points, -1))
    return nodes.node("MatMul", [nodes.numbers(floats(axis.tiling.result).T), flat])


def _tiles_and_outputs(nodes: TensorNodes, axis: Axis, image: str) -> tuple[Size, Size]:
    """The numbers of tiles and of outputs along an axis."""
    tiling = axis.tiling
    if not axis.is_open:
        return tiling.tiles, tiling.outputs
    outputs = nodes.plus(nodes.size_of(image, axis.number), tiling.outputs - tiling.size)
    return nodes.over(nodes.plus(outputs, tiling.step - 1), tiling.step), outputs


__all__ = ["write_image"]
