"""Commands superopt serve, worker, keys and db."""

from __future__ import annotations

from typing import Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.server.process.serve import serve as run_server
from superopt.server.worker.loop import run_worker
from superopt.substitution_db import open_database, upgrade_database

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
        list[str] | None, typer.Option(help="Scope: submit, read or admin; may be repeated.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an API key; its token is shown only once."""
    output = Output(as_json)
    with open_database(database) as opened:
        made = opened.keys.create(name, tuple(scope)) if scope else opened.keys.create(name)
    output.document(
        {"id": made.key.id, "name": made.key.name, "scopes": list(made.key.scopes), "token": made.token}
    )
    output.line(made.token)


@keys_app.command("list")
def list_keys(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """List API keys."""
    output = Output(as_json)
    with open_database(database) as opened:
        keys = opened.keys.list()
    output.document(
        [
            {
                "id": key.id,
                "name": key.name,
                "scopes": list(key.scopes),
                "created_at": key.created_at.isoformat(),
                "revoked_at": key.revoked_at and key.revoked_at.isoformat(),
            }
            for key in keys
        ]
    )
    output.table(
        ("id", "name", "scopes", "created", "revoked"),
        [
            (
                k.id,
                k.name,
                " ".join(k.scopes),
                f"{k.created_at:%Y-%m-%d}",
                k.revoked_at and f"{k.revoked_at:%Y-%m-%d}",
            )
            for k in keys
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
