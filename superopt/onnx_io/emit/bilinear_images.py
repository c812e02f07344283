"""Transform products at the points of tiles back to images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.ir.dimensions import product
from superopt.ir.graph import Node
from superopt.onnx_io.emit.bilinear_form import Axis, Form, floats
from superopt.onnx_io.emit.recipes import Emission, Operand, Writer
from superopt.onnx_io.emit.runtime_shapes import RuntimeShape
from superopt.onnx_io.emit.tensor_nodes import TensorNodes

EXPAND = 8
"""The operator set since which there is Expand."""


def write_image(
    nodes: TensorNodes, form: Form, products: str, output: str, shapes: Sequence[str] = ()
) -> None:
    """The transform back and the interleaving of tiles, of columns and then of rows. Transposes move one axis
    between others larger than 1, which the runtime does by copying blocks. ``shapes`` are the vectors of
    ``OpenShapes`` for an image whose height or width is open."""
    if shapes:
        _open_image(nodes, form, products, output, shapes)
    else:
        _known_image(nodes, form, products, output)


@dataclass(frozen=True)
class OpenShapes:
    """The shapes by which an image of open height or width is written, computed when the model runs: of
    products by point of the columns, of rows in tiles, of products by point of the rows, of lines of tiles
    apart, of lines together, the sizes to cut off at, and of a matrix for each sample. They are computed from
    inputs of the model: asked for the shape of an image, the runtime would bring it out of its blocked
    layout."""

    shapes: tuple[RuntimeShape, ...]

    @staticmethod
    def of(emission: Emission, node: Node, form: Form) -> OpenShapes | None:
        """Those of a convolution; None where its height and width are known."""
        if not form.is_open:
            return None
        samples, _, *outputs = emission.type(node.value).shape
        rows, columns = form.rows, form.columns
        height, width = rows.tiles_of(outputs[0]), columns.tiles_of(outputs[1])
        maps = form.outputs * rows.points
        computed = width * columns.tiling.step
        ends = {rows.number: outputs[0], columns.number: outputs[1]}
        shapes = (
            (samples, columns.points, product((maps, height, width))),
            (samples, maps, height, computed),
            (samples, rows.points, product((form.outputs, height, computed))),
            (samples, rows.tiling.step, product((form.outputs, height)), computed),
            (samples, form.outputs, height * rows.tiling.step, computed),
            tuple(ends[axis.number] for axis in form.partial),
            (samples, 1, 1),
        )
        return OpenShapes(tuple(RuntimeShape(emission, node.id, shape) for shape in shapes))

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The tensors whose shapes are read."""
        return tuple(operand for shape in self.shapes for operand in shape.operands)

    def write(self, writer: Writer, names: Sequence[str]) -> list[str]:
        """The names of the vectors; ``names`` are those of ``operands``."""
        vectors: list[str] = []
        rest = list(names)
        for shape in self.shapes:
            count = len(shape.operands)
            own, rest = rest[:count], rest[count:]
            vectors.append(shape.write(writer, own))
        return vectors


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


def _open_image(nodes: TensorNodes, form: Form, products: str, output: str, shapes: Sequence[str]) -> None:
    """Outputs that are too many are cut off once, at the end."""
    by_column, in_tiles, by_row, apart, together, ends, of_matrix = shapes
    rows, columns = form.rows, form.columns
    if columns.transformed:
        products = _back(nodes, form, columns, nodes.node("Reshape", [products, by_column]), of_matrix)
        if columns.tiling.step > 1:
            products = nodes.transposed(products, (0, 2, 1))
        products = nodes.node("Reshape", [products, in_tiles])
    if rows.transformed:
        products = _back(nodes, form, rows, nodes.node("Reshape", [products, by_row]), of_matrix)
        if rows.tiling.step > 1:
            products = nodes.transposed(nodes.node("Reshape", [products, apart]), (0, 2, 1, 3))
        products = nodes.node("Reshape", [products, together])
    axes = [axis.number for axis in form.partial]
    if axes:
        operands = [products, nodes.sizes([0] * len(axes)), ends, nodes.sizes(axes)]
        nodes.node("Slice", operands, output=output)
    else:
        nodes.node("Identity", [products], output=output)


def _back(nodes: TensorNodes, form: Form, axis: Axis, flat: str, of_matrix: str) -> str:
    """[n, points, size] -> [n, outputs of a tile, size]. ONNX Runtime repeats a matrix for each sample by
    itself, but for 0 samples it fails."""
    matrix = nodes.numbers(floats(axis.tiling.result).T)
    if form.samples == -1:
        matrix = nodes.writer.calculated("Expand", [matrix, of_matrix])
    return nodes.node("MatMul", [matrix, flat])


__all__ = ["OpenShapes", "write_image"]
