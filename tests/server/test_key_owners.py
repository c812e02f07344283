"""What the holder of an API key sees of the jobs of others: nothing, unless the key may see all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import httpx
from sqlalchemy import update

from superopt.server.process.background import beside
from superopt.server.process.key_uses import record_key_uses
from superopt.substitution_db import Database
from superopt.substitution_db.store.keys import KeyRepository
from superopt.substitution_db.store.models import ApiKeyRow
from superopt.substitution_db.store.records import JobsSeen
from tests.server.conftest import Http, problem

JOBS = "/v1/optimizations"
Ask = Callable[..., httpx.Response]
OF_A_JOB = (
    ("GET", f"{JOBS}/{{}}"),
    ("DELETE", f"{JOBS}/{{}}"),
    ("GET", f"{JOBS}/{{}}/model"),
    ("GET", f"{JOBS}/{{}}/report"),
    ("GET", f"{JOBS}/{{}}/events"),
    ("GET", "/page/optimizations/{}/drawings"),
    ("GET", "/page/optimizations/{}/graphs"),
    ("GET", "/page/optimizations/{}/report.html"),
)


def asking(http: Http, token: str) -> Ask:
    """Requests with a key."""
    return lambda method, path, **options: http(
        method, path, headers={"Authorization": f"Bearer {token}"}, **options
    )


def test_the_jobs_of_another_owner_do_not_exist(http: Http, database: Database, model: bytes) -> None:
    keys = database.keys
    mine, other = (asking(http, keys.create("k", owner=owner).token) for owner in ("ada", "bob"))
    admin = asking(http, keys.create("k", ["admin"]).token)
    job = mine("POST", JOBS, files={"model": model}).json()["id"]
    assert [item["id"] for item in mine("GET", JOBS).json()["items"]] == [job]
    assert other("GET", JOBS).json()["items"] == []
    unknown = problem(other("GET", f"{JOBS}/{'0' * 32}"))
    for method, path in OF_A_JOB:
        assert problem(other(method, path.format(job))) == unknown, (method, path)
    for ask in (
        mine,
        asking(http, keys.create("another", owner="ada").token),
        asking(http, keys.create("k", ["read"], owner="dashboard", sees=JobsSeen.ALL).token),
        admin,
    ):
        assert ask("GET", f"{JOBS}/{job}").json()["state"] == "queued"
    assert admin("DELETE", f"{JOBS}/{job}").json()["state"] == "cancelled"


def test_an_expired_key_is_refused_and_its_holder_told(http: Http, database: Database) -> None:
    new = database.keys.create("ci", lifetime=timedelta(hours=1))
    with database.transactions.write() as session:
        session.execute(update(ApiKeyRow).values(expires_at=ApiKeyRow.created_at))
    response = asking(http, new.token)("GET", JOBS)
    assert problem(response) == (401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["detail"].startswith("the API key 'ci' expired at ")


def test_uses_are_recorded_until_the_end(http: Http, database: Database) -> None:
    new = database.keys.create("ci")
    with beside(lambda ended: record_key_uses(database.keys, ended, seconds=3600)):
        assert asking(http, new.token)("GET", JOBS).status_code == 200
        assert database.keys.list()[0].last_used_at is None
    assert KeyRepository(database.transactions).list()[0].last_used_at is not None
