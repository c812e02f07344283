"""What operators see: readiness, metrics, logs, traces."""

from __future__ import annotations

import io
import json
import logging
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from superopt.equations import parse_equation, rule_id
from superopt.errors import SuperoptError
from superopt.journeys.library.judging import prove_equation
from superopt.processes.logs import JsonLines
from superopt.server.http.app import create_app
from superopt.server.http.state import shared_state
from superopt.server.process.background import beside
from superopt.server.process.tracing import traces_of_environment, traces_to
from superopt.server.settings import Settings
from superopt.server.worker.loop import Worker
from superopt.server.worker.presence import HeartbeatSender
from superopt.substitution_db import CandidateRule, Database
from superopt.substitution_db.jobs.activity import ActivityRepository
from superopt.substitution_db.rules.currency import current
from tests.server.conftest import Http, problem

JOBS = "/v1/optimizations"
RULE = parse_equation("relu(relu(x)) => relu(x)")
Work = Callable[..., None]


def proved(database: Database) -> None:
    database.rules.add_candidates([CandidateRule(RULE, "test")])
    database.rules.record_verdict(rule_id(RULE), prove_equation(RULE))
    database.library.publish(current(), "test")


def test_ready_when_everything_is(http: Http, database: Database) -> None:
    assert http("GET", "/livez").json()["status"] == "alive"
    proved(database)
    response = http("GET", "/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    checks = {name: (check["ok"], check["detail"]) for name, check in response.json()["checks"].items()}
    assert list(checks) == ["database", "migrations", "library", "disk", "running"]
    assert checks["library"] == (True, "version 2: 1 verified rules")
    assert all(ok for ok, _ in checks.values())


@pytest.mark.parametrize(
    ("failure", "reasons"),
    [
        ("none", {"library": "version 1 has no verified rules: superopt library verify"}),
        ("schema", {"migrations": "revision 0001 is not the required one: superopt db upgrade"}),
        ("disk", {"disk": r"\d+ MiB free, \d{9,} MiB needed"}),
        ("blobs", {"disk": r"the blob directory cannot be used \(InvalidOptionError\)"}),
        ("stopping", {"running": "the service is stopping"}),
    ],
)
def test_not_ready_with_every_reason(
    settings: Settings, database: Database, failure: str, reasons: dict[str, str]
) -> None:
    if failure == "disk":
        settings = settings.model_copy(update={"min_free_bytes": 1 << 60})
    app = create_app(settings, database)
    if failure == "blobs":
        shutil.rmtree(database.blobs.directory, ignore_errors=True)
        database.blobs.directory.touch()
    if failure == "schema":
        with database.transactions.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    elif failure == "stopping":
        shared_state(app).stopping.set()
    response = Http(app)("GET", "/readyz")
    assert problem(response) == (503, "not-ready")
    checks = response.json()["checks"]
    for name, reason in reasons.items():
        assert not checks[name]["ok"]
        assert re.fullmatch(reason, checks[name]["detail"])
        assert f"{name}: {checks[name]['detail']}" in response.json()["detail"]


def test_not_ready_without_the_database(http: Http, database: Database) -> None:
    with database.transactions.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE alembic_version RENAME TO lost")
    response = http("GET", "/readyz")
    assert problem(response) == (503, "not-ready")
    assert set(response.json()["checks"]) == {"database", "disk", "running"}


def samples(http: Http) -> dict[str, float]:
    """The metrics by name and labels, as Prometheus reads them."""
    response = http("GET", "/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(response.text):
        assert family.documentation, family.name
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_metrics(http: Http, model: bytes, work: Work, database: Database) -> None:
    http.submit(model)
    http("GET", f"{JOBS}/unknown")
    http("GET", f"{JOBS}/unknown-too")
    http("BREW", "/coffee")
    work()
    signs = HeartbeatSender(database, "host:7", 60.0)
    with beside(signs.send):
        while not database.activity.workers():
            pass
        signs.job_id = "a" * 32
        database.activity.beat("host:7", signs.job_id)
        seen = samples(http)
    assert database.activity.workers() == ()
    expected = {
        "superopt_database_up{}": 1,
        "superopt_jobs{state=queued}": 0,
        "superopt_jobs{state=succeeded}": 1,
        "superopt_job_seconds_count{state=succeeded}": 1,
        "superopt_job_seconds_bucket{le=+Inf,state=succeeded}": 1,
        "superopt_rules{status=verified}": 0,
        "superopt_library_version{}": 1,
        "superopt_worker_busy{worker=host:7}": 1,
        "superopt_http_requests_total{method=POST,route=/v1/optimizations,status=202}": 1,
        "superopt_http_requests_total{method=GET,route=/v1/optimizations/{identity},status=404}": 2,
        "superopt_http_requests_total{method=other,route=other,status=404}": 1,
        "superopt_http_request_seconds_count{method=GET,route=/v1/optimizations/{identity},status=404}": 2,
        "superopt_http_requests_open{}": 1,
    }
    assert {name: seen.get(name) for name in expected} == expected
    assert 0.5 < seen["superopt_job_seconds_sum{state=succeeded}"] < 60
    assert seen["process_resident_memory_bytes{}"] > 1 << 20


def test_signs_of_life_go_on_after_a_failure(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [SuperoptError("it cannot be written")]
    beat = ActivityRepository.beat

    def once(self: ActivityRepository, worker: str, job: str | None, targets: Sequence[str] = ()) -> None:
        if failures:
            raise failures.pop()
        beat(self, worker, job, targets)

    monkeypatch.setattr(ActivityRepository, "beat", once)
    with beside(HeartbeatSender(database, "host:7", 0.01).send):
        deadline = time.monotonic() + 10
        while not database.activity.workers():
            assert time.monotonic() < deadline


@pytest.mark.parametrize("given", ["order-7.a", "0af7651916cd43dd8448eb211c80319c"])
def test_a_request_keeps_its_id(http: Http, given: str) -> None:
    assert http("GET", "/livez", headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["a b", "", "x" * 129])
def test_a_strange_id_is_replaced(http: Http, given: str) -> None:
    answered = http("GET", "/livez", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", answered)


@pytest.fixture
def log() -> Iterator[Callable[[], list[dict[str, object]]]]:
    """The lines logged so far, as JSON."""
    written = io.StringIO()
    stream = logging.StreamHandler(written)
    stream.setFormatter(JsonLines("server"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(stream)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.removeHandler(stream)
    root.setLevel(level)


def test_logs_say_request_and_job(
    http: Http, model: bytes, work: Work, log: Callable[[], list[dict[str, object]]]
) -> None:
    identity = http.submit(model, headers={"X-Request-Id": "mine"})
    work()
    http("GET", f"{JOBS}/{identity}%0aforged")
    lines = log()
    accepted = next(line for line in lines if line["logger"] == "superopt.access")
    assert accepted["message"] == "POST /v1/optimizations 202"
    known = {"request_id": "mine", "job_id": identity, "route": JOBS, "status": 202, "level": "info"}
    assert {name: accepted[name] for name in known} == known
    of_worker = [line["message"] for line in lines if line["logger"] == "superopt.server.worker.loop"]
    assert of_worker == ["attempt 1 of 3", "succeeded"]
    assert {line["job_id"] for line in lines if line["logger"] == "superopt.server.worker.loop"} == {identity}
    assert not any("\n" in str(line["message"]) for line in lines)


def test_an_error_of_the_service_is_logged_with_its_request(
    settings: Settings, database: Database, log: Callable[[], list[dict[str, object]]]
) -> None:
    app = create_app(settings, database)
    app.add_api_route("/broken", lambda: 1 // 0)
    response = Http(app)("GET", "/broken", headers={"X-Request-Id": "mine"})
    assert problem(response) == (500, "internal-error")
    assert (response.headers["x-request-id"], response.headers["x-frame-options"]) == ("mine", "DENY")
    logged = next(line for line in log() if line["level"] == "error")
    assert logged["request_id"] == "mine"
    assert "ZeroDivisionError" in str(logged["exception"])


def test_a_request_and_its_job_are_one_trace(settings: Settings, database: Database, model: bytes) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = traces_to(provider)
    http = Http(create_app(settings, database, traces))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    identity = http.submit(model, headers={"traceparent": parent})
    assert Worker(database, settings, threading.Event(), traces).do_one()
    http("GET", f"{JOBS}/unknown")
    submitted, job, read = exporter.get_finished_spans()
    assert (submitted.name, job.name, read.name) == (f"POST {JOBS}", "job", f"GET {JOBS}/{{identity}}")
    assert submitted.parent is not None
    assert f"{submitted.parent.span_id:016x}" == "b7ad6b7169203331"
    assert job.parent is not None
    assert job.parent.span_id == submitted.context.span_id
    assert f"{job.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert job.attributes is not None
    assert (job.attributes["superopt.job.id"], job.attributes["superopt.job.state"]) == (
        identity,
        "succeeded",
    )
    assert read.attributes is not None
    assert read.attributes["http.response.status_code"] == 404


class _Collector(BaseHTTPRequestHandler):
    """Takes what is sent to an OpenTelemetry collector."""

    received: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def test_traces_are_sent_when_there_is_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    with HTTPServer(("127.0.0.1", 0), _Collector) as collector:
        thread = threading.Thread(target=collector.handle_request)
        thread.start()
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        with traces_of_environment("test") as traces, traces.request("GET", {}) as entry:
            assert re.fullmatch("[0-9a-f]{32}", entry.trace_id)
        thread.join()
    assert _Collector.received == ["/v1/traces"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
    ],
)
def test_no_traces_are_made_otherwise(environment: dict[str, str]) -> None:
    with traces_of_environment("test", environment) as traces, traces.request("GET", {}) as entry:
        assert entry.trace_id == ""
