"""Rate limits per API key: token buckets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class TokenBuckets:
    """One bucket of ``burst`` tokens per name, refilled at ``rate`` tokens per second."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Takes a token and returns 0; if none is available, returns the seconds until one is."""
        with self._lock:
            now = self._clock()
            level, then = self._levels.get(name, (float(self._burst), now))
            level = min(float(self._burst), level + (now - then) * self._rate)
            missing = max(0.0, 1.0 - level)
            self._levels[name] = (level if missing else level - 1.0, now)
            return missing / self._rate
