"""Settings of the service, read from environment variables: ``SUPEROPT_`` + the name in capitals."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal, Self

import psutil
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from superopt.errors import InvalidOptionError
from superopt.processes.logs import LogFormat

PREFIX = "SUPEROPT_"
_GIBIBYTE = 1 << 30


def _most_of_memory() -> int:
    return psutil.virtual_memory().total * 3 // 4


class Settings(BaseModel):
    """Limits and times of the service, in bytes and seconds as the names say."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    max_upload_bytes: int = Field(default=8 * _GIBIBYTE, gt=0)
    """Largest request to ``POST /v1/optimizations``: the model, its external data and everything else."""

    max_upload_files: int = Field(default=1000, gt=0)
    """Maximum number of external data files in one request."""

    max_queued_jobs: int = Field(default=1000, gt=0)
    """Maximum number of queued jobs."""

    max_model_nodes: int = Field(default=200_000, gt=0)
    """Maximum number of nodes in a model, including subgraphs and functions."""

    max_job_seconds: float = Field(default=3600.0, gt=0)
    """Time limit of a job, and the largest ``budget``."""

    max_job_bytes: int = Field(default_factory=_most_of_memory, gt=0)
    """Limit of the resident memory of a job's processes; by default 3/4 of the machine's memory."""

    max_job_attempts: int = Field(default=3, gt=0)
    """Maximum number of attempts at a job whose process or worker dies."""

    job_niceness: int = Field(default=5, ge=0, le=19)
    """Niceness of job and proof processes relative to the server; half of it for upload checks. Use 0 on
    machines that run only workers."""

    min_free_bytes: int = Field(default=_GIBIBYTE, ge=0)
    """Uploads are rejected if they would leave less free disk space than this."""

    max_wait_seconds: float = Field(default=60.0, ge=0)
    """Largest ``Prefer: wait``."""

    max_prove_seconds: float = Field(default=60.0, gt=0)
    """Time limit of ``POST /v1/substitutions/prove``."""

    max_proofs_at_once: int = Field(default=2, gt=0)
    """Maximum number of concurrent proofs."""

    max_requests_per_second: float = Field(default=100.0, gt=0)
    """Sustained rate limit of each API key, in requests per second."""

    max_requests_burst: int = Field(default=500, gt=0)
    """Burst limit of each API key, in requests."""

    retention_seconds: float = Field(default=7 * 86400.0, gt=0)
    """How long a job is kept after its end."""

    poll_seconds: float = Field(default=0.3, gt=0)
    """Polling interval of idle workers and event streams."""

    lease_seconds: float = Field(default=30.0, gt=0)
    """How long a worker keeps a job without a heartbeat."""

    heartbeat_seconds: float = Field(default=10.0, gt=0)
    """Heartbeat interval of workers."""

    cancel_seconds: float = Field(default=10.0, ge=0)
    """Grace period of a cancelled job before it is killed."""

    shutdown_seconds: float = Field(default=15.0, ge=0)
    """Grace period of requests and workers when the service stops."""

    log_format: LogFormat = "auto"
    """Log format on standard error: ``json`` (one object per line), ``text`` (short lines for people), or
    ``auto``: text on a terminal, else JSON."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest log level that is written; health probes are logged at ``debug``."""

    trusted_proxies: str = "127.0.0.1"
    """Addresses or networks of reverse proxies, with commas between: their ``X-Forwarded-For`` and
    ``X-Forwarded-Proto`` count."""

    optimize_file: str = Field(default="superopt.journeys.supervision:optimize_file", pattern=r"^[\w.]+:\w+$")
    """The function that runs a job, as ``module:name`` (see ``superopt.server.worker.work.OptimizeFile``)."""

    plans_clusters: bool = True
    """Whether that function accepts a cluster description, as the one of ``superopt.journeys`` does."""

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        """Raises ValueError unless these are networks. Not all addresses: anybody could claim to be local."""
        for part in text.split(","):
            if ipaddress.ip_network(part.strip(), strict=False).prefixlen == 0:
                raise ValueError("expected networks smaller than all addresses")
        return text

    @model_validator(mode="after")
    def _heartbeats_keep_leases(self) -> Self:
        """Raises ValueError unless a lease outlives a missed heartbeat."""
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            least = 2 * self.heartbeat_seconds
            raise ValueError(
                f"expected lease_seconds of at least twice heartbeat_seconds ({least:g}), "
                f"got {self.lease_seconds:g}"
            )
        return self

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The settings in the environment. Raises InvalidOptionError for an invalid value."""
        given = {
            name: environment[variable]
            for name in cls.model_fields
            if (variable := PREFIX + name.upper()) in environment
        }
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            if not first["loc"]:
                raise InvalidOptionError(f"settings: {first['msg']}") from None
            name = PREFIX + str(first["loc"][0]).upper()
            raise InvalidOptionError(f"{name}: {first['msg']}, got {first['input']!r}") from None

    def to_environment(self) -> dict[str, str]:
        """Environment variables that pass these settings to another process."""
        return {PREFIX + name.upper(): str(value) for name, value in self.model_dump().items()}


def misspelt(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that look like a setting but are none, each with the setting that it resembles."""
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    others = [name for name in environment if name.startswith(PREFIX) and name not in known]
    near = {name: get_close_matches(name, known, n=1, cutoff=0.9) for name in others}
    return {name: found[0] for name, found in near.items() if found}


def settings_table() -> str:
    """All settings as a Markdown table (included in ``docs/operations.md``)."""
    rows = ["| variable | default | what |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = "3/4 of memory" if field.default_factory is not None else f"`{field.default}`"
        what = " ".join((field.description or "").replace("``", "`").split())
        rows.append(f"| `{PREFIX}{name.upper()}` | {default} | {what} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(settings_table() + "\n")
