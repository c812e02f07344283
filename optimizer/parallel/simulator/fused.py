"""Kernels of several operators and buckets of reductions, as units of a schedule.

A kernel starts when all its operands have arrived, and its results are there when it ends. A bucket is sent
when the last of its terms is computed. Its key at the kernel that computes this term is a port after those of
all results.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.ir.graph import Value
from superopt.ir.plan import FusionGroup, Plan
from superopt.optimizer.fusion.kernels import KernelModel, Readers
from superopt.optimizer.parallel.communication import joined_steps
from superopt.optimizer.parallel.simulator.buckets import Groups, reduced_by
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.schedule import Schedule
from superopt.optimizer.parallel.simulator.units import Division, Duration, Key, Unit
from superopt.optimizer.parallel.topology import DeviceKind

Reduction = tuple[int, Key]
"""An exchange: the operation whose result is sent, and its key there."""


@dataclass(frozen=True)
class Grouping:
    """The kernels of a plan by operation numbers. ``head`` is the head of the kernel in which an operation is
    computed for all readers; ``members`` and ``copied`` are by head; ``computing`` are the heads of all
    kernels that compute an operation."""

    head: tuple[int, ...]
    members: Mapping[int, frozenset[int]]
    copied: Mapping[int, frozenset[int]]
    computing: Mapping[int, tuple[int, ...]]

    @staticmethod
    def of(plan: Plan, operations: Operations) -> Grouping:
        """The kernels of a plan. Raises InvalidOptionError where they are not disjoint."""
        owner: dict[int, int] = {}
        members: dict[int, frozenset[int]] = {}
        copied: dict[int, frozenset[int]] = {}
        computing: dict[int, list[int]] = defaultdict(list)
        for group in plan.fusion.values():
            numbers, main = _numbers(group, operations), operations.numbers[group.head]
            members[main] = frozenset(numbers)
            copied[main] = frozenset(operations.numbers[node] for node in group.duplicated)
            for number in numbers:
                computing[number].append(main)
                if number not in copied[main]:
                    if number in owner:
                        raise _wrong(group, "expected no node in two groups, unless it is duplicated")
                    owner[number] = main
        for number in range(len(operations.all)):
            if owner.setdefault(number, number) == number and number not in members:
                computing[number].append(number)
        heads = tuple(owner[number] for number in range(len(operations.all)))
        return Grouping(heads, members, copied, {n: tuple(found) for n, found in computing.items()})

    def of_head(self, head: int) -> frozenset[int]:
        """The members of a kernel."""
        return self.members.get(head) or frozenset((head,))

    def outer(self, producer: int, reader: int) -> tuple[int, ...]:
        """The heads of the kernels in which an operation reads what another has computed elsewhere."""
        return tuple(head for head in self.computing[reader] if producer not in self.of_head(head))

    def read_apart(self, operations: Operations) -> frozenset[int]:
        """The operations that a copy of a reader reads in a kernel that does not compute them."""
        return frozenset(
            source[0]
            for head, copied in self.copied.items()
            for number in copied
            for source in operations.all[number].sources
            if source is not None and source[0] not in self.members[head]
        )


def _numbers(group: FusionGroup, operations: Operations) -> tuple[int, ...]:
    unknown = [node for node in (group.head, *group.members) if node not in operations.numbers]
    if unknown:
        raise _wrong(group, f"the graph has no operator {unknown[0]}")
    numbers = tuple(sorted(operations.numbers[node] for node in group.members))
    if len(set(numbers)) != len(numbers) or len(numbers) < 2:
        raise _wrong(group, "expected two or more different members")
    if group.head not in group.owned or not group.duplicated <= set(group.members):
        raise _wrong(group, "expected a head that is a member and not duplicated, and duplicated members")
    return numbers


def _wrong(group: FusionGroup, why: str) -> InvalidOptionError:
    return InvalidOptionError(f"plan, fusion group of node {group.head}: {why}")


@dataclass(frozen=True)
class Fused:
    """The kernels of a plan as units, by head, in a schedule; other operations have the position of their
    head. ``bucket_of`` gives for each exchange in a bucket the head at which the bucket is sent, and its
    key. ``internal`` are the results that no other kernel reads."""

    grouping: Grouping
    schedule: Schedule
    units: Mapping[int, Unit]
    bucket_of: Mapping[Reduction, Reduction]
    internal: frozenset[tuple[int, int]]

    def terms_of(self, head: int, key: Key) -> int:
        """The number of reductions of the bucket that is sent there; 0 if it is none."""
        return sum(sent == (head, key) for sent in self.bucket_of.values())

    @property
    def issued(self) -> tuple[Unit, ...]:
        """The units in issue order."""
        return tuple(self.units[number] for number, _ in self.schedule.items)


def fused(plan: Plan, operations: Operations, units: Sequence[Unit], prices: Prices) -> Fused:
    """The kernels and buckets of a plan without pipeline stages. Raises InvalidOptionError for groups that
    cannot be a kernel, for values that are not reduced alike, and for an order that contradicts data
    flow."""
    if plan.microbatches != 1 or any(unit.division.how.stage for unit in units):
        raise InvalidOptionError(
            "plan: expected one stage and one microbatch with groups, buckets or an order, got "
            f"{1 + max(unit.division.how.stage for unit in units)} and {plan.microbatches}"
        )
    if plan.residence:
        raise InvalidOptionError(
            "plan: expected no residence of inputs with groups, buckets or an order, got that of node "
            f"{next(iter(plan.residence))}"
        )
    return _Builder(plan, operations, units, prices).built()


@dataclass
class _Builder:
    plan: Plan
    operations: Operations
    units: Sequence[Unit]
    prices: Prices
    grouping: Grouping = field(init=False)
    bucket_of: dict[Reduction, Reduction] = field(default_factory=dict[Reduction, Reduction])

    def __post_init__(self) -> None:
        self.grouping = Grouping.of(self.plan, self.operations)
        divisions = [unit.division for unit in self.units]
        self.readers = Readers(self.operations, divisions, self.grouping.read_apart(self.operations))
        self.models: dict[DeviceKind, KernelModel] = {}

    def built(self) -> Fused:
        buckets = [self._reductions(bucket) for bucket in self.plan.buckets]
        order = self._order(buckets)
        place = {head: position for position, head in enumerate(order)}
        sent: dict[int, list[tuple[Key, Exchange, list[Reduction]]]] = defaultdict(list)
        for bucket in buckets:
            last = max((self.grouping.head[number] for number, _ in bucket), key=place.__getitem__)
            key = (self._ports(last) + len(sent[last]), -1)
            sent[last].append((key, self._joined(bucket), bucket))
            self.bucket_of.update(dict.fromkeys(bucket, (last, key)))
        built = {head: self._unit(head, sent.get(head, ())) for head in order}
        positions = tuple(place[head] for head in self.grouping.head)
        items = tuple((head, 0) for head in order)
        schedule = Schedule((0,) * len(positions), 1, items, (positions,))
        return Fused(self.grouping, schedule, built, self.bucket_of, self._internal())

    def _reductions(self, bucket: Sequence[Value]) -> list[Reduction]:
        """The exchanges of a bucket. Raises InvalidOptionError where they differ in devices or type."""
        found: list[Reduction] = []
        kinds: set[tuple[Groups | None, object]] = set()
        for value in bucket:
            number = self.operations.numbers.get(value.node)
            if number is None:
                raise InvalidOptionError(f"plan, bucket: the graph has no operator {value.node}")
            type_ = self.operations.all[number].outputs[value.port]
            keys = [
                (key, exchange)
                for key, exchange in self.units[number].sends
                if key[0] == value.port and exchange is not None
            ]
            if len(keys) != 1 or (number, keys[0][0]) in self.bucket_of:
                raise InvalidOptionError(
                    "plan, bucket: expected values that are reduced once, in one bucket, got node "
                    f"{value.node}"
                )
            kinds.add((reduced_by(keys[0][1]), type_.element))
            found.append((number, keys[0][0]))
            self.bucket_of[number, keys[0][0]] = (number, keys[0][0])
        if len(kinds) != 1 or next(iter(kinds))[0] is None:
            nodes = ", ".join(str(value.node) for value in bucket)
            raise InvalidOptionError(
                f"plan, bucket of {nodes}: expected sums of one type over the same devices, on all of them"
            )
        return found

    def _joined(self, bucket: Sequence[Reduction]) -> Exchange:
        exchanges = [exchange for number, key in bucket if (exchange := self._exchange(number, key))]
        return self.prices.exchange_of(joined_steps([one.steps for one in exchanges]), exchanges[0].holders)

    def _exchange(self, number: int, key: Key) -> Exchange | None:
        return dict(self.units[number].sends)[key]

    def _order(self, buckets: Sequence[Sequence[Reduction]]) -> list[int]:
        """The heads as they are issued: by the plan's order; else in an order of data flow, operations with
        smaller numbers first."""
        before = self._before(buckets)
        if self.plan.order:
            return self._given_order(before)
        waiting = {head: len(sources) for head, sources in before.items()}
        after: dict[int, list[int]] = defaultdict(list)
        for head, sources in before.items():
            for source in sources:
                after[source].append(head)
        ready = [head for head, count in waiting.items() if not count]
        heapq.heapify(ready)
        found: list[int] = []
        while ready:
            head = heapq.heappop(ready)
            found.append(head)
            for other in after[head]:
                waiting[other] -= 1
                if not waiting[other]:
                    heapq.heappush(ready, other)
        if len(found) < len(before):
            stuck = min(head for head, count in waiting.items() if count)
            raise InvalidOptionError(
                f"plan: groups and buckets wait for each other in a circle; one of them is the group of node "
                f"{self.operations.all[stuck].node}"
            )
        return found

    def _given_order(self, before: Mapping[int, set[int]]) -> list[int]:
        numbers = [self.operations.numbers.get(node, -1) for node in self.plan.order]
        if sorted(numbers) != list(range(len(self.operations.all))):
            raise InvalidOptionError(
                f"plan, order: expected every operator once, {len(self.operations.all)} nodes, got "
                f"{len(numbers)} with {len(set(numbers) - {-1})} different operators"
            )
        order = [number for number in numbers if self.grouping.head[number] == number]
        place = {head: position for position, head in enumerate(order)}
        for head, sources in before.items():
            late = [source for source in sources if place[source] > place[head]]
            if late:
                nodes = [self.operations.all[number].node for number in (late[0], head)]
                raise InvalidOptionError(
                    f"plan, order: expected node {nodes[0]} before node {nodes[1]}, its reader"
                )
        return order

    def _before(self, buckets: Sequence[Sequence[Reduction]]) -> dict[int, set[int]]:
        """For each head the heads for whose results its kernel waits: for all of a bucket."""
        whole = {reduction: bucket for bucket in buckets for reduction in bucket}
        before: dict[int, set[int]] = {head: set() for head in dict.fromkeys(self.grouping.head)}
        heads = self.grouping.head
        for reader, operation in enumerate(self.operations.all):
            for slot, source in enumerate(operation.sources):
                if source is None:
                    continue
                key = source[1], self.units[reader].division.needs[slot]
                terms = whole.get((source[0], key), [(source[0], key)])
                for head in self.grouping.outer(source[0], reader):
                    before[head].update(heads[number] for number, _ in terms)
        for head, sources in before.items():
            if head in sources:
                raise InvalidOptionError(
                    f"plan: the group of node {self.operations.all[head].node} waits for a bucket with its "
                    "own result"
                )
        return before

    def _unit(self, head: int, buckets: Sequence[tuple[Key, Exchange, list[Reduction]]]) -> Unit:
        """The kernel of a head, with the buckets that it completes."""
        own, members = self.units[head], self.grouping.of_head(head)
        arrivals: dict[tuple[int, Key], None] = {}
        sends: dict[Key, Exchange | None] = {}
        settled: list[Key] = []
        final: list[Key] = []
        offsets = self._offsets(head)
        for number in sorted(members):
            unit = self.units[number]
            for source, key in unit.arrivals:
                if source not in members:
                    arrivals[self._arrival(source, key)] = None
            if number in self.grouping.copied.get(head, ()):
                continue
            for key, exchange in unit.sends:
                if (number, key) not in self.bucket_of:
                    sends[self._renumbered(key, offsets[number])] = exchange
            settled += [
                self._renumbered(key, offsets[number])
                for key in unit.settled
                if (number, key) not in self.bucket_of
            ]
            final += [self._renumbered(key, offsets[number]) for key in unit.final]
        for key, exchange, reductions in buckets:
            sends[key] = exchange
            if any(own_key in self.units[number].settled for number, own_key in reductions):
                settled.append(key)
        division = own.division if len(members) == 1 else self._division(head)
        return Unit(division, tuple(arrivals), tuple(sends.items()), tuple(settled), tuple(final), (), ())

    def _arrival(self, source: int, key: Key) -> tuple[int, Key]:
        sent = self.bucket_of.get((source, key))
        if sent is not None:
            return sent
        head = self.grouping.head[source]
        return head, self._renumbered(key, self._offsets(head)[source])

    @staticmethod
    def _renumbered(key: Key, offset: int) -> Key:
        return key[0] + offset, key[1]

    def _offsets(self, head: int) -> Mapping[int, int]:
        """For each member of a kernel the number of results of those before it."""
        total, found = 0, dict[int, int]()
        for number in sorted(self.grouping.of_head(head)):
            found[number] = total
            total += len(self.operations.all[number].outputs)
        return found

    def _ports(self, head: int) -> int:
        return sum(len(self.operations.all[number].outputs) for number in self.grouping.of_head(head))

    def _division(self, head: int) -> Division:
        """The division of the head, with the time of its whole kernel on each device."""
        own, members = self.units[head].division, tuple(sorted(self.grouping.of_head(head)))
        copied = self.grouping.copied[head]
        each = np.zeros(len(self.prices.cluster))
        for device in own.how.devices:
            model = self._model(self.prices.cluster.devices[device].kind)
            why = model.why_not(members, copied, self.readers)
            if why is not None:
                nodes = ", ".join(str(self.operations.all[number].node) for number in members)
                raise InvalidOptionError(f"plan, fusion group of nodes {nodes}: {why}")
            each[device] = model.kernel(members, copied, self.readers).microseconds
        return replace(
            own,
            duration=Duration.of(each, own.works),
            takes_time=any(self.units[number].division.takes_time for number in members),
        )

    def _model(self, kind: DeviceKind) -> KernelModel:
        found = self.models.get(kind)
        if found is None:
            divisions = [unit.division for unit in self.units]
            found = self.models[kind] = KernelModel(self.operations, divisions, kind)
        return found

    def _internal(self) -> frozenset[tuple[int, int]]:
        """The results that only their own kernel reads."""
        return frozenset(
            (number, port)
            for head, members in self.grouping.members.items()
            for number in members - self.grouping.copied[head]
            for port in range(len(self.operations.all[number].outputs))
            if not self.readers.has_others(number, port, members, self.grouping.copied[head])
        )
