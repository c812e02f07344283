"""Small semantic changes planted in an ONNX model: each is what a wrong rewrite would do at one place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Floats = npt.NDArray[np.floating]
Plant = Callable[[onnx.GraphProto, random.Random], str | None]
"""Changes the graph at one place and says where; None where there is no such place."""


def planted(model: onnx.ModelProto, kind: str, seed: int = 0) -> tuple[str, bytes] | None:
    """(where, the changed model); None where the model has no place for it, or too old operators."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    where = PLANTS[kind](changed.graph, random.Random(seed))
    if where is None or not _is_valid(changed):
        return None
    return where, changed.SerializeToString()


def all_planted(model: onnx.ModelProto, places: int = 1) -> Iterator[tuple[str, str, bytes]]:
    """(kind, where, the changed model) of every kind that has a place, at so many random places."""
    for kind in PLANTS:
        seen: set[str] = set()
        for seed in range(places):
            found = planted(model, kind, seed)
            if found is not None and found[0] not in seen:
                seen.add(found[0])
                yield kind, *found


def _is_valid(model: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
    except onnx.checker.ValidationError:
        return False
    return True


def _nodes(graph: onnx.GraphProto, *kinds: str) -> list[onnx.NodeProto]:
    return [node for node in graph.node if node.op_type in kinds]


def _chosen(graph: onnx.GraphProto, draw: random.Random, *kinds: str) -> onnx.NodeProto | None:
    nodes = _nodes(graph, *kinds)
    return draw.choice(nodes) if nodes else None


class _Constants:
    """Initialisers and Constant nodes of floats, by name."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in _nodes(graph, "Constant"):
            for attribute in node.attribute:
                if attribute.name == "value":
                    self._tensors[node.output[0]] = attribute.t

    def __contains__(self, name: str) -> bool:
        return name in self._tensors and self._tensors[name].data_type == TensorProto.FLOAT

    def __getitem__(self, name: str) -> Floats:
        return np.array(numpy_helper.to_array(self._tensors[name]))

    def __setitem__(self, name: str, array: Floats) -> None:
        tensor = self._tensors[name]
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))

    def slots(
        self, graph: onnx.GraphProto, kinds: Mapping[str, Sequence[int]], few: int = 1
    ) -> list[tuple[onnx.NodeProto, str]]:
        """(node, constant operand) with at least so many elements, in slots of nodes of these kinds."""
        return [
            (node, node.input[slot])
            for node in graph.node
            for slot in kinds.get(node.op_type, ())
            if slot < len(node.input) and node.input[slot] in self and self[node.input[slot]].size >= few
        ]


_ADDED = {"Add": (0, 1), "Conv": (2,), "Gemm": (2,), "BatchNormalization": (2,), "LayerNormalization": (2,)}
_MULTIPLIED = {"Mul": (0, 1), "Conv": (1,), "MatMul": (1,), "Gemm": (1,), "Div": (1,)}


def _changed(
    graph: onnx.GraphProto,
    draw: random.Random,
    kinds: Mapping[str, Sequence[int]],
    change: Callable[[Floats], Floats | None],
    few: int = 1,
) -> str | None:
    """One constant operand changed; those that ``change`` gives None for are left alone."""
    constants = _Constants(graph)
    slots = constants.slots(graph, kinds, few)
    draw.shuffle(slots)
    for node, name in slots:
        array = change(constants[name])
        if array is not None:
            constants[name] = array
            return f"{node.op_type} {node.name or node.output[0]} {name}"
    return None


def bias_dropped(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A bias of 1e-3 on every second channel is missing: on all, normalisation would not see it."""

    def change(bias: Floats) -> Floats:
        second = np.arange(bias.size).reshape(bias.shape) % 2
        return bias - 1e-3 * second

    return _changed(graph, draw, _ADDED, change, few=4)


def bias_of_a_channel_dropped(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """The bias of the channel that has the largest one is missing."""

    def change(bias: Floats) -> Floats | None:
        flat = bias.reshape(-1).copy()
        flat[np.argmax(np.abs(flat))] = 0
        return flat.reshape(bias.shape) if np.abs(bias).max() >= 1e-3 else None

    return _changed(graph, draw, _ADDED, change, few=4)


def channels_swapped(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Two kernels of a convolution, or columns of a matrix, change places."""

    def change(weight: Floats) -> Floats | None:
        axis = 0 if weight.ndim == 4 else weight.ndim - 1
        if weight.ndim < 2 or weight.shape[axis] < 2:
            return None
        return np.take(weight, [1, 0, *range(2, weight.shape[axis])], axis)

    return _changed(graph, draw, {"Conv": (1,), "MatMul": (1,), "Gemm": (1,)}, change, few=4)


def scaled(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A factor of 1.001 too much."""
    return _changed(graph, draw, _MULTIPLIED, lambda weight: weight * 1.001)


def square_transposed(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A square matrix, or the kernels of a 1x1 convolution, transposed."""

    def change(weight: Floats) -> Floats | None:
        square = weight.ndim in (2, 4) and weight.shape[0] == weight.shape[1] > 1
        return np.swapaxes(weight, 0, 1).copy() if square else None

    return _changed(graph, draw, {"Conv": (1,), "MatMul": (0, 1), "Gemm": (1,)}, change)


def kernel_flipped(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """The kernels of a convolution mirrored."""

    def change(weight: Floats) -> Floats | None:
        return weight[..., ::-1].copy() if weight.ndim == 4 and weight.shape[-1] > 1 else None

    return _changed(graph, draw, {"Conv": (1,)}, change)


def _neighbouring(slot: int) -> Plant:
    def plant(graph: onnx.GraphProto, draw: random.Random) -> str | None:
        return _changed(graph, draw, {"BatchNormalization": (slot,)}, lambda array: np.roll(array, 1), few=2)

    return plant


def epsilon_larger(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """An epsilon of 1e-5 becomes 1e-3."""
    kinds = ("BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization")
    node = _chosen(graph, draw, *kinds)
    if node is not None:
        _set(node, "epsilon", 1e-3)
        return f"epsilon of {node.name or node.output[0]}"
    roots = {name for root in _nodes(graph, "Sqrt") for name in root.input}
    constants = _Constants(graph)
    for add in _nodes(graph, "Add"):
        small = [name for name in add.input if name in constants and constants[name].size == 1]
        if add.output[0] in roots and small:
            constants[small[0]] = constants[small[0]] * 0 + 1e-3
            return f"epsilon of {add.name or add.output[0]}"
    return None


def _dropped(*kinds: str) -> Plant:
    def plant(graph: onnx.GraphProto, draw: random.Random) -> str | None:
        outputs = {value.name for value in graph.output}
        nodes = [node for node in _nodes(graph, *kinds) if node.output[0] not in outputs]
        if not nodes:
            return None
        dropped = draw.choice(nodes)
        for node in graph.node:
            node.input[:] = [dropped.input[0] if n == dropped.output[0] else n for n in node.input]
        graph.node.remove(dropped)
        return f"{dropped.op_type} {dropped.name or dropped.output[0]}"

    return plant


def _set(node: onnx.NodeProto, name: str, value: object) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _attribute(
    kinds: Sequence[str], name: str, default: float | None, change: Callable[[float], float]
) -> Plant:
    """A number among the attributes changed."""

    def plant(graph: onnx.GraphProto, draw: random.Random) -> str | None:
        node = _chosen(graph, draw, *kinds)
        if node is None:
            return None
        found = next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), default)
        if found is None:
            return None
        _set(node, name, change(found))
        return f"{name} of {node.op_type} {node.name or node.output[0]}"

    return plant


def padding_moved(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Padding taken from the bottom right and added at the top left: shapes stay."""
    padded = [
        (node, attribute)
        for node in _nodes(graph, "Conv", "MaxPool", "AveragePool")
        for attribute in node.attribute
        if attribute.name == "pads" and any(attribute.ints)
    ]
    if not padded:
        return None
    node, pads = draw.choice(padded)
    half = len(pads.ints) // 2
    sums = [a + b for a, b in zip(pads.ints[:half], pads.ints[half:], strict=True)]
    pads.ints[:] = [*sums, *([0] * half)]
    return f"pads of {node.op_type} {node.name or node.output[0]}"


def padding_repeats_the_edge(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A convolution whose border repeats the edge in place of zeros."""
    padded = [
        (node, attribute)
        for node in _nodes(graph, "Conv")
        for attribute in node.attribute
        if attribute.name == "pads" and any(attribute.ints) and len(attribute.ints) == 4
    ]
    if not padded:
        return None
    node, pads = draw.choice(padded)
    top, left, bottom, right = pads.ints
    amounts = numpy_helper.from_array(np.array([0, 0, top, left, 0, 0, bottom, right], np.int64), "plant_p")
    graph.initializer.append(amounts)
    pad = helper.make_node("Pad", [node.input[0], "plant_p"], ["plant_y"], mode="edge")
    node.input[0] = "plant_y"
    pads.ints[:] = [0, 0, 0, 0]
    graph.node.insert(list(graph.node).index(node), pad)
    return f"border of {node.name or node.output[0]}"


def padding_counted(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """An average over the border that counts the zeros outside, or no longer does."""
    padded = [
        node
        for node in _nodes(graph, "AveragePool")
        if any(attribute.name == "pads" and any(attribute.ints) for attribute in node.attribute)
    ]
    if not padded:
        return None
    node = draw.choice(padded)
    _set(
        node, "count_include_pad", int(not any(a.name == "count_include_pad" and a.i for a in node.attribute))
    )
    return f"border of {node.name or node.output[0]}"


def operands_reversed(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """The operands of a concat in reverse order."""
    nodes = [node for node in _nodes(graph, "Concat") if len(set(node.input)) > 1]
    constants = {tensor.name for tensor in graph.initializer} | {
        n for c in _nodes(graph, "Constant") for n in c.output
    }
    nodes = [node for node in nodes if not constants.intersection(node.input)]
    if not nodes:
        return None
    node = draw.choice(nodes)
    node.input[:] = list(node.input)[::-1]
    return f"order of {node.op_type} {node.name or node.output[0]}"


def clip_bound_moved(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A clip at 6.01 in place of 6, and so on."""
    by_operand = _changed(graph, draw, {"Clip": (2,)}, lambda bound: bound * (1 + 1 / 600))
    if by_operand is not None:
        return by_operand
    return _attribute(("Clip",), "max", None, lambda bound: bound * (1 + 1 / 600))(graph, draw)


def resize_mode_changed(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Half pixel in place of asymmetric, or the other way round."""
    node = _chosen(graph, draw, "Resize")
    if node is None:
        return None
    found = next((a.s for a in node.attribute if a.name == "coordinate_transformation_mode"), b"half_pixel")
    _set(node, "coordinate_transformation_mode", "asymmetric" if found != b"asymmetric" else "half_pixel")
    if not any(a.name == "nearest_mode" for a in node.attribute):
        _set(node, "nearest_mode", "floor")
    return f"coordinates of {node.name or node.output[0]}"


def activation_replaced(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A function becomes one that is near it."""
    near = {"Relu": "Softplus", "Erf": "Tanh", "Sigmoid": "HardSigmoid", "HardSigmoid": "Sigmoid",
            "Tanh": "Softsign", "MaxPool": "AveragePool"}  # fmt: skip
    node = _chosen(graph, draw, *near)
    if node is None:
        return None
    was = node.op_type
    node.op_type = near[was]
    if was != "MaxPool":
        del node.attribute[:]
    else:
        for attribute in [a for a in node.attribute if a.name in ("storage_order", "dilations")]:
            node.attribute.remove(attribute)
    return f"{was} {node.name or node.output[0]}"


def erf_by_tanh(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A gelu by its approximation: erf(x / sqrt 2) as tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    node = _chosen(graph, draw, "Erf")
    if node is None:
        return None
    x, y, at = node.input[0], node.output[0], list(graph.node).index(node)
    for name, value in (("plant_a", 2 / np.sqrt(np.pi)), ("plant_b", 0.044715 * 2), ("plant_c", 1.0)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    graph.node.remove(node)
    added = (
        helper.make_node("Mul", [x, x], ["plant_1"]),
        helper.make_node("Mul", ["plant_1", "plant_b"], ["plant_2"]),
        helper.make_node("Add", ["plant_2", "plant_c"], ["plant_3"]),
        helper.make_node("Mul", [x, "plant_3"], ["plant_4"]),
        helper.make_node("Mul", ["plant_4", "plant_a"], ["plant_5"]),
        helper.make_node("Tanh", ["plant_5"], [y]),
    )
    for offset, made in enumerate(added):
        graph.node.insert(at + offset, made)
    return f"gelu around {y}"


def residual_dropped(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A sum of two computed tensors becomes the first of them."""
    constants = {t.name for t in graph.initializer} | {n for c in _nodes(graph, "Constant") for n in c.output}
    sums = [node for node in _nodes(graph, "Add") if not constants.intersection(node.input)]
    outputs = {value.name for value in graph.output}
    sums = [node for node in sums if node.output[0] not in outputs and len(set(node.input)) == 2]
    if not sums:
        return None
    dropped = draw.choice(sums)
    dropped.op_type = "Identity"
    del dropped.input[1:]
    return f"sum {dropped.name or dropped.output[0]}"


PLANTS: Mapping[str, Plant] = {
    "a bias of 1e-3 dropped": bias_dropped,
    "the bias of a channel dropped": bias_of_a_channel_dropped,
    "two channels swapped": channels_swapped,
    "a factor of 1.001": scaled,
    "a square weight transposed": square_transposed,
    "a kernel mirrored": kernel_flipped,
    "epsilon 1e-3 for 1e-5": epsilon_larger,
    "means of the neighbouring channels": _neighbouring(3),
    "variances of the neighbouring channels": _neighbouring(4),
    "an activation dropped": _dropped("Relu", "Clip", "LeakyRelu", "HardSigmoid", "Sigmoid", "Tanh"),
    "an activation replaced": activation_replaced,
    "gelu by tanh": erf_by_tanh,
    "clip at 6.01": clip_bound_moved,
    "LeakyRelu with alpha 0.011": _attribute(("LeakyRelu",), "alpha", 0.01, lambda alpha: alpha * 1.1),
    "HardSigmoid with another slope": _attribute(("HardSigmoid",), "alpha", 0.2, lambda a: a * 1.001),
    "the border moved": padding_moved,
    "the border repeats the edge": padding_repeats_the_edge,
    "padding counted": padding_counted,
    "softmax along another axis": _attribute(("Softmax",), "axis", None, lambda axis: axis - 1),
    "resized by other coordinates": resize_mode_changed,
    "operands in reverse order": operands_reversed,
    "a residual dropped": residual_dropped,
}
