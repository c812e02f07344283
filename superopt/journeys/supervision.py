"""Supervision of an optimization in a child process: its model or the original is written in time.

Endless searches, native calls that hang with the interpreter lock, crashes and lack of memory cannot be
caught in the same process. Therefore the job runs in a child process while this one only waits; it imports
little. If the child has not answered by the deadline of ``guaranteed_seconds``, it is killed and the original
is written with the reason. Once the child has reported that the model is written, the model is final; only
reports can be missing, and the outcome lists them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from superopt.errors import INTERNAL_ERROR, InvalidModelError, InvalidOptionError, SuperoptError
from superopt.files import (
    STANDARD_INPUT,
    atomic_path,
    can_be_read_once,
    descriptors_in,
    sha256_of,
    write_atomically,
)
from superopt.journeys.ending_reasons import reason_of
from superopt.journeys.fallback_report import fallback_report
from superopt.option_table import require
from superopt.options import DEFAULTS, OPTIONS, TRAINING
from superopt.processes import child
from superopt.processes.child import JsonObject, ResourceLimits, result_of, run_in_child
from superopt.protobuf_wire import external_bytes, is_model, may_have_external_data

ProgressCallback = Callable[[JsonObject], None]

OPTIMIZE = "superopt.journeys.optimize_job:optimize"
"""Optimises a file into a file; its arguments are ``Job.arguments``."""

_COPY = "superopt.journeys.optimize_job:copy"
_PAGE = "superopt.journeys.optimize_job:page"

_FINISHED, _REPORTED = "finished", "reported"
"""Messages of a function that writes reports: its answer, and each report."""

ORIGINAL = "original"
"""In the state of a job, the file that is optimised in place of its model: the training step of that."""

SHA256 = "sha256"
"""In the state of a job, the hash of the file that is optimised, if it is large."""

_OVERRUN, _OVERRUN_SECONDS = 1.1, 3.0
_FINISHING = 1.5
_SECONDS_PER_BYTE = 8e-9
"""Time reserved for copying a model on a busy machine."""

_COPY_STARTS = 1.0
"""Seconds reserved for starting the process that copies a model with external data."""

_LEAST_GRACE = 0.25
_COPY_SECONDS = 600.0
_LONGEST_SECONDS = 1e8
"""Limits beyond the range of system alarms are treated as unlimited."""

_PAGE_SECONDS = 60.0


def guaranteed_seconds(budget: float) -> float:
    """Deadline of a job with this budget, in seconds after its start."""
    return _OVERRUN * budget + _OVERRUN_SECONDS


@dataclass(frozen=True)
class Job:
    """One optimization of a model file; ``output`` None writes no model.

    ``options`` has the names that HTTP uses; ``extras`` are further arguments of the ``function``, whose
    answer has the ``report``. A function that writes ``reports`` tells ``{"finished": answer}`` before, when
    the model is written, and ``{"reported": path}`` after each. The budget counts from ``started`` (monotonic
    clock). What the function prints goes to the descriptors ``stdout`` and ``stderr``. Where nobody
    ``is_reading`` the report, it may lack the model's hash. Where the file is a temporary copy of what the
    user gave, messages name what it is ``called``.
    """

    model: Path
    output: Path | None
    options: Mapping[str, object]
    budget: float
    started: float
    database: str | None = None
    reports: tuple[Path, ...] = ()
    extras: Mapping[str, object] = field(default_factory=dict[str, object])
    function: str = OPTIMIZE
    stdout: int | None = None
    stderr: int | None = None
    is_reading: bool = True
    called: str = ""

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the function."""
        return {
            **self.extras,
            "model": str(self.model),
            "called": self.called,
            "output": None if self.output is None else str(self.output),
            "options": dict(self.options),
            "database": self.database,
            "started": self.started,
            "reports": [str(path) for path in self.reports],
        }

    @property
    def written(self) -> tuple[Path, ...]:
        """The files that the function writes."""
        return (*(() if self.output is None else (self.output,)), *self.reports)

    @property
    def seconds(self) -> float:
        """Remaining seconds for the function, leaving time to write the original."""
        size = self.model.stat().st_size if self.model.is_file() else 0
        outside = external_bytes(self.model) if self.model.is_file() else 0
        writing = _SECONDS_PER_BYTE * (size + outside) + (_COPY_STARTS if outside else 0.0)
        limit = guaranteed_seconds(self.budget) - _FINISHING - writing
        ends = min(max(limit, self.budget + _LEAST_GRACE), _LONGEST_SECONDS)
        return ends - (time.monotonic() - self.started)


@dataclass(frozen=True)
class Outcome:
    """The answer of the function and its ``report``; or None and a fallback report if the original was
    written instead. ``failure`` is the internal error that happened, if any, in one sentence. ``missing`` are
    reports that were not written, with reasons.
    """

    answer: JsonObject | None
    report: JsonObject
    failure: str = ""
    missing: Mapping[Path, str] = field(default_factory=dict[Path, str])

    @property
    def is_broken(self) -> bool:
        """Whether there was an internal error."""
        return bool(self.failure)


def run_job(
    job: Job,
    progress: ProgressCallback = lambda _: None,
    finish: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Runs a job in a child process; ends at most ``guaranteed_seconds(job.budget)`` seconds after its start.
    Once ``finish`` returns True, the search ends and the best model found so far is judged.

    Raises the job's error if its input is invalid. After any other failure the original and a fallback report
    are written.
    """
    require(OPTIONS["budget"].mismatches(job.budget, is_cluster=False))
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        job = _with_file(job, Path(directory))
        ending, state = _ended(job, Path(directory), progress, finish)
        _quarantine(job, state)
        finished = cast("JsonObject | None", state.get(_FINISHED))
        match ending:
            case child.Returned(result):
                return _outcome(result)
            case _ if finished is not None:
                return replace(_outcome(finished), missing=_missing(job, ending, state))
            case child.Raised():
                raise ending.error()
            case _:
                return _original(job, state, *_reason(job, ending, state))


def _outcome(answer: JsonObject) -> Outcome:
    report = cast("JsonObject", answer["report"])
    return Outcome(answer, report, failure_of(report))


def failure_of(report: JsonObject) -> str:
    """The internal error that a report is about; empty without one."""
    parts = [report, *cast("list[JsonObject]", report.get("bodies", []))]
    reasons = [why for part in parts if (why := str(part.get("why"))).startswith(INTERNAL_ERROR)]
    return reasons[0] if reasons else ""


def _missing(job: Job, ending: child.Ending, state: Mapping[str, object]) -> dict[Path, str]:
    """The reports that a function had not written when it ended, with reasons."""
    reported = cast("list[str]", state[_REPORTED])
    why = ending.message if isinstance(ending, child.Raised) else _reason(job, ending, state)[0]
    return {path: why for path in job.reports if str(path) not in reported}


def optimize_file(
    model_path: Path,
    output_path: Path,
    options: Mapping[str, object],
    database_url: str,
    progress: ProgressCallback,
) -> JsonObject:
    """The job function of the service, which calls it in a child process; returns the report.

    ``options`` are those of the service (``server.options``), ``cluster`` (a path) and ``library_version``
    (the version of the job). A job that exceeds its time returns the original; if the inner process crashes
    or runs out of memory this one ends, too, since the service retries it.
    """
    budget = float(str(options.get("budget", DEFAULTS.budget)))
    job = Job(model_path, output_path, options, budget, time.monotonic(), database_url)
    with tempfile.TemporaryDirectory(prefix="superopt-") as directory:
        ending, state = _ended(job, Path(directory), progress)
        _quarantine(job, state)
        match ending:
            case child.Returned(result):
                return cast("JsonObject", result["report"])
            case child.Raised():
                raise ending.error()
            case child.OutOfTime():
                return _original(job, state, *_reason(job, ending, state)).report
            case child.OutOfMemory():
                raise MemoryError
            case child.Killed(name) if name in signal.Signals.__members__:
                os.kill(os.getpid(), signal.Signals[name])
            case _:
                pass
    raise RuntimeError(_reason(job, ending, state)[0])


def _with_file(job: Job, directory: Path) -> Job:
    """The job with a model file that the child can read; pipes and descriptors are copied first."""
    try:
        if not can_be_read_once(job.model):
            return job
        called = "standard input" if job.model == STANDARD_INPUT else str(job.model)
        stored = directory / Path(called).name
        with job.model.open("rb") as pipe, stored.open("wb") as file:
            shutil.copyfileobj(pipe, file)
    except OSError:
        return job  # the job reports the error
    return replace(job, model=stored, called=called)


def _ended(
    job: Job, directory: Path, progress: ProgressCallback, finish: Callable[[], bool] = lambda: False
) -> tuple[child.Ending, JsonObject]:
    """The outcome of the job, and its last state. Removes its temporary files."""
    reported: list[object] = []
    state: JsonObject = {_REPORTED: reported}

    def hear(message: JsonObject) -> None:
        if "known" in message:
            state.update(cast("JsonObject", message["known"]))
        elif _FINISHED in message:
            state.update(message, phase="writing reports")
        elif _REPORTED in message:
            reported.append(message[_REPORTED])
        elif "warning" in message:
            progress(message)
        else:
            state.update(message)
            progress(message)

    scratch = directory / "scratch"
    scratch.mkdir()
    ending = run_in_child(
        job.function,
        job.arguments,
        ResourceLimits(max(job.seconds, 0.0)),
        on_progress=hear,
        finish=finish,
        writes=job.written,
        stdout=job.stdout,
        stderr=job.stderr,
        descriptors=descriptors_in(job.written),
        environment={"TMPDIR": str(scratch)},
    )
    return ending, state


def _quarantine(job: Job, state: Mapping[str, object]) -> None:
    """Marks the rules suspect that the job reported, however it ended."""
    suspects = cast("list[JsonObject]", state.get("suspects", []))
    if not suspects:
        return
    from superopt.journeys.quarantine import (
        quarantine,  # imports the database, which is rarely needed here
    )

    quarantine(
        suspects,
        found_by="optimize",
        model=_subject(job, state).name,
        sha256=sha256_of(_subject(job, state)),
        seed=int(str(job.options.get("seed", DEFAULTS.seed))),
        database=job.database,
    )


def _subject(job: Job, state: Mapping[str, object]) -> Path:
    """The file that is optimised."""
    return Path(str(state.get(ORIGINAL, job.model)))


def _builds_step(job: Job) -> bool:
    return job.options.get("objective") == TRAINING


def _reason(job: Job, ending: child.Ending, state: Mapping[str, object]) -> tuple[str, bool]:
    phase = cast("str | None", state.get("phase"))
    return reason_of(ending, phase, job.budget, time.monotonic() - job.started)


def _original(job: Job, state: JsonObject, why: str, is_broken: bool) -> Outcome:  # noqa: FBT001
    """Writes the original and its reports. Raises InvalidModelError if the original cannot be read. For a
    training step that was not built, raises InvalidOptionError, or RuntimeError after an internal error."""
    if ORIGINAL in state:
        job = replace(job, model=_subject(job, state))
    elif _builds_step(job):
        what = f"{job.model.name}: the training step could not be built"
        if is_broken:
            raise RuntimeError(f"{what}: {why.removeprefix(f'{INTERNAL_ERROR}: ')}")
        raise InvalidOptionError(f"{what}: {why}")
    if job.options.get("memory_limit") is not None:
        why += "; no order of its operators within the memory limit was found by then"
    shown = job.called or job.model
    try:
        if not is_model(job.model):
            raise InvalidModelError(f"{shown} is not a valid ONNX file, and reading it took too long")
    except OSError as error:
        raise InvalidModelError(f"{shown} cannot be read: {error.strerror}") from None
    with ThreadPoolExecutor(1) as pool:
        known = cast("str | None", state.get(SHA256))
        hashed = pool.submit(sha256_of, job.model) if job.is_reading and known is None else None
        if job.output is not None:
            _write_original(job, job.output)
        sha256 = known if hashed is None else hashed.result()
    taken = time.monotonic() - job.started
    report = fallback_report(job.model, sha256, job.options, state, why, taken, crashed=is_broken)
    reasons = {path: _write_report(report, path) for path in job.reports}
    missing = {path: why for path, why in reasons.items() if why}
    return Outcome(None, report, why if is_broken else "", missing)


def _write_original(job: Job, output: Path) -> None:
    """Copies the original bytes, with external data if there may be any."""
    model = job.model
    if may_have_external_data(model):
        ending = run_in_child(
            _COPY,
            {"model": str(model), "called": job.called, "output": str(output)},
            ResourceLimits(_COPY_SECONDS),
            writes=(output,),
            stdout=job.stdout,
            stderr=job.stderr,
            descriptors=descriptors_in(job.written),
        )
        why = f"{job.called or model}: the original could not be copied either"
        result_of(ending, lambda: InvalidModelError(why))
        return
    with atomic_path(output) as part:
        shutil.copyfile(model, part)


def _write_report(report: JsonObject, path: Path) -> str:
    """Writes a report; returns the reason if that fails, else an empty string."""
    if path.suffix.lower() != ".html":
        try:
            write_atomically(path, (json.dumps(report, indent=1, ensure_ascii=False) + "\n").encode())
        except SuperoptError as error:
            return str(error)
        return ""
    arguments = {"report": report, "path": str(path)}
    ending = run_in_child(_PAGE, arguments, ResourceLimits(_PAGE_SECONDS), writes=(path,))
    match ending:
        case child.Returned():
            return ""
        case child.Raised(_, message):
            return message
        case child.OutOfTime():
            return f"rendering took more than {_PAGE_SECONDS:g} s"
        case _:
            return "rendering failed"
