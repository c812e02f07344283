"""Progress that is shown never goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from superopt.optimizer.search.protocol import Phase
from superopt.server.worker.forward import PHASES, ForwardProgress
from superopt.substitution_db import Database
from tests.server.conftest import Http


def test_phases_are_those_of_an_optimization() -> None:
    assert get_args(Phase) == PHASES


def test_each_number_and_the_phase_go_forward_alone() -> None:
    progress = ForwardProgress()
    reports = [
        {"phase": "pricing", "seconds": 1.0, "candidates": 0, "cost_before": None, "best_cost": None},
        {"phase": "search", "seconds": 2.0, "candidates": 9, "cost_before": 10.0, "best_cost": 8.0},
        {"phase": "timing", "seconds": 3.0, "candidates": 9, "cost_before": 10.0, "best_cost": 8.0},
        {"phase": "search", "seconds": 2.5, "candidates": 0, "cost_before": 10.5, "best_cost": None},
        {"phase": "check", "seconds": 4.0, "candidates": 3, "cost_before": None, "best_cost": 9.0, "new": 1},
    ]
    seen = [progress.after(report) for report in reports]
    assert [one["phase"] for one in seen] == ["pricing", "search", "timing", "timing", "timing"]
    assert [one["seconds"] for one in seen] == [1.0, 2.0, 3.0, 3.0, 4.0]
    assert [one["candidates"] for one in seen] == [0, 9, 9, 9, 9]
    assert [one["best_cost"] for one in seen] == [None, 8.0, 8.0, 8.0, 8.0]
    assert [one["cost_before"] for one in seen] == [None, 10.0, 10.0, 10.5, 10.5]
    assert seen[-1]["new"] == 1


def test_events_of_a_job_never_go_back(
    http: Http, database: Database, model: bytes, work: Callable[..., None]
) -> None:
    identity = http.submit(model)
    work("to_and_fro")
    told = [event.content for event in database.jobs.events(identity) if event.kind == "progress"]
    places = [(PHASES.index(str(one["phase"])), one["candidates"], one["seconds"]) for one in told]
    assert len(places) > 2
    assert places == sorted(places)
    assert http("GET", f"/v1/optimizations/{identity}").json()["progress"]["phase"] == "timing"
