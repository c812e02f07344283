"""Child process part of an optimization (``journeys.supervision``): model file to model file and report."""

from __future__ import annotations

import math
import pickle  # nosec B403: only what a child of this process wrote into its own directory is read
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from superopt.errors import InvalidModelError
from superopt.files import atomic_path, sha256_of
from superopt.journeys import in_process as api
from superopt.journeys.planning.clusters import described_cluster, find_cluster
from superopt.journeys.report_files import read_plan, write_report
from superopt.journeys.supervision import ORIGINAL, SHA256
from superopt.onnx_io import LoweredModel, load_model
from superopt.onnx_io.files.detaching import attach, detach
from superopt.onnx_io.files.external import LIMIT
from superopt.optimizer import CancelToken, Progress, Report
from superopt.optimizer.parallel.topology import Cluster
from superopt.optimizer.pipeline.reporting.report import BYTE_FOR_BYTE, EquivalenceSummary, section_of
from superopt.optimizer.pipeline.runnable import why_refused
from superopt.options import Options
from superopt.processes.child import JsonObject
from superopt.processes.child_main import finishing
from superopt.processes.garbage import seldom_collecting

Tell = Callable[[JsonObject], None]


_LARGE = 1 << 26
"""Size of weights in bytes above which they are moved to external data, to keep them out of memory."""


@dataclass(frozen=True)
class Attached(api.Result):
    """The result for a model whose weights were externalised; saved as one file like the ``original``."""

    original: Path

    def save(self, path: str | Path) -> Path | None:
        """Writes the model atomically, with external data, in the returned file, if rewriting made it too
        large for one file."""
        target = Path(path)
        if self.report.returned == "original" and self.report.model.is_as_given:
            with atomic_path(target) as part:
                shutil.copyfile(self.original, part)
            return None
        with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
            detached = Path(directory) / "model.onnx"
            self.lowered.save(detached)
            if sum(file.stat().st_size for file in detached.parent.iterdir()) > LIMIT:
                return self.lowered.save(target)
            with atomic_path(target) as part, part.open("wb") as file:
                attach(detached, file)
        return None


def optimized(arguments: JsonObject, progress: Tell) -> api.Result:
    """The result, not yet written. ``arguments`` are those of ``supervision.Job``; ``machine`` is a known
    cluster or a cluster file, ``plan`` a report with a plan.
    """
    path = Path(str(arguments["model"]))
    request = _request(arguments)
    progress({"known": {"options": request.options.to_json()}})
    if not request.options.builds_step:
        return _in_pieces(path, request, progress)
    from superopt.journeys.training_job import built_step  # imports much that other jobs do not need

    _told(progress, Progress("step", _seconds(request), 0, math.nan, math.nan))
    step = built_step(path, request.options, _scratch(), request.called)
    progress({"known": {ORIGINAL: str(step.path), "training": step.section}})
    called = request.called if step.section is None else ""
    result = _in_pieces(step.path, replace(request.of_step(), called=called), progress)
    options = request.options.to_json()
    training = {**(step.section or {}), **(result.report.training or {})} or None
    return replace(result, report=replace(result.report, options=options, training=training))


def _scratch() -> Path:
    """A new empty directory, removed with the scratch directory of the job."""
    return Path(tempfile.mkdtemp(prefix="superopt-"))


def _in_pieces(path: Path, request: _Request, progress: Tell) -> api.Result:
    """The result for a file, without its weights in memory if they are large."""
    detached = detach(path, _scratch(), _LARGE) if path.is_file() else None
    if detached is None:
        return _optimized(path, request, progress)
    sha256 = sha256_of(path)
    progress({"known": {SHA256: sha256}})
    try:
        result = _optimized(detached, request, progress, given=path)
    except InvalidModelError:
        return _optimized(path, request, progress)  # messages name the file that the user gave
    return Attached(result.lowered, _report_of(result.report, path, sha256), result.library, path)


def _report_of(report: Report, path: Path, sha256: str) -> Report:
    """The report of a model with moved weights, with the hash of the original file."""
    compared = report.equivalence
    is_copied = report.returned == "original" and report.model.is_as_given
    if is_copied and not compared.samples and compared.passed:
        compared = EquivalenceSummary.untouched(compared.tolerance, BYTE_FOR_BYTE)
    model = replace(report.model, name=path.name, sha256=sha256)
    return replace(report, model=model, equivalence=compared)


def _read_plan(plan: str, path: Path, given: Path | None) -> Mapping[str, object]:
    """The report with a plan. One about the ``given`` model is about that in ``path``, whose weights were
    moved."""
    report = read_plan(Path(plan))
    if given is None or "model" not in report:
        return report
    model = section_of(report, "model")
    if model.get("sha256") != sha256_of(given):
        return report
    return {**report, "model": {**model, "sha256": sha256_of(path)}}


@dataclass(frozen=True)
class _Request:
    """The arguments of a job, read."""

    options: Options
    library: int | None
    cluster: Cluster | None
    plan: str | None
    database: str | None
    started: float | None
    called: str = ""

    def of_step(self) -> _Request:
        """The same for the step that was built, in which sizes are fixed already."""
        if isinstance(self.options.freeze, str):
            return self
        return replace(self, options=replace(self.options, freeze={}))


def _request(arguments: JsonObject) -> _Request:
    options = dict(cast("Mapping[str, object]", arguments["options"]))
    library = cast("int | None", options.pop("library_version", None))
    machine = cast("str | None", arguments.get("machine"))
    uploaded = cast("str | None", options.pop("cluster", None))
    cluster = described_cluster(uploaded) if machine is None else find_cluster(machine)
    if cluster is not None:
        options["cluster"] = cluster.name
    return _Request(
        Options.from_json(options),
        library,
        cluster,
        cast("str | None", arguments.get("plan")),
        cast("str | None", arguments["database"]),
        cast("float | None", arguments["started"]),
        str(arguments.get("called", "")),
    )


@seldom_collecting()
def _optimized(path: Path, request: _Request, progress: Tell, given: Path | None = None) -> api.Result:
    """The result for the model in a file, which has the weights of the ``given`` one moved elsewhere, if any.

    Sends the description of the model early, for the report that is written if the process dies.
    """

    def know(known: JsonObject) -> None:
        progress({"known": known})

    return api.optimize_with(
        path,
        request.options,
        database=request.database,
        progress=partial(_told, progress),
        started=request.started,
        library=request.library,
        cluster=request.cluster,
        plan=None if request.plan is None else _read_plan(request.plan, path, given),
        know=know,
        cancel=CancelToken(interrupted=finishing),
        called=request.called,
    )


def optimize(arguments: JsonObject, progress: Tell) -> JsonObject:
    """Writes the model, and for Python a pickled report to ``objects``; returns the report."""
    result = optimized(arguments, progress)
    if arguments["output"] is not None:
        result.save(str(arguments["output"]))
    objects = cast("str | None", arguments.get("objects"))
    if objects is not None:
        Path(objects).write_bytes(pickle.dumps((result.report, result.library)))
    return {"report": result.to_json()}


def copy(arguments: JsonObject, progress: Tell) -> JsonObject:
    """Copies a model unchanged, with external data beside it."""
    del progress
    source = load_model(Path(str(arguments["model"])), why_refused, str(arguments.get("called", "")))
    LoweredModel.of_source(source, {}).save(str(arguments["output"]))
    return {}


def page(arguments: JsonObject, progress: Tell) -> JsonObject:
    """Writes a report as HTML."""
    del progress
    write_report(cast("JsonObject", arguments["report"]), Path(str(arguments["path"])))
    return {}


def _told(progress: Tell, state: Progress) -> None:
    progress({name: value if _is_json(value) else None for name, value in asdict(state).items()})


def _seconds(request: _Request) -> float:
    """Since the job was asked for."""
    return 0.0 if request.started is None else time.monotonic() - request.started


def _is_json(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
