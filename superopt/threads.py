"""How many threads may be asked for."""

from __future__ import annotations

import os

THREADS_PER_CORE = 4

MOST_THREADS = THREADS_PER_CORE * (os.cpu_count() or 1)
"""More threads than these for each logical core only wait for each other."""
