"""Commands superopt keys create, list and revoke."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.lifetimes import lifetime
from superopt.cli.output import DatabaseOption, JsonOption, Output

if TYPE_CHECKING:
    from superopt.substitution_db.store.records import ApiKey


def register(keys: typer.Typer) -> None:
    """Adds the commands to those of ``superopt keys``."""
    keys.command("create")(create_key)
    keys.command("list")(list_keys)
    keys.command("revoke")(revoke_key)


def create_key(
    name: Annotated[str, typer.Argument(help="Description of the key.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Scope: submit, read or admin (everything); may be repeated. Default: submit and read."
        ),
    ] = None,
    owner: Annotated[
        str, typer.Option(help="Who has the key. Keys with the same owner see each other's jobs.")
    ] = "",
    all_jobs: Annotated[
        bool,
        typer.Option("--all-jobs", help="The key sees and cancels all jobs, not only its owner's."),
    ] = False,
    expires: Annotated[
        str | None, typer.Option(help="Lifetime, as in 12h, 30d or 8w. Default: no expiry.", metavar="TIME")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an API key; its token is shown only once."""
    from superopt.substitution_db import open_database
    from superopt.substitution_db.store.keys import DEFAULT_SCOPES
    from superopt.substitution_db.store.records import JobsSeen

    output = Output(as_json)
    with open_database(database) as opened:
        made = opened.keys.create(
            name,
            tuple(scope) if scope else DEFAULT_SCOPES,
            owner=owner,
            lifetime=None if expires is None else lifetime(expires),
            sees=JobsSeen.ALL if all_jobs else JobsSeen.OWN,
        )
    output.document({**_key_document(made.key), "token": made.token})
    output.line(made.token)


def list_keys(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List API keys: owner, scopes, whose jobs each sees, expiry, last use (up to ten seconds late)."""
    from superopt.substitution_db import open_database

    output = Output(as_json)
    with open_database(database) as opened:
        keys = opened.keys.list()
    output.document([_key_document(key) for key in keys])
    output.table(
        ("id", "name", "owner", "scopes", "jobs", "created", "expires", "last used", "revoked"),
        [
            (
                key.id,
                key.name,
                key.owner,
                " ".join(key.scopes),
                "all" if key.visible_jobs is None else "own",
                _day(key.created_at),
                _day(key.expires_at) or "never",
                _minute(key.last_used_at) or "never",
                _day(key.revoked_at),
            )
            for key in keys
        ],
    )


def revoke_key(
    key: Annotated[str, typer.Argument(help="Id as shown by `superopt keys list`.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key."""
    from superopt.substitution_db import open_database

    output = Output(as_json)
    with open_database(database) as opened:
        revoked = opened.keys.revoke(key)
    output.document({"id": revoked.id, "name": revoked.name})
    output.line(f"revoked {revoked.id} ({revoked.name})")


def _key_document(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "owner": key.owner or None,
        "scopes": list(key.scopes),
        "all_jobs": key.visible_jobs is None,
        "created_at": key.created_at.isoformat(),
        "expires_at": key.expires_at and key.expires_at.isoformat(),
        "last_used_at": key.last_used_at and key.last_used_at.isoformat(),
        "revoked_at": key.revoked_at and key.revoked_at.isoformat(),
    }


def _day(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d}"


def _minute(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"
