"""The memory of a process is read from its ``smaps_rollup``."""

from __future__ import annotations

import pytest

from benchmarks.jobs.job_memory import Memory, memory_in

RUNNING = """\
55d0-7ffe ---p 00000000 00:00 0                          [rollup]
Rss:                 900 kB
Pss:                 700 kB
Pss_Dirty:           450 kB
Pss_Anon:            400 kB
Pss_File:            250 kB
Pss_Shmem:            50 kB
"""


@pytest.mark.parametrize(("rollup", "memory"), [(RUNNING, Memory(450 * 1024, 250 * 1024)), ("", Memory())])
def test_own_and_mapped_memory(rollup: str, memory: Memory) -> None:
    assert memory_in(rollup) == memory
