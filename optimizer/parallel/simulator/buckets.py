"""Buckets: reductions of several partial sums, exchanged as one collective."""

from __future__ import annotations

from superopt.optimizer.parallel.communication import CollectiveKind
from superopt.optimizer.parallel.simulator.exchange import Exchange

Groups = tuple[tuple[int, ...], ...]
"""The devices that reduce together."""


def reduced_by(exchange: Exchange) -> Groups | None:
    """The groups of devices that sum their terms and keep the sum; None where an exchange does anything
    else."""
    if not exchange.steps or any(step.kind is not CollectiveKind.ALL_REDUCE for step in exchange.steps):
        return None
    return tuple(step.group for step in exchange.steps)
