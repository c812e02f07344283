"""Execute the steps of a communication: moves the shards and counts every message."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from superopt.domains import Array
from superopt.optimizer.parallel.boxes import Region, cut, meet, regions_of_parts, volume
from superopt.optimizer.parallel.communication import (
    REDUCTIONS,
    CollectiveKind,
    CollectiveStep,
    communication,
    joined_steps,
    legs,
)
from superopt.optimizer.parallel.execution.machine import A, Machine
from superopt.optimizer.parallel.placement import Placement, regions_of


@dataclass(frozen=True)
class Held(Generic[A]):
    """A tensor on its devices: the part, or term of the part, that each holds."""

    placement: Placement
    shape: tuple[int, ...]
    shards: Mapping[int, A]


def gathered(placement: Placement, shape: tuple[int, ...], shard: Callable[[int], Array]) -> Array:
    """A whole tensor on the host from the shards of its devices, with terms added."""
    whole: Array | None = None
    boxes = regions_of_parts(placement.degrees, shape)
    for box, (_, terms) in zip(boxes, placement.holders(), strict=True):
        first, *others = (shard(copies[0]) for copies in terms)
        total = sum(others, start=first)
        whole = np.empty(shape, total.dtype) if whole is None else whole
        whole[tuple(slice(start, stop) for start, stop in box)] = total
    assert whole is not None, "a tensor has parts"
    return whole


class Exchange(Generic[A]):
    """Moves shards step by step; ``sent`` are the bytes by (source, target), ``reductions`` the number of
    collectives that reduce."""

    def __init__(self, machine: Machine[A]) -> None:
        self._machine = machine
        self.sent: Counter[tuple[int, int]] = Counter()
        self.reductions = 0

    def moved(self, held: Held[A], want: Placement, steps: Sequence[CollectiveStep]) -> Held[A]:
        """The tensor in the placement ``want``, after the steps given by ``communication``."""
        if want.partial == 1:
            return self._moved(held, want, steps)
        like = next(iter(held.shards.values()))
        shards: dict[int, A] = {}
        for leg in legs(held.placement, want, held.shape):
            if leg.have is None:
                for device, region in regions_of(leg.want, held.shape).items():
                    sizes = tuple(stop - start for start, stop in region)
                    shards[device] = self._machine.zeros(sizes, like, device)
                continue
            count = len(communication(leg.have, leg.want, held.shape, 1))
            part = Held(leg.have, held.shape, {device: held.shards[device] for device in leg.have.devices})
            shards.update(self._moved(part, leg.want, steps[:count]).shards)
            steps = steps[count:]
        return Held(want, held.shape, shards)

    def reduced(self, terms: Sequence[Held[A]], wants: Sequence[Placement]) -> Sequence[Held[A]]:
        """Partial sums after one all-reduce of all of them by each group of devices. Every device of the
        wanted placements holds a term of each, and gets its sum."""
        element_bytes = next(iter(terms[0].shards.values())).nbytes
        element_bytes //= max(1, math.prod(next(iter(terms[0].shards.values())).shape))
        steps = [
            communication(term.placement, want, term.shape, element_bytes)
            for term, want in zip(terms, wants, strict=True)
        ]
        found: list[dict[int, A]] = [{} for _ in terms]
        for step in joined_steps(steps):
            packed = [self._machine.packed([term.shards[device] for term in terms]) for device in step.group]
            whole = ((0, math.prod(packed[0].shape)),)
            sums = self._all_reduced(step, whole, packed)
            self.reductions += 1
            for device, flat in zip(step.group, sums, strict=True):
                shapes = [term.shards[device].shape for term in terms]
                for own, shard in zip(found, self._machine.unpacked(flat, shapes), strict=True):
                    own[device] = shard
        return [
            Held(want, term.shape, {device: shards[device] for device in want.devices})
            for term, want, shards in zip(terms, wants, found, strict=True)
        ]

    def _moved(self, held: Held[A], want: Placement, steps: Sequence[CollectiveStep]) -> Held[A]:
        have = regions_of(held.placement, held.shape)
        stores: dict[int, list[tuple[Region, A]]] = {device: [] for device in (*have, *want.devices)}
        if held.placement.partial == 1:
            for device, region in have.items():
                stores[device].append((region, held.shards[device]))
        for step in steps:
            if step.kind in REDUCTIONS:
                self.reductions += 1
                terms = [
                    self._machine.part(held.shards[device], _within(region, have[device]))
                    for device, region in zip(step.group, step.before, strict=True)
                    if region is not None
                ]
                self._reduce(step, terms, stores)
            else:
                self._spread(step, stores)
        wanted = regions_of(want, held.shape)
        return Held(
            want,
            held.shape,
            {device: self._found(stores[device], region) for device, region in wanted.items()},
        )

    def _reduce(
        self, step: CollectiveStep, terms: Sequence[A], stores: Mapping[int, list[tuple[Region, A]]]
    ) -> None:
        if step.kind is CollectiveKind.ALL_REDUCE:
            whole = step.before[0]
            assert whole is not None
            for device, shard in zip(step.group, self._all_reduced(step, whole, terms), strict=True):
                stores[device].append((whole, shard))
            return
        for target, region in enumerate(step.after):
            if region is None:
                continue
            total: A | None = None
            for source, term in enumerate(terms):
                before = step.before[source]
                assert before is not None
                shard = self._machine.part(term, _within(region, before))
                shard = self._sent(shard, step.group[source], step.group[target])
                total = shard if total is None else self._machine.add(total, shard)
            assert total is not None
            stores[step.group[target]].append((region, total))

    def _all_reduced(self, step: CollectiveStep, whole: Region, terms: Sequence[A]) -> Sequence[A]:
        """Uses the machine's collective, counted as a ring all-reduce, or else a ring."""
        group, count = step.group, len(step.group)
        reduced = self._machine.all_reduced(terms)
        if reduced is not None:
            for place, source in enumerate(group):
                self.sent[source, group[(place + 1) % count]] += step.moved // count
            return reduced
        shape = tuple(stop - start for start, stop in whole)
        chunks = cut(tuple((0, size) for size in shape), count)
        held = [
            [None if chunk is None else self._machine.part(term, chunk) for chunk in chunks] for term in terms
        ]
        for lap in range(2 * (count - 1)):
            for place in range(count):
                number, target = (place - lap) % count, (place + 1) % count
                own, other = held[place][number], held[target][number]
                if own is not None and other is not None:
                    chunk = self._sent(own, group[place], group[target])
                    held[target][number] = self._machine.add(other, chunk) if lap < count - 1 else chunk
        return [self._machine.joined(_present(chunks, member), shape) for member in held]

    def _spread(self, step: CollectiveStep, stores: Mapping[int, list[tuple[Region, A]]]) -> None:
        brought = [
            None if region is None else (region, self._found(stores[device], region))
            for device, region in zip(step.group, step.before, strict=True)
        ]
        for target, region in enumerate(step.after):
            if region is None:
                continue
            for source, piece in enumerate(brought):
                shared = None if piece is None or source == target else meet(piece[0], region)
                if piece is None or shared is None:
                    continue
                shard = self._machine.part(piece[1], _within(shared, piece[0]))
                stores[step.group[target]].append(
                    (shared, self._sent(shard, step.group[source], step.group[target]))
                )

    def _sent(self, shard: A, source: int, target: int) -> A:
        if source == target:
            return shard
        self.sent[source, target] += shard.nbytes
        return self._machine.move(shard, target)

    def _found(self, pieces: Sequence[tuple[Region, A]], region: Region) -> A:
        """A box assembled from pieces on one device."""
        shape = tuple(stop - start for start, stop in region)
        parts: list[tuple[Region, A]] = []
        for box, shard in pieces:
            shared = meet(box, region) if region else box
            if shared is None:
                continue
            if shared == region == box:
                return shard
            part = shard if shared == box else self._machine.part(shard, _within(shared, box))
            if shared == region:
                return self._machine.copied(part)
            parts.append((_within(shared, region), part))
        distinct = dict(parts)
        if sum(volume(box) for box in distinct) < volume(region):
            raise AssertionError(f"no step brings all of {region}: only {list(distinct)} is there")
        return self._machine.joined([*distinct.items()], shape)


def _within(region: Region, around: Region) -> Region:
    """The region in coordinates relative to the enclosing one."""
    return tuple(
        (start - origin, stop - origin) for (start, stop), (origin, _) in zip(region, around, strict=True)
    )


def _present(chunks: Sequence[Region | None], shards: Sequence[A | None]) -> list[tuple[Region, A]]:
    """The non-empty pieces."""
    pairs = zip(chunks, shards, strict=True)
    return [(chunk, shard) for chunk, shard in pairs if chunk is not None and shard is not None]
