"""A worker's signs of life: for metrics, and for what devices there are; leases do not depend on them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from superopt.errors import SuperoptError
from superopt.substitution_db import Database

_log = logging.getLogger(__name__)


class SignsOfLife:
    """Gives a sign of life now and then; ``job_id`` is the job being done."""

    def __init__(self, database: Database, worker: str, seconds: float, targets: Sequence[str] = ()) -> None:
        self.job_id: str | None = None
        self._targets = targets
        self._database = database
        self._worker = worker
        self._seconds = seconds

    def give(self, ended: threading.Event) -> None:
        """Gives signs until it is told that the worker ends, and then says so."""
        while True:
            self._give()
            if ended.wait(self._seconds):
                break
        try:
            self._database.activity.leave(self._worker)
        except SuperoptError as error:
            _log.warning("the worker leaves without saying so: %s", error)

    def _give(self) -> None:
        try:
            self._database.activity.beat(self._worker, self.job_id, self._targets)
        except SuperoptError as error:
            _log.warning("no sign of life: %s", error)
