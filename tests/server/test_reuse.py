from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sqlalchemy import text

from superopt.server.settings import Settings
from superopt.server.worker.results import result_key
from superopt.substitution_db import Database
from superopt.substitution_db.store.records import JobFile, JobRole
from tests.server.conftest import WEIGHT, Http, problem, tiny_model

URL = "/v1/optimizations"
Work = Callable[..., None]
OPTIONS: dict[str, object] = {"seed": 1}
CLUSTER = b"""
name: two
nodes: [{count: 2, devices: 1, device: h100-sxm, memory: 80 GiB, link: {bandwidth: 450 GB/s, latency: 2 us}}]
network: {bandwidth: 50 GB/s, latency: 5 us}
"""


def submit(
    http: Http, content: bytes, options: dict[str, object], name: str = "net.onnx"
) -> dict[str, object]:
    response = http("POST", URL, files={"model": (name, content)}, data={"options": json.dumps(options)})
    assert response.status_code in (200, 202)
    return response.json()


def test_a_result_is_computed_once(http: Http, model: bytes, work: Work) -> None:
    first = submit(http, model, OPTIONS)
    twin = submit(http, model, OPTIONS)
    assert (first["reused_from"], first["state"], twin["state"]) == (None, "queued", "queued")
    work()
    work()
    states = [http("GET", f"{URL}/{job['id']}").json() for job in (first, twin)]
    assert [job["state"] for job in states] == ["succeeded", "succeeded"]
    assert [job["reused_from"] for job in states] == [None, first["id"]]
    later = submit(http, model, OPTIONS, "other.onnx")
    assert (later["state"], later["reused_from"], later["attempts"]) == ("succeeded", first["id"], 0)
    results = [http("GET", f"{URL}/{job['id']}/model") for job in (first, later)]
    assert results[0].content == results[1].content
    assert 'filename="other-optimized.onnx"' in results[1].headers["content-disposition"]
    reports = [http("GET", f"{URL}/{job['id']}/report").json() for job in (first, later)]
    assert [report.pop("model") for report in reports] == [{"name": "net.onnx"}, {"name": "other.onnx"}]
    assert reports[0] == reports[1]


def test_a_known_result_needs_no_device(
    http: Http, model: bytes, settings: Settings, database: Database
) -> None:
    database.activity.beat("there:1", None, ("cpu", "cuda"))
    first = submit(http, model, {"target": "cuda"})
    queue = database.queue("there:1")
    lease = queue.claim()
    assert lease is not None
    job = lease.job
    key = result_key(database, settings, job.files, job.options, job.library_version)
    blobs = database.blobs.put_bytes(model), database.blobs.put_bytes(b'{"model": {}}')
    roles = (JobRole.RESULT, "net-optimized.onnx"), (JobRole.REPORT, "net-report.json")
    files = [JobFile(*role, blob.sha256, blob.bytes) for role, blob in zip(roles, blobs, strict=True)]
    queue.succeed(lease, files, key)
    database.activity.leave("there:1")
    again = submit(http, model, {"target": "cuda"})
    assert (again["state"], again["reused_from"]) == ("succeeded", first["id"])
    other = json.dumps({"target": "cuda", "seed": 1})
    refused = http("POST", URL, files={"model": ("net.onnx", model)}, data={"options": other})
    assert problem(refused) == (503, "missing-service")


@pytest.mark.parametrize("differs", ["model", "options", "library", "cluster", "result"])
def test_another_question_is_computed(
    http: Http, model: bytes, work: Work, database: Database, differs: str
) -> None:
    identity = submit(http, model, OPTIONS)["id"]
    work()
    if differs == "library":
        with database.transactions.write() as session:
            session.execute(text("UPDATE library_versions SET sha256 = 'another'"))
    if differs == "result":
        result = http("GET", f"{URL}/{identity}").json()["files"]
        database.blobs.remove_unused([file["sha256"] for file in result if file["role"] == "report"], -1)
    files = {"model": ("net.onnx", tiny_model("w.bin") if differs == "model" else model)}
    if differs == "model":
        files["data"] = ("w.bin", WEIGHT)
    if differs == "cluster":
        files["cluster"] = ("c.yaml", CLUSTER)
    options = {"seed": 2} if differs == "options" else OPTIONS
    again = http("POST", URL, files=files, data={"options": json.dumps(options)})
    assert again.status_code == 202, again.text
    assert (again.json()["state"], again.json()["reused_from"]) == ("queued", None)
