"""Traces: one OpenTelemetry span for each request, with its phases below it (extra ``otel``).

OpenTelemetry's own environment variables, ``OTEL_…``, set the destination and the service name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

    from stead.observe.notes import Notes


class Tracing:
    """Turns requests into spans; a watcher. The caller's span (``traceparent``) becomes the parent."""

    def __init__(self, provider: Any = None) -> None:
        """*provider*: an OpenTelemetry TracerProvider; one that exports by OTLP over HTTP if None.

        Raises:
            ImportError: the extra is not installed.
        """
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider or _exporting()
        self._tracer = self._provider.get_tracer("stead")
        self._parents = TraceContextTextMapPropagator()
        self._as_parent = trace.set_span_in_context
        self._server = trace.SpanKind.SERVER
        self._error = trace.StatusCode.ERROR

    def __call__(self, environ: WSGIEnvironment, notes: Notes) -> None:
        """Create the spans of one request."""
        sent = {
            name: environ[key]
            for name, key in (("traceparent", "HTTP_TRACEPARENT"), ("tracestate", "HTTP_TRACESTATE"))
            if key in environ
        }
        method = environ["REQUEST_METHOD"]
        span = self._tracer.start_span(
            f"{method} {notes.route}" if notes.route else method,
            context=self._parents.extract(sent),
            kind=self._server,
            start_time=notes.began_wall,
            attributes=_attributes(environ, notes),
        )

        def wall(moment: float) -> int:
            return notes.began_wall + int((moment - notes.began) * 1e9)

        if span.is_recording():
            below = self._as_parent(span)
            for name, begin, end in notes.spans():
                self._tracer.start_span(name, context=below, start_time=wall(begin)).end(wall(end))
        if notes.status >= 500:
            span.set_status(self._error)
        span.end(wall(notes.ended))

    def close(self) -> None:
        """Send the spans that are still queued."""
        self._provider.shutdown()


def _attributes(environ: WSGIEnvironment, notes: Notes) -> dict[str, str | int]:
    """Source: OpenTelemetry's semantic conventions for HTTP servers; attributes ``stead.…`` are Stead's own."""
    attributes: dict[str, str | int | None] = {
        "http.request.method": environ["REQUEST_METHOD"],
        "http.route": notes.route,
        "http.response.status_code": notes.status,
        "url.path": environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""),
        "url.scheme": environ.get("wsgi.url_scheme"),
        "client.address": environ.get("REMOTE_ADDR"),
        "error.type": notes.error if notes.status >= 500 else None,
        "stead.error": notes.error,
        "stead.project": notes.project,
        "stead.microversion": notes.microversion,
        "stead.candidates": notes.candidates,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _exporting() -> Any:
    import os

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "stead")}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
