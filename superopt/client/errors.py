"""Exceptions of the client; those reported by the service carry its problem document.

SuperoptError
├── MissingServiceError          exit 4
│   ├── ServerUnreachableError   no connection, or connections keep breaking
│   └── ServerBusyError          429, 502, 503, 504 or 507 after all retries: try again later
├── RequestError                 the service rejects a request or fails; ``problem`` says why
│   ├── RejectedError            exit 2: the request is invalid (400, 409, 411 to 416, 422)
│   ├── NotAllowedError          exit 2: the API key is missing, unknown, or lacks a scope (401, 403)
│   ├── NotFoundError            exit 2: there is no such optimization, rule or result (404, 410)
│   └── ServerFailedError        exit 1: an error of the service (500)
├── OptimizationEndedError       an optimization that ended without a result; ``problem`` says why
└── DownloadDamagedError         a download whose hash does not match
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from superopt.errors import MissingServiceError, SuperoptError

if TYPE_CHECKING:
    from superopt.client.documents import Problem

__all__ = [
    "DownloadDamagedError",
    "NotAllowedError",
    "NotFoundError",
    "OptimizationEndedError",
    "RejectedError",
    "RequestError",
    "ServerBusyError",
    "ServerFailedError",
    "ServerUnreachableError",
    "error_of",
]


class ServerUnreachableError(MissingServiceError):
    """The service cannot be reached, or connections keep breaking."""


class ServerBusyError(MissingServiceError):
    """The service is busy, after all retries."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class RequestError(SuperoptError):
    """The service rejects a request, or fails."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class RejectedError(RequestError):
    """The request is invalid."""

    exit_code = 2


class NotAllowedError(RequestError):
    """The API key is missing, unknown, or does not allow this."""

    exit_code = 2


class NotFoundError(RequestError):
    """The resource does not exist, or no longer."""

    exit_code = 2


class ServerFailedError(RequestError):
    """An error of the service."""


class OptimizationEndedError(SuperoptError):
    """An optimization that ended without a result."""

    def __init__(self, state: str, problem: Problem | None) -> None:
        ended = f"was {state}" if state == "cancelled" else state
        super().__init__(f"the optimization {ended}" + (f": {problem}" if problem else ""))
        self.problem = problem


class DownloadDamagedError(SuperoptError):
    """A download is damaged."""


_BY_STATUS: dict[int, type[RequestError | ServerBusyError]] = {
    **dict.fromkeys((401, 403), NotAllowedError),
    **dict.fromkeys((404, 410), NotFoundError),
    **dict.fromkeys((429, 502, 503, 504, 507), ServerBusyError),
}
_SERVER_ERROR = 500


def error_of(problem: Problem) -> RequestError | ServerBusyError:
    """The exception for a problem document."""
    other = RejectedError if problem.status < _SERVER_ERROR else ServerFailedError
    return _BY_STATUS.get(problem.status, other)(problem)
