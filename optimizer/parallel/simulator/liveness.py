"""Exact memory of a plan per device, in bytes: the largest set of arrays that are alive at once.

A device holds its regions of inputs and weights throughout, or those in which the plan keeps an input. What
is fetched of such an input is allocated when it is issued. An operator allocates its results, and then
every other placement in which they are read, in issue order. An array is alive until the last operator that
reads it has run; an output, and the next value of a state, to the end. A part that equals what a device holds
is the same array; so is a tensor that is only renamed, or repeated along an axis, but not one that is renamed
after it was repeated. Buffers of collectives and workspace of kernels are not counted. Executing a plan on
virtual devices counts the same bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from superopt.ops.traits import traits
from superopt.optimizer.parallel.boxes import volume
from superopt.optimizer.parallel.fetches import START
from superopt.optimizer.parallel.residence import kept_regions
from superopt.optimizer.parallel.simulator.fused import Fused
from superopt.optimizer.parallel.simulator.operations import Operations, WeightUses
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.residents import ResidentFetch, Residents
from superopt.optimizer.parallel.simulator.schedule import Schedule
from superopt.optimizer.parallel.simulator.units import Key, Unit, bytes_of
from superopt.optimizer.parallel.tasks import shape_of

Bytes = NDArray[np.int64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
"""By device: a position in the schedule."""


@dataclass(frozen=True, slots=True)
class _Array:
    """Bytes by device that are allocated at a position, and the positions after which they are freed."""

    size: Bytes
    start: int
    ends: Places


@dataclass(frozen=True)
class Liveness:
    """Memory of one execution of a plan without microbatches."""

    operations: Operations
    prices: Prices
    schedule: Schedule
    units: Sequence[Unit]
    residents: Residents
    fused: Fused | None = None

    def peaks(self) -> tuple[int, ...]:
        """By device: the peak bytes."""
        count, devices = len(self.units), len(self.prices.cluster)
        changes = np.zeros((count + 2, devices), np.int64)
        columns = np.arange(devices)
        for array in self._arrays():
            changes[array.start] += array.size
            np.subtract.at(changes, (array.ends + 1, columns), array.size)
        alive = np.cumsum(changes[:count], axis=0)
        return tuple(int(size) for size in self._resident + alive.max(axis=0, initial=0))

    def bound(self) -> tuple[int, ...]:
        """By device: at least the peak bytes; those of all arrays."""
        total = self._resident.copy()
        for number, (operation, unit) in enumerate(zip(self.operations.all, self.units, strict=True)):
            for port, type_ in enumerate(operation.outputs):
                size = bytes_of(type_)
                for place in (unit.division.makes[port], *self._wants(number, port)):
                    total += self.prices.held(place, size)
        for fetch in self.residents.fetches:
            for want in {self.units[user].division.needs[slot] for user, slot in fetch.users}:
                total += self.prices.held(want, bytes_of(fetch.type))
        return tuple(int(size) for size in total)

    @cached_property
    def _resident(self) -> Bytes:
        total = np.zeros(len(self.prices.cluster), np.int64)
        places = self.residents.places
        read = [uses for node, uses in self.operations.inputs.items() if node not in places]
        for uses in (*self.operations.weights, *read):
            for device, size in self._kept(uses):
                total[device] += size
        for node, place in places.items():
            total += self.prices.held(place, bytes_of(self.operations.inputs[node].type))
        return total

    def _kept(self, uses: WeightUses) -> Iterator[tuple[int, int]]:
        needs = dict.fromkeys(self.units[user].division.needs[slot] for user, slot in uses.users)
        places = [self.prices.placements[need] for need in needs]
        for device, regions in kept_regions(places, shape_of(uses.type)).items():
            yield device, sum(volume(region) for region, _ in regions) * uses.type.element.bytes_per_element

    @cached_property
    def _position(self) -> tuple[int, ...]:
        return self.schedule.positions[0]

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The operations as they are issued."""
        return tuple(sorted(range(len(self.units)), key=self._position.__getitem__))

    def _wants(self, number: int, port: int) -> list[int]:
        """The other placements in which a result is read or returned."""
        unit = self.units[number]
        found = dict.fromkeys(
            self.units[use.reader].division.needs[use.slot]
            for use in self.operations.uses[number]
            if use.port == port
        )
        found.update(dict.fromkeys(want for own, want in unit.final if own == port))
        found.pop(unit.division.makes[port], None)
        return list(found)

    @cached_property
    def _views(self) -> dict[int, Mask]:
        """For every operation that only renames or repeats its operand: the devices on which its result is
        the operand's array."""
        devices = len(self.prices.cluster)
        repeated: dict[int, Mask] = defaultdict(lambda: np.zeros(devices, bool))
        found: dict[int, Mask] = {}
        for number in self._order:
            operation = self.operations.all[number]
            own = traits(operation.operator.name)
            if (not own.renames and not own.repeats) or self._is_in_kernel(number):
                continue
            read = self._read_repeated(number, repeated)
            found[number] = np.ones(devices, bool) if own.repeats else ~read
            if own.repeats:
                repeated[number] = read | self._repeats(number)
        return found

    def _read_repeated(self, number: int, repeated: dict[int, Mask]) -> Mask:
        """The devices on which the operand has repeated elements."""
        source = self.operations.all[number].sources[0]
        if source is None:
            return np.zeros(len(self.prices.cluster), bool)
        have, want = self.units[source[0]].division.makes[source[1]], self.units[number].division.needs[0]
        shape = shape_of(self.operations.all[number].inputs[0])
        return repeated[source[0]] & ((have == want) | self.prices.shared(have, want, shape))

    def _repeats(self, number: int) -> bool:
        """Whether the parts of the result have more elements than those of the operand."""
        operation, division = self.operations.all[number], self.units[number].division
        (before,), (after,) = operation.inputs, operation.outputs
        places = self.prices.placements
        return places[division.needs[0]].shard_bytes(bytes_of(before)) < places[
            division.makes[0]
        ].shard_bytes(bytes_of(after))

    def _arrays(self) -> Iterator[_Array]:
        """All arrays that operators allocate, from the last operator to the first; then those of fetches."""
        ends: dict[int, Places] = {}
        for number in reversed(self._order):
            operation = self.operations.all[number]
            for port, type_ in enumerate(operation.outputs):
                if self.fused is not None and (number, port) in self.fused.internal:
                    continue
                size = bytes_of(type_)
                own, others = self._ends(number, port, ends)
                made = self.prices.held(self.units[number].division.makes[port], size)
                if number in self._views:
                    ends[number] = own
                    made = np.where(self._views[number], 0, made)
                yield _Array(made, self._position[number], own)
                for want, last in others.items():
                    shared = self._shared(number, port, want)
                    delivered = np.where(shared, 0, self.prices.held(want, size))
                    yield _Array(delivered, self._sent_at(number, (port, want)), last)
        for fetch in self.residents.fetches:
            yield from self._fetched(fetch, ends)

    def _fetched(self, fetch: ResidentFetch, ends: dict[int, Places]) -> Iterator[_Array]:
        last: dict[int, Places] = {}
        for user, slot in fetch.users:
            want = self.units[user].division.needs[slot]
            read = self._read_until(user, ends)
            last[want] = np.maximum(last[want], read) if want in last else read
        size, shape = bytes_of(fetch.type), shape_of(fetch.type)
        last.pop(fetch.have, None)
        for want, read in last.items():
            shared = self.prices.shared(fetch.have, want, shape)
            start = 0 if fetch.issued == START else self._position[fetch.issued]
            yield _Array(np.where(shared, 0, self.prices.held(want, size)), start, read)

    def _read_until(self, reader: int, ends: dict[int, Places], place: int | None = None) -> Places:
        """By device: when a reader has no more use for what it read, at its own place or another."""
        position = self._position[reader] if place is None else place
        read = np.full(len(self.prices.cluster), position, np.int64)
        if reader in self._views:
            return np.where(self._views[reader], np.maximum(read, ends[reader]), read)
        return read

    def _ends(self, number: int, port: int, ends: dict[int, Places]) -> tuple[Places, dict[int, Places]]:
        """The last reads of a result by device: of what the operator makes, and of each other placement."""
        unit, devices = self.units[number], len(self.prices.cluster)
        have = unit.division.makes[port]
        last: dict[int, Places] = {have: np.full(devices, self._position[number], np.int64)}
        for use in self.operations.uses[number]:
            if use.port == port:
                want = self.units[use.reader].division.needs[use.slot]
                place = self._read_at(number, use.reader)
                if place < 0:
                    continue
                read = self._read_until(use.reader, ends, place)
                last[want] = np.maximum(last[want], read) if want in last else read
        for returned, want in unit.final:
            if returned == port:
                last[want] = np.full(devices, len(self.units), np.int64)
        own = last.pop(have)
        for want in last:
            own = np.maximum(own, self._sent_at(number, (port, want)))
        for want, read in last.items():
            own = np.where(self._shared(number, port, want), np.maximum(own, read), own)
        return own, last

    def _is_in_kernel(self, number: int) -> bool:
        """Whether other operations are computed in the same kernel: what it writes is an array of its own."""
        return (
            self.fused is not None and len(self.fused.grouping.of_head(self.fused.grouping.head[number])) > 1
        )

    def _read_at(self, number: int, reader: int) -> int:
        """The last position at which an operation reads what another has written; -1 if it does not."""
        if self.fused is None:
            return self._position[reader]
        heads = self.fused.grouping.outer(number, reader)
        return max((self._position[head] for head in heads), default=-1)

    def _sent_at(self, number: int, key: Key) -> int:
        """The position after which a result is sent: that of the last one of its bucket."""
        sent = None if self.fused is None else self.fused.bucket_of.get((number, key))
        return self._position[number if sent is None else sent[0]]

    def _shared(self, number: int, port: int, want: int) -> Mask:
        shape = shape_of(self.operations.all[number].outputs[port])
        return self.prices.shared(self.units[number].division.makes[port], want, shape)
