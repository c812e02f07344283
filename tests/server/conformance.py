"""Schemathesis against the service on a socket: every check, every phase, with and without API keys.

``python -m tests.server.conformance --examples 300`` looks longer than the test suite does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from superopt.server.http.cursors import cursor_of
from superopt.server.settings import Settings
from tests.server.conftest import tiny_model
from tests.server.live import add_jobs, furnished, serving

_CANCELLED = "use_after_free"
"""``DELETE`` cancels: an optimization that was cancelled can still be read."""

_SETTINGS = """
[[operations]]
include-path = "/v1/optimizations/{identity}/events"
request-timeout = 1.5
"""
"""The events of a job that nothing does are read for so long, not for 10 seconds each time."""

HERE = Path(__file__).parent


PHASES = ("examples", "coverage", "fuzzing", "stateful")


def run_schemathesis(
    directory: Path, *, examples: int, keyed: bool, phases: Sequence[str] = PHASES
) -> subprocess.CompletedProcess[str]:
    """Tests a service whose data lies in ``directory``; standard output says what was found."""
    settings = Settings(
        plans_clusters=True,
        job_niceness=0,
        poll_seconds=0.05,
        min_free_bytes=0,
        max_wait_seconds=0.02,
        max_prove_seconds=0.5,
        max_queued_jobs=1_000_000,
        max_requests_per_second=1e6,
        max_requests_burst=1_000_000,
    )
    with furnished(directory) as database:
        jobs, rules = add_jobs(database, tiny_model()), [rule.id for rule in database.rules.list()]
        known = {
            "optimization": jobs,
            "optimizations-cursor": [cursor_of("optimizations", "2")],
            "substitution": rules,
            "substitutions-cursor": [cursor_of("substitutions", rule) for rule in rules],
        }
        token = database.keys.create("test", ["admin"]).token if keyed else None
        config = directory / "schemathesis.toml"
        config.write_text(_SETTINGS)
        with serving(settings, database) as address:
            return subprocess.run(
                [
                    *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                    *("run", f"{address}/openapi.json"),
                    *("--phases", ",".join(phases)),
                    *("--checks", "all", "--exclude-checks", _CANCELLED),
                    *("--max-examples", str(examples), "--seed", "1", "--no-color"),
                    *("--generation-database", "none"),
                    *(("--header", f"Authorization: Bearer {token}") if token else ()),
                ],
                env={
                    **os.environ,
                    "SCHEMATHESIS_HOOKS": "tests.server.schemathesis_hooks",
                    "KNOWN": json.dumps(known),
                },
                cwd=HERE.parents[1],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )


def main() -> None:
    """Prints what was found; exit code 1 if anything was."""
    parser = argparse.ArgumentParser(prog="tests.server.conformance")
    parser.add_argument("--examples", type=int, default=300)
    failed = False
    for keyed in (False, True):
        with tempfile.TemporaryDirectory() as directory:
            done = run_schemathesis(Path(directory), examples=parser.parse_args().examples, keyed=keyed)
        sys.stdout.write(done.stdout)
        failed |= done.returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
