from __future__ import annotations

import re

import pytest

from superopt.equations import parse_equation
from superopt.errors import InvalidOptionError
from superopt.server.problem_types import ProblemType
from superopt.server.settings import Settings
from superopt.server.worker.proving import prove_in_child
from superopt.substitution_db import CandidateRule, Database
from superopt.substitution_db.store.records import JsonObject
from tests.server.conftest import Http, problem

REMOTE = ("192.0.2.7", 50000)
JOBS = "/v1/optimizations"


def test_devices(http: Http, database: Database) -> None:
    database.costs.measured_on("h100", "onnxruntime 1.31").put("conv", 1.0)
    items = http("GET", "/v1/devices").json()["items"]
    assert [(item["name"], item["here"], item["costs"]) for item in items] == [
        ("cpu", True, 0),
        ("h100", False, 1),
    ]
    assert items[0]["memory_bytes"] > 0


def test_the_library_is_read(http: Http, database: Database) -> None:
    texts = ["relu(relu(x)) => relu(x)", "add(x, y) <=> add(y, x)", "transpose(transpose(x)) => x"]
    database.rules.add_candidates(CandidateRule(parse_equation(text), "test") for text in texts)
    first = http("GET", "/v1/substitutions", params={"limit": 2}).json()
    assert len(first["items"]) == 2
    rest = http("GET", "/v1/substitutions", params={"limit": 2, "cursor": first["next"]}).json()
    assert (len(rest["items"]), rest["next"]) == (1, None)
    found = http(
        "GET", "/v1/substitutions", params={"operator": "relu", "status": "candidate", "q": "relu("}
    ).json()
    rule = found["items"][0]
    assert (rule["equation"], rule["operators_source"], rule["proof"]) == (texts[0], ["relu", "relu"], None)
    assert http("GET", f"/v1/substitutions/{rule['id']}").json() == rule
    assert http("GET", "/v1/substitutions", params={"status": "verified"}).json()["items"] == []
    assert problem(http("GET", "/v1/substitutions/unknown")) == (404, "not-found")
    assert problem(http("GET", "/v1/substitutions", params={"cursor": "x"})) == (422, "invalid-cursor")
    assert problem(http("DELETE", f"/v1/substitutions/{rule['id']}")) == (405, "method-not-allowed")


@pytest.mark.parametrize(
    ("equation", "verdict"), [("relu(relu(x)) => relu(x)", "verified"), ("relu(x) => x", "refuted")]
)
def test_proving(http: Http, equation: str, verdict: str) -> None:
    answer = http("POST", "/v1/substitutions/prove", json={"equation": equation}).json()
    assert (answer["equation"], answer["verdict"], answer["known"]) == (equation, verdict, None)
    assert (answer["counterexample"] is not None) == (verdict == "refuted")
    assert (answer["grade"], answer["certificate"] is not None) == (
        ("replayed", True) if verdict == "verified" else ("", False)
    )


def test_a_refuted_equation_is_told_where_it_holds(http: Http) -> None:
    convolved = "concat[axis=1](conv(x, y), conv(x, z)) => conv(x, concat[axis=0](y, z))"
    answer = http("POST", "/v1/substitutions/prove", json={"equation": convolved}).json()
    assert answer["verdict"] == "refuted"
    assert answer["condition"]["equation"] == f"{convolved} where groups(x, y) = 1"
    assert (answer["condition"]["verdict"], answer["condition"]["exact"]) == ("proved", True)
    told: list[JsonObject] = []
    prove_in_child({"equation": convolved}, told.append)
    assert [(early["verdict"], early["condition"]) for early in told] == [("refuted", None)]


@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ({"equation": "relu("}, "invalid-equation"),
        ({"equation": "what(x) => x"}, "invalid-equation"),
        ({"equation": ""}, "invalid-parameters"),
        ({"equation": "x" * 9000}, "invalid-parameters"),
        ({}, "invalid-parameters"),
        ([], "invalid-parameters"),
    ],
)
def test_what_cannot_be_proved(http: Http, body: object, slug: str) -> None:
    assert problem(http("POST", "/v1/substitutions/prove", json=body)) == (422, slug)


@pytest.mark.parametrize(
    ("body", "kind", "expected", "detail"),
    [
        (
            b"[1,2",
            "application/json",
            (400, "bad-request"),
            "the body is not JSON: Expecting ',' delimiter, at character 4",
        ),
        (
            b"equation=x",
            "application/x-www-form-urlencoded",
            (415, "unsupported-media-type"),
            "expected content of the type application/json, got application/x-www-form-urlencoded",
        ),
        (
            b'{"equation": "x"}',
            "",
            (415, "unsupported-media-type"),
            "expected content of the type application/json, got none",
        ),
        (
            b"",
            "application/json",
            (422, "invalid-parameters"),
            "expected a JSON object as the body, got none",
        ),
        (
            b"[1,2]",
            "application/json",
            (422, "invalid-parameters"),
            "expected a JSON object as the body, got another JSON value",
        ),
    ],
)
def test_what_is_no_json_object_is_said_without_a_field(
    http: Http, body: bytes, kind: str, expected: tuple[int, str], detail: str
) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = http("POST", "/v1/substitutions/prove", content=body, headers=headers)
    assert problem(answer) == expected
    assert answer.json()["detail"] == detail
    assert "errors" not in answer.json()


def test_proofs_are_limited(settings: Settings, database: Database) -> None:
    from superopt.server.http.app import create_app
    from superopt.server.http.state import shared_state

    app = create_app(settings.model_copy(update={"max_prove_seconds": 0.01}), database)
    answer = Http(app)(
        "POST", "/v1/substitutions/prove", json={"equation": "relu(relu(x)) => relu(x)"}
    ).json()
    assert (answer["verdict"], answer["reason"]) == ("unproved", "the time limit is 0.01 s")
    for _ in range(settings.max_proofs_at_once):
        shared_state(app).proofs.acquire()
    response = Http(app)("POST", "/v1/substitutions/prove", json={"equation": "relu(relu(x)) => relu(x)"})
    assert problem(response) == (503, "busy")


def test_without_a_key_only_this_machine_is_served(http: Http) -> None:
    for path in ("/", JOBS, "/v1/substitutions", "/v1/devices", "/metrics", "/openapi.json", "/problems"):
        assert http("GET", path).status_code == 200, path
        assert problem(http("GET", path, client=REMOTE)) == (403, "no-api-keys"), path
        assert problem(http("GET", path, base="http://rebound.example")) == (403, "no-api-keys"), path
    assert http("GET", "/livez", client=REMOTE).status_code == 200
    assert http("GET", "/readyz", client=REMOTE).json()["checks"]["database"]["ok"]
    assert http("GET", JOBS, client=("::1", 1), base="http://[::1]:8080").status_code == 200


def test_pages_of_other_sites_cannot_submit(http: Http, model: bytes) -> None:
    other = http("POST", JOBS, files={"model": model}, headers={"Origin": "http://evil.example"})
    assert problem(other) == (403, "cross-site-request")
    own = http("POST", JOBS, files={"model": model}, headers={"Origin": "http://localhost"})
    assert own.status_code == 202


def test_keys(http: Http, database: Database, model: bytes) -> None:
    reader = database.keys.create("dashboard", ["read"])
    admin = database.keys.create("boss", ["admin"])

    def ask(token: str, method: str = "GET", path: str = JOBS, **options: object) -> object:
        headers = {"Authorization": f"Bearer {token}"}
        return http(method, path, client=REMOTE, base="http://service.example", headers=headers, **options)

    assert ask(reader.token).status_code == 200  # type: ignore[attr-defined]
    assert problem(ask(reader.token, "POST", files={"model": model})) == (403, "missing-scope")  # type: ignore[arg-type]
    assert ask(admin.token, "POST", files={"model": model}).status_code == 202  # type: ignore[attr-defined]
    database.keys.revoke(reader.key.id)
    for token in ("", "nonsense", reader.token, admin.token[:-1], "superopt_" + "x" * 2000):
        response = ask(token)
        assert problem(response) == (401, "unauthenticated")  # type: ignore[arg-type]
        assert response.headers["www-authenticate"] == "Bearer"  # type: ignore[attr-defined]
    for path in (JOBS, "/v1/devices", "/v1/substitutions", "/metrics"):
        assert problem(http("GET", path)) == (401, "unauthenticated"), "this machine needs a key too"
    for path in ("/", "/openapi.json", "/livez", "/problems"):
        assert http("GET", path, client=REMOTE, base="http://service.example").status_code == 200


def test_every_response_is_guarded(http: Http) -> None:
    for path in ("/", JOBS, "/nothing"):
        headers = http("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_failures_are_listed_and_one_type_each(http: Http) -> None:
    listed = http("GET", "/problems").json()
    assert set(listed) == {type_.slug for type_ in ProblemType}
    assert len(listed) == len(ProblemType)
    assert http("GET", "/problems/disk-full").json()["status"] == 507
    assert problem(http("GET", "/problems/none")) == (404, "not-found")
    assert problem(http("GET", "/nothing")) == (404, "not-found")


def test_openapi_describes_every_route(http: Http) -> None:
    schema = http("GET", "/openapi.json").json()
    assert set(schema["paths"]) == {
        "/v1/optimizations",
        "/v1/optimizations/{identity}",
        "/v1/optimizations/{identity}/model",
        "/v1/optimizations/{identity}/report",
        "/v1/optimizations/{identity}/events",
        "/v1/substitutions",
        "/v1/substitutions/{identity}",
        "/v1/substitutions/prove",
        "/v1/devices",
        "/livez",
        "/readyz",
        "/metrics",
        "/problems",
        "/problems/{slug}",
    }
    text = http("GET", "/openapi.json").text
    for reference in set(re.findall(r'"#/components/schemas/(\w+)"', text)):
        assert reference in schema["components"]["schemas"]


def test_an_internal_error_is_a_problem_with_a_number(settings: Settings, database: Database) -> None:
    from superopt.server.http.app import create_app

    app = create_app(settings, database)
    app.add_api_route("/broken", lambda: 1 // 0)
    response = Http(app)("GET", "/broken")
    assert problem(response) == (500, "internal-error")
    assert re.fullmatch(
        r"report error number [0-9a-f]{16}; the log has the details", response.json()["detail"]
    )


def test_settings_come_from_the_environment() -> None:
    assert Settings.from_environment({"SUPEROPT_MAX_QUEUED_JOBS": "7"}).max_queued_jobs == 7
    changed = Settings(max_job_seconds=5, optimize_file="a.b:c")
    assert Settings.from_environment(changed.to_environment()) == changed
    with pytest.raises(InvalidOptionError, match=r"SUPEROPT_MAX_QUEUED_JOBS: .* got 'many'"):
        Settings.from_environment({"SUPEROPT_MAX_QUEUED_JOBS": "many"})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/optimizations/%00", (400, "bad-request")),
        ("/v1/substitutions?q=%00", (400, "bad-request")),
        ("/v1/optimizations/%2e%2e%2f%2e%2e%2fetc%2fpasswd", (404, "not-found")),
        ("/v1/optimizations/" + "x" * 5000, (404, "not-found")),
        ("/v1/substitutions?limit=1e3", (422, "invalid-parameters")),
        ("/v1/substitutions?q=%ff%fe", None),
    ],
)
def test_strange_addresses(http: Http, path: str, expected: tuple[int, str] | None) -> None:
    response = http("GET", path)
    if expected is None:
        assert response.status_code == 200
    else:
        assert problem(response) == expected


@pytest.mark.parametrize(
    "body", [b'{"equation": "\\ud800"}', b'{"equation": "relu(\\u0000)"}', b"\xff", b"["]
)
def test_strange_bodies(http: Http, body: bytes) -> None:
    response = http(
        "POST", "/v1/substitutions/prove", content=body, headers={"Content-Type": "application/json"}
    )
    assert problem(response)[0] in (400, 422)
