"""Outcomes of jobs: their reports in short, for lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from superopt.server.worker.reports import named_report, outcome_of
from tests.server.conftest import Http

JOBS = "/v1/optimizations"


@pytest.mark.parametrize(
    ("report", "returned", "ratio", "measured"),
    [
        (
            {"returned": "optimized", "measured": {"ratio": 1.5}, "cost": {"before": 9, "after": 3}},
            "optimized",
            1.5,
            True,
        ),
        ({"returned": "original", "measured": {"ratio": 0.99}}, "original", 0.99, True),
        (
            {"returned": "optimized", "measured": None, "cost": {"before": 9, "after": 3}},
            "optimized",
            3.0,
            False,
        ),
        (
            {"returned": "optimized", "measured": None, "cost": {"before": 9, "after": 0}},
            "optimized",
            None,
            False,
        ),
        ({"returned": "optimized", "measured": {"ratio": None}}, "optimized", None, True),
        ({}, None, None, False),
    ],
)
def test_a_report_in_short(
    report: dict[str, object],
    returned: str | None,
    ratio: float | None,
    measured: bool,  # noqa: FBT001
) -> None:
    assert outcome_of(report) == {"returned": returned, "ratio": ratio, "measured": measured}


def test_the_outcome_is_listed_and_reused(http: Http, model: bytes, work: Callable[..., None]) -> None:
    first = http.submit(model)
    assert http("GET", f"{JOBS}/{first}").json()["outcome"] is None
    work()
    outcome = {"returned": "original", "ratio": None, "measured": False}
    assert http("GET", f"{JOBS}/{first}").json()["outcome"] == outcome
    again = http("POST", JOBS, files={"model": ("again.onnx", model)}).json()
    assert (again["reused_from"], again["outcome"]) == (first, outcome)
    assert [item["outcome"] for item in http("GET", JOBS).json()["items"]] == [outcome, outcome]


def test_a_report_names_the_model_as_its_owner_does() -> None:
    report = {
        "model": {"name": "model.step.onnx"},
        "training": {"model": {"name": "model.onnx"}, "loss": "x"},
    }
    assert named_report(report, "digits.onnx") == {
        "model": {"name": "digits.onnx"},
        "training": {"model": {"name": "digits.onnx"}, "loss": "x"},
    }
    assert named_report({"training": None}, "digits.onnx") == {"training": None}
