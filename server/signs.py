"""A worker's signs of life, for people who look at metrics; leases do not depend on them."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Self

from substitution_db import Database
from superopt.errors import MissingServiceError

_log = logging.getLogger(__name__)


class SignsOfLife:
    """Gives a sign of life now and then within its ``with`` block; ``job_id`` is the job being done."""

    def __init__(self, database: Database, worker: str, seconds: float) -> None:
        self.job_id: str | None = None
        self._database = database
        self._worker = worker
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signs of life", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._give()
            if self._ended.wait(self._seconds):
                break
        try:
            self._database.activity.leave(self._worker)
        except MissingServiceError as error:
            _log.warning("the worker leaves without saying so: %s", error)

    def _give(self) -> None:
        try:
            self._database.activity.beat(self._worker, self.job_id)
        except MissingServiceError as error:
            _log.warning("no sign of life: %s", error)
