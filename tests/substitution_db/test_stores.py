from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import make_url

from superopt.errors import InvalidOptionError, MissingServiceError
from superopt.substitution_db import Database
from superopt.substitution_db.store.blobs import Blob, BlobStore
from superopt.substitution_db.store.keys import REMEMBERED_SECONDS, KeyRepository
from superopt.substitution_db.store.location import blob_store
from superopt.substitution_db.store.remote import RemoteStore


def test_costs_are_kept_by_key(database: Database) -> None:
    costs = database.costs.measured_on("cpu: test", "onnxruntime 1.31")
    assert costs.get("conv") is None
    costs.put("conv", 1.5)
    costs.put("conv", 1.25)
    database.costs.put("add", 0.0)
    assert (costs.get("conv"), database.costs.get("conv"), costs.get("add")) == (1.25, 1.25, 0.0)
    many = {f"matmul {n} " + "x" * 5000: float(n) for n in range(1200)}
    costs.put_many(many)
    assert costs.get_many([*many, "unknown"]) == many
    assert costs.devices() == (("", "", 1), ("cpu: test", "onnxruntime 1.31", 1201))
    assert costs.forget("cpu: test") == 1201
    assert costs.get("conv") is None


@pytest.mark.parametrize("microseconds", [-1.0, float("nan"), float("inf")])
def test_a_cost_is_a_time(database: Database, microseconds: float) -> None:
    with pytest.raises(InvalidOptionError, match="cost of conv: expected microseconds"):
        database.costs.put("conv", microseconds)


def test_keys_are_recognised_until_revoked(database: Database) -> None:
    assert not database.keys.any_made()
    new = database.keys.create("ci", ["read"])
    other = database.keys.create("me")
    assert database.keys.recognise(new.token) == new.key
    for wrong in (
        "",
        "superopt",
        new.token[:-1],
        new.token + "x",
        other.token.replace(other.key.id, new.key.id),
    ):
        assert database.keys.recognise(wrong) is None
    revoked = database.keys.revoke(new.key.id)
    assert revoked == database.keys.revoke(new.key.id)
    assert database.keys.recognise(new.token) is None
    assert {key.name for key in database.keys.list()} == {"ci", "me"}
    database.keys.revoke(other.key.id)
    assert database.keys.any_made()


def test_what_another_process_does_with_keys_counts_a_second_later(database: Database) -> None:
    clock = [0.0]
    here, there = KeyRepository(database.transactions, lambda: clock[0]), database.keys
    assert not here.any_made()
    new = there.create("ci")
    assert (here.remembers(new.token), here.any_made()) == (True, False)
    clock[0] += REMEMBERED_SECONDS
    assert (here.remembers(new.token), here.any_made()) == (False, True)
    assert (here.recognise(new.token), here.remembers(new.token)) == (new.key, True)
    assert not here.remembers(new.token + "x")
    there.revoke(new.key.id)
    assert here.recognise(new.token) == new.key
    clock[0] += REMEMBERED_SECONDS
    assert (here.remembers(new.token), here.recognise(new.token)) == (False, None)


def test_the_secret_of_a_key_is_not_stored(tmp_path: Path, database: Database) -> None:
    token = database.keys.create("ci").token
    database.close()
    secret = token.split("_", 2)[2].encode()
    assert all(secret not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_keys_need_a_name_and_known_scopes(database: Database) -> None:
    with pytest.raises(InvalidOptionError, match="needs a name"):
        database.keys.create("  ")
    with pytest.raises(InvalidOptionError, match="expected some of submit, read, admin, got write"):
        database.keys.create("x", ["write"])


@pytest.fixture(params=["directory", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """An empty blob store of each kind."""
    remote = RemoteStore(f"memory://{tmp_path}") if request.param == "remote" else None
    return BlobStore(tmp_path / "blobs", remote)


def test_a_blob_is_there_completely_or_not_at_all(store: BlobStore) -> None:
    blob = store.put_bytes(b"model")
    assert blob.sha256 == hashlib.sha256(b"model").hexdigest()
    assert (blob.bytes, store.path(blob.sha256).read_bytes()) == (5, b"model")
    assert store.put_bytes(b"model") == blob
    assert store.stored() == {blob.sha256}
    assert (store.holds(blob), store.holds(Blob(blob.sha256, 4)), store.holds(Blob("f" * 64, 5))) == (
        True,
        False,
        False,
    )
    with store.writer() as writer:
        writer.write(b"half")
    assert [path.name for path in store.directory.rglob("*") if path.is_file()] == [blob.sha256]
    assert not store.path("f" * 64).exists()


def test_blobs_are_placed_and_removed(store: BlobStore, tmp_path: Path) -> None:
    blob = store.put_bytes(b"model")
    store.place(blob.sha256, tmp_path / "model.onnx")
    store.remove_unused([blob.sha256, "f" * 64], older_than_seconds=60)
    assert store.holds(blob)
    store.remove_unused([blob.sha256], older_than_seconds=-1)
    store.remove_copies(older_than_seconds=-1)
    assert not store.holds(blob)
    assert not store.path(blob.sha256).exists()
    assert (tmp_path / "model.onnx").read_bytes() == b"model"
    assert list((store.directory / "incoming").iterdir()) == []


def test_machines_share_a_remote_store(tmp_path: Path) -> None:
    address = {"SUPEROPT_BLOB_URL": f"memory://{tmp_path}"}
    here, there = (
        blob_store(make_url("postgresql:///x"), address | {"SUPEROPT_BLOB_DIRECTORY": str(tmp_path / name)})
        for name in ("here", "there")
    )
    blob = here.put_bytes(b"model")
    assert there.path(blob.sha256).read_bytes() == b"model"
    here.remove_copies(older_than_seconds=3600)
    assert sorted(path.parent.parent.name for path in tmp_path.rglob(blob.sha256)) == ["here", "there"]
    here.remove_copies(older_than_seconds=-1)
    assert [path.parent.parent.name for path in tmp_path.rglob(blob.sha256)] == ["there"]
    assert here.path(blob.sha256).read_bytes() == b"model"


@pytest.mark.parametrize(
    ("url", "error", "message"),
    [
        ("nowhere://x", InvalidOptionError, "blob store nowhere://x: Protocol not known"),
        ("gs://bucket/x", MissingServiceError, "blob store gs://bucket/x: .*gcsfs"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_sentence(
    url: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        blob_store(make_url("postgresql:///x"), {"SUPEROPT_BLOB_URL": url})


def test_work_directories_of_nobody_are_removed(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    (store.work_directory("kept") / "x").write_text("x")
    (store.work_directory("gone") / "x").write_text("x")
    store.remove_work(store.work_directories() - {"kept"})
    assert [path.name for path in (store.directory / "work").iterdir()] == ["kept"]
    assert store.free_bytes() > 0
    store.incoming().write_text("x")
    store.remove_abandoned(3600)
    assert len(list((store.directory / "incoming").iterdir())) == 1
    store.remove_abandoned(-1)
    assert list((store.directory / "incoming").iterdir()) == []
