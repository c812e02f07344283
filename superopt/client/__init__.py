"""Clients of the service: ``Client`` is synchronous, ``AsyncClient`` asynchronous, with the same methods.

with Client("http://127.0.0.1:8080") as client:
    job = client.submit("model.onnx", options={"budget": 60})
    if client.wait(job.id).succeeded:
        client.download_model(job.id, "faster.onnx")
"""

from superopt.client.asynchronous import AsyncClient
from superopt.client.calls import Retries
from superopt.client.documents import (
    Event,
    File,
    Judgement,
    Optimization,
    Outcome,
    Problem,
    Substitution,
)
from superopt.client.errors import (
    DownloadDamagedError,
    NotAllowedError,
    NotFoundError,
    OptimizationEndedError,
    RejectedError,
    RequestError,
    ServerBusyError,
    ServerFailedError,
    ServerUnreachableError,
)
from superopt.client.sync import Client

__all__ = [
    "AsyncClient",
    "Client",
    "DownloadDamagedError",
    "Event",
    "File",
    "Judgement",
    "NotAllowedError",
    "NotFoundError",
    "Optimization",
    "OptimizationEndedError",
    "Outcome",
    "Problem",
    "RejectedError",
    "RequestError",
    "Retries",
    "ServerBusyError",
    "ServerFailedError",
    "ServerUnreachableError",
    "Substitution",
]
