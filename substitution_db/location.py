"""Where the database is: the URL that was asked for, the default, and the directory of blobs beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from superopt.errors import InvalidOptionError

DATABASE_URL = "SUPEROPT_DATABASE_URL"
BLOB_DIRECTORY = "SUPEROPT_BLOB_DIRECTORY"


def database_url(text: str | None, environment: Mapping[str, str] = os.environ) -> URL:
    """The URL of the database: ``text``, else ``SUPEROPT_DATABASE_URL``, else SQLite in the user data
    directory.

    A path without ``scheme://`` is an SQLite file. Raises InvalidOptionError for anything that is neither
    SQLite in a file nor PostgreSQL.
    """
    text = (
        text
        or environment.get(DATABASE_URL)
        or str(user_data_path("superopt", appauthor=False) / "superopt.db")
    )
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError:
        raise InvalidOptionError(
            f"database URL {text!r}: expected sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    return _checked(url, text)


def blob_directory(url: URL, environment: Mapping[str, str] = os.environ) -> Path:
    """Where models and results are kept: ``SUPEROPT_BLOB_DIRECTORY``, else ``FILE.blobs`` beside an SQLite
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
