"""superopt library publish, versions and restore: which library new jobs begin with, on the live database."""

from __future__ import annotations

from typing import Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output, several
from superopt.substitution_db import open_database
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.store.records import LibraryVersion


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("publish")(publish)
    app.command("versions")(versions)
    app.command("restore")(restore)


def publish(
    note: Annotated[str, typer.Option(help="What is new, for people.")] = "library publish",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put all verdicts recorded so far in force, at once; jobs accepted before keep their library."""
    output = Output(as_json)
    with open_database(database) as opened:
        version = opened.library.publish(current(), note)
    output.document(_document(version))
    output.line(_sentence(version))


def restore(
    number: Annotated[int, typer.Argument(help="The number that `superopt library versions` shows.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put an earlier version in force again, until the next one is published."""
    output = Output(as_json)
    with open_database(database) as opened:
        version = opened.library.restore(number, current())
    output.document(_document(version))
    output.line(_sentence(version))


def versions(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the versions of the library, the one in force first."""
    output = Output(as_json)
    with open_database(database) as opened:
        listed = opened.library.list()
    output.document([_document(version) for version in listed])
    output.table(
        ("version", "rules", "published", "library", "note"),
        [(v.number, v.rules, f"{v.published_at:%Y-%m-%d %H:%M}", v.sha256[:12], v.note) for v in listed],
    )


def _document(version: LibraryVersion) -> dict[str, object]:
    return {
        "version": version.number,
        "rules": version.rules,
        "sha256": version.sha256,
        "note": version.note,
        "published_at": version.published_at.isoformat(),
    }


def _sentence(version: LibraryVersion) -> str:
    return f"version {version.number} is in force: {several(version.rules, 'rule')} ({version.sha256[:12]})"
