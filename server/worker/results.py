"""Reuse of job results, by a hash of everything that a result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from superopt.server.settings import Settings
from superopt.server.worker.device import this_device
from superopt.server.worker.reports import named_report, report_text
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import JobFile, JobRole, JsonObject, KnownResult

_GIVEN = (JobRole.MODEL, JobRole.DATA, JobRole.CLUSTER)


def result_key(
    database: Database,
    settings: Settings,
    files: Iterable[JobFile],
    options: JsonObject,
    library_version: int | None,
) -> str:
    """Hash of everything that a result depends on: files, options, the library's rules and the hashes of
    their proofs, this machine, the runtime, this program.
    """
    library = None if library_version is None else database.library.get(library_version)
    hashes = current().hashes
    known = {
        "files": sorted([file.role, file.name, file.sha256] for file in files if file.role in _GIVEN),
        "options": dict(options),
        "library": None if library is None else library.sha256,
        "hashes": [hashes.axioms, hashes.operators, hashes.verifier],
        "device": this_device().name,
        "program": [version("superopt"), settings.optimize_file],
    }
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def with_known_result(database: Database, settings: Settings, new: NewJob) -> NewJob:
    """The new job, with its result if an earlier job has computed it under the current library version."""
    version = database.library.in_force()
    number = None if version is None else version.number
    key = result_key(database, settings, new.files, new.options, number)
    return replace(new, known=known_result(database, key, new.model_name))


def known_result(database: Database, key: str, model_name: str) -> KnownResult | None:
    """The result of an earlier job with that key, under the names of this one."""
    earlier = database.jobs.result(key)
    result = None if earlier is None else earlier.file(JobRole.RESULT)
    report = None if earlier is None else earlier.file(JobRole.REPORT)
    if earlier is None or result is None or report is None:
        return None
    path = database.blobs.path(report.sha256)
    if not path.exists():
        return None
    text = report_text(named_report(json.loads(path.read_bytes()), model_name))
    blob = database.blobs.put_bytes(text.encode())
    names = result_names(model_name, Path(result.name).suffix)
    return KnownResult(
        job_id=earlier.id,
        key=key,
        files=(
            JobFile(JobRole.RESULT, names[JobRole.RESULT], result.sha256, result.bytes),
            JobFile(JobRole.REPORT, names[JobRole.REPORT], blob.sha256, blob.bytes),
        ),
        outcome=earlier.outcome,
    )


def result_names(model_name: str, suffix: str) -> dict[JobRole, str]:
    """Download names of the results of a model with that name."""
    stem = Path(model_name).stem
    return {JobRole.RESULT: f"{stem}-optimized{suffix}", JobRole.REPORT: f"{stem}-report.json"}
