"""What Schemathesis cannot know from OpenAPI: valid models, equations, and ids and cursors that exist."""

# ruff: noqa: ARG001

from __future__ import annotations

import json
import os
import secrets

import schemathesis
from hypothesis import strategies as st
from schemathesis.transport.serialization import Binary

from tests.server.conftest import tiny_model
from tests.server.live import RULES
from tests.server.test_optimizations import CLUSTER

for name, values in json.loads(os.environ["KNOWN"]).items():
    schemathesis.openapi.format(name, st.sampled_from(values))
schemathesis.openapi.format("equation", st.sampled_from(RULES))
schemathesis.openapi.format(
    "byte-ranges", st.sampled_from(("bytes=0-3", "bytes=-2", "bytes=1-", "bytes=0-1,4-5"))
)


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, object]
) -> None:
    """Valid uploads carry a valid model and cluster, and a new idempotency key."""
    valid = case.meta is not None and case.meta.generation.mode.is_positive
    if case.operation.label != "POST /v1/optimizations" or not valid or not isinstance(case.body, dict):
        return
    given = {name: value for name, value in case.body.items() if name == "options"}
    cluster = {"cluster": Binary(CLUSTER)} if "cluster" in case.body else {}
    case.body = {"model": Binary(tiny_model()), **cluster, **given}
    if case.headers and "Idempotency-Key" in case.headers:
        case.headers = {**case.headers, "Idempotency-Key": secrets.token_hex(8)}
