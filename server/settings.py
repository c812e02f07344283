"""Settings of the service; each is read from the environment variable ``SUPEROPT_`` + its name in
capitals.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, Self

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from superopt.errors import InvalidOptionError
from superopt.server.process.logs import LogFormat

PREFIX = "SUPEROPT_"
_GIBIBYTE = 1 << 30


def _most_of_memory() -> int:
    return psutil.virtual_memory().total * 3 // 4


class Settings(BaseModel):
    """Limits and times of the service. Bytes and seconds, as the names say."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_upload_bytes: int = Field(default=8 * _GIBIBYTE, gt=0)
    """Largest request to ``POST /v1/optimizations``: the model, its external data and everything else."""

    max_upload_files: int = Field(default=1000, gt=0)
    """Most files of external data in one request."""

    max_queued_jobs: int = Field(default=1000, gt=0)
    """Jobs that may wait at one time."""

    max_model_nodes: int = Field(default=200_000, gt=0)
    """Most nodes in a model, those in subgraphs and functions included."""

    max_job_seconds: float = Field(default=3600.0, gt=0)
    """Time for a job, and the largest ``budget`` that can be asked for."""

    max_job_bytes: int = Field(default_factory=_most_of_memory, gt=0)
    """Resident memory of a job's processes; by default three quarters of the machine's."""

    max_job_attempts: int = Field(default=3, gt=0)
    """How often a job is started whose process or worker dies."""

    job_niceness: int = Field(default=5, ge=0, le=19)
    """How much nicer (as of ``nice``) processes of jobs and proofs are than the server, which so answers
    first; those that look at uploads, half as much. 0 where nothing else runs beside workers."""

    min_free_bytes: int = Field(default=_GIBIBYTE, ge=0)
    """Uploads are refused when less disk than this would be left."""

    max_wait_seconds: float = Field(default=60.0, ge=0)
    """The longest ``Prefer: wait``."""

    max_prove_seconds: float = Field(default=60.0, gt=0)
    """Time for ``POST /v1/substitutions/prove``."""

    max_proofs_at_once: int = Field(default=2, gt=0)
    """Equations that are being proved at one time."""

    max_requests_per_second: float = Field(default=100.0, gt=0)
    """Requests that each API key may send a second, in the long run."""

    max_requests_burst: int = Field(default=500, gt=0)
    """Requests that an API key which was silent may send at once."""

    retention_seconds: float = Field(default=7 * 86400.0, gt=0)
    """How long a job is kept after it ended."""

    poll_seconds: float = Field(default=0.3, gt=0)
    """How often idle workers and event streams look for news in the database."""

    lease_seconds: float = Field(default=30.0, gt=0)
    """How long a job stays with a worker that gives no sign of life."""

    heartbeat_seconds: float = Field(default=10.0, gt=0)
    """How often a worker gives a sign of life."""

    cancel_seconds: float = Field(default=10.0, ge=0)
    """How long a cancelled job may take to end by itself."""

    shutdown_seconds: float = Field(default=15.0, ge=0)
    """How long requests and workers may take to end when the service stops."""

    log_format: LogFormat = "json"
    """How logs are written to standard error: ``json``, an object per line, or ``text``."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe messages that are logged; those about probes are ``debug``."""

    optimize_file: str = Field(default="superopt.journeys.supervision:optimize_file", pattern=r"^[\w.]+:\w+$")
    """The function that does a job, as ``module:name`` (see ``superopt.server.worker.work.OptimizeFile``)."""

    plans_clusters: bool = True
    """Whether that function takes a cluster description, as that of ``superopt.journeys`` does."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The settings that the environment gives; raises InvalidOptionError for a value that makes no
        sense.
        """
        given = {
            name: environment[variable]
            for name in cls.model_fields
            if (variable := PREFIX + name.upper()) in environment
        }
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            name = PREFIX + str(first["loc"][0]).upper()
            raise InvalidOptionError(f"{name}: {first['msg']}, got {first['input']!r}") from None

    def to_environment(self) -> dict[str, str]:
        """The environment variables that give these settings to another process."""
        return {PREFIX + name.upper(): str(value) for name, value in self.model_dump().items()}


def settings_table() -> str:
    """Every setting as a row of a table in Markdown (``docs/operations.md`` holds it)."""
    rows = ["| variable | default | what |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "3/4 of memory" if field.default_factory is not None else f"`{field.default}`"
        what = " ".join((field.description or "").replace("``", "`").split())
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {what} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(settings_table() + "\n")
