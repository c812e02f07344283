"""The ``CostStore`` protocol for measured costs, implemented by the database, and an in-memory store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class CostStore(Protocol):
    """Costs in microseconds by key; a key identifies device, runtime, threads and what was measured."""

    def get(self, key: str) -> float | None:
        """The cost, None if absent."""
        ...

    def put(self, key: str, microseconds: float) -> None:
        """Stores a cost, replacing an older one."""
        ...

    def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
        """The costs of those keys that are present."""
        ...

    def put_many(self, costs: Mapping[str, float]) -> None:
        """Stores several costs."""
        ...


class MemoryCostStore:
    """In-memory costs, for the lifetime of the process."""

    def __init__(self, costs: Mapping[str, float] | None = None) -> None:
        self._costs = dict(costs or {})

    def __len__(self) -> int:
        return len(self._costs)

    def get(self, key: str) -> float | None:
        """The cost, None if absent."""
        return self._costs.get(key)

    def put(self, key: str, microseconds: float) -> None:
        """Stores a cost."""
        self._costs[key] = microseconds

    def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
        """The costs of those keys that are present."""
        return {key: self._costs[key] for key in keys if key in self._costs}

    def put_many(self, costs: Mapping[str, float]) -> None:
        """Stores several costs."""
        self._costs.update(costs)
