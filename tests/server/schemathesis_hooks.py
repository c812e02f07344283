"""What Schemathesis cannot know from OpenAPI: valid models, equations, and ids and cursors that exist."""

# ruff: noqa: ARG001

from __future__ import annotations

import json
import os
import secrets

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import Failure
from schemathesis.transport.serialization import Binary

from tests.server.conftest import tiny_model
from tests.server.live import RULES
from tests.server.test_optimizations import CLUSTER

OPEN_DIMENSION = "batch"
VALUES = {
    **json.loads(os.environ["KNOWN"]),
    "byte-ranges": ("bytes=0-3", "bytes=-2", "bytes=1-", "bytes=0-1,4-5"),
    "equation": RULES,
    "onnx-model": [Binary(tiny_model(shape=(OPEN_DIMENSION, 4)))],
    "cluster": [Binary(CLUSTER)],
}
for name, values in VALUES.items():
    schemathesis.openapi.format(name, st.sampled_from(values))


@schemathesis.hook
def before_load_schema(context: schemathesis.HookContext, raw_schema: dict[str, object]) -> None:
    """A valid upload has a valid model and cluster, and data that the model uses: here none."""
    submit = raw_schema["paths"]["/v1/optimizations"]["post"]  # type: ignore[index]
    parts = submit["requestBody"]["content"]["multipart/form-data"]["schema"]["properties"]
    parts["model"]["format"] = "onnx-model"
    parts["cluster"]["format"] = "cluster"
    del parts["data"]
    options = raw_schema["components"]["schemas"]["OptimizationOptions"]  # type: ignore[index]
    options["properties"]["dim"]["propertyNames"] = {"enum": [OPEN_DIMENSION]}
    options["properties"]["freeze"]["maxProperties"] = 0
    # Others ask for a cluster, or for none.
    options["properties"]["objective"]["enum"] = ["latency"]
    options["properties"]["search"]["enum"] = ["auto"]
    options["properties"]["runtime"]["enum"] = ["portable"]
    del options["properties"]["training"]


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, object]
) -> None:
    """A valid request has a key of its own, and with a cluster the size of the open dimension."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = secrets.token_hex(8)
    if isinstance(case.body, dict) and "cluster" in case.body:
        options = case.body.get("options", {})
        case.body = {**case.body, "options": {**options, "dim": options.get("dim") or {OPEN_DIMENSION: 2}}}


@schemathesis.hook
def filter_failure(
    context: schemathesis.HookContext,
    failure: Failure,
    case: schemathesis.Case,
    response: schemathesis.Response,
) -> bool:
    """Some bytes of a JSON document (206) are no JSON document."""
    return response.status_code != 206
