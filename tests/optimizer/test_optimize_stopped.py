"""Optimizations that end early: by their budget, by interruption, by failure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import pytest

from superopt.errors import InvalidModelError
from superopt.optimizer import (
    CancelToken,
    Measured,
    Options,
    Pipeline,
    Progress,
    Request,
    optimize,
)
from superopt.optimizer.cost import MemoryCostStore
from tests.optimizer.graphs import dense_blocks, skewed_products
from tests.optimizer.models import lifted, run
from tests.optimizer.rules import ALL, ASSOCIATIVE, rules


def test_the_budget_is_the_whole_wall_time() -> None:
    started = time.monotonic()
    run(lifted(dense_blocks(20, 32, 14)), MemoryCostStore(), ALL, budget=3.0)
    assert time.monotonic() - started < 2 * 3.0


def test_progress_and_cancelling(costs: MemoryCostStore) -> None:
    told: list[Progress] = []
    model = lifted(skewed_products())
    options = Options(budget=6.0, threads=1)
    Pipeline(Request(model, rules(ASSOCIATIVE), options, told.append), Measured(costs)).run()
    assert list(dict.fromkeys(p.phase for p in told)) == [
        "pricing",
        "search",
        "check",
        "timing",
    ]
    cancel = CancelToken()
    cancel.cancel()
    request = Request(model, rules(ASSOCIATIVE), options, None, cancel)
    result = Pipeline(request, Measured(costs)).run()
    assert (result.report.returned, result.report.search.stopped_by) == ("original", "cancelled")


def test_an_interrupted_search_ends_with_what_it_found(costs: MemoryCostStore) -> None:
    """Interrupted as soon as a better graph is known, of a budget of ten minutes."""
    cancel = CancelToken()

    def interrupt(progress: Progress) -> None:
        if progress.best_cost < progress.cost_before:
            cancel.interrupt()

    model, options = lifted(skewed_products()), Options(budget=600.0, threads=1)
    began = time.monotonic()
    result = optimize(model, rules(ASSOCIATIVE), options, Measured(costs), interrupt, cancel)
    assert time.monotonic() - began < 120
    assert result.report.search.stopped_by == "interrupted"
    assert (result.report.returned, result.report.equivalence.samples > 0) == ("optimized", True)


def test_what_is_interrupted_before_the_search_is_returned_as_it_was(costs: MemoryCostStore) -> None:
    cancel = CancelToken()
    cancel.interrupt()
    options = Options(budget=600.0, threads=1)
    model = lifted(skewed_products())
    report = optimize(model, rules(ASSOCIATIVE), options, Measured(costs), None, cancel).report
    assert (report.returned, report.search.stopped_by) == ("original", "interrupted")
    assert "the search was interrupted" in report.why


def test_an_internal_failure_returns_the_original_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryCostStore):
        def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
            raise KeyError("the disk is gone")

    model = lifted(skewed_products())
    result = optimize(model, rules(ASSOCIATIVE), Options(budget=6.0, threads=1), Measured(Broken()))
    assert result.report.returned == "original"
    assert result.report.why == "internal error, please report it: KeyError: 'the disk is gone'"
    assert "optimizing" in caplog.text
    with pytest.raises(KeyError):
        run(model, Broken())


def test_a_failure_within_is_never_the_fault_of_what_was_given() -> None:
    class Refusing(MemoryCostStore):
        """Serves while the peaks are asked for, and then raises what a user's mistake would."""

        def get_many(self, keys: Iterable[str]) -> Mapping[str, float]:
            asked = list(keys)
            if all("roofline" in key for key in asked):
                return super().get_many(asked)
            raise InvalidModelError("a rewritten graph is invalid")

    model = lifted(skewed_products())
    report = optimize(model, rules(ASSOCIATIVE), Options(budget=6.0, threads=1), Measured(Refusing())).report
    assert (report.returned, report.why.startswith("internal error")) == ("original", True)


def test_the_budget_counts_from_when_it_was_asked_for(costs: MemoryCostStore) -> None:
    long_ago = time.monotonic() - 3600
    model = lifted(dense_blocks(20, 32, 14))
    result = optimize(model, rules(*ALL), Options(budget=60.0, threads=1), Measured(costs), started=long_ago)
    assert result.report.search.candidates < 100
    assert result.report.search.stopped_by == "budget"
