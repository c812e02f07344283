"""OpenTelemetry traces, enabled by the standard ``OTEL_*`` variables.

Each request is a span; each attempt at a job is a span in the trace of the submitting request.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanKind, Tracer, TracerProvider

Attribute: TypeAlias = "str | int | float"

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PARENT = "traceparent"
_log = logging.getLogger(__name__)


class Traces:
    """Creates spans and sends them to a provider, if there is one."""

    def __init__(self, tracer: Tracer | None) -> None:
        self._tracer = tracer

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Generator[RequestSpan]:
        """A span for a request, in the trace named by its headers."""
        with self._span(method, headers, "SERVER") as entry:
            yield entry

    @contextmanager
    def job(self, identity: str, parent: str | None) -> Generator[RequestSpan]:
        """A span for an attempt at a job, in the trace of the submitting request."""
        with self._span("job", {} if parent is None else {_PARENT: parent}, "CONSUMER") as entry:
            entry.set({"superopt.job.id": identity})
            yield entry

    @contextmanager
    def _span(self, name: str, carrier: Mapping[str, str], kind: str) -> Generator[RequestSpan]:
        if self._tracer is None:
            yield RequestSpan(None)
            return
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract(carrier)
        chosen: SpanKind = SpanKind[kind]
        with self._tracer.start_as_current_span(name, context=context, kind=chosen) as span:
            yield RequestSpan(span)


class RequestSpan:
    """A span, or a null object when tracing is off."""

    def __init__(self, span: Span | None) -> None:
        self._span = span

    @property
    def trace_id(self) -> str:
        """The trace id in hexadecimal; empty when tracing is off."""
        return "" if self._span is None else f"{self._span.get_span_context().trace_id:032x}"

    def rename(self, name: str) -> None:
        """Sets the name of the span; use names of low cardinality."""
        if self._span is not None:
            self._span.update_name(name)

    def set(self, attributes: Mapping[str, Attribute]) -> None:
        """Sets attributes, named by OpenTelemetry's semantic conventions where they apply."""
        if self._span is not None:
            self._span.set_attributes(attributes)

    def failed(self, why: str) -> None:
        """Marks the span as failed."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, why))


def current_parent() -> str | None:
    """The ``traceparent`` of the current span, to continue its trace elsewhere; None without a span."""
    try:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ModuleNotFoundError:
        return None
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(_PARENT)


def traces_to(provider: TracerProvider) -> Traces:
    """Traces that are sent to a provider."""
    return Traces(provider.get_tracer("superopt"))


@contextmanager
def traces_of_environment(service: str, environment: Mapping[str, str] = os.environ) -> Generator[Traces]:
    """Traces configured by the ``OTEL_*`` variables; pending spans are sent at the end of the block.

    ``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_TRACES_EXPORTER`` (``otlp``, ``console``) enables them;
    ``OTEL_SDK_DISABLED=true`` or ``OTEL_TRACES_EXPORTER=none`` disables them.
    """
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    wanted = exporter in ("otlp", "console") or (not exporter and any(map(environment.get, _ENDPOINTS)))
    if not wanted or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        yield Traces(None)
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider as SdkProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    except ModuleNotFoundError as error:
        _log.warning("tracing is disabled (%s): pip install 'superopt[otel]'", error)
        yield Traces(None)
        return
    named = environment.get("OTEL_SERVICE_NAME", service)
    provider = SdkProvider(resource=Resource.create({SERVICE_NAME: named}))
    target = ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(target))
    try:
        yield traces_to(provider)
    finally:
        provider.shutdown()
