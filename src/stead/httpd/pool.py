"""The threads that run the application: each takes a request, answers it, and takes the next."""

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
        name: str = "request",
    ) -> None:
        """They run from now on.

        Args:
            take: waits for a request; None ends the thread.
            done: ends a request, whose credential was accepted or not, and takes another one if there is one.
        """
        self._application = application
        self._take = take
        self._done = done
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    def _work(self) -> None:
        while (request := self._take()) is not None:
            while request is not None:
                request = self._done(request, self._answer(request))

    def _answer(self, request: Request) -> bool:
        answer = run(self._application, request)
        try:
            request.answering.deliver(answer)
        except Exception:  # the thread must live on
            _log.exception("an answer was not sent")
        return not answer.status.startswith("401")
