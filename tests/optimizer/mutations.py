"""Random small mistakes in an ONNX model, of the kind that a wrong optimizer makes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper

Mutation = Callable[[onnx.GraphProto, random.Random], str | None]


def mutants(model: onnx.ModelProto, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """(what was done, the mutated model), the kinds in turn; the first kind where one finds nothing."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        mutant = onnx.ModelProto()
        mutant.CopyFrom(model)
        done = KINDS[made % len(KINDS)](mutant.graph, draw) or KINDS[0](mutant.graph, draw)
        assert done is not None
        made += 1
        yield done, mutant.SerializeToString()


def perturb_weight(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Noise of a tenth on all numbers of one weight."""
    tensor = draw.choice([t for t in graph.initializer if t.data_type == onnx.TensorProto.FLOAT])
    noise = np.random.default_rng(draw.randrange(2**32)).standard_normal(tuple(tensor.dims))
    array = numpy_helper.to_array(tensor) * (1 + 0.1 * noise)
    tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
    return f"perturb {tensor.name}"


def drop_activation(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Readers of an activation read its input."""
    outputs = {value.name for value in graph.output}
    nodes = [n for n in graph.node if n.op_type == "Relu" and n.output[0] not in outputs]
    if not nodes:
        return None
    dropped = draw.choice(nodes)
    graph.node.remove(dropped)
    for node in graph.node:
        node.input[:] = [dropped.input[0] if name == dropped.output[0] else name for name in node.input]
    return f"drop {dropped.name}"


def reverse_concat(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """The operands of a concat in reverse order."""
    nodes = [n for n in graph.node if n.op_type == "Concat" and len(set(n.input)) > 1]
    if not nodes:
        return None
    node = draw.choice(nodes)
    node.input[:] = list(node.input)[::-1]
    return f"reverse {node.name}"


def move_padding(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Padding taken from the bottom right and added at the top left: shapes stay."""
    padded = [(n, a) for n in graph.node for a in n.attribute if a.name == "pads" and any(a.ints)]
    if not padded:
        return None
    node, pads = draw.choice(padded)
    half = len(pads.ints) // 2
    before, after = list(pads.ints[:half]), list(pads.ints[half:])
    pads.ints[:] = [b + a for b, a in zip(before, after, strict=True)] + [0] * half
    return f"padding of {node.name}"


def swap_weights(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """Two weights of one shape change places."""
    groups: dict[tuple[int, ...], list[onnx.TensorProto]] = {}
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
            groups.setdefault(tuple(tensor.dims), []).append(tensor)
    pairs = [group for group in groups.values() if len(group) > 1]
    if not pairs:
        return None
    left, right = draw.sample(draw.choice(pairs), 2)
    left.name, right.name = right.name, left.name
    return f"swap {left.name} and {right.name}"


def other_activation(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """An activation becomes another one."""
    nodes = [n for n in graph.node if n.op_type == "Relu"]
    if not nodes:
        return None
    node = draw.choice(nodes)
    node.op_type = draw.choice(("Sigmoid", "Tanh", "Softplus"))
    return f"{node.name} as {node.op_type}"


def other_pooling(graph: onnx.GraphProto, draw: random.Random) -> str | None:
    """A maximum becomes a mean."""
    nodes = [n for n in graph.node if n.op_type == "MaxPool"]
    if not nodes:
        return None
    node = draw.choice(nodes)
    node.op_type = "AveragePool"
    for attribute in [a for a in node.attribute if a.name in ("storage_order", "dilations")]:
        node.attribute.remove(attribute)
    return f"{node.name} as mean"


KINDS: tuple[Mutation, ...] = (
    perturb_weight,
    drop_activation,
    reverse_concat,
    move_padding,
    swap_weights,
    other_activation,
    other_pooling,
)
