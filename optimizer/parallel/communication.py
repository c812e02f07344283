"""Communication that moves a tensor from one placement to another: collectives and point-to-point sends.

First, partial sums are reduced, shard by shard, within a group that holds one copy of every term; then each
device receives the regions that it lacks. Where terms are wanted, each is moved by itself. Steps are
recognised as collectives where a group of devices allows it. The only notion of distance here is the
difference of device numbers: the devices of a node have consecutive ones.
"""

from __future__ import annotations

import enum
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from superopt.optimizer.parallel.boxes import (
    Region,
    bounds,
    cut,
    is_same_or_tiling,
    meet,
    regions_of_parts,
    volume,
)
from superopt.optimizer.parallel.placement import Placement, regions_of


class CollectiveKind(enum.StrEnum):
    """What a group of devices does together."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"
    BROADCAST = "broadcast"
    SEND = "send"


REDUCTIONS = frozenset((CollectiveKind.ALL_REDUCE, CollectiveKind.REDUCE_SCATTER))
"""The kinds that sum terms; in a communication they precede all others."""


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """One collective by one group of devices, or one send.

    ``group`` are the devices, the source first in a broadcast and a send. ``before`` and ``after`` are the
    regions that each member brings and has in the end; None for nothing. ``bytes`` are those of the whole
    region that the step is about, ``moved`` all that is sent by anyone:

    | kind | before | after | message from i to j | moved |
    |---|---|---|---|---|
    | all-reduce | terms of the region | the region | | 2 (n - 1) bytes |
    | reduce-scatter | terms of the region | parts of it | its term of ``after[j]`` | (n - 1) bytes |
    | all-gather | parts of the region | the region | ``before[i]`` | (n - 1) bytes |
    | all-to-all | regions | other regions | where ``before[i]`` meets ``after[j]`` | those |
    | broadcast, send | the source: the region | the region | the region | (n - 1) bytes |

    Parts and regions of different members are disjoint.
    """

    kind: CollectiveKind
    group: tuple[int, ...]
    bytes: int
    before: tuple[Region | None, ...]
    after: tuple[Region | None, ...]
    moved: int


@lru_cache(maxsize=1 << 15)
def communication(
    have: Placement, want: Placement, shape: tuple[int, ...], element_bytes: int
) -> tuple[CollectiveStep, ...]:
    """The steps after which every device of ``want`` has its part; empty if all have what they need. A step
    uses what its members hold in ``have`` or received from earlier reductions. The steps of a wanted partial
    sum are those of its ``legs``, one after the other. Raises ValueError for a shape that the degrees do not
    divide, and for a device that is named twice."""
    _check(have, want, shape)
    if want.partial > 1:
        return tuple(
            step
            for leg in legs(have, want, shape)
            if leg.have is not None
            for step in communication(leg.have, leg.want, shape, element_bytes)
        )
    if have.partial == 1 and have.degrees == want.degrees and set(want.devices) <= set(have.devices):
        at = regions_of(have, shape)
        if all(at[device] == region for device, region in regions_of(want, shape).items()):
            return ()
    return _Exchange(have, want, shape, element_bytes).steps()


def moved_bytes(steps: tuple[CollectiveStep, ...]) -> int:
    """Total bytes sent by all devices."""
    return sum(step.moved for step in steps)


def joined_steps(steps: Sequence[Sequence[CollectiveStep]]) -> tuple[CollectiveStep, ...]:
    """One all-reduce for each group of devices, of all that the exchanges reduce; all have equal groups."""
    first, *others = steps
    return tuple(
        replace(
            step,
            bytes=step.bytes + sum(other[number].bytes for other in others),
            moved=step.moved + sum(other[number].moved for other in others),
            before=((),) * len(step.group),
            after=((),) * len(step.group),
        )
        for number, step in enumerate(first)
    )


def summed(have: Placement) -> Placement:
    """The placement after reduction: every device that held a term has the sum."""
    return Placement(have.degrees, have.devices, copies=have.partial * have.copies)


@dataclass(frozen=True, slots=True)
class Leg:
    """One wanted term of a sum, and the terms that are there of which it becomes the sum; zero if None."""

    have: Placement | None
    want: Placement


def legs(have: Placement, want: Placement, shape: tuple[int, ...]) -> tuple[Leg, ...]:
    """Every term of ``want`` with those of ``have`` that are added to make it: each is added to the one whose
    devices hold most of it already. A tensor that is no sum is one term."""
    if want.partial == 1:
        return (Leg(have, want),)
    targets = [want.of_terms((term,)) for term in range(want.partial)]
    wanted = [regions_of(target, shape) for target in targets]
    added: list[list[int]] = [[] for _ in targets]
    for term in range(have.partial):
        held = regions_of(have.of_terms((term,)), shape)
        shared = [_shared_volume(held, regions) for regions in wanted]
        nearest = max(range(want.partial), key=lambda n: (shared[n], n == term % want.partial, -n))
        added[nearest].append(term)
    return tuple(
        Leg(have.of_terms(terms) if terms else None, target)
        for terms, target in zip(added, targets, strict=True)
    )


def _shared_volume(held: Mapping[int, Region], wanted: Mapping[int, Region]) -> int:
    shared = (meet(held[device], region) for device, region in wanted.items() if device in held)
    return sum(volume(region) for region in shared if region is not None)


def _check(have: Placement, want: Placement, shape: tuple[int, ...]) -> None:
    for placement in (have, want):
        if len(set(placement.devices)) != len(placement.devices):
            raise ValueError(f"a device holds one part: {placement}")
        if len(placement.degrees) != len(shape) or any(
            size % degree for size, degree in zip(shape, placement.degrees, strict=True)
        ):
            raise ValueError(f"{placement.degrees} do not divide the shape {shape}")


@dataclass(frozen=True, slots=True)
class _Source:
    """A region without partial sums, and its holders, in the order of those of regions computed together."""

    region: Region
    holders: tuple[int, ...]


class _Exchange:
    def __init__(self, have: Placement, want: Placement, shape: tuple[int, ...], element_bytes: int) -> None:
        self._have = have
        self._want = want
        self._shape = shape
        self._element_bytes = element_bytes
        self._wanted = regions_of(want, shape)
        self._held = regions_of(have, shape)
        self._satisfied: set[tuple[int, tuple[int, ...]]] = set()
        self._steps: list[CollectiveStep] = []

    def steps(self) -> tuple[CollectiveStep, ...]:
        sources: dict[tuple[int, ...], tuple[_Source, ...]] = {}
        parts = regions_of_parts(self._have.degrees, self._shape)
        for part, (index, terms) in zip(parts, self._have.holders(), strict=True):
            if len(terms) == 1:
                sources[index] = (_Source(part, terms[0]),)
            else:
                sources[index] = self._reduced(index, part, terms)
        self._rows = {
            device: number
            for found in sources.values()
            for source in found
            for number, device in enumerate(source.holders)
        }
        self._redistribute(sources)
        return tuple(self._steps)

    def _reduced(
        self, index: tuple[int, ...], part: Region, terms: tuple[tuple[int, ...], ...]
    ) -> tuple[_Source, ...]:
        """Sums the terms of a part; returns its regions with their holders, if others want it."""
        rows = list(zip(*terms, strict=True))
        wants = [[self._wanted_of(device, part) for device in row] for row in rows]
        members = {device for row in rows for device in row}
        everywhere = {
            device
            for device, region in self._wanted.items()
            if device not in members and meet(region, part) is not None
        }
        pending = [*everywhere]
        covering: tuple[_Source, ...] = ()
        done: list[tuple[tuple[int, ...], Region, list[Region | None]]] = []
        for row, wanted in zip(rows, wants, strict=True):
            whole = bounds([region for region in wanted if region is not None])
            if whole is None:
                continue
            if not is_same_or_tiling(wanted, whole):
                pending.extend(row)
                continue
            done.append((row, whole, wanted))
            if whole == part and not covering:
                covering = _sources_of(row, wanted)
        if pending and not covering:
            done = []
            pieces = cut(part, len(rows[0]))
            covering = _sources_of(rows[0], pieces)
            done.append((rows[0], part, pieces))
        for row, whole, after in done:
            self._reduce(row, whole, after)
            self._satisfied.update(
                (device, index)
                for device, region in zip(row, after, strict=True)
                if region is not None and region == self._wanted_of(device, part)
            )
        return covering

    def _wanted_of(self, device: int, part: Region) -> Region | None:
        region = self._wanted.get(device)
        return None if region is None else meet(region, part)

    def _reduce(self, row: tuple[int, ...], whole: Region, after: list[Region | None]) -> None:
        """An all-reduce if all members need the same, else a reduce-scatter."""
        size = volume(whole) * self._element_bytes
        every = all(region == whole for region in after)
        self._steps.append(
            CollectiveStep(
                CollectiveKind.ALL_REDUCE if every else CollectiveKind.REDUCE_SCATTER,
                row,
                size,
                (whole,) * len(row),
                tuple(after),
                (len(row) - 1) * size * (2 if every else 1),
            )
        )

    def _redistribute(self, sources: dict[tuple[int, ...], tuple[_Source, ...]]) -> None:
        transfers: dict[tuple[int, Region], list[int]] = defaultdict(list)
        parts = regions_of_parts(self._want.degrees, self._shape)
        for region, (_, terms) in zip(parts, self._want.holders(), strict=True):
            pieces = [
                (number, source, shared)
                for number in self._meeting(region)
                for source in sources[number]
                if (shared := meet(source.region, region)) is not None
            ]
            if len(pieces) == 1 and pieces[0][1].holders == terms[0]:
                continue
            lacking = [
                device
                for device in terms[0]
                if any(
                    device not in source.holders and (device, number) not in self._satisfied
                    for number, source, _ in pieces
                )
            ]
            if not lacking or self._gathered(region, lacking, pieces):
                continue
            for device in lacking:
                for number, source, shared in pieces:
                    if device not in source.holders and (device, number) not in self._satisfied:
                        transfers[self._nearest(device, source), shared].append(device)
        self._send(transfers)

    def _meeting(self, region: Region) -> Iterator[tuple[int, ...]]:
        """Indices of the parts that intersect a region."""
        ranges: list[range] = []
        for (start, stop), degree, size in zip(region, self._have.degrees, self._shape, strict=True):
            step = size // degree
            ranges.append(range(start // step, (stop - 1) // step + 1) if step else range(0))
        return itertools.product(*ranges)

    def _nearest(self, device: int, source: _Source) -> int:
        """Return the holder that computed its copy together with what the device has, else the nearest
        holder."""
        row = self._rows.get(device)
        if row is not None and row < len(source.holders):
            return source.holders[row]
        return min(source.holders, key=lambda holder: (abs(holder - device), holder))

    def _gathered(
        self,
        region: Region,
        lacking: list[int],
        pieces: list[tuple[tuple[int, ...], _Source, Region]],
    ) -> bool:
        """All-gathers, if the devices that want the region hold its pieces, each equally often."""
        among = set(lacking)
        if len(pieces) < 2 or any(
            (device, number) in self._satisfied for device in lacking for number, _, _ in pieces
        ):
            return False
        holders = [[device for device in source.holders if device in among] for _, source, _ in pieces]
        count = len(holders[0])
        if any(len(found) != count for found in holders) or count * len(pieces) != len(lacking):
            return False
        size = volume(region) * self._element_bytes
        for row in zip(*holders, strict=True):
            self._steps.append(
                CollectiveStep(
                    CollectiveKind.ALL_GATHER,
                    row,
                    size,
                    tuple(shared for _, _, shared in pieces),
                    (region,) * len(row),
                    (len(row) - 1) * size,
                )
            )
        return True

    def _send(self, transfers: dict[tuple[int, Region], list[int]]) -> None:
        """All-to-alls for groups in which every device sends to every other, else broadcasts and sends."""
        leaders: dict[int, int] = {}

        def leader(device: int) -> int:
            while (above := leaders.setdefault(device, device)) != device:
                leaders[device] = device = leaders[above]
            return device

        for (source, _), targets in transfers.items():
            for target in targets:
                leaders[leader(target)] = leader(source)
        groups: dict[int, dict[tuple[int, Region], list[int]]] = defaultdict(dict)
        for key, targets in transfers.items():
            groups[leader(key[0])][key] = targets
        for group in groups.values():
            if not self._exchanged(group):
                for (source, region), targets in group.items():
                    self._spread(source, region, targets)

    def _exchanged(self, transfers: dict[tuple[int, Region], list[int]]) -> bool:
        pairs = [
            (source, target, region) for (source, region), targets in transfers.items() for target in targets
        ]
        members = sorted({device for source, target, _ in pairs for device in (source, target)})
        links = {(source, target) for source, target, _ in pairs}
        if len(members) < 2 or len(links) != len(pairs) or len(pairs) != len(members) * (len(members) - 1):
            return False
        after = [self._wanted[device] for device in members]
        around = bounds(after)
        assert around is not None
        before = [meet(self._held[device], around) for device in members]
        total = sum(volume(region) for region in after)
        if (
            self._have.partial > 1
            or sum(volume(region) for region in before if region is not None) != total
            or len(set(after)) != len(after)
        ):
            return False
        self._steps.append(
            CollectiveStep(
                CollectiveKind.ALL_TO_ALL,
                tuple(members),
                total * self._element_bytes,
                tuple(before),
                tuple(after),
                sum(volume(region) for _, _, region in pairs) * self._element_bytes,
            )
        )
        return True

    def _spread(self, source: int, region: Region, targets: list[int]) -> None:
        size = volume(region) * self._element_bytes
        self._steps.append(
            CollectiveStep(
                CollectiveKind.SEND if len(targets) == 1 else CollectiveKind.BROADCAST,
                (source, *targets),
                size,
                (region, *(None for _ in targets)),
                (region,) * (1 + len(targets)),
                len(targets) * size,
            )
        )


def _sources_of(row: tuple[int, ...], regions: list[Region | None]) -> tuple[_Source, ...]:
    holders: dict[Region, list[int]] = defaultdict(list)
    for device, region in zip(row, regions, strict=True):
        if region is not None:
            holders[region].append(device)
    return tuple(_Source(region, tuple(devices)) for region, devices in holders.items())
