"""Results of journeys in Python: a model to be used or written, with its report if it was optimised."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from operator import itemgetter
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from superopt.equations import abbreviated
from superopt.errors import InvalidOptionError
from superopt.journeys.report_files import write_report
from superopt.onnx_io import LoweredModel, ModelSource
from superopt.optimizer import Report
from superopt.substitution_db.rules.versions import PublishedRules

if TYPE_CHECKING:
    import onnx

_REASON_CHARACTERS = 120
_RULES_SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False)
class WrittenModel:
    """An ONNX model that was made; ``lowered`` is its form inside superopt."""

    lowered: LoweredModel

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The model, with all weights in it. ``save`` does not see changes of it."""
        return self.lowered.to_proto()

    def to_bytes(self) -> bytes:
        """The content of one ONNX file. Raises InvalidModelError for a model over 2 GB."""
        return self.lowered.to_bytes()

    def save(self, path: str | Path) -> Path | None:
        """Writes the model atomically; above 2 GB, or if the given model had external data, with external
        data beside it, in the returned file. Raises InvalidOptionError if the file cannot be written."""
        return self.lowered.save(checked_path(path))

    def save_with_data(self, path: str | Path) -> Path | None:
        """Writes the model with its weights in a file beside it, called ``PATH.data``; returns this file, or
        None without weights. Raises InvalidOptionError if the files cannot be written."""
        return self.lowered.save_with_data(checked_path(path))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.lowered.node_count} nodes)"


@dataclass(frozen=True, eq=False, repr=False)
class Result(WrittenModel):
    """What ``superopt.optimize`` returns: ``model``, the ``report`` (docs/reports.md), and the ``library``
    whose rules were used. The model is that given, with the reason as ``report.why``, where no better one was
    found."""

    report: Report
    library: PublishedRules

    @property
    def optimized(self) -> bool:
        """Whether the model is another one than the given."""
        return self.report.returned == "optimized"

    @property
    def speedup(self) -> float | None:
        """Measured latency of the given model divided by that of ``model``; None if neither was measured or
        the given one is returned."""
        measured = self.report.measured
        return measured.ratio if self.optimized and measured is not None else None

    def to_json(self) -> dict[str, object]:
        """The report as JSON values, with the library that the rules were taken from."""
        library = {"version": self.library.version, "sha256": self.library.sha256}
        return {**self.report.to_json(), "library": library}

    def save_report(self, path: str | Path) -> None:
        """Writes the report, as JSON or HTML by the ending of the path. Raises InvalidOptionError for another
        ending or a file that cannot be written."""
        write_report(self.to_json(), checked_path(path))

    def __repr__(self) -> str:
        return f"Result({', '.join(text for _, text in _facts(self.report))})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = "".join(
            f'<tr><th style="text-align:left">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for name, text in (("model", self.report.model.name), *_facts(self.report), *_rules(self.report))
        )
        return f"<table>{rows}</table>"


def model_of(model: ModelSource | WrittenModel) -> ModelSource:
    """A model in a form that is read: a result stands for the model in it."""
    return model.model if isinstance(model, WrittenModel) else model


def checked_path(path: str | Path) -> Path:
    """The path; raises InvalidOptionError for anything else."""
    if not isinstance(path, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOptionError(f"path: expected a str or pathlib.Path, got {path!r}")
    return Path(path)


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """What came of an optimization, in short, by names."""
    yield "returned", report.returned
    if report.returned == "optimized":
        yield from _gains(report)
    before, after = report.model.nodes_before, report.model.nodes_after
    counts = f"{before}" if before == after else f"{before} -> {after}"
    yield "nodes", f"{counts} node{'' if after == 1 else 's'}"
    if report.returned == "original":
        yield "why", shorten(report.why, _REASON_CHARACTERS, placeholder=" ...")
    elif report.equivalence.samples and report.equivalence.max_rel_error is not None:
        yield "outputs", f"equal to {report.equivalence.max_rel_error:.1g}"


def _gains(report: Report) -> Iterator[tuple[str, str]]:
    """The cost, where it is not the latency that was measured, and the latency, where it was measured."""
    measured, cost = report.measured, report.cost
    if measured is None or cost.unit != measured.unit:
        yield "cost", f"{cost.source} {cost.before:,.0f} -> {cost.after:,.0f} {cost.unit}"
    if measured is not None:
        low, high = measured.interval
        yield "latency", f"{measured.ratio:.2f}x [{low:.2f}, {high:.2f}]"


def _rules(report: Report) -> Iterator[tuple[str, str]]:
    """The rules with the largest gain."""
    applied = Counter(step.equation for step in report.trace)
    gains = dict.fromkeys(applied, 0.0)
    for step in report.trace:
        gains[step.equation] += step.cost_before - step.cost_after
    best = nlargest(_RULES_SHOWN, gains.items(), key=itemgetter(1))
    for equation, gain in best:
        yield f"{gain:,.1f} {report.cost.unit}", f"{applied[equation]}x {abbreviated(equation)}"
