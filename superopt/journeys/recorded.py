"""What can be made again from the report of an optimization, for Python: its model, shards, timeline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias, cast

from superopt.errors import InvalidOptionError
from superopt.journeys import replay as recording
from superopt.journeys.given_inputs import GivenInputs, archive_of
from superopt.journeys.planning.clusters import cluster_if_named, find_cluster
from superopt.journeys.report_files import read_report
from superopt.journeys.result import Result, WrittenModel, checked_path
from superopt.onnx_io import ModelSource
from superopt.optimizer import Report
from superopt.optimizer.parallel.simulator import write_trace

RecordedReport: TypeAlias = "str | Path | Mapping[str, object] | Report | Result"
"""A report, the path of its JSON file, its JSON values, or the result that has it."""


def replay(
    model: ModelSource,
    report: RecordedReport,
    *,
    database: str | None = None,
    cluster: str | Path | None = None,
    inputs: GivenInputs | None = None,
) -> WrittenModel:
    """The model that an optimization wrote, byte for byte, made by applying its recorded steps again.

    ``model`` is the one that was optimised. Its outputs are compared with those of the result, since reports
    need not be trusted, on random inputs and on ``inputs``: arrays by name, or an .npz file of them.
    ``cluster`` is that of a plan whose strategy merges or divides gradients; a known machine is found by its
    name in the report. Raises UnprovedRuleError for a step whose rule is not proved now, NotEquivalentError
    if outputs differ, UnjudgedError if the model runs on none of the inputs, InvalidFileError for a report
    that is damaged or of another model, InvalidModelError.
    """
    content = _content(report)
    machine = cluster_if_named(cluster)
    lowered = recording.replay(model, content, database=database, cluster=machine)
    with archive_of(inputs) as path:
        recording.require_equal(model, lowered, content, database=database, inputs=path)
    return WrittenModel(lowered)


def write_shards(
    model: ModelSource,
    report: RecordedReport,
    directory: str | Path,
    *,
    database: str | None = None,
    cluster: str | Path | None = None,
) -> tuple[int, int]:
    """Writes the ONNX models that each device of a plan runs, with a manifest of the transfers between them,
    into a new directory. Returns the numbers of devices and of models.

    ``report`` is one of an optimization with a cluster; ``cluster`` is as for ``replay``. Raises
    InvalidFileError for another report, InvalidOptionError if the directory exists, and as ``replay`` does.
    """
    machine = cluster_if_named(cluster)
    return recording.write_shards(
        model, _content(report), checked_path(directory), database=database, cluster=machine
    )


def write_timeline(
    model: ModelSource,
    report: RecordedReport,
    path: str | Path,
    *,
    cluster: str | Path,
    database: str | None = None,
) -> float:
    """Simulates a plan on a cluster again and writes all that its devices and channels do as a Chrome trace,
    for https://ui.perfetto.dev. Returns the predicted microseconds.

    Raises InvalidOptionError for an unknown cluster, or one with fewer devices than the plan, and as
    ``write_shards`` does.
    """
    simulation = recording.simulation_of(model, _content(report), find_cluster(cluster), database=database)
    write_trace(simulation, checked_path(path))
    return simulation.microseconds


def _content(report: RecordedReport) -> Mapping[str, object]:
    """The report as it is read from a file."""
    if isinstance(report, str | Path):
        return read_report(Path(report))
    if isinstance(report, Report | Result):
        report = report.to_json()
    if not isinstance(report, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOptionError(
            f"report: expected a path, a report, its values or a superopt.Result, got {report!r}"
        )
    return cast("Mapping[str, object]", json.loads(json.dumps(report)))
