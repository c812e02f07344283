from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable

import pytest
from sqlalchemy import text

from superopt.server.http.state import shared_state
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.submissions import SubmissionRepository
from tests.server.conftest import WEIGHT, Http, problem, tiny_model

Work = Callable[..., None]
URL = "/v1/optimizations"
CLUSTER = b"""
nodes:
  - {count: 2, devices: 8, device: {flops: 989 TFLOP/s, memory_bandwidth: 3350 GB/s}, memory: 80 GiB,
     link: {bandwidth: 450 GB/s, latency: 2 us}}
network: {bandwidth: 50 GB/s, latency: 5 us}
"""


def test_a_model_goes_in_and_comes_out(http: Http, work: Work) -> None:
    model = tiny_model(shape=("batch", 4))
    response = http(
        "POST",
        URL,
        files={"model": ("net.onnx", model), "cluster": ("c.yaml", CLUSTER)},
        data={"options": json.dumps({"budget": 5, "dim": {"batch": 8}})},
    )
    assert response.status_code == 202
    accepted = response.json()
    assert response.headers["location"] == accepted["links"]["self"] == f"{URL}/{accepted['id']}"
    assert (accepted["state"], accepted["name"], accepted["links"]["model"]) == ("queued", "net.onnx", None)
    assert problem(http("GET", f"{URL}/{accepted['id']}/model")) == (409, "not-finished")
    work()
    done = http("GET", accepted["links"]["self"]).json()
    assert (done["state"], done["attempts"], done["error"]) == ("succeeded", 1, None)
    assert done["progress"] == {"stage": "search", "candidates": 2}
    result = http("GET", done["links"]["model"])
    assert result.content == model
    assert 'filename="net-optimized.onnx"' in result.headers["content-disposition"]
    part = http("GET", done["links"]["model"], headers={"Range": "bytes=2-5"})
    assert (part.status_code, part.content) == (206, model[2:6])
    report = http("GET", done["links"]["report"])
    assert report.headers["content-type"] == "application/json"
    assert report.json() == {
        "schema": 1,
        "options": {
            "budget": 5,
            "dim": {"batch": 8},
            "cluster": report.json()["options"]["cluster"],
            "library_version": 1,
        },
        "database": True,
        "model": {"name": "net.onnx"},
        "returned": "original",
        "cluster": CLUSTER.decode(),
    }


def test_external_data_comes_back_in_an_archive(http: Http, work: Work) -> None:
    model = tiny_model("weights/w.bin")
    files = [("model", ("net.onnx", model)), ("data", ("weights/w.bin", WEIGHT))]
    identity = http("POST", URL, files=files).json()["id"]
    work("external")
    response = http("GET", f"{URL}/{identity}/model")
    assert response.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(response.content)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            "model.onnx": model,
            "weights/w.bin": WEIGHT,
        }


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b"", "invalid-model"),
        (b"this is a text", "invalid-model"),
        (tiny_model()[:40], "invalid-model"),
        (tiny_model("../../etc/passwd"), "invalid-model"),
        (tiny_model("missing.bin"), "invalid-model"),
    ],
)
def test_a_model_that_cannot_be_read_is_refused_with_one_sentence(
    http: Http, database: Database, content: bytes, slug: str
) -> None:
    response = http("POST", URL, files={"model": ("net.onnx", content)})
    assert problem(response) == (422, slug)
    assert response.json()["detail"].startswith(("net.onnx ", "net.onnx: "))
    assert str(database.blobs.directory) not in response.text
    assert list((database.blobs.directory / "incoming").iterdir()) == []


def test_waiting_for_the_end(http: Http, model: bytes, settings: Settings, database: Database) -> None:
    stop = threading.Event()
    worker = threading.Thread(target=Worker(database, settings, stop).run)
    worker.start()
    try:
        response = http("POST", URL, files={"model": model}, headers={"Prefer": "respond-async, wait=30"})
    finally:
        stop.set()
        worker.join()
    assert (response.status_code, response.json()["state"]) == (200, "succeeded")
    assert response.headers["preference-applied"] == "wait=30"
    other = {"options": '{"seed": 1}'}
    response = http("POST", URL, files={"model": model}, data=other, headers={"Prefer": "wait=0"})
    assert (response.status_code, response.json()["state"]) == (202, "queued")


def test_jobs_are_listed_by_pages(http: Http, model: bytes) -> None:
    ids = [http.submit(model) for _ in range(5)]
    http("DELETE", f"{URL}/{ids[0]}")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = http("GET", URL, params={"limit": 2, "state": "queued", **cursor}).json()
        seen += [job["id"] for job in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == ids[:0:-1]
    for parameters in ({"limit": 0}, {"limit": 501}, {"state": "lost"}, {"cursor": "x" * 201}):
        assert problem(http("GET", URL, params=parameters)) == (422, "invalid-parameters")


def test_cancelling(http: Http, model: bytes, settings: Settings, database: Database) -> None:
    waiting = http.submit(model)
    response = http("DELETE", f"{URL}/{waiting}")
    assert (response.status_code, response.json()["state"]) == (202, "cancelled")
    running = http.submit(model)
    slow = settings.model_copy(update={"optimize_file": "work_functions:wait_until_cancelled"})
    worker = threading.Thread(target=Worker(database, slow, threading.Event()).do_one)
    worker.start()
    while http("GET", f"{URL}/{running}").json()["progress"] == {}:
        time.sleep(0.02)
    assert http("DELETE", f"{URL}/{running}").json()["state"] == "cancelling"
    worker.join()
    assert http("GET", f"{URL}/{running}").json()["state"] == "cancelled"
    assert http("DELETE", f"{URL}/{running}").json()["state"] == "cancelled"
    assert problem(http("DELETE", f"{URL}/unknown")) == (404, "not-found")


def test_events_are_followed_and_resumed(http: Http, model: bytes, work: Work) -> None:
    identity = http.submit(model)
    work()
    response = http("GET", f"{URL}/{identity}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    events = _events(response.text)
    kinds = [(kind, data.get("state")) for _, kind, data in events]
    assert kinds[:2] == [("state", "queued"), ("state", "running")]
    assert kinds[-1] == ("state", "succeeded")
    assert ("progress", None) in kinds
    third = events[2][0]
    resumed = http("GET", f"{URL}/{identity}/events", headers={"Last-Event-ID": str(third)})
    assert _events(resumed.text) == events[3:]
    bad = http("GET", f"{URL}/{identity}/events", headers={"Last-Event-ID": "x"})
    assert problem(bad) == (422, "invalid-parameters")


def _events(text: str) -> list[tuple[int, str, dict[str, object]]]:
    found: list[tuple[int, str, dict[str, object]]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "id" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


def test_an_idempotency_key_gives_the_same_job(http: Http, model: bytes) -> None:
    key = {"Idempotency-Key": "order-1"}
    first = http("POST", URL, files={"model": ("net.onnx", model)}, headers=key)
    again = http("POST", URL, files={"model": ("net.onnx", model)}, headers=key)
    assert (first.status_code, again.status_code, again.json()["id"]) == (202, 202, first.json()["id"])
    other = http("POST", URL, files={"model": ("net.onnx", model + b"\0")}, headers=key)
    assert problem(other) == (422, "idempotency-key-reused")
    options = http("POST", URL, files={"model": ("net.onnx", model)}, data={"options": "{}"}, headers=key)
    assert problem(options) == (422, "idempotency-key-reused")
    assert problem(http("POST", URL, headers={"Idempotency-Key": "a b"})) == (422, "invalid-parameters")
    assert len(http("GET", URL).json()["items"]) == 1


def test_a_request_that_fails_frees_its_key(http: Http, model: bytes, database: Database) -> None:
    key = {"Idempotency-Key": "order-2"}
    assert problem(http("POST", URL, files={"x": model}, headers=key)) == (422, "invalid-upload")
    assert http("POST", URL, files={"model": model}, headers=key).status_code == 202
    database.submissions.reserve("", "order-3")
    under_way = http("POST", URL, files={"model": model}, headers={"Idempotency-Key": "order-3"})
    assert problem(under_way) == (409, "idempotency-key-in-flight")


def test_a_key_is_freed_without_waiting_behind_uploads(
    http: Http, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = shared_state(http.app).intake
    release = SubmissionRepository.release
    busy: list[int] = []

    def watched(self: SubmissionRepository, owner: str, key: str) -> None:
        busy.append(intake.borrowed_tokens)
        release(self, owner, key)

    monkeypatch.setattr(SubmissionRepository, "release", watched)
    http("POST", URL, files={"x": model}, headers={"Idempotency-Key": "order-4"})
    assert busy == [0]


def test_the_queue_is_bounded(settings: Settings, database: Database, model: bytes) -> None:
    from superopt.server.http.app import create_app

    http = Http(create_app(settings.model_copy(update={"max_queued_jobs": 1}), database))
    http.submit(model)
    response = http("POST", URL, files={"model": model})
    assert problem(response) == (429, "queue-full")
    assert "retry-after" in response.headers
    assert list((database.blobs.directory / "incoming").iterdir()) == []


def test_a_result_that_was_removed(http: Http, model: bytes, work: Work, database: Database) -> None:
    identity = http.submit(model)
    work()
    database.blobs.remove_unused(database.blobs.stored(), -1)
    assert problem(http("GET", f"{URL}/{identity}/model")) == (410, "result-unavailable")


def test_a_device_that_no_worker_has_is_refused(http: Http, database: Database, model: bytes) -> None:
    sent = {"files": {"model": ("net.onnx", model), "options": (None, '{"target": "cuda"}')}}
    database.activity.beat("here:1", None, ("cpu",))
    assert problem(http("POST", URL, **sent)) == (503, "missing-service")
    database.activity.beat("there:1", None, ("cpu", "cuda"))
    assert http("POST", URL, **sent).status_code == 202


def test_a_worker_that_does_not_say_what_it_has_counts(http: Http, database: Database, model: bytes) -> None:
    database.activity.beat("old:1", None)
    with database.transactions.write() as session:
        session.execute(text("UPDATE workers SET targets = NULL"))
    sent = {"model": ("net.onnx", model), "options": (None, '{"target": "cuda"}')}
    assert http("POST", URL, files=sent).status_code == 202


@pytest.mark.parametrize("options", [{"keep": ["a\0"]}, {"dim": {"N\0M": 3}}, {"training": {"loss": "\0"}}])
def test_options_with_a_character_that_no_database_stores_are_refused(
    http: Http, model: bytes, options: dict[str, object]
) -> None:
    sent = {"options": json.dumps({"budget": 1, **options})}
    response = http("POST", URL, files={"model": ("net.onnx", model)}, data=sent)
    assert problem(response) == (422, "invalid-options")
    assert "NUL" in response.text
