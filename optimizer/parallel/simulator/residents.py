"""Inputs that a plan keeps in parts, in a simulation: where they are, and which fetches bring them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.graph import NodeId
from superopt.ir.plan import Plan
from superopt.ir.types import TensorType
from superopt.optimizer.parallel.fetches import START, issued_fetches, resident
from superopt.optimizer.parallel.simulator.exchange import Exchange
from superopt.optimizer.parallel.simulator.operations import Operations
from superopt.optimizer.parallel.simulator.prices import Prices
from superopt.optimizer.parallel.tasks import shape_of

PARAMETERS = -3
"""Port in keys for the first fetch; those of the others are smaller."""

TOGETHER = -1
"""Placement in the key of what a bundle gathers together; its port is that of the first fetch."""


@dataclass(frozen=True, slots=True)
class ResidentFetch:
    """A fetch of an input from the placement ``have``, that is issued after an operation, by number, or at
    the ``START``, for the slots of operations that are its ``users``, in issue order. ``bundle`` is the port
    of the first fetch that is gathered together with it, perhaps its own."""

    port: int
    input: NodeId
    type: TensorType
    have: int
    issued: int
    users: tuple[tuple[int, int], ...]
    bundle: int

    def exchange(self, prices: Prices, want: int) -> Exchange | None:
        """The exchange that brings the input to a placement; None where nothing is sent."""
        return prices.exchange(self.have, want, shape_of(self.type), self.type.element.bytes_per_element)


@dataclass(frozen=True)
class Residents:
    """The inputs of a plan that are kept in parts, by the number of their placement, and their fetches."""

    places: Mapping[NodeId, int]
    fetches: tuple[ResidentFetch, ...]

    @staticmethod
    def kept(operations: Operations, prices: Prices, plan: Plan) -> Residents:
        """Those of a plan, without fetches. Raises InvalidOptionError where one is impossible."""
        places = resident(operations.graph, plan)
        return Residents({node: prices.number(place) for node, place in places.items()}, ())

    def fetched(self, operations: Operations, plan: Plan, order: Sequence[int]) -> Residents:
        """The same with the plan's fetches where operations are issued in that order."""
        graph = operations.graph
        fetches: list[ResidentFetch] = []
        bundles: dict[int, int] = {}
        nodes = [operations.all[number].node for number in order]
        for turn, fetch in enumerate(issued_fetches(graph, plan, nodes)):
            users = tuple(
                (operations.numbers[reader], slot)
                for reader in fetch.readers
                for slot, value in enumerate(graph[reader].inputs)
                if value.node == fetch.input
            )
            type_ = operations.inputs[fetch.input].type
            port = PARAMETERS - turn
            bundle = port if fetch.bundle is None else bundles.setdefault(fetch.bundle, port)
            issued = START if fetch.position == START else order[fetch.position]
            have = self.places[fetch.input]
            fetches.append(ResidentFetch(port, fetch.input, type_, have, issued, users, bundle))
        return Residents(self.places, tuple(fetches))

    @cached_property
    def issued(self) -> Mapping[int, tuple[ResidentFetch, ...]]:
        """The fetches by the operation after which they are issued."""
        found: dict[int, list[ResidentFetch]] = defaultdict(list)
        for fetch in self.fetches:
            found[fetch.issued].append(fetch)
        return {number: tuple(fetches) for number, fetches in found.items()}

    @cached_property
    def read(self) -> Mapping[int, tuple[tuple[ResidentFetch, int], ...]]:
        """The fetches that each operation waits for, with the slot for which it does."""
        found: dict[int, list[tuple[ResidentFetch, int]]] = defaultdict(list)
        for fetch in self.fetches:
            for user, slot in fetch.users:
                found[user].append((fetch, slot))
        return {number: tuple(fetches) for number, fetches in found.items()}
