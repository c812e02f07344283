"""Runs a job of the command line: shows its progress, ends it early on Ctrl-C, keeps details of failures."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TextIO

from superopt.cli.interrupts import first_interrupt
from superopt.cli.logs import kept, recorded, warn
from superopt.cli.progress import followed
from superopt.cli.run_progress import Loudness, RunProgress, say
from superopt.journeys.supervision import Job, Outcome, run_job


def run_supervised(job: Job, loudness: Loudness) -> Outcome:
    """The outcome of a job. Ctrl-C ends its search; the second time it raises KeyboardInterrupt."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as details,
        recorded(lambda text: None if loudness is Loudness.QUIET else warn(text), details),
        first_interrupt() as interrupted,
    ):
        progress = RunProgress(job, loudness, interrupted)
        with _shown(progress):
            outcome = run_job(replace(job, stderr=details.fileno()), progress.hear, progress.finishes)
        progress.end()
        _report_failure(outcome, loudness, _text(details))
    return outcome


@contextmanager
def _shown(progress: RunProgress) -> Generator[None]:
    if progress.loudness is Loudness.QUIET:
        yield
        return
    with followed(progress.status):
        yield


def _text(details: TextIO) -> str:
    details.flush()
    details.seek(0)
    return details.read()


def _report_failure(outcome: Outcome, loudness: Loudness, details: str) -> None:
    """Prints details where they are wanted, and one sentence about an internal error."""
    if loudness is Loudness.VERBOSE:
        sys.stderr.write(details)
    if outcome.is_broken:
        is_original = outcome.report["returned"] == "original"
        left = "the original is returned" if is_original else "the part that failed is left as it was"
        say(f"{outcome.failure}; {left}; {kept(details or outcome.failure)}")
