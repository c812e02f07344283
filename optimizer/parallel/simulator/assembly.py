"""Assembly of the units of a plan, each from the divisions of the operations around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from superopt.errors import InvalidOptionError
from superopt.ir.graph import NodeId
from superopt.ir.plan import Parallelism, Plan, Residence
from superopt.ops.traits import ALIASES
from superopt.optimizer.parallel.communication import summed
from superopt.optimizer.parallel.fetches import START
from superopt.optimizer.parallel.placement import needed, produced
from superopt.optimizer.parallel.residence import residences
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.simulator.residents import TOGETHER, Residents
from superopt.optimizer.parallel.simulator.units import (
    Division,
    Duration,
    Key,
    Unit,
    parts_of,
)
from superopt.optimizer.parallel.tasks import mapping_of, shape_of
from superopt.optimizer.parallel.terms import admits


def require_one_stage(stages: Collection[int], microbatches: int) -> None:
    """Raises InvalidOptionError for a training step that is a pipeline."""
    if microbatches > 1 or len(set(stages)) > 1:
        raise InvalidOptionError(
            "plan: expected one stage and one microbatch for a training step, which cannot be a "
            f"pipeline, got {len(set(stages))} and {microbatches}"
        )


class Assembly:
    """Builds the units of plans for one graph on one cluster."""

    def __init__(self, operations: Operations, prices: Prices) -> None:
        self._operations = operations
        self._prices = prices
        kinds: dict[tuple[object, ...], int] = {}
        self._kinds = [
            kinds.setdefault((o.operator, o.inputs, o.outputs, o.splits, o.weights), len(kinds))
            for o in operations.all
        ]
        self._divisions: dict[tuple[int, Parallelism, int], Division] = {}
        self._residents: tuple[Mapping[NodeId, Residence], Residents] | None = None

    def how(self, plan: Plan, number: int) -> Parallelism:
        """The machine mapping of an operation; whole on device 0 where the plan has none."""
        operation = self._operations.all[number]
        found = plan.parallel.get(operation.node)
        return Parallelism((1,) * len(operation.splits.dimensions), (0,)) if found is None else found

    def division(self, plan: Plan, number: int) -> Division:
        """The division of the operation in the plan. Raises InvalidOptionError where it is impossible."""
        how = self.how(plan, number)
        key = (self._kinds[number], how, plan.microbatches)
        found = self._divisions.get(key)
        if found is None:
            if len(self._divisions) >= 1 << 16:
                self._divisions.clear()
            found = self._divisions[key] = self._divided(plan, number, how)
        return found

    def stages(self, plan: Plan) -> tuple[int, ...]:
        """The stage of every operation. Raises InvalidOptionError where a stage depends on a later one, and
        for a pipeline of a training step: its microbatches would update the states one after the other."""
        stages = tuple(self.how(plan, number).stage for number in range(len(self._operations.all)))
        if self._operations.step is not None:
            require_one_stage(stages, plan.microbatches)
        for number, operation in enumerate(self._operations.all):
            for source in operation.sources:
                if source is not None and stages[source[0]] > stages[number]:
                    raise InvalidOptionError(
                        f"plan, {operation.operator.name} (node {operation.node}): expected at least stage "
                        f"{stages[source[0]]}, that of what it reads, got {stages[number]}"
                    )
        return stages

    def residents(self, plan: Plan) -> Residents:
        """The inputs that the plan keeps in parts, without fetches. Raises InvalidOptionError where that is
        impossible."""
        known = self._residents
        if known is None or known[0] is not plan.residence:
            known = (plan.residence, Residents.kept(self._operations, self._prices, plan))
            self._residents = known
        return known[1]

    def unit(self, divisions: list[Division], residents: Residents, number: int) -> Unit:
        """The unit of an operation, given all divisions, without fetches."""
        return Unit(
            divisions[number],
            self._arrivals(divisions, number),
            *self._sends(divisions, residents, number),
            (),
            (),
        )

    def fetching(self, units: Sequence[Unit], residents: Residents) -> list[Unit]:
        """The units with the fetches of inputs that each issues and waits for."""
        divisions = [unit.division for unit in units]
        return [
            replace(
                unit,
                fetches=self.fetched(divisions, residents, number),
                awaits=self._awaits(divisions, residents, number),
            )
            for number, unit in enumerate(units)
        ]

    def fetched(
        self, divisions: list[Division], residents: Residents, number: int = START
    ) -> tuple[tuple[Key, Exchange], ...]:
        """The exchanges of inputs that are issued after an operation, or at the start."""
        found: dict[Key, Exchange] = {}
        bundles: dict[int, dict[Key, Exchange]] = defaultdict(dict)
        for fetch in residents.issued.get(number, ()):
            for user, slot in fetch.users:
                want = divisions[user].needs[slot]
                exchange = fetch.exchange(self._prices, want)
                if exchange is not None:
                    (bundles[fetch.bundle] if exchange.gathers_only else found)[fetch.port, want] = exchange
        for port, exchanges in bundles.items():
            found[port, TOGETHER] = self._prices.gathered(tuple(exchanges.values()))
        return tuple(found.items())

    def _awaits(
        self, divisions: list[Division], residents: Residents, number: int
    ) -> tuple[tuple[int, Key], ...]:
        found: dict[tuple[int, Key], None] = {}
        for fetch, slot in residents.read.get(number, ()):
            want = divisions[number].needs[slot]
            exchange = fetch.exchange(self._prices, want)
            if exchange is not None and exchange.gathers_only:
                found[fetch.issued, (fetch.bundle, TOGETHER)] = None
            elif exchange is not None:
                found[fetch.issued, (fetch.port, want)] = None
        return tuple(found)

    def _arrivals(self, divisions: list[Division], number: int) -> tuple[tuple[int, Key], ...]:
        own = divisions[number]
        found: list[tuple[int, Key]] = []
        for slot, source in enumerate(self._operations.all[number].sources):
            if source is not None:
                maker, port = source
                have, want = divisions[maker].makes[port], own.needs[slot]
                waits = not (own.takes_time and divisions[maker].takes_time)
                if waits or self._exchange(maker, divisions[maker], port, have, want) is not None:
                    found.append((maker, (port, want)))
        return tuple(found)

    def _sends(
        self, divisions: list[Division], residents: Residents, number: int
    ) -> tuple[tuple[tuple[Key, Exchange | None], ...], tuple[Key, ...], tuple[Key, ...]]:
        """The exchanges of results, the keys among them that the graph returns, and all that it returns."""
        own = divisions[number]
        wanted: dict[Key, bool] = {}
        for use in self._operations.uses[number]:
            reader = divisions[use.reader]
            key = use.port, reader.needs[use.slot]
            waits = not (own.takes_time and reader.takes_time)
            wanted[key] = waits or wanted.get(key, False)
        outputs = [
            key
            for port in self._operations.outputs[number]
            for key in self._final(divisions, residents, number, port)
        ]
        for key in outputs:
            wanted[key] = wanted.get(key, False) or not own.takes_time
        sends: dict[Key, Exchange | None] = {}
        for key, waits in wanted.items():
            exchange = self._exchange(number, own, key[0], own.makes[key[0]], key[1])
            if waits or exchange is not None:
                sends[key] = exchange
        return tuple(sends.items()), tuple(key for key in outputs if key in sends), tuple(outputs)

    def _final(self, divisions: list[Division], residents: Residents, number: int, port: int) -> list[Key]:
        """The placements in which an output of the graph ends: a state where it is resident, by default where
        it is read, another output as it was computed, with partial sums reduced."""
        own = divisions[number]
        states = self._operations.states_made.get((number, port), ())
        places = self._prices.placements
        read = [
            places[kept]
            for state in states
            for kept in (
                [residents.places[state.input]]
                if state.input in residents.places
                else [divisions[user].needs[slot] for user, slot in state.users]
            )
        ]
        if not read:
            return [(port, own.reduces[port])]
        shape = shape_of(self._operations.all[number].outputs[port])
        terms = places[own.makes[port]] if all(state.is_sum for state in states) else None
        return [(port, self._prices.number(place)) for place in residences(read, shape, terms)]

    def _exchange(self, number: int, own: Division, port: int, have: int, want: int) -> Exchange | None:
        if have == want:
            return None
        shape = own.shapes[port]
        type_ = self._operations.all[number].outputs[port]
        places = self._prices.placements
        if any(
            size % degree
            for place in (places[have], places[want])
            for size, degree in zip(shape, place.degrees, strict=True)
        ):
            shape = shape_of(type_)
        return self._prices.exchange(have, want, shape, type_.element.bytes_per_element)

    def _divided(self, plan: Plan, number: int, how: Parallelism) -> Division:
        operation, cluster = self._operations.all[number], self._prices.cluster
        splits = operation.splits
        if not admits(splits, how.degrees):
            mapping_of(self._operations.graph, plan, self._operations.graph[operation.node])
        if max(how.devices) >= len(cluster) or min(how.devices) < 0:
            raise InvalidOptionError(
                f"plan, {operation.operator.name} (node {operation.node}): expected devices from 0 to "
                f"{len(cluster) - 1}, those of the cluster, got {how.devices}"
            )
        batched = self._batched(number, how, plan.microbatches)
        parts = [
            degree * (plan.microbatches if dimension == batched else 1)
            for dimension, degree in enumerate(how.degrees)
        ]
        inputs = parts_of(operation.inputs, splits.inputs, parts)
        outputs = parts_of(operation.outputs, splits.outputs, parts)
        times = np.zeros(len(cluster))
        if operation.operator.name not in ALIASES:
            for device in how.devices:
                times[device] = self._prices.tasks.task_microseconds(
                    operation.operator, inputs, outputs, cluster.devices[device].kind, operation.weights
                )
        works = np.zeros(len(cluster), bool)
        works[list(how.devices)] = True
        needs = tuple(needed(splits, how, slot) for slot in range(len(inputs)))
        makes = tuple(produced(splits, how, port) for port in range(len(outputs)))
        number_of = self._prices.number
        return Division(
            how,
            tuple(map(number_of, needs)),
            tuple(map(number_of, makes)),
            tuple(number_of(summed(place)) for place in makes),
            Duration.of(times, works),
            works,
            operation.operator.name not in ALIASES,
            tuple(
                shape_of(type_)
                for type_ in parts_of(
                    operation.outputs,
                    splits.outputs,
                    [plan.microbatches if dimension == batched else 1 for dimension in range(len(parts))],
                )
            ),
        )

    def _batched(self, number: int, how: Parallelism, microbatches: int) -> int | None:
        """The task dimension that microbatches divide: that of the first axis, if its size allows."""
        splits = self._operations.all[number].splits
        if microbatches == 1 or not splits.outputs or not splits.outputs[0]:
            return None
        dimension = splits.outputs[0][0]
        if dimension is None:
            return None
        size = splits.dimensions[dimension].size
        is_divisible = isinstance(size, int) and size % (microbatches * how.degrees[dimension]) == 0
        return dimension if is_divisible else None
