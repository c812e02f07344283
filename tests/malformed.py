"""Malformed and malicious uploads against a service with a worker: what became of each, and how long it took.

``python -m tests.malformed --count 500 [--seed N] [--first N]``; exit code 1 if any was not answered with a
problem, or took too long, or the service did not do a valid job afterwards.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import httpx

from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from tests.server.conftest import tiny_model
from tests.server.damage import OPTIONS, Upload
from tests.server.hostile import uploads
from tests.server.live import furnished, serving

URL = "/v1/optimizations"
MOST_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """What became of an upload: ``refused``, ``failed``, ``harmless`` (it was a valid model after all), or
    ``wrong``; with the type of problem, the seconds until the answer and until the end of the job, and the
    processor time for both (but that of the sandbox, which is bounded).
    """

    upload: Upload
    kind: str
    problem: str
    answered: float
    ended: float
    cpu: float


@contextmanager
def service(directory: Path) -> Iterator[httpx.Client]:
    """A client of a service with one worker that does real jobs."""
    settings = Settings(
        plans_clusters=True,
        job_niceness=0,
        poll_seconds=0.05,
        min_free_bytes=0,
        max_job_seconds=6 * MOST_SECONDS,
        max_job_bytes=2 << 30,
        max_job_attempts=1,
        max_requests_per_second=1e6,
    )
    stop = threading.Event()
    with furnished(directory) as database, serving(settings, database) as address:
        worker = threading.Thread(target=Worker(database, settings, stop).run)
        worker.start()
        try:
            with httpx.Client(base_url=address, timeout=60) as client:
                yield client
        finally:
            stop.set()
            worker.join()


def outcome(client: httpx.Client, upload: Upload) -> Outcome:
    """Sends an upload and waits for the end of its job, if it becomes one."""
    started, used = time.monotonic(), _processor_seconds()
    response = client.post(URL, content=upload.body, headers=upload.headers)
    answered = time.monotonic() - started
    document = response.json()
    if response.status_code not in (200, 202):
        is_problem = response.headers["content-type"] == "application/problem+json"
        kind = "refused" if is_problem and 400 <= response.status_code < 500 else "wrong"
        return Outcome(upload, kind, document["type"], answered, 0.0, _processor_seconds() - used)
    while document["state"] in ("queued", "running"):
        time.sleep(0.05)
        document = client.get(document["links"]["self"]).json()
    ended, cpu = time.monotonic() - started, _processor_seconds() - used
    if document["state"] == "succeeded":
        return Outcome(upload, "harmless", "", answered, ended, cpu)
    error = document["error"] or {}
    right = document["state"] == "failed" and str(error.get("type", "")).startswith("/problems/")
    return Outcome(upload, "failed" if right else "wrong", str(error.get("type")), answered, ended, cpu)


def _processor_seconds() -> float:
    """Processor time of this process (client, server, worker) and of the jobs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime


def does_valid_jobs(client: httpx.Client) -> bool:
    """Whether the service still does what it is for."""
    response = client.post(URL, files={"model": tiny_model(), "options": (None, OPTIONS)})
    document = response.json()
    while document["state"] in ("queued", "running"):
        time.sleep(0.05)
        document = client.get(document["links"]["self"]).json()
    return document["state"] == "succeeded"


def main() -> None:
    """Prints one line for each kind of upload, and each that went wrong."""
    parser = argparse.ArgumentParser(prog="tests.malformed", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="skip so many")
    arguments = parser.parse_args()
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as directory, service(Path(directory)) as client:
        chosen = islice(uploads(arguments.first + arguments.count, arguments.seed), arguments.first, None)
        for upload in chosen:
            found.append(outcome(client, upload))
        alive = does_valid_jobs(client)
    kinds = Counter((o.upload.kind, o.kind, o.problem) for o in found)
    for (kind, result, problem), count in sorted(kinds.items()):
        sys.stdout.write(f"{count:4}  {kind:40} {result:9} {problem}\n")
    late = [o for o in found if o.cpu > MOST_SECONDS]
    wrong = [o for o in found if o.kind == "wrong"]
    for o in (*late, *wrong):
        sys.stdout.write(
            f"{o.upload.kind}: {o.kind} {o.problem}, {o.answered:.1f} s, {o.ended:.1f} s, {o.cpu:.1f} CPU s\n"
        )
    sys.stdout.write(
        f"{len(found)} uploads: {dict(Counter(o.kind for o in found))}; slowest answer "
        f"{max(o.answered for o in found):.1f} s, slowest end {max(o.ended for o in found):.1f} s, most "
        f"processor time {max(o.cpu for o in found):.1f} s; "
        f"a valid job afterwards {'succeeds' if alive else 'FAILS'}\n"
    )
    sys.exit(bool(wrong or late) or not alive)


if __name__ == "__main__":
    main()
