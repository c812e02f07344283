"""Worker heartbeats for metrics and the list of devices; leases do not depend on them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from superopt.errors import SuperoptError
from superopt.substitution_db import Database

_log = logging.getLogger(__name__)


class HeartbeatSender:
    """Sends heartbeats periodically; ``job_id`` is the job being run."""

    def __init__(self, database: Database, worker: str, seconds: float, targets: Sequence[str] = ()) -> None:
        self.job_id: str | None = None
        self._targets = targets
        self._database = database
        self._worker = worker
        self._seconds = seconds

    def send(self, ended: threading.Event) -> None:
        """Sends heartbeats until ``ended`` is set, then deregisters the worker."""
        while True:
            self._send()
            if ended.wait(self._seconds):
                break
        try:
            self._database.activity.leave(self._worker)
        except SuperoptError as error:
            _log.warning("failed to deregister the worker: %s", error)

    def _send(self) -> None:
        try:
            self._database.activity.beat(self._worker, self.job_id, self._targets)
        except SuperoptError as error:
            _log.warning("heartbeat failed: %s", error)
