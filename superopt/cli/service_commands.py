"""Commands superopt serve, worker, keys and db."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from superopt.cli.lifetimes import lifetime
from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.server.process.serve import serve as run_server
from superopt.server.worker.loop import run_worker
from superopt.substitution_db import open_database, upgrade_database
from superopt.substitution_db.store.keys import DEFAULT_SCOPES
from superopt.substitution_db.store.records import ApiKey, JobsSeen

keys_app = typer.Typer(
    help="Manage API keys; without any, only clients on this machine are served.", no_args_is_help=True
)
db_app = typer.Typer(help="The database.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("serve")(serve)
    app.command("worker")(worker)
    app.add_typer(keys_app, name="keys")
    app.add_typer(db_app, name="db")


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 selects a free one.")
    ] = 8080,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes.")] = 1,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve HTTP and run jobs until interrupted."""
    run_server(host=host, port=port, workers=workers, database_url=database)
    Output(as_json).document({"host": host, "port": port, "workers": workers})


def worker(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Run jobs of the database's queue until interrupted."""
    run_worker(database_url=database)
    Output(as_json).document({"workers": 1})


@keys_app.command("create")
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


@keys_app.command("list")
def list_keys(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List API keys: owner, scopes, whose jobs each sees, expiry, last use (up to ten seconds late)."""
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


@keys_app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="Id as shown by `superopt keys list`.")],
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Revoke an API key."""
    output = Output(as_json)
    with open_database(database) as opened:
        revoked = opened.keys.revoke(key)
    output.document({"id": revoked.id, "name": revoked.name})
    output.line(f"revoked {revoked.id} ({revoked.name})")


@db_app.command("upgrade")
def upgrade(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Migrate the database to the newest schema."""
    output = Output(as_json)
    before, after = upgrade_database(database)
    output.document({"before": before, "after": after})
    output.line(f"schema {after}" if before == after else f"schema {before or 'none'} -> {after}")


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
