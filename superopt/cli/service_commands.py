"""Commands superopt serve and worker."""

from __future__ import annotations

from typing import Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("serve")(serve)
    app.command("worker")(worker)


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
    from superopt.server.process.serve import serve as run_server

    run_server(host=host, port=port, workers=workers, database_url=database)
    Output(as_json).document({"host": host, "port": port, "workers": workers})


def worker(database: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Run jobs of the database's queue until interrupted."""
    from superopt.server.worker.loop import run_worker

    run_worker(database_url=database)
    Output(as_json).document({"workers": 1})
