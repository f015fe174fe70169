"""The log, as the options of oslo.log say or one JSON object per line; and the traces of requests.

Only the two JSON formats, Stead's and oslo.log's, show the fields of a record's ``extra`` (a mapping). The text lines
keep the format that existing tools parse.
"""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from oslo_context import context
from oslo_log import log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from wsgiref.types import WSGIEnvironment

    from oslo_config import cfg

    from stead.observe.metrics import Notes


# The request that a thread is processing, so that each line that is logged meanwhile names it.
#
# The thread-local store of oslo.context is unsuitable: a pool thread would keep the context after the request has
# ended, and another request's thread may run a waiting write. A context variable ends with its block, and
# :func:`contextvars.copy_context` passes it to another thread.


_describe: ContextVar[Callable[[], RequestContext] | None] = ContextVar("stead_request", default=None)


class RequestContext(context.RequestContext):
    """A request and its caller, as the formats of oslo.log expect them. It is not stored in the thread."""

    def update_store(self) -> None:
        """Do nothing; oslo.context would store the context in the thread here."""


class WorkingOn:
    """A block in which log lines name a request."""

    __slots__ = ("_describe", "_token")

    def __init__(self, describe: Callable[[], RequestContext]) -> None:
        """*describe* is called once for each line."""
        self._describe = describe

    def __enter__(self) -> None:
        self._token = _describe.set(self._describe)

    def __exit__(self, *_exception: object) -> None:
        _describe.reset(self._token)


class NameRequest(logging.Filter):
    """Gives each record the context of the request that the thread works on. For handlers: it drops no record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set ``context``; outside of requests to None, so that oslo.log does not look for another one."""
        if getattr(record, "context", None) is None:
            describe = _describe.get()
            record.context = None if describe is None else describe()
        return True


_log = logging.getLogger(__name__)

_NAME_REQUEST = NameRequest()


def set_up(conf: cfg.ConfigOpts, *, json_lines: bool, version: str, mask: Callable[[str], str]) -> None:
    """Configure logging as *conf* says; the default destination is stderr.

    Args:
        mask: removes the secrets from a line, whichever library wrote it.

    Raises:
        ValueError: the options cannot be applied; the message is one line.
    """
    if not (conf.log_file or conf.log_dir or conf.use_journal or conf.use_syslog):
        conf.set_default("use_stderr", True)  # the library would write to stdout, where commands print their results
    logging.getLogger("alembic").setLevel(logging.WARNING)  # unless default_log_levels says otherwise
    try:
        log.setup(conf, "placement", version)
    except (OSError, ValueError, RuntimeError, log.LogConfigError) as error:
        raise ValueError(f"cannot set up the log: {' '.join(str(error).split())}") from error
    sql = conf.placement_database.connection_debug
    if sql >= 50:  # not SQLAlchemy's `echo`, which writes to stdout if its logger has no handler
        logging.getLogger("sqlalchemy.engine").setLevel(logging.INFO if sql < 100 else logging.DEBUG)
    if json_lines and not conf.log_config_append:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    # After all formatters are set, because masking wraps them.
    for handler in _handlers():
        handler.addFilter(_NAME_REQUEST)
        handler.setFormatter(Masking(handler.formatter or logging.Formatter(), mask))
    if conf.log_options:
        conf.log_opt_values(_log, logging.DEBUG)


def _handlers() -> Iterator[logging.Handler]:
    """The handlers of all loggers: with ``log_config_append`` the operator may have configured any logger."""
    for logger in [logging.getLogger(), *logging.getLogger().manager.loggerDict.values()]:
        if isinstance(logger, logging.Logger):
            yield from logger.handlers


@contextmanager
def held_back(*names: str) -> Iterator[None]:
    """Delay the records of the loggers *names* and their children until the end of the block.

    Reading the configuration logs records before the log is configured.
    """
    records: list[logging.LogRecord] = []
    try:
        with _diverted(names, records):
            yield
    finally:
        # After the loggers have their handlers back, so that they get the records, also those before an error.
        for record in records:
            logging.getLogger(record.name).handle(record)


@contextmanager
def silenced(*names: str) -> Iterator[None]:
    """Drop the records of the loggers *names* and their children: the first run of the same code has logged them."""
    with _diverted(names, []):
        yield


@contextmanager
def _diverted(names: Sequence[str], records: list[logging.LogRecord]) -> Iterator[None]:
    """Append the records of the loggers *names* and their children to *records* instead of handling them."""
    loggers, collector = [logging.getLogger(name) for name in names], _Collector(records)
    for logger in loggers:
        logger.addHandler(collector)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.propagate = True
            logger.removeHandler(collector)


class _Collector(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__()
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


class Masking(logging.Formatter):
    """The output of another formatter without secrets, including the traceback, and without a sentence twice."""

    def __init__(self, formatter: logging.Formatter, mask: Callable[[str], str]) -> None:
        super().__init__()
        self._formatter = formatter.inner if isinstance(formatter, Masking) else formatter
        self._mask = mask

    @property
    def inner(self) -> logging.Formatter:
        """The wrapped formatter."""
        return self._formatter

    def format(self, record: logging.LogRecord) -> str:
        """The masked text of the record."""
        text: Any = self._formatter.format(record)
        if isinstance(text, str) and not record.exc_info:
            text = text.removesuffix(_summary_of_what_is_said(record))
        return self._masked(text)  # type: ignore[no-any-return]  # that for Fluentd makes a dict

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, dict):
            return {key: self._masked(member) for key, member in value.items()}
        if isinstance(value, list | tuple):
            return [self._masked(member) for member in value]
        return value


def _summary_of_what_is_said(record: logging.LogRecord) -> str:
    """What oslo.log appends to a warning that is logged while an error is handled, if the message has it already."""
    error = sys.exc_info()[1]
    if error is None:
        return ""
    message = record.getMessage()
    same = (str(each).partition("\n")[0] for each in (error, error.__cause__, getattr(error, "orig", None)) if each)
    if not any(words and words in message for words in same):
        return ""
    return ": " + traceback.format_exception_only(error)[0].partition("\n")[0]


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its line break."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        context = getattr(record, "context", None)
        for name in ("request_id", "global_request_id"):
            if value := getattr(context, name, None):
                line[name] = value
        line.update(getattr(record, "extra", {}))
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


# Traces: one OpenTelemetry span for each request, with its phases below it (extra ``otel``).
#
# OpenTelemetry's own environment variables, ``OTEL_…``, set the destination and the service name.


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
