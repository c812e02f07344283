"""Rules about divided tensors as FlexFlow writes them: how layers are made parallel, and slips in that.

Written from what Unity describes (section 3.3, figures 9 to 11): what is divided and put together, rows,
columns and inner dimensions of products, samples and channels of convolutions, strategies of several layers.
A slip changes one operator of a target: another axis, another degree, copies for parts, a sum for a whole, or
nothing at all. What is true is for ``divided_oracle`` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tests.substitution_db.peers.samples import Rule

Shapes = Mapping[int, tuple[int, ...]]
"""Sizes of a rule's inputs by their numbers."""

WINDOW = "KERNEL_H=3 KERNEL_W=3 STRIDE_H=1 STRIDE_W=1"
_SWAPPED = {"PARTITION": "REPLICATE", "REPLICATE": "PARTITION", "COMBINE": "REDUCE", "REDUCE": "COMBINE"}
_MATRIX: Shapes = {-1: (12, 24), -4: (24, 12), -5: (12,)}
_BATCH: Shapes = {-1: (24, 12, 24), -4: (24, 12), -5: (12,)}
_IMAGE: Shapes = {-1: (12, 12, 3, 4), -2: (12, 12, 3, 3)}


@dataclass(frozen=True)
class Sample:
    """A rule and sizes of its inputs to try it on."""

    rule: Rule
    shapes: tuple[Shapes, ...]


def samples() -> tuple[Sample, ...]:
    """What ought to be true, named by its place."""
    every = (*_cancelled(), *_elementwise(), *_joined(), *_linear(), *_products(), *_images(), *_layers())
    named = (replace(sample.rule, name=str(number)) for number, sample in enumerate(every))
    return tuple(replace(sample, rule=rule) for sample, rule in zip(every, named, strict=True))


def slips(sample: Sample) -> Iterator[Sample]:
    """The rule with one operator of its target changed; whether that is a mistake depends."""
    rule = sample.rule
    for index, text in enumerate(rule.target):
        match = re.fullmatch(r"(\w+)(\(.*\)) PARALLEL_DIM=(\d+) PARALLEL_DEGREE=(\d+)", text)
        if match is not None:
            kind, read, axis, degree = match[1], match[2], int(match[3]), int(match[4])
            changed = [
                f"{kind}{read} @{axis}/{2 * degree}",
                f"{_SWAPPED[kind]}{read} @{axis}/{degree}",
                f"{kind}{read} @{axis}/1",
            ]
            if kind in ("PARTITION", "COMBINE"):
                changed.append(f"{kind}{read} @{axis + 1}/{degree}")
            for number, operator in enumerate(changed):
                target = (*rule.target[:index], *side(operator), *rule.target[index + 1 :])
                name = f"{rule.name}.{index}.{number}"
                yield replace(sample, rule=replace(rule, target=target, name=name))


def side(text: str) -> tuple[str, ...]:
    """Operators between semicolons; ``@1/2`` is dimension 1 in 2 parts."""
    written = re.sub(r"@(\d+)/(\d+)", r"PARALLEL_DIM=\1 PARALLEL_DEGREE=\2", text)
    return tuple(operator.strip() for operator in written.split(";") if operator.strip())


def _rule(source: str, target: str, *shapes: Shapes) -> Sample:
    """A rule that maps what is computed last, or an input where the target is its number."""
    if target.lstrip("-").isdigit():
        operators = side(source)
        return Sample(Rule(operators, (), [(len(operators) - 1, 0, int(target), 0)]), shapes)
    return Sample(Rule(side(source), side(target)), shapes)


def _alike() -> list[Shapes]:
    """Three inputs of one shape, of every rank up to 4."""
    shapes = ((12, 24, 12, 24)[-rank:] for rank in (1, 2, 3, 4))
    return [{-1: shape, -2: shape, -3: shape} for shape in shapes]


def _cancelled() -> Iterator[Sample]:
    """Put together and taken apart; copied and summed; in either order."""
    for how in ("@0/2", "@1/3", "@2/4"):
        yield _rule(f"PARTITION(-1) {how}; COMBINE(0) {how}", "-1", *_alike())
        yield _rule(f"COMBINE(-1) {how}; PARTITION(0) {how}", "-1", *_alike())
    yield _rule("RELU(-1)", "PARTITION(-1) @0/2; COMBINE(0) @0/2; RELU(1)", *_alike())
    yield _rule("REPLICATE(-1) @2/2; REDUCE(0) @2/2", "EW_ADD(-1, -1)", *_alike())
    yield _rule("EW_ADD(-1, -1)", "REPLICATE(-1) @2/2; REDUCE(0) @2/2", *_alike())
    for one, other in (
        ("PARTITION({}) @0/2", "PARTITION({}) @1/3"),
        ("COMBINE({}) @0/2", "COMBINE({}) @1/3"),
        ("PARTITION({}) @0/2", "COMBINE({}) @1/3"),
        ("REPLICATE({}) @2/2", "REPLICATE({}) @2/3"),
        ("REPLICATE({}) @2/2", "PARTITION({}) @1/3"),
        ("REPLICATE({}) @2/2", "COMBINE({}) @0/3"),
        ("REDUCE({}) @2/2", "PARTITION({}) @1/3"),
        ("REDUCE({}) @2/2", "COMBINE({}) @1/3"),
    ):
        source, target = (
            f"{first}; {second}".format(-1, 0) for first, second in ((one, other), (other, one))
        )
        yield _rule(source, target, *_alike())
    for kind in _SWAPPED:
        yield _rule(f"{kind}(-1) @1/2; {kind}(0) @1/3", f"{kind}(-1) @1/6", *_alike())


def _elementwise() -> Iterator[Sample]:
    """An element is the same wherever it lies; sums of copies are linear."""
    for kind, how in (("RELU", "@1/2"), ("SIGMOID", "@0/3"), ("TANH", "@2/2"), ("DROPOUT", "@1/4")):
        yield _rule(f"{kind}(-1)", f"PARTITION(-1) {how}; {kind}(0); COMBINE(1) {how}", *_alike())
        yield _rule(f"{kind}(-1); REPLICATE(0) {how}", f"REPLICATE(-1) {how}; {kind}(0)", *_alike())
        yield _rule(f"{kind}(-1); COMBINE(0) {how}", f"COMBINE(-1) {how}; {kind}(0)", *_alike())
    for kind in ("EW_ADD", "EW_MUL"):
        for how in ("@0/2", "@1/3", "@3/2"):
            parts = f"PARTITION(-1) {how}; PARTITION(-2) {how}; {kind}(0, 1); COMBINE(2) {how}"
            yield _rule(f"{kind}(-1, -2)", parts, *_alike())
        copies = f"REPLICATE(-1) @2/2; REPLICATE(-2) @2/2; {kind}(0, 1)"
        yield _rule(f"{kind}(-1, -2); REPLICATE(0) @2/2", copies, *_alike())
    sums = "REDUCE(-1) @2/2; REDUCE(-2) @2/2; EW_ADD(0, 1)"
    yield _rule(sums, "EW_ADD(-1, -2); REDUCE(0) @2/2", *_alike())
    factor = "REPLICATE(-2) @2/2; EW_MUL(-1, 0); REDUCE(1) @2/2"
    yield _rule("REDUCE(-1) @2/2; EW_MUL(0, -2)", factor, *_alike())
    for rows, how in ((0, "@1/2"), (0, "@2/2"), (1, "@0/3")):
        softmax = f"SOFTMAX({{}}) SOFTMAX_DIM={rows}"
        parts = f"PARTITION(-1) {how}; {softmax.format(0)}; COMBINE(1) {how}"
        yield _rule(softmax.format(-1), parts, *_alike())
    yield _rule(
        "REPLICATE(-1) @2/2; SOFTMAX(0) SOFTMAX_DIM=0",
        "SOFTMAX(-1) SOFTMAX_DIM=0; REPLICATE(0) @2/2",
        *_alike(),
    )


def _joined() -> Iterator[Sample]:
    """Joined along one axis, divided along another."""
    for axis, how in ((0, "@1/2"), (1, "@0/3"), (1, "@2/2")):
        concat = f"NUM_INPUTS=2 AXIS={axis} NUMDIM=4"
        parts = f"PARTITION(-1) {how}; PARTITION(-2) {how}; CONCAT(0, 1) {concat}; COMBINE(2) {how}"
        yield _rule(f"CONCAT(-1, -2) {concat}", parts, *_alike())
    concat = "NUM_INPUTS=2 AXIS=0 NUMDIM=4"
    for kind in _SWAPPED:
        both = f"{kind}(-1) @1/2; {kind}(-2) @1/2; CONCAT(0, 1) {concat}"
        yield _rule(both, f"CONCAT(-1, -2) {concat}; {kind}(0) @1/2", *_alike())
    concat = "NUM_INPUTS=3 AXIS=1 NUMDIM=4"
    parts = "PARTITION(-1) @0/2; PARTITION(-2) @0/2; PARTITION(-3) @0/2"
    yield _rule(
        f"CONCAT(-1, -2, -3) {concat}", f"{parts}; CONCAT(0, 1, 2) {concat}; COMBINE(3) @0/2", *_alike()
    )
    split = "NUM_OUTPUTS=2 AXIS=0"
    copies = f"REPLICATE(-1) @3/2; SPLIT(0) {split}; RELU(1:0)"
    yield _rule(copies, f"SPLIT(-1) {split}; REPLICATE(0:0) @3/2; RELU(1)", *_alike())
    halves = side(f"PARTITION(-1) @1/2; SPLIT(0) {split}; COMBINE(1:0) @1/2; COMBINE(1:1) @1/2")
    rule = Rule(side(f"SPLIT(-1) {split}"), halves, [(0, 0, 2, 0), (0, 1, 3, 0)])
    yield Sample(rule, tuple(_alike()))


def _linear() -> Iterator[Sample]:
    """Rows, columns and the inner dimension of a linear layer, with and without a bias."""
    for activation, degree in ((0, 2), (1, 3), (2, 4), (3, 2)):
        linear = f"LINEAR({{}}) ACTI={activation}"
        whole, parts = linear.format("-1, -4"), linear.format("0, 1")
        rows = f"PARTITION(-1) @1/{degree}; REPLICATE(-4) @1/{degree}; {parts}; COMBINE(2) @1/{degree}"
        columns = f"REPLICATE(-1) @0/{degree}; PARTITION(-4) @0/{degree}; {parts}; COMBINE(2) @0/{degree}"
        copies = f"REPLICATE(-1) @1/{degree}; REPLICATE(-4) @1/{degree}; {parts}"
        yield _rule(whole, rows, _MATRIX, _BATCH)
        yield _rule(whole, columns, _MATRIX, _BATCH)
        yield _rule(copies, f"{whole}; REPLICATE(0) @2/{degree}", _MATRIX, _BATCH)
    whole, inner = "LINEAR(-1, -4) ACTI=0", "PARTITION(-1) @0/2; PARTITION(-4) @1/2; LINEAR(0, 1) ACTI=0"
    yield _rule(whole, f"{inner}; REDUCE(2) @2/2", _MATRIX, _BATCH)
    yield _rule(f"{inner}; REDUCE(2) @2/2", whole, _MATRIX, _BATCH)
    yield _rule("LINEAR(-1, -4) ACTI=2", f"{inner}; REDUCE(2) @2/2; RELU(3)", _MATRIX, _BATCH)
    left = "REPLICATE(-4) @2/2; LINEAR(-1, 0) ACTI=0; REDUCE(1) @2/2"
    yield _rule("REDUCE(-1) @2/2; LINEAR(0, -4) ACTI=0", left, _MATRIX, _BATCH)
    right = "REPLICATE(-1) @2/3; LINEAR(0, -4) ACTI=0; REDUCE(1) @2/3"
    yield _rule(right, "REDUCE(-4) @2/3; LINEAR(-1, 0) ACTI=0", _MATRIX, _BATCH)
    batch = "PARTITION(-1) @2/2; REPLICATE(-4) @2/2; LINEAR(0, 1) ACTI=0; COMBINE(2) @2/2"
    yield _rule(whole, batch, _BATCH)
    biased = "LINEAR(-1, -4, -5) ACTI=2"
    for one, others, axis in (("PARTITION", "REPLICATE", 1), ("REPLICATE", "PARTITION", 0)):
        parts = f"{one}(-1) @{axis}/2; {others}(-4) @0/2; {others}(-5) @0/2"
        yield _rule(biased, f"{parts}; LINEAR(0, 1, 2) ACTI=2; COMBINE(3) @{axis}/2", _MATRIX, _BATCH)


def _products() -> Iterator[Sample]:
    """The same of products of two tensors, and of matrices whose axes are swapped."""
    matrices: Shapes = {-1: (12, 24), -2: (24, 12)}
    batches: Shapes = {-1: (24, 12, 24), -2: (24, 24, 36)}
    whole, parts = "MATMUL(-1, -2) ACTI=0", "MATMUL(0, 1) ACTI=0"
    rows = f"PARTITION(-1) @1/2; REPLICATE(-2) @1/2; {parts}; COMBINE(2) @1/2"
    columns = f"REPLICATE(-1) @0/2; PARTITION(-2) @0/2; {parts}; COMBINE(2) @0/2"
    inner = f"PARTITION(-1) @0/3; PARTITION(-2) @1/3; {parts}; REDUCE(2) @3/3"
    copies = f"REPLICATE(-1) @2/2; REPLICATE(-2) @2/2; {parts}"
    several: tuple[Shapes, ...] = (
        batches,
        {-1: (24, 12, 24), -2: (24, 36)},
        {-1: (12, 24), -2: (24, 24, 36)},
    )
    for target in (rows, columns, inner):
        yield _rule(whole, target, matrices, *several)
    yield _rule(whole, f"PARTITION(-1) @2/2; PARTITION(-2) @2/2; {parts}; COMBINE(2) @2/2", *several)
    yield _rule(whole, f"PARTITION(-1) @2/2; REPLICATE(-2) @1/2; {parts}; COMBINE(2) @2/2", *several)
    yield _rule(copies, f"{whole}; REPLICATE(0) @2/2", matrices, batches)
    swap = "TRANSPOSE({}) NUMDIM=2 PERM=2"
    for kind, before, after in (("PARTITION", 1, 0), ("COMBINE", 0, 1)):
        source = f"{swap.format(-1)}; {kind}(0) @{after}/2"
        yield _rule(source, f"{kind}(-1) @{before}/2; {swap.format(0)}", matrices)


def _images() -> Iterator[Sample]:
    """Samples and channels of convolutions and pools."""
    for activation, degree in ((0, 2), (2, 3)):
        conv = f"CONV2D({{}}) {WINDOW} PAD=0 ACTI={activation}"
        whole, parts = conv.format("-1, -2"), conv.format("0, 1")
        by_sample = f"PARTITION(-1) @3/{degree}; REPLICATE(-2) @3/{degree}; {parts}; COMBINE(2) @3/{degree}"
        by_output = f"REPLICATE(-1) @3/{degree}; PARTITION(-2) @3/{degree}; {parts}; COMBINE(2) @2/{degree}"
        copies = f"REPLICATE(-1) @3/{degree}; REPLICATE(-2) @3/{degree}; {parts}"
        yield _rule(whole, by_sample, _IMAGE)
        yield _rule(whole, by_output, _IMAGE)
        yield _rule(copies, f"{whole}; REPLICATE(0) @3/{degree}", _IMAGE)
    conv = f"CONV2D({{}}) {WINDOW} PAD=0 ACTI=0"
    by_input = f"PARTITION(-1) @2/2; PARTITION(-2) @2/2; {conv.format('0, 1')}; REDUCE(2) @4/2"
    yield _rule(conv.format("-1, -2"), by_input, _IMAGE)
    sums = f"REPLICATE(-2) @4/2; {conv.format('-1, 0')}; REDUCE(1) @4/2"
    yield _rule(f"REDUCE(-1) @4/2; {conv.format('0, -2')}", sums, _IMAGE)
    for kind, how in (("MAX", "@3/2"), ("MAX", "@2/3"), ("AVG", "@3/4"), ("AVG", "@2/2")):
        pool = f"POOL2D_{kind}({{}}) {WINDOW} PAD=1 ACTI=0"
        parts = f"PARTITION(-1) {how}; {pool.format(0)}; COMBINE(1) {how}"
        yield _rule(pool.format(-1), parts, _IMAGE)
    for kind, how in (("AVG", "REDUCE({}) @4/2"), ("MAX", "REPLICATE({}) @4/2")):
        pool = f"POOL2D_{kind}({{}}) {WINDOW} PAD=0 ACTI=0"
        source, target = f"{pool.format(-1)}; {how.format(0)}", f"{how.format(-1)}; {pool.format(0)}"
        yield _rule(source, target, _IMAGE)
    concat, pool = "NUM_INPUTS=2 AXIS=2 NUMDIM=5", f"{WINDOW} PAD=0 ACTI=0"
    parts = f"PARTITION(-1) @3/2; PARTITION(-2) @3/2; CONCAT(0, 1) {concat}; POOL2D_MAX(2) {pool}"
    alike: Shapes = {-1: (12, 12, 3, 4), -2: (12, 12, 3, 4)}
    yield _rule(f"CONCAT(-1, -2) {concat}; POOL2D_MAX(0) {pool}", f"{parts}; COMBINE(3) @3/2", alike)


def _layers() -> Iterator[Sample]:
    """Strategies of several layers."""
    shapes: Shapes = {-1: (12, 24), -4: (24, 36), -5: (36, 12)}
    whole = "LINEAR(-1, -4) ACTI=2; LINEAR(0, -5) ACTI=0"
    # columns of the first layer are the inner dimension of the second: one sum at the end
    first, second = "REPLICATE(-1) @2/2; PARTITION(-4) @0/2; LINEAR(0, 1) ACTI=2", "PARTITION(-5) @1/2"
    yield _rule(whole, f"{first}; {second}; LINEAR(2, 3) ACTI=0; REDUCE(4) @2/2", shapes)
    # samples all the way
    first, second = "PARTITION(-1) @1/2; REPLICATE(-4) @2/2; LINEAR(0, 1) ACTI=2", "REPLICATE(-5) @2/2"
    yield _rule(whole, f"{first}; {second}; LINEAR(2, 3) ACTI=0; COMBINE(4) @1/2", shapes)
    # rows and columns at once
    rows, columns = "PARTITION(-1) @1/2; REPLICATE(0) @2/2", "PARTITION(-4) @0/2; REPLICATE(2) @2/2"
    back = "LINEAR(1, 3) ACTI=0; COMBINE(4) @0/2; COMBINE(5) @1/2"
    yield _rule("LINEAR(-1, -4) ACTI=0", f"{rows}; {columns}; {back}", shapes)
    # put together after one layer, to be divided before the next
    first, second = (
        "PARTITION(-1) @1/2; RELU(0); COMBINE(1) @1/2",
        "PARTITION(2) @1/2; TANH(3); COMBINE(4) @1/2",
    )
    yield _rule(f"{first}; {second}", "RELU(-1); TANH(0)", shapes)
    # a sum that is copied again: what an all-reduce does
    copied = "REDUCE(-1) @2/2; REPLICATE(0) @2/2; RELU(1)"
    yield _rule(copied, "REDUCE(-1) @2/2; RELU(0); REPLICATE(1) @2/2", shapes)
