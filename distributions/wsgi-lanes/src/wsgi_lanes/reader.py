"""Parses the bytes of one connection, which arrive in arbitrary pieces, into requests. No I/O.

The parser is llhttp, by httptools; the rules beyond its grammar are below.

A client must not choose pieces that cost more memory than the bounds promise. So bytes behind a complete request are
kept as they are until that request is answered, and everything else that the reader allocates is counted.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urlsplit

import httptools

from wsgi_lanes.answers import Refusal, Refused, bad_request, overloaded
from wsgi_lanes.requests import FREE_SIZE, Request

if TYPE_CHECKING:
    from wsgi_lanes.bounds import Bounds, Budget
    from wsgi_lanes.requests import AnswerReceiver, Peers, Routes


TLS_HANDSHAKE = 0x16
"""The first byte of a client that speaks TLS."""

PIPELINED = 100
"""Requests that a client may pipeline in one piece. If it sends more, the connection ends after these answers."""

SLICE = 4096
"""Bytes that the parser gets at a time. It cannot stop at the end of a request, so this limits what it reads ahead."""

REQUEST_SIZE = 2048
"""Bytes that a request allocates beside the text of its head, its fields and its body."""

FIELD_SIZE = 320
"""Bytes that a header field allocates beside its text: two strings, and its place in a dictionary that grows."""

NOTHING = memoryview(b"")
"""An empty view of received bytes would keep all of them in memory."""


class Reader:
    """Reads the requests of one connection.

    Attributes:
        read: complete requests and refusals, in the order of their arrival. After a refusal, and after a request that
            ends the connection, nothing follows: the reader discards further bytes.
        in_message: a request has begun and is incomplete. The reader may be discarding its body.
        in_body: the head of this request is complete.
        body_size: bytes of its body so far.
        expects_continue: its client waits for `100 Continue` before it sends the body.
    """

    def __init__(
        self,
        peers: Peers,
        receiver: AnswerReceiver,
        *,
        bounds: Bounds,
        routes: Routes,
        bodies: Budget,
    ) -> None:
        """Create a reader that has received nothing.

        Args:
            bodies: budget for all bodies in flight. The caller that takes a request from ``read`` returns its share.
        """
        self.read: deque[Request | Refusal] = deque()
        self._peers = peers
        self._receiver = receiver
        self._bounds = bounds
        self._routes = routes
        self._bodies = bodies
        self._now = 0.0
        self._is_over = False  # True: discard all that follows
        self._resumes_with: bytes | None = None  # a head with which another parser reads the rest of the message
        self._is_resuming = False
        self._ahead = NOTHING  # received, and not parsed yet
        self._ahead_counted = 0  # bytes of it that are taken from the budget
        self._completed = 0  # requests of the last piece
        self._parser: Any = httptools.HttpRequestParser(self)
        self._begin()

    def _begin(self) -> None:
        self.in_message = self.in_body = self.expects_continue = False
        self.body_size = 0
        self._target = b""
        self._fields: dict[str, str] = {}
        self._field_count = 0
        self._head_size = 0
        self._counted = 0  # bytes that are taken from the budget
        self._longest = 0
        self._body: BytesIO | None = None  # one buffer: an object for each piece would be many times its bytes
        self._beside_body = 0  # bytes since the last one of the body: chunk extensions and trailers

    @property
    def has_more(self) -> bool:
        """Whether a request or a refusal waits, or bytes are not parsed yet."""
        return bool(self.read or self._ahead)

    def feed(self, data: bytes, now: float) -> None:
        """Parse the next bytes until a request is complete; *now* is the arrival time of that request."""
        self._completed = 0
        if self._ahead:
            data = b"".join((self._ahead, data))
        self._ahead = memoryview(data)
        self.proceed(now)

    def store(self, data: bytes) -> None:
        """Store bytes that arrive while a request is being answered. Without memory for them, the connection ends."""
        self._completed = 0
        self._ahead = memoryview(b"".join((self._ahead, data)) if self._ahead else data)
        self._count_ahead()

    def proceed(self, now: float) -> None:
        """Parse stored bytes until a request is complete; *now* is the arrival time of that request."""
        self._now = now
        while self._ahead and not self.read:
            piece, self._ahead = self._ahead[:SLICE], self._ahead[SLICE:] or NOTHING
            if self._is_over:
                self._skip(piece)
            else:
                self._parse(piece)
        if self.in_message and not self._is_over:
            self._take()
        self._count_ahead()

    def discard(self, data: bytes, now: float) -> None:
        """Parse *data* and what is stored only to notice where messages end, and drop their requests."""
        self.feed(data, now)
        while self.read:
            self._drop_read()
            self.proceed(now)

    def _parse(self, data: memoryview) -> None:
        if not self.in_body:
            self._head_size += len(data)
        size_before = self.body_size
        try:
            self._run_parser(data)
        except httptools.HttpParserInvalidMethodError:
            if data[0] == TLS_HANDSHAKE:
                self._refuse(Refusal(HTTPStatus.BAD_REQUEST, "protocol", "This port speaks plain HTTP: use http."))
            else:
                self._refuse(Refusal(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", self._unknown_method()))
        except httptools.HttpParserError as error:
            self._refuse(bad_request(f"malformed request: {error}"))
        if self.in_message and not self.in_body and self._head_size > self._bounds.head:
            self._refuse_size()
        if self._is_too_much_beside_body(len(data), size_before):
            detail = (
                f"the trailers, or the extensions of a chunk, have more than {self._bounds.head} bytes "
                f"({self._bounds.name_of('head')})"
            )
            self._refuse(Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", detail))

    def _run_parser(self, data: memoryview) -> None:
        """Give the parser *data*, and go on with another parser where it stops at a request with `Upgrade`.

        The server supports no upgrade, so such a request is an ordinary one (RFC 9110, section 7.8), with a body if it
        declares one. The parser skips that body and takes its bytes for another protocol. To parse them as the next
        request would let a client put requests into a connection that a proxy shares with other clients.
        """
        while data and self._parser is not None:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._parser = httptools.HttpRequestParser(self)
                if self._resumes_with is not None:
                    head, self._resumes_with = self._resumes_with, None
                    self._is_resuming = True  # until this head, which the client did not send, is parsed
                    self._parser.feed_data(head)
                    self._is_resuming = False
                elif self._is_over:
                    return
            else:
                return

    def _skip(self, data: memoryview) -> None:
        """Discard what follows, but notice the end of the message whose body is not read."""
        if self.in_body and self._parser is not None:
            size_before = self.body_size
            with suppress(httptools.HttpParserError):
                self._run_parser(data)
            self._is_too_much_beside_body(len(data), size_before)
            self._drop_parser()

    def _drop_parser(self) -> None:
        """Release the parser of a refused request, if it stores a part of a head or of a trailer."""
        if not self.in_body or self._beside_body > SLICE:
            self._parser = None

    def _is_too_much_beside_body(self, size: int, body_size_before: int) -> bool:
        """Count a piece of *size* bytes. Returns whether too many came since the last byte of the body."""
        if self.body_size > body_size_before:
            self._beside_body = 0
        elif self.in_body:
            self._beside_body += size
        return self._beside_body > self._bounds.head

    def end(self) -> Refusal | None:
        """The client has ended its half. Returns a refusal if a body is incomplete."""
        is_cut = self.in_body and not self._is_over
        self._is_over = True
        return bad_request("the body ended before its declared length") if is_cut else None

    def close(self) -> None:
        """Return the budget of everything that was not taken from ``read``."""
        self._is_over = True
        self._parser = None
        self._drop_read()
        self._drop_message()
        self._ahead = NOTHING
        self._count_ahead()

    def _drop_read(self) -> None:
        for waiting in self.read:
            if isinstance(waiting, Request):
                self._bodies.give_back(waiting.counted)
        self.read.clear()

    def _drop_message(self) -> None:
        """Release what the incomplete request has allocated."""
        self._bodies.give_back(self._counted)
        self._counted = 0
        self._body = None
        self._target = b""
        self._fields = {}

    # What is allocated.

    def _take(self) -> bool:
        """Count what the request that is arriving has allocated. Returns False if it is refused for that."""
        size = REQUEST_SIZE + self._head_size + self._field_count * FIELD_SIZE + self._beside_body
        if self._body is not None:
            size += self.body_size + self.body_size // 8  # as `BytesIO` grows
        # Behind another request nothing is free. Otherwise each request of a pipeline would have free bytes.
        more = size - self._counted - (0 if self.read else FREE_SIZE)
        if more > 0:
            if not self._bodies.take(more):
                self._refuse(self._too_many_bytes())
                return False
            self._counted += more
        return True

    def _count_ahead(self) -> None:
        """Count the stored bytes, all of which are in memory until the last one is parsed."""
        stored = self._ahead.obj
        size = len(stored) if isinstance(stored, bytes) else 0
        if size > self._ahead_counted and not self._bodies.take(size - self._ahead_counted):
            self._ahead = NOTHING
            self._refuse(self._too_many_bytes())
            size = 0
        elif size < self._ahead_counted:
            self._bodies.give_back(self._ahead_counted - size)
        self._ahead_counted = size

    # Called by the parser. Some calls still come after a refusal, for the rest of the same piece.

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._is_resuming:
            return
        self.in_message = not self._is_over

    def on_url(self, part: bytes) -> None:
        """A piece of the target."""
        if self._is_resuming:
            return
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer, which the reader ignores."""
        if self.in_body or self._is_over:  # also while resuming
            return
        self._field_count += 1
        if self._field_count > self._bounds.headers:
            self._refuse_size()
        add_field(self._fields, name, value)

    def on_headers_complete(self) -> None:
        """Check the head, and decide whether to read the body."""
        if self._is_over or self._is_resuming:
            return
        self.in_body = True
        # The pieces may include a part of the body, so only a sum above the bound is computed exactly.
        if self._head_size > self._bounds.head and self._size_of_head() > self._bounds.head:
            self._refuse_size()
            return
        try:
            self._check()
        except Refused as refused:
            self._refuse(refused.refusal)

    def _check(self) -> None:
        fields, version = self._fields, self._parser.get_http_version()
        self._method = self._parser.get_method().decode("latin-1")
        require_version(version)
        self._is_1_0 = is_1_0 = version == "1.0"
        if self._method == "CONNECT":
            raise Refused(Refusal(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", "CONNECT is not supported"))
        require_host(fields, is_1_0=is_1_0)
        self._path, self._query, authority = split_target(self._method, self._target)
        if authority is not None:
            fields["HTTP_HOST"] = authority  # the target takes precedence over the field (RFC 9112, section 3.2.2)
        length = body_length(fields, is_1_0=is_1_0)
        waits = expects_continue(fields, is_1_0=is_1_0)
        if length == 0:
            return
        if self._parser.should_upgrade():
            self._resumes_with = head_of_body(length, keeps=self._parser.should_keep_alive())
        self._longest = self._routes.longest_body(self._method, self._path)
        if length is not None and length > self._longest:
            self._complete(length, keeps=False)
        else:
            self.expects_continue = waits

    def on_body(self, part: bytes) -> None:
        """A piece of the body."""
        self.body_size += len(part)
        if self._is_over:
            return
        if self._body is None:
            self._body = BytesIO()
        self._body.write(part)
        if self.body_size > self._longest:  # only a chunked body, whose length was not declared
            self._complete(self.body_size, keeps=False)

    def on_message_complete(self) -> None:
        """The request is complete, unless the parser has only skipped its body."""
        if self._resumes_with is not None:
            return
        if self._is_over:
            self.in_message = self.in_body = False
            return
        self._complete(self.body_size, keeps=self._parser.should_keep_alive())
        self._begin()

    def _complete(self, declared: int, *, keeps: bool) -> None:
        if declared > self._longest and declared:
            self._bodies.give_back(self._counted)
            self._counted = 0
            self._body = None
        if not self._take():
            return
        # Bounded, since the loop answers instant requests of one piece without a break.
        self._completed += 1
        keeps = keeps and self._completed <= PIPELINED
        self._is_over = not keeps
        fields = self._fields
        # The application gets the decoded body with its length.
        fields.pop("HTTP_TRANSFER_ENCODING", None)
        if declared:
            fields["CONTENT_LENGTH"] = str(declared)
        self.read.append(
            Request(
                self._method,
                self._path,
                self._query,
                fields,
                is_1_0=self._is_1_0,
                body=b"" if self._body is None else self._body.getvalue(),
                declared=declared,
                keeps_connection=keeps,
                peers=self._peers,
                receiver=self._receiver,
                arrived=self._now,
                counted=self._counted,
            )
        )
        self._counted = 0  # the caller that takes the request returns its budget
        self._body = None

    def _unknown_method(self) -> str:
        proxies = self._bounds.name_of("proxies")
        return f"unknown request method; a PROXY protocol header is read from {proxies} only"

    def _too_many_bytes(self) -> Refusal:
        limit = self._bounds.name_of("bodies")
        return overloaded("bodies", f"the requests that are arriving or wait have too many bytes in all ({limit})")

    def _refuse_size(self) -> None:
        if len(self._target) * 2 > self._bounds.head:
            status, what = HTTPStatus.REQUEST_URI_TOO_LONG, "request line"
        else:
            status, what = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "header"
        detail = (
            f"the {what} is too long: a head may have {self._bounds.head} bytes and {self._bounds.headers} fields "
            f"({self._bounds.name_of('head')})"
        )
        self._refuse(Refusal(status, "head_too_large", detail))

    def _refuse(self, refusal: Refusal) -> None:
        """Refuse the current request. What follows on the connection cannot be parsed as requests."""
        if self._is_over:
            return
        self._is_over = True
        self._drop_message()
        self._drop_parser()
        self.read.append(refusal.closing())

    def _size_of_head(self) -> int:
        """Approximate size of the head in bytes, without what follows it in the same piece."""
        return len(self._target) + sum(len(key) + len(value) for key, value in self._fields.items())


# Heads of requests: what HTTP/1.1 requires beyond the grammar. Pure functions.
#
# The parser rejects what breaks the grammar: folded lines, bare line feeds, conflicting lengths, invalid bytes in
# fields. Source: RFC 9112, sections 2 to 6, and RFC 9110, sections 7.2 and 10.1.1.


_HOST = re.compile(r"(\[[0-9A-Fa-f:.%A-Za-z]+\]|[0-9A-Za-z._~!$&'()*+;=%-]*)(:[0-9]*)?")
_SCHEMES = ("http", "https")
_DIGITS_OF_A_LENGTH = 18


def split_target(method: str, target: bytes) -> tuple[str, str, str | None]:
    """Path, decoded to Latin-1 as WSGI has it; query; and the authority of an absolute target.

    Raises:
        Refused: it is not the target of an HTTP resource.
    """
    text, authority = target.decode("latin-1"), None
    if not text.startswith("/") and (text != "*" or method != "OPTIONS"):  # `*` is for OPTIONS alone
        text, authority = _absolute(text)
    path, _, query = text.partition("?")
    if "#" in text:
        raise Refused(bad_request("the request target has a fragment"))
    return unquote_to_bytes(path).decode("latin-1") if "%" in path else path, query, authority


def _absolute(text: str) -> tuple[str, str]:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in _SCHEMES or not parts.netloc or not _HOST.fullmatch(parts.netloc):
        raise Refused(bad_request("malformed request target"))
    rest = text[text.index("://") + 3 + len(parts.netloc) :]
    return rest if rest.startswith("/") else "/" + rest, parts.netloc


def require_version(version: str) -> None:
    """Refuse all versions except HTTP/1.0 and 1.1."""
    if version not in ("1.1", "1.0"):
        detail = f"HTTP/{version} is not supported; use HTTP/1.1"
        raise Refused(Refusal(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "bad_request", detail))


def require_host(fields: dict[str, str], *, is_1_0: bool) -> None:
    """Refuse a head without exactly one Host field. Only an HTTP/1.0 client may omit it."""
    host = fields.get("HTTP_HOST")
    if host is None:
        if not is_1_0:
            raise Refused(bad_request("no Host header"))
    elif not _HOST.fullmatch(host):  # two fields were joined with a comma
        raise Refused(bad_request("malformed Host header, or more than one"))


def body_length(fields: dict[str, str], *, is_1_0: bool) -> int | None:
    """Bytes of the body as declared; None if it comes in chunks.

    Raises:
        Refused: different readers would compute different lengths.
    """
    coding, length = fields.get("HTTP_TRANSFER_ENCODING"), fields.get("CONTENT_LENGTH")
    if coding is None:
        if length is None:
            return 0
        if not (length.isascii() and length.isdigit()) or len(length) > _DIGITS_OF_A_LENGTH:
            raise Refused(bad_request("malformed Content-Length"))
        return int(length)
    if length is not None or is_1_0:
        raise Refused(bad_request("Transfer-Encoding together with Content-Length, or in HTTP/1.0"))
    if coding.lower() != "chunked":
        detail = "only Transfer-Encoding: chunked is supported"
        raise Refused(Refusal(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", detail))
    return None


def head_of_body(length: int | None, *, keeps: bool) -> bytes:
    """A head after which a parser reads a body of *length* bytes, or in chunks if it is None, and nothing else."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    connection = "keep-alive" if keeps else "close"
    return f"POST / HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\n{framing}\r\n\r\n".encode()


def expects_continue(fields: dict[str, str], *, is_1_0: bool) -> bool:
    """Whether the client waits for ``100 Continue`` before it sends the body.

    Raises:
        Refused: the Expect header has another value.
    """
    expectation = fields.get("HTTP_EXPECT")
    if expectation is None:
        return False
    if expectation.lower() != "100-continue":
        raise Refused(Refusal(HTTPStatus.EXPECTATION_FAILED, "bad_request", "unknown expectation"))
    return not is_1_0


# Header fields as WSGI names them: ``X-Auth-Token`` → ``HTTP_X_AUTH_TOKEN``. Source: PEP 3333; RFC 9110, section 5.


MOST_CACHED = 1024
"""Names whose keys are cached. Clients may send any name; a few dozen matter."""

_keys: dict[bytes, str] = {}


def add_field(fields: dict[str, str], name: bytes, value: bytes) -> None:
    """Add a field; one that comes again is joined with a comma, as it may be (RFC 9110, section 5.3)."""
    key = _keys.get(name)
    if key is None:
        key = _cached_key(name)
    if key:
        text = value.decode("latin-1").strip(" \t")
        fields[key] = f"{fields[key]},{text}" if key in fields else text


def _cached_key(name: bytes) -> str:
    key = key_of(name)
    if len(_keys) < MOST_CACHED:
        _keys[name] = key
    return key


def key_of(name: bytes) -> str:
    """The key of a field in the environ; empty for a field that the server omits.

    The server omits names with an underscore: WSGI would not distinguish them from the names with hyphens, which a
    proxy in front may set and guard.
    """
    if b"_" in name:
        return ""
    key = name.decode("latin-1").upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
