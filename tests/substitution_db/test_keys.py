"""Owners, expiry and last use of API keys, on both kinds of database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import update

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.substitution_db import Database
from superopt.substitution_db.jobs.repository import NewJob
from superopt.substitution_db.store.engine import Transactions
from superopt.substitution_db.store.keys import KeyExpiredError, KeyRepository
from superopt.substitution_db.store.models import ApiKeyRow
from superopt.substitution_db.store.records import JobFile, JobOwner, JobRole, JobsSeen, JobState


def change(database: Database, key: str, **columns: object) -> None:
    """Changes columns of a key, as time or other software does."""
    with database.transactions.write() as session:
        session.execute(update(ApiKeyRow).where(ApiKeyRow.id == key).values(columns))


def anew(database: Database) -> KeyRepository:
    """The keys as a process sees them that has read none."""
    return KeyRepository(database.transactions)


def test_a_key_expires(database: Database) -> None:
    new = database.keys.create("ci", lifetime=timedelta(days=30))
    assert new.key.expires_at == new.key.created_at + timedelta(days=30)
    assert anew(database).recognise(new.token) == new.key
    change(database, new.key.id, expires_at=new.key.created_at)
    with pytest.raises(KeyExpiredError, match=r"the API key 'ci' expired at \d{4}-\d\d-\d\d \d\d:\d\d UTC"):
        anew(database).recognise(new.token)
    assert anew(database).recognise(new.token[:-1]) is None, "only the holder is told"


@pytest.mark.parametrize("lifetime", [timedelta(), timedelta(days=-1), timedelta.max])
def test_a_lifetime_is_positive_and_ends(database: Database, lifetime: timedelta) -> None:
    with pytest.raises(InvalidOptionError, match="expires: expected a"):
        database.keys.create("ci", lifetime=lifetime)


def test_an_owner_is_short(database: Database) -> None:
    assert database.keys.create("ci", owner=" Łódź team ").key.owner == "Łódź team"
    with pytest.raises(InvalidOptionError, match="owner: expected at most 255 characters, got 256"):
        database.keys.create("ci", owner="x" * 256)


def test_whose_jobs_a_key_sees(database: Database) -> None:
    keys = database.keys
    one, same, other = (keys.create("k", owner=owner).key for owner in ("ada", "ada", "bob"))
    alone, everybody = keys.create("k").key, keys.create("k", sees=JobsSeen.ALL).key
    blob = database.blobs.put_bytes(b"model")
    files = [JobFile(JobRole.MODEL, "model.onnx", blob.sha256, blob.bytes)]
    jobs = {
        name: database.jobs.submit(NewJob(name, files, owner=key)).id
        for name, key in {"one": one.id, "same": same.id, "other": other.id, "local": ""}.items()
    }
    seen = {
        key: {name for name, job in jobs.items() if database.jobs.get(job, of=key.visible_jobs) is not None}
        for key in (one, same, other, alone, everybody)
    }
    assert list(seen.values()) == [{"one", "same"}, {"one", "same"}, {"other"}, set(), set(jobs)]
    for key, names in seen.items():
        assert {job.model_name for job in database.jobs.list(of=key.visible_jobs)} == names
    assert [job.model_name for job in database.jobs.list(of=one.visible_jobs, limit=1)] == ["same"]
    assert database.jobs.cancel(jobs["other"], of=one.visible_jobs) is None
    cancelled = database.jobs.cancel(jobs["same"], of=one.visible_jobs)
    assert cancelled is not None
    assert cancelled.state is JobState.CANCELLED


def test_a_key_of_older_software_keeps_what_it_could_do(database: Database) -> None:
    old = database.keys.create("old", ["read"])
    assert old.key.visible_jobs == JobOwner(old.key.id, "")
    change(database, old.key.id, sees=None, owner=None, expires_at=None)
    recognised = anew(database).recognise(old.token)
    assert recognised is not None
    assert (recognised.visible_jobs, recognised.expires_at) == (None, None)
    assert database.keys.create("boss", ["admin"]).key.visible_jobs is None


def test_the_last_use_is_recorded_later(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = anew(database)
    used, unused = keys.create("used"), keys.create("unused")
    keys.record_uses()
    keys.recognise(used.token)
    keys.recognise(unused.token[:-1])
    assert [key.last_used_at for key in keys.list()] == [None, None]

    def fail(_: Transactions) -> None:
        raise MissingServiceError("the database is not available")

    with monkeypatch.context() as broken:
        broken.setattr(Transactions, "write", fail)
        with pytest.raises(MissingServiceError):
            keys.record_uses()
    keys.record_uses()
    times = {key.name: key.last_used_at for key in keys.list()}
    assert times["unused"] is None
    assert times["used"] is not None
    assert times["used"] >= used.key.created_at
