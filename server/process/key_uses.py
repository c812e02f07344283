"""Background thread that records when API keys were last used."""

from __future__ import annotations

import logging
import threading

from superopt.errors import SuperoptError
from superopt.substitution_db.store.keys import KeyRepository

INTERVAL_SECONDS = 10.0
_log = logging.getLogger(__name__)


def record_key_uses(keys: KeyRepository, ended: threading.Event, seconds: float = INTERVAL_SECONDS) -> None:
    """Records the uses of keys by this process periodically, and at the end."""
    is_last = False
    while not is_last:
        is_last = ended.wait(seconds)
        try:
            keys.record_uses()
        except SuperoptError as error:
            _log.warning("the last use of API keys was not recorded: %s", error)
