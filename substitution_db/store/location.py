"""Locations of the database and its blobs, from options, environment and defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from superopt.errors import InvalidOptionError
from superopt.substitution_db.store.blobs import BlobStore
from superopt.substitution_db.store.remote import RemoteStore

DATABASE_URL = "SUPEROPT_DATABASE_URL"
BLOB_DIRECTORY = "SUPEROPT_BLOB_DIRECTORY"
BLOB_URL = "SUPEROPT_BLOB_URL"


def database_url(text: str | None, environment: Mapping[str, str] = os.environ) -> URL:
    """The URL of the database: ``text``, else ``SUPEROPT_DATABASE_URL``, else SQLite in the user data
    directory.

    A path without ``scheme://`` is an SQLite file. Raises InvalidOptionError for anything but an SQLite file
    or PostgreSQL, and for a bare word that is not an existing file.
    """
    text = text or environment.get(DATABASE_URL) or str(_default_file())
    if "://" not in text:
        if text.isidentifier() and not Path(text).exists():
            raise InvalidOptionError(
                f"database {text!r}: expected a file, as in ./{text} or {text}.db, sqlite:///FILE or "
                "postgresql://USER@HOST/NAME"
            )
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError:
        raise InvalidOptionError(
            f"database URL {text!r}: expected sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    return _checked(url, text)


def why_default_is_unwritable(text: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Why the default database cannot be created or written, if ``database_url`` chooses it; else empty."""
    if text or environment.get(DATABASE_URL):
        return ""
    file = _default_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"{file.parent} cannot be created: {error.strerror}"
    wrong = [path for path in (file.parent, file) if path.exists() and not os.access(path, os.W_OK)]
    return f"{wrong[0]} cannot be written" if wrong else ""


def _default_file() -> Path:
    return user_data_path("superopt", appauthor=False) / "superopt.db"


def blob_store(url: URL, environment: Mapping[str, str] = os.environ) -> BlobStore:
    """The blob store at ``SUPEROPT_BLOB_URL`` (any fsspec URL, such as ``s3://bucket/prefix``), else in the
    directory. With a URL, the directory is local to each machine and holds partial uploads and cached copies.

    Raises InvalidOptionError for an invalid URL, MissingServiceError without its driver.
    """
    address = environment.get(BLOB_URL)
    directory = blob_directory(url, environment)
    if address is None or address.startswith("file://"):
        return BlobStore(Path(address.removeprefix("file://")) if address else directory)
    return BlobStore(directory, RemoteStore(address))


def blob_directory(url: URL, environment: Mapping[str, str] = os.environ) -> Path:
    """The directory of blobs: ``SUPEROPT_BLOB_DIRECTORY``, else ``FILE.blobs`` beside an SQLite
    file, else ``blobs`` in the user data directory.
    """
    text = environment.get(BLOB_DIRECTORY)
    if text:
        return Path(text).expanduser().absolute()
    if url.database is not None and url.get_backend_name() == "sqlite":
        return Path(f"{url.database}.blobs")
    return user_data_path("superopt", appauthor=False) / "blobs"


def _checked(url: URL, text: str) -> URL:
    match url.get_backend_name():
        case "sqlite":
            if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
                raise InvalidOptionError(
                    f"database URL {text!r}: expected a file (processes share the database), "
                    "for instance sqlite:////var/lib/superopt/superopt.db"
                )
            return URL.create("sqlite", database=str(Path(url.database).absolute()))
        case "postgresql" | "postgres":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise InvalidOptionError(f"database URL: expected sqlite or postgresql, got {other}")
