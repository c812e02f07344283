"""Steps from one placement to another: every device gets its part, and bytes are counted right."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.optimizer.parallel.boxes import Region, meet, volume
from superopt.optimizer.parallel.communication import (
    CollectiveKind,
    CollectiveStep,
    communication,
    moved_bytes,
    summed,
)
from superopt.optimizer.parallel.execution import HostMachine
from superopt.optimizer.parallel.execution.exchange import Exchange, Held
from superopt.optimizer.parallel.placement import Placement

SHAPE = (12, 6)


def split(axis: int, *devices: int, copies: int = 1) -> Placement:
    degrees = [1, 1]
    degrees[axis] = len(devices) // copies
    return Placement(tuple(degrees), devices, copies=copies)


def copies(*devices: int) -> Placement:
    return Placement((1, 1), devices, copies=len(devices))


def terms(*devices: int) -> Placement:
    return Placement((1, 1), devices, partial=len(devices))


WHOLE = 12 * 6

CASES = {
    "nothing where all have it": (split(0, 0, 1), split(0, 0, 1), []),
    "nothing where a copy is cut": (copies(0, 1), split(1, 0, 1), []),
    "nothing for one of the copies": (copies(0, 1, 2), copies(1), []),
    "all-reduce": (terms(0, 1), copies(0, 1), [("all-reduce", (0, 1), WHOLE, 2 * WHOLE)]),
    "reduce-scatter": (terms(0, 1, 2), split(0, 0, 1, 2), [("reduce-scatter", (0, 1, 2), WHOLE, 2 * WHOLE)]),
    "a sum for one": (terms(0, 1), copies(1), [("reduce-scatter", (0, 1), WHOLE, WHOLE)]),
    "all-gather": (split(0, 0, 1, 2), copies(0, 1, 2), [("all-gather", (0, 1, 2), WHOLE, 2 * WHOLE)]),
    "all-to-all": (
        split(0, 0, 1, 2),
        split(1, 0, 1, 2),
        [("all-to-all", (0, 1, 2), WHOLE, WHOLE * 2 // 3)],
    ),
    "broadcast": (copies(4), copies(0, 1, 4), [("broadcast", (4, 0, 1), WHOLE, 2 * WHOLE)]),
    "send": (copies(0), copies(3), [("send", (0, 3), WHOLE, WHOLE)]),
    "from the nearest": (copies(0, 8), copies(7), [("send", (8, 7), WHOLE, WHOLE)]),
    "elsewhere": (
        split(0, 0, 1),
        split(0, 2, 3),
        [("send", (0, 2), WHOLE // 2, WHOLE // 2), ("send", (1, 3), WHOLE // 2, WHOLE // 2)],
    ),
    "within groups": (
        Placement((2, 2), (0, 1, 2, 3)),
        split(0, 0, 1, 2, 3, copies=2),
        [("all-gather", (0, 1), WHOLE // 2, WHOLE // 2), ("all-gather", (2, 3), WHOLE // 2, WHOLE // 2)],
    ),
    "sums of parts": (
        Placement((2, 1), (0, 1, 2, 3), partial=2),
        split(0, 0, 1, 2, 3, copies=2),
        [("all-reduce", (0, 1), WHOLE // 2, WHOLE), ("all-reduce", (2, 3), WHOLE // 2, WHOLE)],
    ),
    "terms stay": (terms(0, 1), terms(0, 1), []),
    "a term elsewhere": (terms(0, 1), terms(0, 2), [("send", (1, 2), WHOLE, WHOLE)]),
    "a tensor is the first term": (copies(0, 1), terms(0, 1), []),
    "fewer terms": (terms(0, 1, 2), terms(0, 1), [("reduce-scatter", (0, 2), WHOLE, WHOLE)]),
    "more terms": (terms(0, 1), terms(0, 1, 2), []),
    "a sum for others": (
        terms(0, 1),
        copies(2),
        [
            ("reduce-scatter", (0, 1), WHOLE, WHOLE),
            ("send", (0, 2), WHOLE // 2, WHOLE // 2),
            ("send", (1, 2), WHOLE // 2, WHOLE // 2),
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_steps_are_recognised(name: str) -> None:
    have, want, expected = CASES[name]
    steps = communication(have, want, SHAPE, 1)
    assert [(step.kind.value, step.group, step.bytes, step.moved) for step in steps] == expected


def test_data_parallel_training_of_unitys_mlp_moves_what_the_paper_counts() -> None:
    weights = ((784, 512), (512, 10))
    gradients = (Placement((1, 1), (0, 1), partial=2) for _ in weights)
    moved = (
        moved_bytes(communication(have, summed(have), shape, 1))
        for have, shape in zip(gradients, weights, strict=True)
    )
    assert sum(moved) == 813_056


@st.composite
def placements(draw: st.DrawFn, partial: bool) -> Placement:  # noqa: FBT001
    degrees = (draw(st.sampled_from((1, 2, 3, 4, 6, 12))), draw(st.sampled_from((1, 2, 3, 6))))
    terms = draw(st.sampled_from((1, 1, 2, 3))) if partial else 1
    redundant = draw(st.sampled_from((1, 1, 2, 3)))
    count = math.prod(degrees) * terms * redundant
    first = draw(st.integers(0, 4))
    devices = range(first, first + count)
    if draw(st.booleans()):
        devices = draw(st.permutations(range(first, first + count)))
    return Placement(degrees, tuple(devices), terms, redundant)


def region_of(degrees: tuple[int, ...], index: tuple[int, ...], shape: tuple[int, ...]) -> Region:
    """The part of that index of a tensor whose axes are divided into so many equal parts."""
    return tuple(
        (number * (size // degree), (number + 1) * (size // degree))
        for number, degree, size in zip(index, degrees, shape, strict=True)
    )


@settings(max_examples=100, deadline=None)
@given(placements(partial=True), placements(partial=False))
def test_every_pair_of_placements(have: Placement, want: Placement) -> None:
    tensor = np.arange(1, 1 + WHOLE, dtype=np.int64).reshape(SHAPE) * 1000
    steps = communication(have, want, SHAPE, 8)
    machine = Machine(have, tensor)
    for step in steps:
        machine.run(step)
    for index, (devices,) in want.holders():
        region = region_of(want.degrees, index, SHAPE)
        for device in devices:
            assert np.array_equal(machine.read(device, region), cut(tensor, region))
    assert machine.sent * 8 == moved_bytes(steps)


@settings(max_examples=100, deadline=None)
@given(placements(partial=True), placements(partial=True))
def test_every_pair_of_partial_sums(have: Placement, want: Placement) -> None:
    tensor = np.arange(1, 1 + WHOLE, dtype=np.int64).reshape(SHAPE) * 1000
    shards: dict[int, np.ndarray] = {}
    for index, parts in have.holders():
        content = cut(tensor, region_of(have.degrees, index, SHAPE))
        for number, devices in enumerate(parts):
            term = content - sum(range(1, len(parts))) if number == 0 else np.full_like(content, number)
            shards.update((device, term.copy()) for device in devices)
    exchange = Exchange(HostMachine())
    steps = communication(have, want, SHAPE, 8)
    moved = exchange.moved(Held(have, SHAPE, shards), want, steps)
    for index, parts in want.holders():
        for row in zip(*parts, strict=True):
            total = sum(moved.shards[device] for device in row)
            assert np.array_equal(total, cut(tensor, region_of(want.degrees, index, SHAPE)))
    assert sum(exchange.sent.values()) == moved_bytes(steps)


@pytest.mark.parametrize(
    ("have", "want", "reason"),
    [
        (copies(0, 0), copies(1), "one part"),
        (Placement((5, 1), (0, 1, 2, 3, 4)), copies(0), "do not divide"),
    ],
)
def test_what_makes_no_sense_is_refused(have: Placement, want: Placement, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        communication(have, want, SHAPE, 1)


def cut(tensor: np.ndarray, region: Region) -> np.ndarray:
    return tensor[tuple(slice(*axis) for axis in region)]


class Machine:
    """Devices with memories of the tensor's shape; it reads only what is there, and counts what is sent."""

    def __init__(self, have: Placement, tensor: np.ndarray) -> None:
        self.terms: dict[int, np.ndarray] = {}
        self.known: dict[int, np.ndarray] = {}
        self.sent = 0
        for index, parts in have.holders():
            region = region_of(have.degrees, index, SHAPE)
            for number, devices in enumerate(parts):
                for device in devices:
                    if len(parts) == 1:
                        self.write(device, region, cut(tensor, region))
                    else:
                        last = number == len(parts) - 1
                        term = cut(tensor, region) - sum(range(len(parts) - 1)) if last else number
                        self.terms[device] = np.full(SHAPE, np.iinfo(np.int64).min)
                        cut(self.terms[device], region)[...] = term

    def write(self, device: int, region: Region, content: np.ndarray) -> None:
        memory = self.known.setdefault(device, np.full(SHAPE, -1, np.int64))
        cut(memory, region)[...] = content

    def read(self, device: int, region: Region) -> np.ndarray:
        content = cut(self.known[device], region)
        assert (content >= 0).all(), "read what it does not have"
        return content.copy()

    def run(self, step: CollectiveStep) -> None:
        members = list(zip(step.group, step.before, step.after, strict=True))
        match step.kind:
            case CollectiveKind.ALL_REDUCE | CollectiveKind.REDUCE_SCATTER:
                pieces = step.after
                if step.kind is CollectiveKind.ALL_REDUCE:
                    rows = range(*step.after[0][0])
                    owners = np.array_split(rows, len(members))
                    pieces = tuple(
                        ((int(rows[0]), int(rows[-1]) + 1), *step.after[0][1:]) if len(rows) else None
                        for rows in owners
                    )
                for (device, _, after), piece in zip(members, pieces, strict=True):
                    if piece is None:
                        continue
                    total = sum(cut(self.terms[other], piece) for other in step.group)
                    self.sent += volume(piece) * (len(members) - 1)
                    if step.kind is CollectiveKind.ALL_REDUCE:
                        self.sent += volume(piece) * (len(members) - 1)
                        for other in step.group:
                            self.write(other, piece, total)
                    else:
                        self.write(device, after, total)
            case _:
                for (i, before, _), (j, _, after) in itertools.permutations(members, 2):
                    shared = meet(before, after) if before and after else None
                    if shared is not None:
                        self.sent += volume(shared)
                        self.write(j, shared, self.read(i, shared))


def test_a_machine_does_not_read_what_it_lacks() -> None:
    steps = communication(split(0, 0, 1), copies(0, 1), SHAPE, 1)
    machine = Machine(split(0, 0, 1), np.ones(SHAPE, np.int64))
    with pytest.raises(AssertionError, match="does not have"):
        machine.run(replace(steps[0], before=steps[0].before[::-1]))
