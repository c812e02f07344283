"""Rules about divided tensors judged by plain numpy: shard by shard, from the operators that the file names.

An input lies in one piece, unless an operator that puts together or sums reads it: then in as many as that
asks for.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from tests.substitution_db.peers.divided_rules import Sample, Shapes
from tests.substitution_db.peers.samples import parsed
from tests.verifier.brute.basics import Attributes, IllTyped, need
from tests.verifier.brute.divided import Shards, applied, sharded

Operator = tuple[str, list[tuple[int, int]], dict[str, int]]
_Place = int | None
"""An axis counted from the inside; None for copies."""

_ACTIVATIONS = ("", "sigmoid", "relu", "tanh")
_PLAIN = {"RELU": "relu", "SIGMOID": "sigmoid", "TANH": "tanh", "EW_ADD": "add", "EW_MUL": "mul"}
_PARALLEL = ("PARTITION", "COMBINE", "REPLICATE", "REDUCE")


class Truth(enum.Enum):
    """What is so of a rule at the sizes that were tried."""

    TRUE = "true"
    FALSE = "false"
    NOWHERE = "well-typed nowhere"


def truth(sample: Sample) -> Truth:
    """False where the sides differ in an element or in how they lie; nowhere if one of them is ill-typed at
    all sizes."""
    found = [agrees(sample, shapes) for shapes in sample.shapes]
    if False in found:
        return Truth.FALSE
    return Truth.TRUE if True in found else Truth.NOWHERE


def agrees(sample: Sample, shapes: Shapes) -> bool | None:
    """Whether both sides are the same shards; None where one of them is ill-typed."""
    source, target = ([parsed(text) for text in side] for side in (sample.rule.source, sample.rule.target))
    try:
        inputs = _inputs(shapes, source, target)
        left, right = _evaluated(source, inputs), _evaluated(target, inputs)
        pairs = [(left[a, b], right[c, d]) for a, b, c, d in sample.rule.mapped]
    except IllTyped:
        return None
    return all(_same(one, other) for one, other in pairs)


def _same(one: Shards, other: Shards) -> bool:
    return one.layout == other.layout and all(
        part.shape == other.parts[place].shape and np.allclose(part, other.parts[place], rtol=1e-9, atol=1e-9)
        for place, part in one.parts.items()
    )


def _inputs(shapes: Shapes, *sides: Sequence[Operator]) -> dict[tuple[int, int], Shards]:
    random = np.random.default_rng(3)
    needed: dict[int, dict[_Place, int]] = {}
    for side in sides:
        for name, place, count in _asked(side):
            own = needed.setdefault(name, {})
            own[place] = math.lcm(own.get(place, 1), count)
    found: dict[tuple[int, int], Shards] = {}
    for name, shape in shapes.items():
        own = needed.get(name, {})
        copies = [random.uniform(-1, 2, shape) for _ in range(own.get(None, 1))]
        need(all(place is None or place < len(shape) for place in own))
        degrees = tuple(own.get(len(shape) - 1 - axis, 1) for axis in range(len(shape)))
        need(not any(size % degree for size, degree in zip(shape, degrees, strict=True)))
        found[name, 0] = sharded(copies, degrees, (1,) * len(shape))
    return found


def _asked(side: Sequence[Operator]) -> Iterator[tuple[int, _Place, int]]:
    """How many parts or copies of an input the chains of parallel operators that read it ask for."""
    for start, (_, inputs, _) in enumerate(side):
        name = inputs[0][0] if inputs else 0
        if name < 0:
            yield from ((name, place, count) for place, count in _chain(side, start, {}, {}))


def _chain(
    side: Sequence[Operator], index: int, there: Mapping[_Place, int], asked: Mapping[_Place, int]
) -> Iterator[tuple[_Place, int]]:
    kind, _, said = side[index]
    if kind not in _PARALLEL:
        yield from asked.items()
        return
    degree = said["PARALLEL_DEGREE"]
    place = said["PARALLEL_DIM"] if kind in ("PARTITION", "COMBINE") else None
    now = there.get(place, 1)
    if kind in ("PARTITION", "REPLICATE"):
        there = {**there, place: now * degree}
    else:
        missing = degree // math.gcd(now, degree)
        asked = {**asked, place: asked.get(place, 1) * missing}
        there = {**there, place: now * missing // degree}
    yield from asked.items()
    for reader, (_, inputs, _) in enumerate(side):
        if (index, 0) in inputs:
            yield from _chain(side, reader, there, asked)


def _evaluated(
    side: Sequence[Operator], inputs: Mapping[tuple[int, int], Shards]
) -> Mapping[tuple[int, int], Shards]:
    values = dict(inputs)
    for index, (kind, names, said) in enumerate(side):
        for port, value in enumerate(_outputs(kind, said, [values[name] for name in names])):
            values[index, port] = value
    return values


def _outputs(kind: str, said: Mapping[str, int], inputs: list[Shards]) -> list[Shards]:
    rank = len(inputs[0].degrees)
    match kind:
        case kind if kind in _PLAIN:
            return [applied(_PLAIN[kind], {}, *inputs)]
        case "DROPOUT":
            return inputs
        case kind if kind in _PARALLEL:
            return [_parallel(kind, said, inputs[0])]
        case "SOFTMAX":
            return [applied("softmax", {"axis": _axis(rank, said["SOFTMAX_DIM"])}, *inputs)]
        case "CONCAT":
            axis = _axis(rank, said["AXIS"])
            return [reduce(lambda a, b: applied("concat", {"axis": axis}, a, b), inputs)]
        case "SPLIT":
            axis = _axis(rank, said["AXIS"])
            half = next(iter(inputs[0].parts.values())).shape[axis] // 2
            return [applied(name, {"axis": axis, "size": half}, *inputs) for name in ("split0", "split1")]
        case "TRANSPOSE":
            return [applied("transpose", {"perm": (1, 0)}, *inputs)]
        case "LINEAR" | "MATMUL":
            product = applied("matmul", {}, *inputs[:2])
            for bias in inputs[2:]:
                product = applied("bias_add", {"axis": -1}, product, bias)
            return [_activated(product, said)]
        case _:
            return [_window(kind, said, inputs)]


def _window(kind: str, said: Mapping[str, int], inputs: list[Shards]) -> Shards:
    sliding: Attributes = {
        "stride": (said["STRIDE_H"], said["STRIDE_W"]),
        "padding": ("same", "valid")[said["PAD"]],
    }
    if kind == "CONV2D":
        activation = _ACTIVATIONS[said["ACTI"]] or "none"
        return applied("conv", {**sliding, "activation": activation}, *inputs)
    kernel = {**sliding, "kernel": (said["KERNEL_H"], said["KERNEL_W"])}
    if kind == "POOL2D_AVG":
        return _activated(applied("avgpool", {**kernel, "includes_padding": 1}, *inputs), said)
    return _activated(applied("maxpool", kernel, *inputs), said)


def _parallel(kind: str, said: Mapping[str, int], x: Shards) -> Shards:
    degree = said["PARALLEL_DEGREE"]
    if degree == 1:
        return x
    if kind in ("REPLICATE", "REDUCE"):
        return applied(kind.lower(), {"degree": degree}, x)
    axis = _axis(len(x.degrees), said["PARALLEL_DIM"])
    return applied(kind.lower(), {"axis": axis, "degree": degree}, x)


def _activated(x: Shards, said: Mapping[str, int]) -> Shards:
    activation = _ACTIVATIONS[said["ACTI"]]
    return applied(activation, {}, x) if activation else x


def _axis(rank: int, axis: int) -> int:
    if not 0 <= axis < rank:
        raise IllTyped
    return rank - 1 - axis
