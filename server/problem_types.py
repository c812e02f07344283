"""Problem types of the service, for requests and jobs, and the errors they stand for."""

from __future__ import annotations

import enum

from superopt.equations import abbreviated
from superopt.errors import (
    InvalidEquationError,
    InvalidInputError,
    InvalidModelError,
    MissingServiceError,
    SuperoptError,
)


class ProblemType(enum.Enum):
    """A kind of failure: its slug (the type URI is ``/problems/SLUG``), HTTP status and title."""

    ARCHIVE_UNAVAILABLE = ("result-unavailable", 410, "The result is no longer stored")
    BAD_REQUEST = ("bad-request", 400, "The request is malformed")
    BUSY = ("busy", 503, "The service is busy; try again later")
    CLUSTER = ("invalid-cluster", 422, "The cluster description is invalid")
    COSTLY = ("model-too-costly", 422, "Reading the model takes too much time or memory")
    CONTENT_TYPE = ("unsupported-media-type", 415, "The content type is not supported")
    CROSS_SITE = ("cross-site-request", 403, "Cross-site requests are not allowed")
    CURSOR = ("invalid-cursor", 422, "Invalid cursor")
    DATABASE = ("database-unavailable", 503, "The database is not available")
    DISK_FULL = ("disk-full", 507, "Not enough disk space")
    EQUATION = ("invalid-equation", 422, "The equation cannot be parsed or is not a valid rule")
    FORBIDDEN = ("missing-scope", 403, "The API key does not allow this")
    INTERNAL = ("internal-error", 500, "Internal error of the service")
    KEY_IN_FLIGHT = ("idempotency-key-in-flight", 409, "A request with this key is still in progress")
    KEY_REUSED = ("idempotency-key-reused", 422, "The key was used for a different request")
    METHOD = ("method-not-allowed", 405, "The method is not allowed here")
    NO_RESULT = ("no-result", 409, "The optimization has no result")
    NOT_FINISHED = ("not-finished", 409, "The optimization has not finished")
    NOT_FOUND = ("not-found", 404, "Not found")
    NOT_READY = ("not-ready", 503, "The service is not ready")
    OPTIONS = ("invalid-options", 422, "The options are invalid")
    PARAMETERS = ("invalid-parameters", 422, "The parameters are invalid")
    QUEUE_FULL = ("queue-full", 429, "Too many optimizations are waiting; try again later")
    RANGE = ("range-not-satisfiable", 416, "The range is not satisfiable")
    RATE = ("rate-limited", 429, "This API key sends too many requests; try again later")
    REMOTE = ("no-api-keys", 403, "Remote clients are not served until an API key exists")
    SLOW = ("request-timeout", 408, "The request timed out")
    UNAUTHENTICATED = ("unauthenticated", 401, "An API key is needed")
    UPLOAD = ("invalid-upload", 422, "The upload is invalid")
    UPLOAD_FILES = ("too-many-files", 413, "The upload has too many files")
    UPLOAD_TOO_LARGE = ("upload-too-large", 413, "The upload is too large")

    JOB_CRASHED = ("process-lost", 500, "The process of the optimization died")
    JOB_INPUT = ("invalid-input", 422, "The model or the options are invalid")
    JOB_INTERNAL = ("optimization-error", 500, "The optimization ended with an internal error")
    JOB_MEMORY = ("memory-limit", 422, "The optimization exceeded its memory limit")
    JOB_MODEL = ("invalid-model", 422, "The model cannot be read, or is invalid ONNX and does not run")
    JOB_NODES = ("model-too-large", 422, "The model has too many nodes")
    JOB_SERVICE = ("missing-service", 503, "A required device or runtime is missing")
    JOB_TIME = ("time-limit", 422, "The optimization exceeded its time limit")
    WORKER_LOST = ("worker-lost", 500, "The worker was lost")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title

    def document(self, detail: str, **members: object) -> dict[str, object]:
        """The problem document."""
        return {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": abbreviated(detail),
            **members,
        }


class ModelTooLargeError(InvalidModelError):
    """A model with more nodes than the service accepts."""


class OptimizationFailedError(SuperoptError):
    """An internal error of an optimization."""


class InvalidClusterError(InvalidInputError):
    """An invalid cluster description."""


def type_called(address: str) -> ProblemType:
    """The problem type with that URI (``/problems/SLUG``); INTERNAL if unknown."""
    slug = address.removeprefix("/problems/")
    return next((type_ for type_ in ProblemType if type_.slug == slug), ProblemType.INTERNAL)


def type_of(error: SuperoptError) -> ProblemType:
    """The problem type of a job's error."""
    kinds: tuple[tuple[type[SuperoptError], ProblemType], ...] = (
        (ModelTooLargeError, ProblemType.JOB_NODES),
        (InvalidModelError, ProblemType.JOB_MODEL),
        (InvalidClusterError, ProblemType.CLUSTER),
        (InvalidEquationError, ProblemType.EQUATION),
        (InvalidInputError, ProblemType.JOB_INPUT),
        (MissingServiceError, ProblemType.JOB_SERVICE),
    )
    return next((type_ for kind, type_ in kinds if isinstance(error, kind)), ProblemType.JOB_INTERNAL)
