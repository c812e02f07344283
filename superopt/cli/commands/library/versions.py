"""Commands superopt library publish, versions and restore: manage library versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output, several

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import LibraryVersion


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("publish")(publish)
    app.command("versions")(versions)
    app.command("restore")(restore)


def publish(
    note: Annotated[str, typer.Option(help="Note about the changes.")] = "library publish",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish all verdicts recorded so far at once; jobs submitted before keep their library version."""
    from superopt.substitution_db import open_database
    from superopt.substitution_db.rules.currency import current

    output = Output(as_json)
    with open_database(database) as opened:
        version = opened.library.publish(current(), note)
    output.document(_document(version))
    output.line(_sentence(version))


def restore(
    number: Annotated[int, typer.Argument(help="Number as shown by `superopt library versions`.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish an earlier version again."""
    from superopt.substitution_db import open_database
    from superopt.substitution_db.rules.currency import current

    output = Output(as_json)
    with open_database(database) as opened:
        version = opened.library.restore(number, current())
    output.document(_document(version))
    output.line(_sentence(version))


def versions(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List the versions of the library, the current one first."""
    from superopt.substitution_db import open_database

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
    return f"version {version.number} is current: {several(version.rules, 'rule')} ({version.sha256[:12]})"
