"""Child process function of a job: reads its files, writes a result and a report."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from superopt.processes.child_main import resolve
from superopt.processes.logs import only_about
from superopt.protobuf_wire import WireError, node_count
from superopt.server.problem_types import ModelTooLargeError, OptimizationFailedError
from superopt.server.worker.reports import named_report, outcome_of, report_text

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import JsonObject

REPORT = "report.json"
_log = logging.getLogger(__name__)
_EPOCH = (1980, 1, 1, 0, 0, 0)


class OptimizeFile(Protocol):
    """Protocol of the function that runs a job; ``superopt.journeys.supervision:optimize_file``."""

    def __call__(
        self,
        model_path: Path,
        output_path: Path,
        options: JsonObject,
        database_url: str,
        progress: Callable[[JsonObject], None],
    ) -> JsonObject:
        """Optimises the model at ``model_path``; writes the result to ``output_path`` with external data
        beside it.

        ``options`` are the given options of ``server.options``, ``cluster`` (a path) and ``library_version``
        (the version that the job uses). Calls ``progress`` with JSON objects and propagates its exceptions
        (used for cancelling). Returns the report of CONTRACTS. Raises SuperoptError.
        """
        ...


def optimize(arguments: JsonObject, progress: Callable[[JsonObject], None]) -> JsonObject:
    """Runs the job whose files are in ``directory/input``; writes ``directory/result`` and the report.

    Returns ``{"result": file name, "outcome": outcome_of the report}``. Raises OptimizationFailedError if the
    report is about an internal error.
    """
    only_about(str(arguments["job"]))
    directory = Path(str(arguments["directory"]))
    options = cast("JsonObject", arguments["options"])
    model = directory / "input" / "model.onnx"
    _refuse_large(model, int(str(arguments["max_model_nodes"])))
    output = directory / "output"
    output.mkdir()
    optimize_file = cast("OptimizeFile", resolve(str(arguments["optimize_file"])))
    report = optimize_file(model, output / "model.onnx", options, str(arguments["database_url"]), progress)
    from superopt.journeys.supervision import failure_of

    failure = failure_of(dict(report))
    if failure:
        _log.error("%s", failure)
        raise OptimizationFailedError("the log has the details, under the id of the job")
    named = named_report(report, str(arguments["model_name"]))
    (directory / REPORT).write_text(report_text(named), encoding="utf-8")
    return {"result": str(_packed(output).relative_to(directory)), "outcome": outcome_of(report)}


def _packed(output: Path) -> Path:
    """The result as one file: the model, or an uncompressed archive with fixed timestamps if it has external
    data.
    """
    files = sorted(path for path in output.rglob("*") if path.is_file())
    if len(files) == 1:
        return files[0]
    archive = output.parent / "model.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED, allowZip64=True) as packed:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(output).as_posix(), _EPOCH)
            entry.external_attr = 0o644 << 16
            entry.file_size = path.stat().st_size
            with path.open("rb") as source, packed.open(entry, "w", force_zip64=True) as target:
                while chunk := source.read(1 << 20):
                    target.write(chunk)
    return archive


def _refuse_large(model: Path, limit: int) -> None:
    try:
        nodes = node_count(model)
    except WireError:
        return  # the optimization reports the error
    if nodes > limit:
        raise ModelTooLargeError(f"the model has {nodes} nodes, the limit is {limit}")
