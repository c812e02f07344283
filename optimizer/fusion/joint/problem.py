"""What a joint fusion starts from: operations of a plan in which all devices do the same, and its exchanges.

All devices then take the same times, so that one device's two streams are enough: one computes, one sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from superopt.errors import InvalidOptionError
from superopt.optimizer.fusion.joint.collectives import Collective, CollectiveTimes
from superopt.optimizer.fusion.kernels import KernelModel, Readers
from superopt.optimizer.parallel.communication import joined_steps
from superopt.optimizer.parallel.simulator import Simulation
from superopt.optimizer.parallel.simulator.buckets import reduced_by
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.simulator.units import Key

if TYPE_CHECKING:
    from superopt.optimizer.fusion.joint.state import Node


@dataclass(frozen=True, slots=True)
class Transfer:
    """An exchange of one result: the operation that computes it, and its key there. Transfers of one ``kind``
    are reductions that can be one collective; it is None for other exchanges."""

    number: int
    key: Key
    exchange: Exchange
    kind: object | None


@dataclass(frozen=True, eq=False)
class Problem:
    """A simulated plan without kernels or buckets."""

    simulation: Simulation

    @staticmethod
    def of(simulation: Simulation) -> Problem:
        """The problem of a plan. Raises InvalidOptionError unless all devices do the same."""
        found = Problem(simulation)
        why = found._why_not
        if why is not None:
            raise InvalidOptionError(
                "joint fusion: expected a plan in which all devices do the same, such as ddp with a number "
                f"of samples that {len(simulation.prices.cluster)} equal devices divide, got {why}"
            )
        return found

    @property
    def _why_not(self) -> str | None:
        """What contradicts that all devices do the same; None for nothing."""
        if not self.simulation.prices.cluster.is_uniform:
            return "devices that differ"
        if self.simulation.plan.has_kernels:
            return "a plan with kernels, buckets or an order"
        for operation, unit in zip(self.simulation.operations.all, self.simulation.units, strict=True):
            if unit.division.takes_time and unit.division.duration.common is None:
                return f"{operation.operator.name} (node {operation.node}) on some of the devices"
        for one in self.transfers:
            if not all(phase.is_single for phase in one.exchange.phases):
                node = self.simulation.operations.all[one.number].node
                return f"several collectives at once for the result of node {node}"
        return None

    @cached_property
    def size(self) -> int:
        """The number of operations."""
        return len(self.simulation.units)

    @cached_property
    def model(self) -> KernelModel:
        """The kernels of a device."""
        divisions = [unit.division for unit in self.simulation.units]
        return KernelModel(
            self.simulation.operations, divisions, self.simulation.prices.cluster.devices[0].kind
        )

    @cached_property
    def readers(self) -> Readers:
        """Who reads which result."""
        return Readers(self.simulation.operations, [unit.division for unit in self.simulation.units])

    @cached_property
    def known(self) -> dict[tuple[tuple[int, ...], frozenset[int]], Node]:
        """Kernels by their members and those that are copied."""
        return {}

    def why_not(self, members: tuple[int, ...], copied: frozenset[int]) -> str | None:
        """Why members cannot be one kernel; None if they can."""
        key = members, copied
        if key in self.known:
            return None
        if key not in self._refused:
            self._refused[key] = self.model.why_not(members, copied, self.readers)
        return self._refused[key]

    @cached_property
    def _refused(self) -> dict[tuple[tuple[int, ...], frozenset[int]], str | None]:
        return {}

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """All exchanges, in issue order."""
        operations = self.simulation.operations
        return tuple(
            Transfer(
                number,
                key,
                exchange,
                None
                if (groups := reduced_by(exchange)) is None
                else (groups, operations.all[number].outputs[key[0]].element),
            )
            for number, unit in enumerate(self.simulation.units)
            for key, exchange in unit.sends
            if exchange is not None
        )

    @cached_property
    def sent(self) -> Mapping[int, tuple[int, ...]]:
        """The transfers of each operation that has any."""
        found: dict[int, tuple[int, ...]] = {}
        for index, transfer in enumerate(self.transfers):
            found[transfer.number] = (*found.get(transfer.number, ()), index)
        return found

    @cached_property
    def reads(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each operation the results that it reads: the operation that computes one, and the transfer
        that brings it, -1 where there is none."""
        by_key = {(one.number, one.key): index for index, one in enumerate(self.transfers)}
        return tuple(
            tuple(
                dict.fromkeys(
                    (source[0], by_key.get((source[0], (source[1], unit.division.needs[slot])), -1))
                    for slot, source in enumerate(operation.sources)
                    if source is not None
                )
            )
            for operation, unit in zip(self.simulation.operations.all, self.simulation.units, strict=True)
        )

    @cached_property
    def direct(self) -> tuple[tuple[int, ...], ...]:
        """For each operation those that read a result of it as it is computed."""
        found: list[list[int]] = [[] for _ in range(self.size)]
        for reader, read in enumerate(self.reads):
            for source in dict.fromkeys(source for source, transfer in read if transfer < 0):
                found[source].append(reader)
        return tuple(map(tuple, found))

    @cached_property
    def receivers(self) -> tuple[tuple[int, ...], ...]:
        """For each transfer the operations that read what it brings."""
        found: list[list[int]] = [[] for _ in self.transfers]
        for reader, read in enumerate(self.reads):
            for _, transfer in read:
                if transfer >= 0:
                    found[transfer].append(reader)
        return tuple(map(tuple, found))

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """For each operation the largest number of transfers on a path to it."""
        found: list[int] = []
        for read in self.reads:
            found.append(max((found[source] + (transfer >= 0) for source, transfer in read), default=0))
        return tuple(found)

    @cached_property
    def takes_time(self) -> tuple[bool, ...]:
        """Whether each operation is a kernel of its own."""
        return tuple(unit.division.takes_time for unit in self.simulation.units)

    @cached_property
    def bytes(self) -> tuple[int, ...]:
        """For each transfer the bytes that a device reduces."""
        return tuple(one.exchange.steps[0].bytes for one in self.transfers)

    @cached_property
    def _times(self) -> CollectiveTimes:
        return CollectiveTimes(self.simulation.prices, [one.exchange for one in self.transfers])

    @property
    def channel_classes(self) -> int:
        """The number of classes of channels that collectives occupy."""
        return self._times.classes

    def collective(self, transfers: Sequence[int]) -> Collective:
        """The collective of one transfer, or of several reductions of one kind."""
        if len(transfers) == 1:
            return self._times.of(self.transfers[transfers[0]].exchange)
        exchanges = [self.transfers[one].exchange for one in transfers]
        steps = joined_steps([exchange.steps for exchange in exchanges])
        return self._times.of_steps(steps, exchanges[0].holders)
