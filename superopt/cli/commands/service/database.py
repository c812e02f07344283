"""Command superopt db upgrade."""

from __future__ import annotations

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output


def register(database: typer.Typer) -> None:
    """Adds the command to those of ``superopt db``."""
    database.command("upgrade")(upgrade)


def upgrade(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Migrate the database to the newest schema."""
    from superopt.substitution_db import upgrade_database

    output = Output(as_json)
    before, after = upgrade_database(database)
    output.document({"before": before, "after": after})
    output.line(f"schema {after}" if before == after else f"schema {before or 'none'} -> {after}")
