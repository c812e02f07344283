"""Problem documents (RFC 9457) for requests that fail."""

from __future__ import annotations

import errno
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import cast

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from superopt.errors import MissingServiceError
from superopt.server.page.problem_page import PROBLEM_POLICY, prefers_html, problem_page
from superopt.server.problem_types import ProblemType
from superopt.server.worker.device import UnknownDeviceError
from superopt.substitution_db.store.engine import DatabaseFullError

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger(__name__)


class Problem(Exception):  # noqa: N818 - what it carries is the answer
    """Exception that ends a request with a problem document."""

    def __init__(
        self,
        type_: ProblemType,
        detail: str,
        *,
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.type = type_
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    def response(self, request: Request) -> Response:
        """The response with the problem document; a page for people who open an address in a browser."""
        document = self.type.document(self.detail, instance=request.url.path)
        if self.errors:
            document["errors"] = list(self.errors)
        headers = {**self.headers, "Vary": "Accept"}
        if request.method == "GET" and prefers_html(request.headers.get("accept", "")):
            headers["Content-Security-Policy"] = PROBLEM_POLICY
            return HTMLResponse(problem_page(document), self.type.status, headers)
        return JSONResponse(document, self.type.status, headers, MEDIA_TYPE)


def install(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Installs exception handlers that turn every failure of the application into a problem document."""
    routes = (route for router in routers for route in router.routes)
    app.state.routes = [route for route in routes if isinstance(route, APIRoute)]
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(MissingServiceError, _missing)
    app.add_exception_handler(OSError, _disk)
    app.add_exception_handler(Exception, internal)


def field_errors(error: RequestValidationError | ValueError, drop: int = 0) -> list[dict[str, str]]:
    """Location and message of each error in a pydantic error, without the first ``drop`` location parts."""
    found = cast("Sequence[Mapping[str, object]]", getattr(error, "errors", list)())
    return [
        {
            "field": ".".join(str(part) for part in cast("tuple[object, ...]", entry["loc"])[drop:]),
            "detail": str(entry["msg"]),
        }
        for entry in found
    ]


def sentence(errors: Sequence[Mapping[str, str]]) -> str:
    """The first of ``field_errors`` as one line of text."""
    first = errors[0]
    return f"{first['field']}: {first['detail']}" if first["field"] else first["detail"]


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response(request)


_SHOWN_CHARACTERS = 200
_BY_STATUS = {404: ProblemType.NOT_FOUND, 405: ProblemType.METHOD, 415: ProblemType.CONTENT_TYPE}


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    type_ = _BY_STATUS.get(error.status_code, ProblemType.BAD_REQUEST)
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        type_ = ProblemType.INTERNAL
    headers = dict(error.headers or {})
    if type_ is ProblemType.METHOD:
        headers["Allow"] = ", ".join(_allowed(request))
    detail = f"{request.method} {request.url.path}: {error.detail}"
    if type_ is ProblemType.NOT_FOUND:
        detail = f"there is nothing at {request.url.path[:_SHOWN_CHARACTERS]}"
    return Problem(type_, detail, headers=headers).response(request)


def _allowed(request: Request) -> list[str]:
    """The methods allowed at the request's path; a literal path precedes one with parameters."""
    routes = cast("list[APIRoute]", request.app.state.routes)
    matching = [route for route in routes if route.path_regex.match(request.url.path)]
    fewest = min((len(route.param_convertors) for route in matching), default=0)
    found = (route.methods or () for route in matching if len(route.param_convertors) == fewest)
    methods = set[str]().union(*found)
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


def _validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = _problem_of_body(request, error)
    if found is None:
        errors = field_errors(error, drop=1)
        found = Problem(ProblemType.PARAMETERS, sentence(errors), errors=errors)
    return found.response(request)


def _problem_of_body(request: Request, error: RequestValidationError) -> Problem | None:
    """The problem of a whole body that is missing, or no JSON object; None for an error of a field."""
    first = cast("Sequence[Mapping[str, object]]", error.errors())[0]
    place, kind = cast("tuple[object, ...]", first["loc"]), first["type"]
    if kind == "json_invalid":
        reason = cast("Mapping[str, str]", first["ctx"])["error"]
        return Problem(ProblemType.BAD_REQUEST, f"the body is not JSON: {reason}, at character {place[-1]}")
    if place != ("body",):
        return None
    if kind == "missing":
        return Problem(ProblemType.PARAMETERS, "expected a JSON object as the body, got none")
    if isinstance(error.body, bytes):
        sent = request.headers.get("content-type", "").partition(";")[0][:_SHOWN_CHARACTERS]
        detail = f"expected content of the type application/json, got {sent or 'none'}"
        return Problem(ProblemType.CONTENT_TYPE, detail)
    return Problem(ProblemType.PARAMETERS, "expected a JSON object as the body, got another JSON value")


def _missing(request: Request, error: Exception) -> Response:
    _log.error("%s %s: %s", request.method, request.url.path, error)
    if isinstance(error, DatabaseFullError):
        return _full(request)
    if isinstance(error, UnknownDeviceError):
        headers = {"Retry-After": "60"}
        return Problem(ProblemType.JOB_SERVICE, str(error), headers=headers).response(request)
    detail = "the database is not available; try again later"
    return Problem(ProblemType.DATABASE, detail, headers={"Retry-After": "5"}).response(request)


def _disk(request: Request, error: Exception) -> Response:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        _log.error("%s %s: %s", request.method, request.url.path, error)
        return _full(request)
    return internal(request, error)


def _full(request: Request) -> Response:
    detail = "the disk of the service is full; try again later"
    return Problem(ProblemType.DISK_FULL, detail, headers={"Retry-After": "60"}).response(request)


def internal(request: Request, error: Exception) -> Response:
    """The response to a request that hit an internal error, logged under a number."""
    number = secrets.token_hex(8)
    _log.error("%s %s: internal error %s", request.method, request.url.path, number, exc_info=error)
    return Problem(ProblemType.INTERNAL, f"report error number {number}; the log has the details").response(
        request
    )
