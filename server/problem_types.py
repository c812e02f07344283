"""Every failure that the service reports, of requests and of jobs, and which errors they are."""

from __future__ import annotations

import enum

from superopt.errors import (
    InvalidEquationError,
    InvalidInputError,
    InvalidModelError,
    MissingServiceError,
    SuperoptError,
)


class ProblemType(enum.Enum):
    """Every failure that the service reports: its slug (the type is ``/problems/SLUG``), status and title."""

    ARCHIVE_UNAVAILABLE = ("result-unavailable", 410, "The result is no longer stored")
    BAD_REQUEST = ("bad-request", 400, "The request cannot be understood")
    BUSY = ("busy", 503, "Too much is being done at this moment; try again later")
    CLUSTER = ("invalid-cluster", 422, "The cluster description cannot be used")
    COSTLY = ("model-too-costly", 422, "Reading the model takes too much time or memory")
    CONTENT_TYPE = ("unsupported-media-type", 415, "The content type is not supported")
    CROSS_SITE = ("cross-site-request", 403, "A page of another site may not send this request")
    CURSOR = ("invalid-cursor", 422, "The cursor is none that this list gave")
    DATABASE = ("database-unavailable", 503, "The database does not answer")
    DISK_FULL = ("disk-full", 507, "There is not enough disk left to accept this")
    EQUATION = ("invalid-equation", 422, "The equation cannot be read, or cannot be a rule")
    FORBIDDEN = ("missing-scope", 403, "The API key does not allow this")
    INTERNAL = ("internal-error", 500, "Something is wrong in the service")
    KEY_IN_FLIGHT = ("idempotency-key-in-flight", 409, "The first request with this key is still under way")
    KEY_REUSED = ("idempotency-key-reused", 422, "This key was used for another request")
    METHOD = ("method-not-allowed", 405, "The method is not allowed here")
    NO_RESULT = ("no-result", 409, "The optimization has no result")
    NOT_FINISHED = ("not-finished", 409, "The optimization has not finished")
    NOT_FOUND = ("not-found", 404, "There is nothing here")
    NOT_READY = ("not-ready", 503, "The service is not ready")
    OPTIONS = ("invalid-options", 422, "The options cannot be used")
    PARAMETERS = ("invalid-parameters", 422, "The parameters cannot be used")
    QUEUE_FULL = ("queue-full", 429, "Too many optimizations are waiting; try again later")
    RANGE = ("range-not-satisfiable", 416, "The file has no such range")
    RATE = ("rate-limited", 429, "This API key sends too many requests; try again later")
    REMOTE = ("no-api-keys", 403, "Only this machine is served until an API key is made")
    SLOW = ("request-timeout", 408, "The request did not arrive in time")
    UNAUTHENTICATED = ("unauthenticated", 401, "An API key is needed")
    UPLOAD = ("invalid-upload", 422, "The upload cannot be used")
    UPLOAD_FILES = ("too-many-files", 413, "The upload has too many files")
    UPLOAD_TOO_LARGE = ("upload-too-large", 413, "The upload is too large")

    JOB_CRASHED = ("process-lost", 500, "The process of the optimization died")
    JOB_INPUT = ("invalid-input", 422, "The model or the options cannot be used")
    JOB_INTERNAL = ("optimization-error", 500, "The optimization ended with an internal error")
    JOB_MEMORY = ("memory-limit", 422, "The optimization needed too much memory")
    JOB_MODEL = ("invalid-model", 422, "The model cannot be read, or is no valid ONNX and does not run")
    JOB_NODES = ("model-too-large", 422, "The model has too many nodes")
    JOB_SERVICE = ("missing-service", 503, "A device or runtime that is needed is not there")
    JOB_TIME = ("time-limit", 422, "The optimization took too long")
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
            "detail": detail,
            **members,
        }


class ModelTooLargeError(InvalidModelError):
    """A model with more nodes than the service takes."""


class InvalidClusterError(InvalidInputError):
    """A cluster description that cannot be used."""


def type_called(address: str) -> ProblemType:
    """The type with that address (``/problems/SLUG``); INTERNAL if there is none."""
    slug = address.removeprefix("/problems/")
    return next((type_ for type_ in ProblemType if type_.slug == slug), ProblemType.INTERNAL)


def type_of(error: SuperoptError) -> ProblemType:
    """The type of problem that an error of a job is."""
    kinds: tuple[tuple[type[SuperoptError], ProblemType], ...] = (
        (ModelTooLargeError, ProblemType.JOB_NODES),
        (InvalidModelError, ProblemType.JOB_MODEL),
        (InvalidClusterError, ProblemType.CLUSTER),
        (InvalidEquationError, ProblemType.EQUATION),
        (InvalidInputError, ProblemType.JOB_INPUT),
        (MissingServiceError, ProblemType.JOB_SERVICE),
    )
    return next((type_ for kind, type_ in kinds if isinstance(error, kind)), ProblemType.JOB_INTERNAL)
