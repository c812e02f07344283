"""The optimizer: searches for cheaper equivalent graphs under measured costs, and checks the result."""

from superopt.optimizer.explanation.page import html_of
from superopt.optimizer.pipeline.measured import Measured
from superopt.optimizer.pipeline.prepare import Request
from superopt.optimizer.pipeline.recorded import RecordedStep, recorded_trace
from superopt.optimizer.pipeline.report import Report
from superopt.optimizer.pipeline.run import Pipeline, Result, optimize
from superopt.optimizer.pipeline.simulated import Simulated
from superopt.optimizer.pipeline.write import plan_of
from superopt.optimizer.search import CancelToken, Progress, ProgressCallback, TraceStep, replay
from superopt.options import Options

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
