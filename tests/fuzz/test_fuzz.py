"""What comes out of the optimizer is valid and computes the same, whatever goes in."""

from __future__ import annotations

import pytest

from tests.conftest import WithLibrary
from tests.fuzz.journey import tried

SEEDS = range(10_000, 10_060)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory, with_library: WithLibrary) -> str:
    return with_library(tmp_path_factory.mktemp("fuzz") / "rules.db")


def test_models_rewritten_by_random_prices_compute_the_same(database: str) -> None:
    found = {seed: tried(seed, budget=None, database=database) for seed in SEEDS}
    assert not {seed: finding.wrong for seed, finding in found.items() if finding and finding.wrong}
    assert sum(finding.steps for finding in found.values() if finding) > len(SEEDS)


def test_the_whole_job_returns_nothing_slower_or_different(database: str) -> None:
    found = {seed: tried(seed, budget=3.0, database=database) for seed in SEEDS[:6]}
    assert not {seed: finding.wrong for seed, finding in found.items() if finding and finding.wrong}
