"""Objective by which plans are ranked."""

from __future__ import annotations

import enum


class ParallelObjective(enum.StrEnum):
    """Microseconds of one call, or per call in a steady stream."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
