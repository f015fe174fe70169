"""Refusals by the server itself, before a request reaches the application, and their format.

The format is that of the application's errors. Source: "Errors", docs/api.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Literal, get_args
from uuid import uuid4

Reason = Literal[
    "answers",
    "bad_request",
    "bodies",
    "body_timeout",
    "connections",
    "head_timeout",
    "head_too_large",
    "not_implemented",
    "proxy_protocol",
    "queue_full",
    "queue_timeout",
    "unread_answer",
]
"""A label of the metric ``stead_http_refused_total``."""

REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer to a request that the application does not receive.

    Attributes:
        status: of the answer.
        reason: one of `REASONS`, for metrics and the log.
        detail: for the client: what happened, and what to do.
        retry_after: seconds after which the client may try again.
        closes: whether the connection ends with it, since what follows cannot be parsed or is not read.
    """

    status: HTTPStatus
    reason: Reason
    detail: str
    retry_after: int | None = None
    closes: bool = True

    def closing(self) -> Refusal:
        """The same refusal, but it ends the connection."""
        return replace(self, closes=True)

    def headers_and_body(self) -> tuple[list[tuple[str, str]], bytes]:
        """The answer without its status line."""
        headers, body = error_answer(self.status, self.detail)
        if self.retry_after is not None:
            headers.append(("retry-after", str(self.retry_after)))
        return headers, body


def error_answer(status: HTTPStatus, detail: str) -> tuple[list[tuple[str, str]], bytes]:
    """Header fields and body of an error, in the form of the application's errors."""
    request_id = f"req-{uuid4()}"
    error = {"status": status.value, "title": status.phrase, "detail": detail, "request_id": request_id}
    headers = [("content-type", "application/json"), ("x-openstack-request-id", request_id)]
    return headers, json.dumps({"errors": [error]}).encode()


def bad_request(detail: str) -> Refusal:
    """The head or the framing of a body breaks HTTP/1.1."""
    return Refusal(HTTPStatus.BAD_REQUEST, "bad_request", detail)


def overloaded(reason: Reason, detail: str) -> Refusal:
    """The worker is at one of its limits; the client can use the connection again."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, reason, detail, retry_after=1, closes=False)


class Refused(Exception):
    """A request is refused; ``refusal`` is the answer."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal
