"""Persistent store of measured costs; implements the optimizer's cost store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isfinite

from sqlalchemy import delete, func, select

from superopt.errors import InvalidOptionError
from superopt.substitution_db.store.engine import Transactions, now, upsert
from superopt.substitution_db.store.models import CostRow

_BATCH = 500


class CostRepository:
    """Microseconds by key. The key covers everything a cost depends on (device, runtime version, operator,
    types); device and runtime are also stored as columns, so that costs can be listed and removed by device.
    """

    def __init__(self, transactions: Transactions, device: str = "", runtime: str = "") -> None:
        self._transactions = transactions
        self._device = device
        self._runtime = runtime

    def measured_on(self, device: str, runtime: str) -> CostRepository:
        """The same store; costs put through it are recorded for that device and runtime version."""
        return CostRepository(self._transactions, device, runtime)

    def get(self, key: str) -> float | None:
        """The cost in microseconds, None if not measured."""
        return self.get_many((key,)).get(key)

    def put(self, key: str, microseconds: float) -> None:
        """Records a cost; a newer measurement replaces an older one."""
        self.put_many({key: microseconds})

    def get_many(self, keys: Iterable[str]) -> dict[str, float]:
        """The costs in microseconds by key, for the keys that were measured."""
        found: dict[str, float] = {}
        with self._transactions.read() as session:
            for batch in _batches(keys):
                statement = select(CostRow.key, CostRow.microseconds).where(
                    CostRow.sha256.in_([_digest(key) for key in batch])
                )
                found.update(session.execute(statement).all())
        return found

    def put_many(self, costs: Mapping[str, float]) -> None:
        """Records costs in microseconds in one transaction. Raises InvalidOptionError for a negative or
        infinite one.
        """
        for key, microseconds in costs.items():
            if not isfinite(microseconds) or microseconds < 0:
                raise InvalidOptionError(f"cost of {key}: expected microseconds, got {microseconds}")
        with self._transactions.write() as session:
            time = now(session)
            for batch in _batches(costs):
                insert = upsert(session, CostRow).values(
                    [
                        {
                            "sha256": _digest(key),
                            "key": key,
                            "microseconds": costs[key],
                            "device": self._device,
                            "runtime": self._runtime,
                            "measured_at": time,
                        }
                        for key in batch
                    ]
                )
                changed = {
                    c: insert.excluded[c] for c in ("microseconds", "device", "runtime", "measured_at")
                }
                session.execute(insert.on_conflict_do_update(index_elements=["sha256"], set_=changed))

    def devices(self) -> tuple[tuple[str, str, int], ...]:
        """Device, runtime version and number of costs of each."""
        statement = (
            select(CostRow.device, CostRow.runtime, func.count())
            .group_by(CostRow.device, CostRow.runtime)
            .order_by(CostRow.device, CostRow.runtime)
        )
        with self._transactions.read() as session:
            return tuple(session.execute(statement))

    def forget(self, device: str) -> int:
        """Removes the costs of a device; returns how many."""
        with self._transactions.write() as session:
            removed = session.scalars(
                delete(CostRow).where(CostRow.device == device).returning(CostRow.sha256)
            )
            return len(removed.all())


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _batches(keys: Iterable[str]) -> Iterator[tuple[str, ...]]:
    remaining = iter(keys)
    while batch := tuple(islice(remaining, _BATCH)):
        yield batch
