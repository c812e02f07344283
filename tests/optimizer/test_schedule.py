"""The budget is shared so that what a search finds can be judged, and a budget that is too short says so."""

from __future__ import annotations

import math
import re
import time

import pytest

from superopt.optimizer.pipeline.schedule import Schedule, SearchTime


def _schedule(
    budget: float, loading: float, running: float, weights: int = 0, spent: float = 0.0
) -> Schedule:
    schedule = Schedule(time.monotonic() - spent, budget, weights)
    schedule.loading, schedule.running = loading, running
    return schedule


@pytest.mark.parametrize("running", [0.0, 0.001, 0.05, 0.2, 0.7])
@pytest.mark.parametrize("loading", [0.01, 0.3, 1.5])
@pytest.mark.parametrize("budget", [5.0, 15.0, 60.0, 600.0])
def test_what_a_search_finds_can_be_judged(budget: float, loading: float, running: float) -> None:
    """After the longest search there is time for opening, checking, and three rounds of timing."""
    schedule = _schedule(budget, loading, running)
    if not schedule.is_enough():
        return
    kept = schedule.deadline - schedule.search_time().latest
    searching = schedule.search_time().latest - time.monotonic()
    assert kept >= min(schedule.judging, 0.89 * schedule.left) - 1e-6
    assert searching >= 0.09 * budget


def test_a_model_that_is_slow_to_run_ends_the_search_early() -> None:
    """A network of 0.2 s a run once spent 60 s searching, and had no time left to be timed."""
    fast, slow = _schedule(60.0, 0.3, 0.001), _schedule(60.0, 0.3, 0.2)
    assert slow.search_time().latest < fast.search_time().latest
    assert slow.deadline - slow.search_time().latest > 40 * 0.2
    large = _schedule(60.0, 3.0, 0.2, weights=1 << 30)
    assert large.search_time().latest < slow.search_time().latest


def test_a_budget_that_would_do_is_named_and_does() -> None:
    """The same model at the recommended budget, after the same beginning, is judged."""
    schedule = _schedule(5.0, 2.0, 1.5, weights=600 << 20, spent=3.0)
    assert not schedule.is_enough()
    found = re.search(r"a budget of at least (\d+) s", schedule.advice())
    assert found is not None
    enough = _schedule(float(found[1]), 2.0, 1.5, weights=600 << 20, spent=3.0)
    assert enough.is_enough()
    assert enough.deadline - enough.search_time().latest >= enough.judging - 1e-6
    assert "loading the model takes 2.0 s and a run 1.5 s" in schedule.advice()
    assert "takes 0.5 s and a run less than 0.01 s," in _schedule(5.0, 0.5, 1e-7).advice()
    assert "the model could not be run once in the rest" in _schedule(5.0, 0.5, 0.0).advice()


def test_what_takes_little_is_judged_until_nothing_is_left() -> None:
    assert _schedule(1.0, 0.01, 0.001, spent=0.9).is_enough()
    late = _schedule(1.0, 0.01, 0.001, spent=2.0)
    assert not late.is_enough()
    assert math.isclose(late.search_time().latest, late.deadline)


def _search_time(*, look: float = 0.0) -> SearchTime:
    """20 s for a search and its judgement, of which 5 to 14 s are for judging: 1 s for checking, 0.5 s for
    a round."""
    return SearchTime(120.0, 1.0, 0.5, 5.0, 14.0, look, started=100.0)


@pytest.mark.parametrize(
    ("best", "kept"),
    [(1000.0, 5.0), (860.0, 5.0), (900.0, 1.0 + 0.5 * 16), (930.0, 13.0), (math.nextafter(1e3, 0), 13.0)],
)
def test_the_smaller_the_gain_the_more_time_is_kept_for_timing(
    best: float, kept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the gain needs four times as many rounds, from 8 to 24."""
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    searching = _search_time()
    searching.found(1000.0, best)
    assert searching.latest == 115.0
    assert math.isclose(searching.ends, 120.0 - kept)


def test_a_search_that_has_just_found_more_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends when it has found nothing more for as long as it took to find what it has."""
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    searching = _search_time()
    now = 106.0
    searching.found(1000.0, 950.0)
    assert (searching.ends, searching.is_over) == (112.0, False)
    now = 111.0
    searching.found(1000.0, 950.0)
    assert (searching.ends, searching.is_over) == (112.0, False)
    searching.found(1000.0, 940.0)
    assert searching.ends == searching.latest
    now = 115.0
    assert searching.is_over


def test_the_end_of_the_time_of_a_search_is_for_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 114.3)
    assert _search_time(look=0.05).is_over
    assert not _search_time().is_over
