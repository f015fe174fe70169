"""One kept-alive connection to a server, with the duration of each answer."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stead_bench.errors import BenchError, Overdue, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

PATIENCE = 60.0
"""Seconds to wait for an answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, and the seconds from sending the request to reading the last byte."""

    seconds: float
    headers: list[tuple[str, str]]
    body: bytes


class Connection:
    """Sends requests to one server, one after the other. Not thread-safe."""

    def __init__(self, url: str, headers: Mapping[str, str], patience: float = PATIENCE) -> None:
        """Nothing is connected yet.

        Raises:
            BenchError: *url* is no HTTP URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise BenchError(f"a server's URL begins with http:// or https:// and a host, not {url}")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.patience = patience
        self._prefix = parts.path.rstrip("/")
        self._headers = dict(headers)
        self._connection = kind(parts.hostname, parts.port, timeout=patience)

    def close(self) -> None:
        """Hang up; the next request calls again."""
        self._connection.close()

    def get(self, target: str, headers: Mapping[str, str] | None = None) -> Reply:
        """Ask for *target*, with *headers* instead of those of the connection.

        Raises:
            Refused: the answer is not 200.
            Overdue: no answer in time. The connection is given up; the server may well go on working.
            BenchError: there is no server.
        """
        return self._send("GET", target, None, self._headers if headers is None else headers, (HTTPStatus.OK,))

    def read(self, target: str) -> Any:
        """The JSON at *target*; raises as :meth:`get`."""
        return json.loads(self.get(target).body)

    def put(self, target: str, body: object = None) -> Any:
        """PUT *body*; returns the decoded answer, None if it has none. Raises as :meth:`get`, for 400 and more."""
        return self._write("PUT", target, body)

    def post(self, target: str, body: object) -> Any:
        """POST *body*; as :meth:`put`."""
        return self._write("POST", target, body)

    def delete(self, target: str) -> None:
        """DELETE *target*; raises as :meth:`put`."""
        self._write("DELETE", target, None)

    def _write(self, method: str, target: str, body: object) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        headers = self._headers if sent is None else {**self._headers, "Content-Type": "application/json"}
        answer = self._send(method, target, sent, headers, _WRITTEN).body
        return json.loads(answer) if answer else None

    def _send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], good: tuple[HTTPStatus, ...]
    ) -> Reply:
        began = time.perf_counter()
        try:
            self._connection.request(method, self._prefix + target, body, dict(headers))
            response = self._connection.getresponse()
            content = response.read()
        except TimeoutError as error:
            self.close()
            raise Overdue(f"no answer within {self.patience:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise BenchError(f"the connection failed: {error or type(error).__name__}") from error
        seconds = time.perf_counter() - began
        if response.status not in good:
            raise Refused(response.status, f"{method} {target}: {content[:500].decode(errors='replace')}")
        return Reply(seconds, response.getheaders(), content)


_WRITTEN = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT)
