"""Which request a thread is working on, so that each line logged meanwhile names it, and no other line does.

The thread-local store of oslo.context would not do: a thread of a pool keeps what is in it after the request has ended,
and a write that waits may be run by the thread of another request. A context variable ends with its block, and is
handed to another thread by :func:`contextvars.copy_context`.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from oslo_context import context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_describe: ContextVar[Callable[[], RequestContext] | None] = ContextVar("stead_request", default=None)


class RequestContext(context.RequestContext):
    """A request and its caller, as the formats of oslo.log expect them. It does not become that of the thread."""

    def update_store(self) -> None:
        """oslo.context would store it in the thread here."""


@contextmanager
def working_on(describe: Callable[[], RequestContext]) -> Iterator[None]:
    """Let the lines that are logged in the block name a request; *describe* is called once for each of them."""
    token = _describe.set(describe)
    try:
        yield
    finally:
        _describe.reset(token)


class NameRequest(logging.Filter):
    """Gives each record the context of the request that the thread works on. For handlers: it drops no record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Set ``context``, to None outside of requests: oslo.log then asks no further."""
        if getattr(record, "context", None) is None:
            describe = _describe.get()
            record.context = None if describe is None else describe()
        return True
