"""The request that a thread is processing, so that each line that is logged meanwhile names it.

The thread-local store of oslo.context is unsuitable: a pool thread would keep the context after the request has ended,
and another request's thread may run a waiting write. A context variable ends with its block, and
:func:`contextvars.copy_context` passes it to another thread.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

from oslo_context import context

if TYPE_CHECKING:
    from collections.abc import Callable

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
