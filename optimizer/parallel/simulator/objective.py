"""Objective by which plans are ranked."""

from __future__ import annotations

import enum


class ParallelObjective(enum.StrEnum):
    """Microseconds of one inference, per inference in a steady stream, or of one training iteration."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    TRAINING = "training"
