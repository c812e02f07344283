"""What the optimizer's tests share."""

from __future__ import annotations

import pytest

from superopt.optimizer.cost import MemoryCostStore


@pytest.fixture(scope="module")
def costs() -> MemoryCostStore:
    """Measured costs, kept for the tests of a module."""
    return MemoryCostStore()
