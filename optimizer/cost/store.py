"""The ``CostStore`` protocol for measured costs, implemented by the database, and an in-memory store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol


class CostStore(Protocol):
    """Costs in microseconds by key; a key says device, runtime, threads and what was measured."""

    def get(self, key: str) -> float | None:
        """The cost, None when it was never measured."""
        ...

    def put(self, key: str, microseconds: float) -> None:
        """Keeps a cost, in place of an older one."""
        ...

    def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
        """The costs of those keys that have one."""
        ...

    def put_many(self, costs: Mapping[str, float]) -> None:
        """Keeps several costs."""
        ...


class MemoryCostStore:
    """Costs that last as long as the process."""

    def __init__(self, costs: Mapping[str, float] | None = None) -> None:
        self._costs = dict(costs or {})

    def __len__(self) -> int:
        return len(self._costs)

    def get(self, key: str) -> float | None:
        """The cost, None when there is none."""
        return self._costs.get(key)

    def put(self, key: str, microseconds: float) -> None:
        """Keeps a cost."""
        self._costs[key] = microseconds

    def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
        """The costs of those keys that have one."""
        return {key: self._costs[key] for key in keys if key in self._costs}

    def put_many(self, costs: Mapping[str, float]) -> None:
        """Keeps several costs."""
        self._costs.update(costs)
