"""Optimizing models: cheaper equal graphs, found by search under measured costs, and checked."""

from superopt.optimizer.decision import plan_of
from superopt.optimizer.explanation.page import html_of
from superopt.optimizer.optimize import Journey, Result, optimize
from superopt.optimizer.report import RecordedStep, Report, recorded_trace
from superopt.optimizer.search import CancelToken, Progress, ProgressCallback, TraceStep, replay
from superopt.options import Options

__all__ = [
    "CancelToken",
    "Journey",
    "Options",
    "Progress",
    "ProgressCallback",
    "RecordedStep",
    "Report",
    "Result",
    "TraceStep",
    "html_of",
    "optimize",
    "plan_of",
    "recorded_trace",
    "replay",
]
