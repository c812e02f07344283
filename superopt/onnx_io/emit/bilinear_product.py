"""Emit products by bilinear algorithms, in the form that ONNX Runtime 1.31 computes fastest on a CPU.

Rows in turn are put side by side, which moves nothing, so that one Split gives all blocks. Common parts of
sums are computed once. A product that only one sum contains adds it up in a Gemm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from superopt.domains import Array
from superopt.ir.graph import Node, Value
from superopt.ir.types import ElementType
from superopt.onnx_io.emit.recipes import Emission, Operand, Recipe, Writer, known
from superopt.onnx_io.emit.tensor_nodes import TensorNodes
from superopt.ops.bilinear.filter_algorithms import Matrix
from superopt.ops.bilinear.product import BilinearMatmul, ProductTransform
from superopt.ops.bilinear.product_algorithms import sizes_of
from superopt.ops.bilinear.product_schedule import ProductSchedule
from superopt.ops.bilinear.shared_sums import Multiple


@dataclass(frozen=True)
class Form:
    """The sizes of blocks, and the shape of the result with -1 for an unknown first axis."""

    rows: int
    inner: int
    columns: int
    height: int
    width: int
    shape: tuple[int, ...]
    element: ElementType

    @staticmethod
    def of(emission: Emission, node: Node) -> Form:
        """The sizes of a node; raises UnsupportedError where they are not known."""
        operator = node.operator
        assert isinstance(operator, BilinearMatmul)
        data, result = emission.type(node.inputs[0]), emission.type(node.value)
        rows, inner, columns = sizes_of(operator.name, operator.algorithm)
        first, *others = result.shape
        sizes = tuple(known(operator.name, size) for size in others)
        return Form(
            rows=rows,
            inner=inner,
            columns=columns,
            height=known(operator.name, data.shape[-1]) // inner,
            width=sizes[-1] // columns,
            shape=(first if isinstance(first, int) else -1, *sizes),
            element=data.element,
        )

    @property
    def is_flat(self) -> bool:
        """Whether the operands have the rows of a block already."""
        return self.rows == 1 and len(self.shape) == 2


@dataclass(frozen=True)
class _Products:
    """Writes products of blocks and their sums; ``values`` are names by number of the term, in the order of
    ``SharedSums``."""

    nodes: TensorNodes
    schedule: ProductSchedule
    data: Sequence[str]
    weights: Sequence[str]
    biases: Mapping[int, str]
    values: dict[int, str] = field(default_factory=dict[int, str])

    def results(self) -> list[str]:
        """The blocks of the result, row by row."""
        program = self.schedule.products
        for number, pair in enumerate(program.sums):
            self.values[program.operands + number] = self._sum(number, pair)
        results = (result for result in program.results if result is not None)
        return [_scaled(self.nodes, self._value(result.term), result.factor) for result in results]

    def _sum(self, number: int, pair: tuple[Multiple, Multiple]) -> str:
        product = self.schedule.added.get(number)
        one, other = pair
        if product is None:
            return _added(self.nodes, pair, (self._value(one.term), self._value(other.term)))
        if one.term == product:
            one, other = other, one
        factors = {"alpha": float(other.factor), "beta": float(one.factor)}
        operands = [self.data[product], self.weights[product], self._value(one.term)]
        return self.nodes.node("Gemm", operands, {k: v for k, v in factors.items() if v != 1})

    def _value(self, term: int) -> str:
        """A sum, or a product, computed when it is first read."""
        if term not in self.values:
            operands = [self.data[term], self.weights[term]]
            bias = self.biases.get(term)
            self.values[term] = (
                self.nodes.node("MatMul", operands)
                if bias is None
                else self.nodes.node("Gemm", [*operands, bias])
            )
        return self.values[term]


def bilinear_matmul(emission: Emission, node: Node) -> Recipe:
    """A product by a bilinear algorithm without bias."""
    return _product(emission, node, node.values, None)


def product_with_bias(
    emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value
) -> Recipe | None:
    """A product with a vector added to its rows; None where no products take parts of the vector."""
    return None if _schedule(node).bias is None else _product(emission, node, defines, bias)


def _schedule(node: Node) -> ProductSchedule:
    assert isinstance(node.operator, BilinearMatmul)
    return ProductSchedule.of(node.operator.algorithm)


def _product(emission: Emission, node: Node, defines: tuple[Value, ...], bias: Value | None) -> Recipe:
    form, own = Form.of(emission, node), _schedule(node)

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        nodes = TensorNodes(writer, form.element)
        weights = nodes.divided(names[1], len(own.left), form.height)
        biases = {} if bias is None else _biases(nodes, own, form, names[2])
        blocks = _Products(nodes, own, _data(nodes, own, form, names[0]), weights, biases).results()
        if form.is_flat:
            nodes.node("Concat", blocks, {"axis": 1}, outputs[0])
        else:
            nodes.reshaped(nodes.joined(blocks), form.shape, outputs[0])

    operands = (*node.inputs, *(() if bias is None else (bias,)))
    return Recipe(defines, tuple(Operand(value) for value in operands), write)


def _data(nodes: TensorNodes, own: ProductSchedule, form: Form, data: str) -> list[str]:
    """The combination of blocks for each multiplication."""
    if not form.is_flat:
        data = nodes.reshaped(data, (-1, form.rows * form.inner * form.height))
    values = nodes.divided(data, form.rows * form.inner, form.height, axis=1)
    for one, other in own.data.sums:
        values.append(_added(nodes, (one, other), (values[one.term], values[other.term])))
    return ["" if each is None else values[each.term] for each in own.data.results]


def _biases(nodes: TensorNodes, own: ProductSchedule, form: Form, bias: str) -> dict[int, str]:
    """What is added to products, by number."""
    factors = own.bias
    assert factors is not None
    used = [(product, row) for product, row in zip(own.alone, factors, strict=True) if row.any()]
    matrix = nodes.numbers(np.array([row for _, row in used]))
    parts = nodes.node("MatMul", [matrix, nodes.reshaped(bias, (form.columns, form.width))])
    return dict(zip((product for product, _ in used), nodes.divided(parts, len(used), 1), strict=True))


def _added(nodes: TensorNodes, pair: tuple[Multiple, Multiple], names: tuple[str, str]) -> str:
    """The sum of two tensors with factors."""
    (one, other), (first, second) = pair, names
    if one.factor < 0 < other.factor:
        one, other, first, second = other, one, second, first
    first = _scaled(nodes, first, one.factor)
    if other.factor == -1:
        return nodes.node("Sub", [first, second])
    return nodes.node("Add", [first, _scaled(nodes, second, other.factor)])


def _scaled(nodes: TensorNodes, name: str, factor: Fraction) -> str:
    if factor == 1:
        return name
    if factor == -1:
        return nodes.node("Neg", [name])
    return nodes.node("Mul", [name, nodes.numbers(np.asarray(float(factor)))])


def product_transform(emission: Emission, node: Node) -> Recipe:
    """A matrix product over blocks, for matrices computed at run time."""
    operator = node.operator
    assert isinstance(operator, ProductTransform)
    type_ = emission.type(node.inputs[0])
    height, width = (known(operator.name, size) for size in type_.shape)
    _, inner, columns = sizes_of(operator.name, operator.algorithm)
    down, across = height // inner, width // columns
    right = operator.algorithm[1]

    def write(writer: Writer, names: tuple[str, ...], outputs: tuple[str, ...]) -> None:
        nodes = TensorNodes(writer, type_.element)
        separate = nodes.reshaped(names[0], (inner, down, columns, across))
        blocks = nodes.reshaped(nodes.transposed(separate, (0, 2, 1, 3)), (inner * columns, down * across))
        combined = nodes.node("MatMul", [nodes.numbers(_floats(right)), blocks])
        nodes.reshaped(combined, (len(right) * down, across), outputs[0])

    return Recipe(node.values, (Operand(node.inputs[0]),), write)


def _floats(matrix: Matrix) -> Array:
    return np.array([[float(entry) for entry in row] for row in matrix])


__all__ = ["bilinear_matmul", "product_transform", "product_with_bias"]
