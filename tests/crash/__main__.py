"""``python -m tests.crash --count 200 --database sqlite``: many kills at random, and what came of them."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from superopt.substitution_db import open_database
from tests.crash.kills import kill_at_random
from tests.crash.processes import NO_LIBRARY
from tests.postgres import PostgresServer, programs


@contextmanager
def _url(kind: str, directory: str) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{directory}/service.db"
        return
    binaries = programs()
    if binaries is None:
        sys.exit("PostgreSQL is not installed: apt-get install postgresql")
    server = PostgresServer(binaries, durable="on")
    try:
        yield server.url(server.new_database())
    finally:
        server.remove()


def main() -> None:
    """Prints one line per database; ends with 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="how often something is killed")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "both"), default="both")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    for kind in ("sqlite", "postgresql") if asked.database == "both" else (asked.database,):
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as directory, _url(kind, directory) as url:
            os.environ["SUPEROPT_BLOB_DIRECTORY"] = str(Path(directory) / "blobs")
            with open_database(url, library=NO_LIBRARY) as database:
                outcome = kill_at_random(database, asked.count, asked.seed)
        seconds = time.monotonic() - began
        sys.stdout.write(f"{kind}: {outcome}, {seconds:.0f} s\n")


if __name__ == "__main__":
    main()
