"""The threads that run the application: each takes a request, answers it, and takes the next one."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from stead.httpd.wsgi import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.types import WSGIApplication

    from stead.httpd.requests import Request

_log = logging.getLogger(__name__)


class Pool:
    """Threads over one queue."""

    def __init__(
        self,
        application: WSGIApplication,
        threads: int,
        take: Callable[[], Request | None],
        done: Callable[[Request, bool], Request | None],
        accept: Callable[[Request], None],
        name: str = "request",
    ) -> None:
        """Start the threads.

        Args:
            take: waits for a request; None ends the thread.
            done: ends a request, with whether its credential was refused, and returns the next request if any may run.
            accept: called when the application has accepted the credential of a request.
        """
        self._application = application
        self._take = take
        self._done = done
        self._accept = accept
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    def _work(self) -> None:
        while (request := self._take()) is not None:
            while request is not None:
                request = self._done(request, answer(self._application, request, self._accept))


def answer(
    application: WSGIApplication, request: Request, accept: Callable[[Request], None] = lambda _request: None
) -> bool:
    """Answer *request* in this thread. Returns whether its credential was refused."""
    made = run(application, request, accept)
    try:
        request.answering.deliver(made)
    except Exception:  # the thread must survive
        _log.exception("an answer was not sent")
    return made.status.startswith("401")
