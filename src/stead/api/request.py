"""The request and the response as handlers see them."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import falcon

from stead.api.versions import OLDEST, Agreed, Microversion, SteadVersion
from stead.candidates.phases import UNTIMED, Timed
from stead.observe.notes import NOTES_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stead.candidates.phases import Phases

REQUEST_ID_KEY = "stead.request_id"
"""The environ key under which the outermost middleware stores the request's id."""

Response = falcon.Response

_PART = 64 * 1024
"""Bytes per read of a body whose length is unknown."""


class BodyTooLong(Exception):
    """The body is longer than the limit."""


class BodyIncomplete(Exception):
    """The connection ended before the end of the body."""


class Request(falcon.Request):
    """A request, with the results of the checks before its handler.

    ``agreed`` are the negotiated versions. ``negotiated`` says whether they are determined yet; until then errors show
    no version.
    ``longest_body`` is in bytes.
    ``hidden`` is the version of Stead's own features that has the path, if the request does not have that version.
    ``require`` evaluates a policy rule, with a target if it is not the caller's own project; it raises Forbidden.
    """

    agreed: Agreed = Agreed(OLDEST)
    negotiated: bool = False
    longest_body: int = sys.maxsize
    hidden: SteadVersion | None = None
    require: Callable[[str, Mapping[str, Any] | None], None]

    def __init__(self, env: dict[str, Any], options: falcon.RequestOptions | None = None) -> None:
        super().__init__(env, options)
        # Replaced like bytes that cannot be decoded: PostgreSQL would reject a query for a name with NUL.
        if "\0" in self.path:
            self.path = self.path.replace("\0", "\ufffd")

    @property
    def version(self) -> Microversion:
        """The negotiated microversion."""
        return self.agreed.placement

    @property
    def stead(self) -> SteadVersion | None:
        """The version of Stead's own features; None if not requested."""
        return self.agreed.stead

    @property
    def id(self) -> str:
        """The request's id in logs, headers and errors."""
        return str(self.env.get(REQUEST_ID_KEY, ""))

    def note(self, **facts: Any) -> None:
        """Report facts to the watchers; their names are those of the fields of `Notes`."""
        notes = self.env.get(NOTES_KEY)
        if notes is not None:
            for name, fact in facts.items():
                setattr(notes, name, fact)

    def phases(self) -> Phases:
        """Records the durations of the phases of a query that begins now."""
        notes = self.env.get(NOTES_KEY)
        if notes is None:
            return UNTIMED
        notes.phases_began = time.perf_counter()
        return Timed(notes.marks)

    @property
    def accepted(self) -> str | None:
        """The Accept header; None if it is absent, empty, or exactly ``*/*``."""
        header = self.env.get("HTTP_ACCEPT", "").strip()
        return None if header in ("", "*/*") else str(header)

    def read_all(self) -> bytes:
        """The complete body. A chunked body declares no length; the server marks its end.

        Raises:
            BodyIncomplete: it is shorter than its Content-Length.
            BodyTooLong: it is longer than ``longest_body``. The rest was not read.
        """
        chunked = (
            self.env.get("wsgi.input_terminated") or "chunked" in self.env.get("HTTP_TRANSFER_ENCODING", "").lower()
        )
        stream = self.stream if chunked and not self.env.get("CONTENT_LENGTH") else self.bounded_stream
        if stream is self.bounded_stream:
            whole = bytes(stream.read())
            if len(whole) < (self.content_length or 0):
                raise BodyIncomplete(f"The body ended after {len(whole)} of {self.content_length} bytes.")
            return whole
        body = bytearray()
        while part := stream.read(_PART):
            body += part
            if len(body) > self.longest_body:
                raise BodyTooLong(self.longest_body)
        return bytes(body)
