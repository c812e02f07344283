"""Commands superopt serve and worker."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from superopt.cli.output import DatabaseOption, JsonOption, Output
from superopt.errors import InvalidOptionError, MissingServiceError

if TYPE_CHECKING:
    from superopt.server.settings import Settings

LogFormatOption = Annotated[
    str | None,
    typer.Option(
        help="Logs on standard error: text (short lines), json, or auto: text on a terminal, else JSON. "
        "Default: $SUPEROPT_LOG_FORMAT, else auto.",
        metavar="FORMAT",
    ),
]


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
    tls_certificate: Annotated[
        Path | None, typer.Option(help="Serve HTTPS with this certificate chain (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Its key (PEM); by default in the file of the certificate.")
    ] = None,
    log_format: LogFormatOption = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve HTTP and run jobs until interrupted."""
    from superopt.server.process.serve import serve as run_server
    from superopt.server.process.tls import Tls

    if tls_certificate is None and tls_key is not None:
        raise InvalidOptionError("--tls-key needs --tls-certificate")
    if workers:
        _require_runtime()
    tls = None if tls_certificate is None else Tls(tls_certificate, tls_key)
    run_server(
        host=host,
        port=port,
        workers=workers,
        database_url=database,
        settings=_settings(log_format),
        tls=tls,
    )
    Output(as_json).document({"host": host, "port": port, "workers": workers})


def worker(
    log_format: LogFormatOption = None, database: DatabaseOption = None, as_json: JsonOption = False
) -> None:
    """Run jobs of the database's queue until interrupted."""
    from superopt.server.worker.loop import run_worker

    _require_runtime()
    run_worker(database_url=database, settings=_settings(log_format))
    Output(as_json).document({"workers": 1})


def _settings(log_format: str | None) -> Settings:
    """The settings in the environment, with this log format if one is given. Raises InvalidOptionError."""
    from superopt.server.settings import PREFIX, Settings

    given = {} if log_format is None else {f"{PREFIX}LOG_FORMAT": log_format}
    return Settings.from_environment({**os.environ, **given})


def _require_runtime() -> None:
    """Raises MissingServiceError without the runtime, which workers need; they import it only for jobs."""
    if find_spec("onnxruntime") is None:
        raise MissingServiceError(
            "workers need ONNX Runtime: run `pip install onnxruntime`, or onnxruntime-gpu for CUDA"
        )
