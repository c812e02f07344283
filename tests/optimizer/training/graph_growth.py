"""Random ONNX models of differentiable operators, grown node by node with their values at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.optimizer.training.numpy_onnx import results
from tests.optimizer.training.onnx_call import Array, NoWindowError, as_real

OPSETS: Final = (7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23)
LARGEST, MOST_ELEMENTS = 8.0, 400
"""Bounds of the numbers in a tensor and of their count: float32 must follow."""


class UnfitError(Exception):
    """No operand fits, or the result is too large."""


@dataclass(frozen=True)
class Grown:
    """A random model, values for its inputs, and the names of its float initialisers."""

    model: onnx.ModelProto
    inputs: dict[str, Array]
    weights: dict[str, Array]
    outputs: list[str]


@dataclass
class Growth:
    """A model under construction. The first axis of inputs is ``batch`` if the model is ``dynamic``;
    ``trained`` tensors depend on weights."""

    random: np.random.Generator
    opset: int
    dynamic: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    values: dict[str, Array] = field(default_factory=dict)
    floats: list[str] = field(default_factory=list)
    read: set[str] = field(default_factory=set)
    trained: set[str] = field(default_factory=set)

    def input(self, shape: Sequence[int]) -> str:
        """A new input of small numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.random.normal(size=shape).astype(np.float32)
        self.values[name] = as_real(self.inputs[name])
        self.floats.append(name)
        return name

    def weight(self, shape: Sequence[int], low: float = -1.0, high: float = 1.0) -> str:
        """An initialiser, sometimes one that there is already, sometimes through a node that moves it."""
        shape = tuple(int(size) for size in shape)
        alike = [name for name, array in self.weights.items() if array.shape == shape]
        if alike and low == -1 and self.chance(0.25):
            return str(self.random.choice(alike))
        name = f"w{len(self.weights)}"
        if len(shape) == 2 and low == -1 and self.chance(0.15):
            self._stored(name, shape[::-1], low, high)
            return self.node("Transpose", [name], perm=[1, 0])
        self._stored(name, shape, low, high)
        return name

    def _stored(self, name: str, shape: Sequence[int], low: float, high: float) -> None:
        content = self.random.uniform(low, high, size=shape).astype(np.float32)
        self.weights[name] = content
        self.values[name] = as_real(content)
        self.trained.add(name)

    def constant(self, content: Array | Sequence[int] | float, dtype: type[np.generic] = np.int64) -> str:
        """An initialiser that is no parameter."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(content, dtype)
        self.values[name] = as_real(self.constants[name])
        return name

    def node(self, op_type: str, operands: Sequence[str], outputs: int = 1, **attributes: object) -> str:
        """Adds a node and returns its first output. Raises UnfitError where a result is out of bounds."""
        names = [f"t{len(self.values)}_{number}" for number in range(outputs)]
        made = helper.make_node(op_type, list(operands), names, f"{op_type}_{len(self.nodes)}", **attributes)
        try:
            with np.errstate(all="ignore"):
                found = results(made, self.values, self.opset)
        except (NoWindowError, ValueError) as error:
            raise UnfitError(str(error)) from error
        for array in found.values():
            if array.size == 0 or array.size > MOST_ELEMENTS:
                raise UnfitError(f"{op_type} has {array.size} elements")
            if array.dtype.kind == "f" and not np.abs(array).max() < LARGEST:
                raise UnfitError(f"{op_type} is too large")
        self.nodes.append(made)
        self.values.update(found)
        self.read.update(operands)
        if not self.trained.isdisjoint(operands):
            self.trained.update(name for name, array in found.items() if array.dtype.kind == "f")
        self.floats += [name for name, array in found.items() if array.dtype.kind == "f"]
        return names[0]

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return bool(self.random.random() < share)

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both possible."""
        return int(self.random.integers(low, high + 1))

    def numbers(self, low: int, high: int, count: int) -> list[int]:
        """Several whole numbers."""
        return [self.number(low, high) for _ in range(count)]

    def pick(self, least: int = 0, most: int = 5, fits: Callable[[Array], bool] | None = None) -> str:
        """A tensor of that rank, preferably one that no node reads. Raises UnfitError where there is none."""
        found = [
            name
            for name in self.floats
            if least <= self.values[name].ndim <= most and (fits is None or fits(self.values[name]))
        ]
        if not found:
            raise UnfitError("no operand")
        fresh = [name for name in found if name not in self.read]
        return str(self.random.choice(fresh if fresh and self.chance(0.7) else found))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self.values[name].shape

    def axis(self, rank: int, first: int = 0) -> int:
        """An axis, counted from either end."""
        axis = self.number(first, rank - 1)
        return axis - rank if self.chance(0.4) and self.opset >= 11 else axis

    def axes(self, rank: int) -> list[int]:
        """Some different axes, in order, counted from either end."""
        chosen = sorted(self.random.permutation(rank)[: self.number(1, rank)].tolist())
        return [a - rank for a in chosen] if self.chance(0.3) and self.opset >= 11 else chosen

    def finished(self) -> Grown:
        """The model with some of the unread tensors as outputs."""
        made = {name for node in self.nodes for name in node.output}
        leaves = [name for name in self.floats if name in made and name not in self.read]
        leaves.sort(key=lambda name: name in self.trained)
        leaves = leaves[-self.number(1, 3) :]
        if self.chance(0.2):
            leaves = list(dict.fromkeys([*leaves, self.pick()]))
        leaves = [name for name in leaves if name in made]
        if self.trained.isdisjoint(leaves):
            raise UnfitError("no output depends on a weight")
        inputs = [self._declared(name, array) for name, array in self.inputs.items()]
        outputs = [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, [None] * array.ndim if self.dynamic else array.shape
            )
            for name, array in ((name, self.values[name]) for name in leaves)
        ]
        stored = {**self.weights, **self.constants}
        tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
        graph = helper.make_graph(self.nodes, "random", inputs, outputs, tensors)
        if self.opset < 9:
            graph.input.extend(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
                for tensor in tensors
            )
        versions = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=3 if self.opset < 9 else 10)
        return Grown(model, self.inputs, self.weights, leaves)

    def _declared(self, name: str, array: Array) -> onnx.ValueInfoProto:
        sizes: list[int | str] = list(array.shape)
        if self.dynamic and sizes:
            sizes[0] = "batch"
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
