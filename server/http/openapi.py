"""OpenAPI document: responses and failures of each operation, and what FastAPI does not derive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute

from superopt.server.http.documents import OPTIMIZATION_EXAMPLE, ProblemDocument
from superopt.server.http.problems import MEDIA_TYPE
from superopt.server.http.state import shared_state
from superopt.server.options import options_schema
from superopt.server.problem_types import ProblemType

Json: TypeAlias = "dict[str, object]"
Responses: TypeAlias = "dict[int | str, dict[str, object]]"

_ALWAYS = (ProblemType.BAD_REQUEST, ProblemType.REMOTE, ProblemType.INTERNAL, ProblemType.DATABASE)
_WITH_KEY = (
    *_ALWAYS,
    ProblemType.UNAUTHENTICATED,
    ProblemType.FORBIDDEN,
    ProblemType.CROSS_SITE,
    ProblemType.RATE,
)
WITHOUT_KEY: Json = {"security": []}
"""OpenAPI extension for operations without authentication."""

_REFERENCE = "#/components/schemas/{model}"
_RETRY = {"Retry-After": {"description": "Seconds to wait before retrying.", "schema": {"type": "integer"}}}
_WITH_RETRY = (429, 503)


def failures(*types: ProblemType) -> Responses:
    """Failure responses of an operation that needs an API key: these types and the common ones."""
    return _responses((*_WITH_KEY, *types))


def open_failures(*types: ProblemType) -> Responses:
    """Failure responses of an operation without authentication."""
    return _responses((*_ALWAYS, *types))


def success(description: str, media_type: str, *, headers: Mapping[str, str] | None = None) -> Json:
    """A successful response with a file as content; ``headers`` maps names to descriptions."""
    schema = (
        {"type": "string", "format": "binary"} if media_type != "application/json" else {"type": "object"}
    )
    return {
        "description": description,
        "content": {media_type: {"schema": schema}},
        "headers": described(headers or {}),
    }


def described(headers: Mapping[str, str]) -> Json:
    """Response headers, from names and descriptions."""
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}


def operation_id(route: APIRoute) -> str:
    """The name of an operation, from which generated clients name their functions."""
    return f"{route.tags[0]}_{route.name}" if route.tags else route.name


def document(app: FastAPI) -> Json:
    """The OpenAPI document of the application as it is served now (with or without API keys)."""
    described_ = cast("Json", app.openapi())
    components = cast("Json", described_["components"])
    schemas = cast("Json", components["schemas"])
    schemas["OptimizationOptions"] = options_schema(shared_state(app).settings)
    cast("Json", schemas["OptimizationDocument"])["examples"] = [OPTIMIZATION_EXAMPLE]
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema(ref_template=_REFERENCE)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return {
        **described_,
        "components": {
            **components,
            "securitySchemes": {"ApiKey": {"type": "http", "scheme": "bearer", "description": _KEYS}},
        },
        "security": [{"ApiKey": []}] if shared_state(app).database.keys.any_made() else [{"ApiKey": []}, {}],
    }


_KEYS = "A key made by `superopt keys create`. Not required from this machine while no key exists."


def _responses(types: tuple[ProblemType, ...]) -> Responses:
    return {status: _response(status, types) for status in sorted({type_.status for type_ in types})}


def _response(status: int, types: tuple[ProblemType, ...]) -> Json:
    mine = [type_ for type_ in dict.fromkeys(types) if type_.status == status]
    content: Json = {
        "schema": {"$ref": _REFERENCE.format(model="ProblemDocument")},
        "examples": dict(_examples(mine)),
    }
    return {
        "description": "; ".join(type_.title for type_ in mine),
        "content": {MEDIA_TYPE: content},
        **({"headers": _RETRY} if status in _WITH_RETRY else {}),
    }


def _examples(types: list[ProblemType]) -> Iterator[tuple[str, Json]]:
    for type_ in types:
        yield type_.slug, {"value": type_.document(type_.title)}
