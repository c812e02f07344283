"""What HTTP promises beyond the journeys: requests that are sent again, ranges, cursors, limits."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

import anyio
import httpx
import pytest

from superopt.equations import parse_equation
from superopt.options import Options
from superopt.server.http.app import create_app
from superopt.server.http.cursors import cursor_of
from superopt.server.http.documents import OptimizationDocument
from superopt.server.http.rate_limits import TokenBuckets
from superopt.server.problem_types import ProblemType
from superopt.server.settings import Settings
from superopt.substitution_db import CandidateRule, Database, open_database
from superopt.substitution_db.jobs import submissions
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.jobs.submissions import KeyTakenError
from tests.equations.test_abbreviation import FULL, SHORT
from tests.server.conftest import LOCAL, Http, problem
from tests.server.live import RULES, serving

URL = "/v1/optimizations"
Work = Callable[..., None]


def test_a_storm_of_one_request_makes_one_job(settings: Settings, database: Database, model: bytes) -> None:
    app = create_app(settings, database)
    answers: list[httpx.Response] = []

    async def storm() -> None:
        transport = httpx.ASGITransport(app, client=LOCAL)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client,
            anyio.create_task_group() as group,
        ):

            async def submit() -> None:
                headers = {"Idempotency-Key": "storm"}
                answers.append(await client.post(URL, files={"model": model}, headers=headers))

            for _ in range(50):
                group.start_soon(submit)

    anyio.run(storm)
    accepted = [answer for answer in answers if answer.status_code == 202]
    assert len(database.jobs.list()) == 1
    assert {answer.json()["id"] for answer in accepted} == {database.jobs.list()[0].id}
    assert [answer.headers["idempotency-replayed"] for answer in accepted].count("false") == 1
    others = {problem(answer) for answer in answers if answer.status_code != 202}
    assert others <= {(409, "idempotency-key-in-flight")}


def test_a_key_is_remembered_for_a_day_and_through_a_restart(
    settings: Settings, database: Database, model: bytes, work: Work
) -> None:
    sent = {"files": {"model": model}, "headers": {"Idempotency-Key": "order"}}
    first = Http(create_app(settings, database))("POST", URL, **sent)
    work()
    with open_database(database.url) as reopened:
        again = Http(create_app(settings, reopened))("POST", URL, **sent)
    assert (again.status_code, again.json()["id"]) == (first.status_code, first.json()["id"])
    assert again.json()["state"] == "succeeded"
    assert (first.headers["idempotency-replayed"], again.headers["idempotency-replayed"]) == ("false", "true")
    expires = parsedate_to_datetime(again.headers["idempotency-expires"])
    assert again.headers["idempotency-expires"] == first.headers["idempotency-expires"]
    assert 23.9 < (expires - datetime.now(UTC)).total_seconds() / 3600 < 24


def test_keys_belong_to_one_api_key_each(http: Http, database: Database, model: bytes) -> None:
    tokens = [database.keys.create(name).token for name in ("one", "other")]
    made = [
        http(
            "POST",
            URL,
            files={"model": model},
            headers={"Idempotency-Key": "same", "Authorization": f"Bearer {token}"},
        ).json()["id"]
        for token in (*tokens, *tokens)
    ]
    assert made[:2] == made[2:]
    assert made[0] != made[1]


def test_a_key_whose_server_died_is_free_again(
    http: Http, database: Database, model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "RESERVED_SECONDS", -1)
    assert database.submissions.reserve("", "lost") is None
    assert http("POST", URL, files={"model": model}, headers={"Idempotency-Key": "lost"}).status_code == 202


def test_of_two_requests_that_hold_one_key_the_first_is_accepted(database: Database) -> None:
    new = NewJob("net.onnx", [])
    database.submissions.submit("", "key", "a", new)
    with pytest.raises(KeyTakenError):
        database.submissions.submit("", "key", "a", new)
    assert len(database.jobs.list()) == 1


@pytest.fixture
def finished(http: Http, model: bytes, work: Work) -> str:
    """An optimization that has succeeded."""
    identity = http.submit(model)
    work()
    return identity


def test_parts_of_a_file(http: Http, finished: str, model: bytes) -> None:
    size = len(model)
    whole = (200, model, None)
    last = f"bytes {size - 3}-{size - 1}/{size}"
    for text, expected in {
        "bytes=2-5": (206, model[2:6], f"bytes 2-5/{size}"),
        "bytes=-3": (206, model[-3:], last),
        f"bytes={size - 3}-": (206, model[-3:], last),
        f"bytes={size - 3}-999999": (206, model[-3:], last),
        "bytes=5-2": whole,
        "lines=1-2": whole,
        "bytes=a-b": whole,
        "bytes=": whole,
        "bytes=0-1,999999-": whole,
        "bytes=" + "0-1," * 50 + "0-1": whole,
    }.items():
        part = http("GET", f"{URL}/{finished}/model", headers={"Range": text})
        assert (part.status_code, part.content, part.headers.get("content-range")) == expected, text
    for text in (f"bytes={size}-", "bytes=-0", "bytes=999999999-"):
        outside = http("GET", f"{URL}/{finished}/model", headers={"Range": text})
        assert problem(outside) == (416, "range-not-satisfiable"), text
        assert outside.headers["content-range"] == f"bytes */{size}"


def test_a_file_that_is_known_is_not_sent_again(http: Http, finished: str) -> None:
    for path in (f"{URL}/{finished}/model", f"{URL}/{finished}/report"):
        tag = http("GET", path).headers["etag"]
        for known in (tag, "*", f'"other", W/{tag}'):
            answer = http("GET", path, headers={"If-None-Match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
        assert http("GET", path, headers={"If-None-Match": '"other"'}).status_code == 200
        for condition, status in ((tag, 206), ('"other"', 200), ("W/" + tag, 200)):
            ranged = http("GET", path, headers={"Range": "bytes=0-1", "If-Range": condition})
            assert ranged.status_code == status


def test_a_status_is_sent_when_it_has_changed(http: Http, model: bytes) -> None:
    path = f"{URL}/{http.submit(model)}"
    tag = http("GET", path).headers["etag"]
    known = http("GET", path, headers={"If-None-Match": tag})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", tag)
    http("DELETE", path)
    changed = http("GET", path, headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["state"]) == (200, "cancelled")


def test_what_may_be_kept(http: Http, finished: str) -> None:
    kept = {"": "private, no-cache", "/model": "private, max-age=86400, immutable", "/events": "no-store"}
    for part, expected in kept.items():
        assert http("GET", f"{URL}/{finished}{part}").headers["cache-control"] == expected, part


def test_what_is_added_moves_nothing_between_pages(http: Http, model: bytes, database: Database) -> None:
    ids = [http.submit(model) for _ in range(4)]
    first = http("GET", URL, params={"limit": 2}).json()
    http.submit(model)
    database.jobs.cancel(ids[2])
    second = http("GET", URL, params={"limit": 2, "cursor": first["next"]}).json()
    assert [job["id"] for job in first["items"] + second["items"]] == ids[::-1]
    assert second["next"] is None


def test_a_cursor_is_one_that_the_list_gave(http: Http, database: Database) -> None:
    database.rules.add_candidates([CandidateRule(parse_equation(RULES[0]), "test")])
    rule = database.rules.list()[0].id
    foreign = (
        "x",
        "1",
        "",
        "é",
        cursor_of("substitutions", rule),
        cursor_of("optimizations", "-1"),
        cursor_of("optimizations", "9" * 30),
        base64.b64encode(b"\xff\xff").decode(),
    )
    for cursor in foreign:
        assert problem(http("GET", URL, params={"cursor": cursor})) == (422, "invalid-cursor"), cursor
    for cursor in ("x", cursor_of("optimizations", "1"), cursor_of("substitutions", "0" * 16)):
        answer = http("GET", "/v1/substitutions", params={"cursor": cursor})
        assert problem(answer) == (422, "invalid-cursor"), cursor


def test_a_bucket_is_emptied_and_fills_again() -> None:
    now = 100.0
    buckets = TokenBuckets(rate=2.0, burst=3, clock=lambda: now)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    now += 0.5
    assert [buckets.take("a"), buckets.take("a")] == [0, 0.5]
    now += 100
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_key_that_asks_too_often_waits(settings: Settings, database: Database) -> None:
    slow = settings.model_copy(update={"max_requests_per_second": 0.01, "max_requests_burst": 2})
    http = Http(create_app(slow, database))
    one, other = (
        {"Authorization": f"Bearer {database.keys.create(name, ['read']).token}"} for name in ("a", "b")
    )
    assert [http("GET", URL, headers=one).status_code for _ in range(2)] == [200, 200]
    limited = http("GET", URL, headers=one)
    assert problem(limited) == (429, "rate-limited")
    assert 90 < int(limited.headers["retry-after"]) <= 100
    assert http("GET", URL, headers=other).status_code == 200


def test_the_detail_of_a_problem_abbreviates_algorithms(http: Http) -> None:
    answer = http("POST", "/v1/substitutions/prove", json={"equation": f"{FULL} where dim("})
    assert problem(answer) == (422, "invalid-equation")
    assert answer.json()["detail"] == f"line 1: the equation '{SHORT} where dim(' ends too early"


def test_only_uploads_are_large(http: Http) -> None:
    large = b'{"equation": "' + b"x" * 100_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    answer = http("POST", "/v1/substitutions/prove", content=large, headers=headers)
    assert problem(answer) == (413, "upload-too-large")
    assert answer.json()["detail"].endswith("send models to /v1/optimizations")


def test_a_client_that_is_refused_early_hears_why(settings: Settings, database: Database) -> None:
    with serving(settings, database) as address:
        refused = httpx.post(address + URL, content=bytes(3_000_000), headers={"Content-Type": "text/plain"})
        limited = httpx.post(address + "/v1/substitutions/prove", content=bytes(3_000_000))
    assert problem(refused) == (415, "unsupported-media-type")
    assert problem(limited) == (413, "upload-too-large")


def test_a_stream_that_has_nothing_more_to_say_has_no_content(http: Http, finished: str) -> None:
    ids = re.findall(r"^id: (\d+)$", http("GET", f"{URL}/{finished}/events").text, re.MULTILINE)
    for last, status in ((ids[-2], 200), (ids[-1], 204), ("9" * 18, 204)):
        answer = http("GET", f"{URL}/{finished}/events", headers={"Last-Event-ID": last})
        assert answer.status_code == status


def test_every_method_of_an_address_is_named(http: Http) -> None:
    for path, methods in {
        URL: "GET, HEAD, POST",
        f"{URL}/x": "DELETE, GET, HEAD",
        "/v1/substitutions/prove": "POST",
        "/v1/substitutions/x": "GET, HEAD",
    }.items():
        refused = http("PATCH", path)
        assert problem(refused) == (405, "method-not-allowed")
        assert refused.headers["allow"] == methods


def test_no_page_elsewhere_may_read_an_answer(http: Http) -> None:
    for headers in ({}, {"Origin": "http://localhost"}, {"Origin": "http://evil.example"}):
        for method in ("GET", "OPTIONS"):
            answer = http(method, URL, headers=headers)
            assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_model_with_too_many_nodes_is_refused(settings: Settings, database: Database, model: bytes) -> None:
    http = Http(create_app(settings.model_copy(update={"max_model_nodes": 1}), database))
    answer = http("POST", URL, files={"model": model})
    assert problem(answer) == (422, "model-too-large")
    assert answer.json()["detail"].startswith("the model has 2 nodes")


def test_a_compressed_body_is_refused(http: Http, model: bytes) -> None:
    answer = http("POST", URL, files={"model": model}, headers={"Content-Encoding": "gzip"})
    assert problem(answer) == (415, "unsupported-media-type")


def test_examples_are_what_they_are_examples_of(http: Http) -> None:
    schemas = http("GET", "/openapi.json").json()["components"]["schemas"]
    (example,) = schemas["OptimizationDocument"]["examples"]
    assert set(example) <= set(OptimizationDocument.model_fields)
    OptimizationDocument.model_validate_json(json.dumps(example))
    (options,) = schemas["OptimizationOptions"]["examples"]
    Options.from_json(options)


def test_every_type_of_problem_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    rows = re.findall(r'^\| <a id="(.+?)"></a>`/problems/\1` \| (\d+) \| (.+?) \| .+ \|$', text, re.MULTILINE)
    assert rows == [(type_.slug, str(type_.status), type_.title) for type_ in ProblemType]


@pytest.mark.parametrize(
    ("cluster", "detail"),
    [
        (b"a: &a [x, x]\nnodes: [*a, *a]", "aliases are not allowed here"),
        (b"!!python/object/apply:os.system ['true']", "tags are not allowed here"),
        (b"nodes: " + b"[" * 100, "more than 20 levels are not allowed here"),
        (b"\xff\xfe", "can't decode"),
        (b"name: two", "expected the field nodes"),
    ],
)
def test_a_cluster_is_read_without_tricks(http: Http, model: bytes, cluster: bytes, detail: str) -> None:
    answer = http("POST", URL, files={"model": model, "cluster": cluster})
    assert problem(answer) == (422, "invalid-cluster")
    assert detail in answer.json()["detail"]


def test_a_client_that_pauses_is_let_go(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superopt.server.http.upload._IDLE_SECONDS", 0.01)
    monkeypatch.setattr("superopt.server.http.bodies._IDLE_SECONDS", 0.01)

    async def pausing() -> AsyncIterator[bytes]:
        yield b"--b\r\n"
        await anyio.sleep(60)

    for path, kind in ((URL, "multipart/form-data; boundary=b"), ("/v1/substitutions/prove", "text/plain")):
        answer = http("POST", path, content=pausing(), headers={"Content-Type": kind})
        assert problem(answer) == (408, "request-timeout")
