"""Optimizing models: cheaper equal graphs, found by search under measured costs, and checked."""

from optimizer.decision import plan_of
from optimizer.explanation.page import html_of
from optimizer.optimize import Journey, Result, optimize
from optimizer.options import Options
from optimizer.report import RecordedStep, Report, recorded_trace
from optimizer.search import CancelToken, Progress, ProgressCallback, TraceStep, replay

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
