"""Transform products at the points of tiles back to images."""

from __future__ import annotations

from collections.abc import Callable

from superopt.ir.graph import NodeId
from superopt.onnx_io.emit.bilinear_form import Axis, Form, floats
from superopt.onnx_io.emit.recipes import Emission
from superopt.onnx_io.emit.runtime_shapes import RuntimeShapes
from superopt.onnx_io.emit.tensor_nodes import EXPAND, TensorNodes


def write_image(
    nodes: TensorNodes, form: Form, products: str, output: str, shape: Callable[[str], str] | None = None
) -> None:
    """The transform back and the interleaving of tiles, of columns and then of rows. Transposes move one axis
    between others larger than 1, which the runtime does by copying blocks. ``shape`` writes one of the
    ``open_shapes`` of an image whose height or width is open."""
    if shape is not None:
        _open_image(nodes, form, products, output, shape)
    else:
        _known_image(nodes, form, products, output)


def open_shapes(emission: Emission, reader: NodeId, form: Form) -> RuntimeShapes | None:
    """The shapes by which an image of open height or width is written, computed from inputs of the model when
    it runs: asked for the shape of an image, the runtime would bring it out of its blocked layout. None where
    height and width are known."""
    if not form.is_open:
        return None
    samples, *outputs = form.result
    rows, columns = form.rows, form.columns
    phases = {} if form.phases is None else form.phases.open_shapes(samples, form.channels, form.outputs)
    height, width = rows.tiles_of(outputs[0]), columns.tiles_of(outputs[1])
    maps = form.outputs * rows.points
    computed = (width, columns.tiling.step)
    ends = {rows.number: outputs[0], columns.number: outputs[1]}
    return RuntimeShapes(
        emission,
        reader,
        {
            **phases,
            "products by column": (samples, columns.points, (maps, height, width)),
            "rows of tiles": (samples, maps, height, computed),
            "products by row": (samples, rows.points, (form.outputs, height, *computed)),
            "lines apart": (samples, rows.tiling.step, (form.outputs, height), computed),
            "lines together": (samples, form.outputs, (height, rows.tiling.step), computed),
            "outputs": tuple(ends[axis.number] for axis in form.partial),
            "samples": (samples, 1, 1),
        },
    )


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


def _open_image(
    nodes: TensorNodes, form: Form, products: str, output: str, shape: Callable[[str], str]
) -> None:
    """Outputs that are too many are cut off once, at the end."""

    def reshaped(name: str) -> str:
        return nodes.node("Reshape", [products, shape(name)])

    rows, columns = form.rows, form.columns
    if columns.transformed:
        products = _back(nodes, form, columns, reshaped("products by column"), shape)
        if columns.tiling.step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        products = reshaped("rows of tiles")
    if rows.transformed:
        products = _back(nodes, form, rows, reshaped("products by row"), shape)
        if rows.tiling.step > 1:
            products = nodes.transposed(reshaped("lines apart"), (0, 2, 1, 3))
        products = reshaped("lines together")
    axes = [axis.number for axis in form.partial]
    if axes:
        operands = [products, nodes.sizes([0] * len(axes)), shape("outputs"), nodes.sizes(axes)]
        nodes.node("Slice", operands, output=output)
    else:
        nodes.node("Identity", [products], output=output)


def _back(nodes: TensorNodes, form: Form, axis: Axis, flat: str, shape: Callable[[str], str]) -> str:
    """[n, points, size] -> [n, outputs of a tile, size]. ONNX Runtime repeats a matrix for each sample by
    itself, but for 0 samples it fails."""
    matrix = nodes.numbers(floats(axis.tiling.result).T)
    if form.samples == -1:
        matrix = nodes.writer.calculated("Expand", [matrix, shape("samples")])
    return nodes.node("MatMul", [matrix, flat])


__all__ = ["open_shapes", "write_image"]
