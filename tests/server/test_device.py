"""What a machine has, and that it is asked with patience."""

from __future__ import annotations

import pytest

from superopt.errors import MissingServiceError
from superopt.optimizer.cost import Provider
from superopt.processes import priority
from superopt.processes.child import Returned
from superopt.server.problem_types import ProblemType
from superopt.server.process.child import Died, Ending
from superopt.server.worker import device
from superopt.server.worker import device_probe as description
from tests.server.conftest import Http, problem

DIED = Died(ProblemType.JOB_CRASHED.document("the process was killed by SIGSEGV"))
HERE = Returned({"name": ["a processor"], "targets": ["cpu"]})


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Ending]:
    """How those that are asked what is here end, the next one last."""
    left: list[Ending] = []

    def run(function: str, *_: object) -> Ending:
        assert function == "superopt.server.worker.device_probe:describe"
        return left.pop()

    monkeypatch.setattr(device, "run_in_child", run)
    monkeypatch.setattr(device, "_description", device.Description())
    return left


def test_what_is_here_is_asked_once(endings: list[Ending]) -> None:
    endings += [HERE]
    assert device.this_device() is device.this_device()


def test_a_failure_is_remembered_for_a_while(endings: list[Ending], monkeypatch: pytest.MonkeyPatch) -> None:
    endings += [HERE, DIED]
    for _ in range(3):
        with pytest.raises(MissingServiceError, match="described: the process was killed by SIG"):
            device.this_device()
    assert len(endings) == 1
    monkeypatch.setattr(device, "_FAILURE_SECONDS", 0.0)
    assert device.this_device().targets == ("cpu",)


def test_a_machine_that_is_not_known_is_not_the_database(
    http: Http, model: bytes, endings: list[Ending]
) -> None:
    endings += [DIED]
    response = http("POST", "/v1/optimizations", files={"model": ("net.onnx", model)})
    assert problem(response) == (503, "missing-service")
    assert response.headers["retry-after"] == "60"


def test_nothing_is_measured_to_know_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("superopt.optimizer.cost.latency.calibrate")
    assert description.runs(Provider.CPU)


@pytest.mark.parametrize(("refusals", "attempts"), [(2, 3), (9, 5)])
def test_the_priority_of_a_session_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, refusals: int, attempts: int
) -> None:
    session = _Session(refusals)
    monkeypatch.setattr(priority, "_SESSION", session)
    monkeypatch.setattr(priority, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("os.nice", abs)
    priority.lower_priority(5)
    assert session.attempts == attempts


class _Session:
    """The file of a session, which others write to first."""

    def __init__(self, refusals: int) -> None:
        self._refusals = refusals
        self.attempts = 0

    def exists(self) -> bool:
        return True

    def write_text(self, text: str) -> None:
        assert text == "5"
        self.attempts += 1
        if self.attempts <= self._refusals:
            raise BlockingIOError
