"""The optimizer: searches for cheaper equivalent graphs under measured costs, and checks the result."""

from importlib import import_module
from typing import TYPE_CHECKING

from superopt.optimizer.pipeline.measured import Measured
from superopt.optimizer.pipeline.prepare import Request
from superopt.optimizer.pipeline.recorded import RecordedStep, recorded_trace
from superopt.optimizer.pipeline.reporting.report import Report
from superopt.optimizer.pipeline.run import Pipeline, Result, optimize
from superopt.optimizer.pipeline.write import plan_of
from superopt.optimizer.search import CancelToken, Progress, ProgressCallback, TraceStep, replay
from superopt.options import Options

if TYPE_CHECKING:
    from superopt.optimizer.explanation.page import html_of
    from superopt.optimizer.pipeline.simulated import Simulated

__all__ = [
    "CancelToken",
    "Measured",
    "Options",
    "Pipeline",
    "Progress",
    "ProgressCallback",
    "RecordedStep",
    "Report",
    "Request",
    "Result",
    "Simulated",
    "TraceStep",
    "html_of",
    "optimize",
    "plan_of",
    "recorded_trace",
    "replay",
]

_AT_FIRST_USE = {
    "Simulated": "superopt.optimizer.pipeline.simulated",
    "html_of": "superopt.optimizer.explanation.page",
}
"""Planning for clusters and pages of reports: most processes need neither, and importing them takes long."""


def __getattr__(name: str) -> object:
    """Loads what is not loaded at once."""
    if name in _AT_FIRST_USE:
        return getattr(import_module(_AT_FIRST_USE[name]), name)
    raise AttributeError(f"module 'superopt.optimizer' has no attribute {name!r}")
