"""OpenAPI descriptions of ``/v1/optimizations``: headers, multipart body, responses."""

from __future__ import annotations

from typing import cast

from superopt.server.http.documents import OptimizationDocument
from superopt.server.http.openapi import Responses, described, failures, success
from superopt.server.problem_types import ProblemType

SUBMIT_BODY: dict[str, object] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["model"],
                "additionalProperties": False,
                "properties": {
                    "model": {"type": "string", "format": "binary", "description": "The ONNX model."},
                    "data": {
                        "type": "array",
                        "items": {"type": "string", "format": "binary"},
                        "description": "External data; each file name is its location in the model.",
                    },
                    "cluster": {
                        "type": "string",
                        "format": "binary",
                        "description": "A cluster description, YAML or JSON.",
                    },
                    "options": {"$ref": "#/components/schemas/OptimizationOptions"},
                },
            },
            "encoding": {"options": {"contentType": "application/json"}},
        }
    },
}
SUBMIT_HEADERS: list[dict[str, object]] = [
    {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x21-\x7e]+$"},
        "description": "Repeating the request with this key within a day returns the same optimization.",
    },
    {
        "name": "Prefer",
        "in": "header",
        "schema": {"type": "string"},
        "example": "wait=30",
        "description": "Wait up to N seconds for the end; the status is then 200, not 202.",
    },
]


SUBMITTED = described(
    {
        "Location": "URL of the optimization.",
        "Preference-Applied": "The applied limit of `Prefer: wait`, in seconds.",
        "Idempotency-Expires": "When the Idempotency-Key expires.",
        "Idempotency-Replayed": "`true` when an earlier request with the same key created the optimization.",
    }
)
LINKS: dict[str, object] = {
    f"optimizations_{name}": {
        "operationId": f"optimizations_{name}",
        "parameters": {"identity": "$response.body#/id"},
    }
    for name in ("read", "cancel", "events", "model", "report")
}
_FILE_HEADERS = {
    "ETag": "The SHA-256 of the content.",
    "Accept-Ranges": "bytes",
    "Content-Disposition": "The name of the file.",
}
_IF_NONE_MATCH = ("If-None-Match", "entity-tags", "Entity tags the client has; a match gives 304.")


def _parameters(*given: tuple[str, str, str]) -> dict[str, object]:
    """Headers of a request by name, format and description."""
    return {
        "parameters": [
            {
                "name": name,
                "in": "header",
                "schema": {"type": "string", "format": format_},
                "description": text,
            }
            for name, format_, text in given
        ]
    }


READ_PARAMETERS = _parameters(_IF_NONE_MATCH)
FILE_PARAMETERS = _parameters(
    ("Range", "byte-ranges", "Requested byte range, for example `bytes=0-1023`."),
    ("If-Range", "entity-tag", "Entity tag; the range is ignored if the file has another."),
    _IF_NONE_MATCH,
)


def file_answers(*media_types: str) -> dict[int | str, dict[str, object]]:
    """The responses of a download."""
    whole = [success("The file.", media_type, headers=_FILE_HEADERS) for media_type in media_types]
    contents = [entry for answer in whole for entry in cast("dict[str, object]", answer["content"]).items()]
    part = {**_FILE_HEADERS, "Content-Range": "Byte range of this part and the size of the file."}
    return {
        200: {**whole[0], "content": dict(contents)},
        206: {
            "description": "The requested bytes.",
            "content": {**dict(contents), "multipart/byteranges": {"schema": {"type": "string"}}},
            "headers": described(part),
        },
        304: {"description": "The client has this version of the file."},
        **failures(
            ProblemType.NOT_FOUND,
            ProblemType.NOT_FINISHED,
            ProblemType.NO_RESULT,
            ProblemType.ARCHIVE_UNAVAILABLE,
            ProblemType.RANGE,
            ProblemType.PARAMETERS,
        ),
    }


OF_ONE = failures(ProblemType.NOT_FOUND, ProblemType.PARAMETERS)
READ_ANSWERS: Responses = {
    200: {"headers": described({"ETag": "Entity tag; changes with the document."})},
    304: {"description": "The document has not changed."},
    **OF_ONE,
}

SUBMIT_ANSWERS: Responses = {
    200: {
        "model": OptimizationDocument,
        "description": "The optimization ended within `Prefer: wait`, or its result was reused.",
        "headers": SUBMITTED,
        "links": LINKS,
    },
    202: {"description": "The optimization is accepted.", "headers": SUBMITTED, "links": LINKS},
    **failures(
        ProblemType.SLOW,
        ProblemType.KEY_IN_FLIGHT,
        ProblemType.KEY_REUSED,
        ProblemType.NOT_FOUND,
        ProblemType.UPLOAD,
        ProblemType.UPLOAD_TOO_LARGE,
        ProblemType.UPLOAD_FILES,
        ProblemType.CONTENT_TYPE,
        ProblemType.OPTIONS,
        ProblemType.CLUSTER,
        ProblemType.JOB_MODEL,
        ProblemType.JOB_NODES,
        ProblemType.COSTLY,
        ProblemType.PARAMETERS,
        ProblemType.JOB_SERVICE,
        ProblemType.QUEUE_FULL,
        ProblemType.DISK_FULL,
    ),
}

_EVENT: dict[str, object] = {
    "type": "object",
    "description": "An event: `data` is JSON; the new state for `state`, the latest progress for `progress`.",
    "required": ["data"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+$"},
        "event": {"enum": ["state", "progress"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
EVENT_ANSWERS: Responses = {
    200: {
        "description": "Events until the optimization ends.",
        "content": {"text/event-stream": {"schema": _EVENT}},
    },
    204: {"description": "The optimization has ended, with no event after `Last-Event-ID`."},
    **OF_ONE,
}
EVENT_PARAMETERS: dict[str, object] = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "schema": {"type": "string", "pattern": "^[0-9]{1,18}$"},
            "description": "The id of the last event received.",
        }
    ]
}
