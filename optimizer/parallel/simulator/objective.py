"""Objective by which plans are ranked."""

from __future__ import annotations

import enum

from superopt.options import TRAINING


class ParallelObjective(enum.StrEnum):
    """Microseconds of one call, or per call in a steady stream."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"

    @staticmethod
    def of(name: str) -> ParallelObjective:
        """The objective of that ``--objective``: an iteration of training is one call of the step."""
        return ParallelObjective.LATENCY if name == TRAINING else ParallelObjective(name)
