"""Timing of a rewritten model at smaller sizes: what gains at one size may lose at another."""

from __future__ import annotations

import numpy as np

from superopt.errors import UnsupportedError
from superopt.onnx_io import LoweredModel
from superopt.optimizer.check import Sizing, compare_latency
from superopt.optimizer.check.inputs import SCALES
from superopt.optimizer.cost.runtime.session import RuntimeRefusedError
from superopt.optimizer.pipeline.original import Original
from superopt.optimizer.pipeline.sizes_summary import SmallerSizes

_DIVISOR = 4
"""Every open size is divided by this."""

_SECONDS = 1.5
_SHARE = 0.4
"""The most seconds, and the share of the remaining time, for timing."""


def at_smaller_sizes(original: Original, model: LoweredModel, sizing: Sizing) -> SmallerSizes | None:
    """The speed-up at a quarter of the sizes of open dimensions; None if these are as small as can be, the
    model does not run at smaller ones, or no time is left."""
    request = original.prepared.request
    smaller = {name: max(1, size // _DIVISOR) for name, size in sizing.sizes.items()}
    seconds = min(_SECONDS, _SHARE * request.schedule.left)
    if smaller == sizing.sizes or original.is_large or 4 * request.schedule.running > seconds:
        return None
    try:
        comparison = compare_latency(
            original.timed_file,
            original.to_time(model, "smaller"),
            sizing.plan.draw(np.random.default_rng(0), smaller, SCALES[0]),
            threads=request.threads,
            seconds=seconds,
            provider=original.provider,
            is_cut_short=lambda: request.cancel.is_interrupted,
        )
    except (RuntimeRefusedError, UnsupportedError):
        return None
    return SmallerSizes(smaller, comparison.ratio, comparison.low, comparison.high)
