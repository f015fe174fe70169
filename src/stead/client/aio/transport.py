"""How calls reach a server: over HTTP, or as a function call in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from stead.client import calls
from stead.client.aio.running import LONGEST_WAIT, called, in_thread, sleep
from stead.client.calls import Call, NotSent, Reply, next_page
from stead.client.errors import (
    Invalid,
    InvalidRequest,
    NotAllowed,
    Refused,
    SiteClosed,
    Unavailable,
    Unreachable,
    Unsupported,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path
    from typing import Self
    from wsgiref.types import WSGIApplication

    from stead.client.calls import Address, Json

    Certificate = Path | str | ssl.SSLContext | None


CONNECT_SECONDS = 10.0

MOST_NAMES = 200_000
"""Names of providers that a site remembers."""


class Transport(Protocol):
    """Sends calls.

    Attributes:
        shown: names the server in messages.
        longest_wait: seconds that a call may wait for a change.
    """

    shown: str
    longest_wait: int

    async def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        """The response, within *timeout* seconds.

        Raises:
            NotSent: there was no connection.
            Unreachable: there was no response; the call may have been done.
        """

    async def close(self) -> None:
        """End all connections."""


class Http:
    """HTTP/1.1 over kept connections."""

    longest_wait = 30

    def __init__(self, address: Address, certificate: Certificate = None) -> None:
        """Connections are made when they are needed.

        Args:
            certificate: a PEM file with the authorities to trust instead of those of the system, or a context.

        Raises:
            InvalidRequest: the certificate or a proxy of the environment cannot be used.
        """
        # Not at the top, because a site in this process needs no HTTP.
        import httpx2

        self.shown = address.shown
        self._address = address
        try:
            verify = _trust(address, certificate)
            self._client = httpx2.AsyncClient(
                transport=httpx2.AsyncHTTPTransport(uds=str(address.socket), verify=verify) if address.socket else None,
                trust_env=address.may_use_proxy,
                verify=verify,
            )
        except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:  # ImportError: SOCKS needs a package
            raise InvalidRequest(f"cannot use the certificate or the proxy of the environment: {error}") from error

    async def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        """The response, within *timeout* seconds of silence."""
        import httpx2

        obstacle = self._address.obstacle
        if obstacle is not None:
            raise NotSent(0, f"cannot reach {self.shown}: {obstacle}")
        try:
            response = await self._client.request(
                call.method,
                self._address.base + call.target,
                content=call.content,
                headers=headers,
                timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise NotSent(0, f"cannot reach {self.shown}: {_reason(error)}") from error
        except httpx2.TimeoutException as error:
            raise Unreachable(0, f"{self.shown} did not answer within {timeout:.3g} s") from error
        except httpx2.HTTPError as error:
            raise Unreachable(0, f"the connection to {self.shown} failed: {_reason(error)}") from error
        return Reply(response.status_code, dict(response.headers), response.content)

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()


class InProcess:
    """A WSGI application in this process."""

    longest_wait = LONGEST_WAIT

    def __init__(self, application: WSGIApplication, shown: str, on_close: Callable[[], None]) -> None:
        """*shown* names the application; *on_close* ends what it runs on."""
        self.shown = shown
        self._application = application
        self._on_close = on_close

    async def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:  # noqa: ARG002  # the signature of a transport
        """The response. The service itself bounds its time."""
        return await in_thread(calls.answer, self._application, call, headers)

    async def close(self) -> None:
        """Close the service."""
        await in_thread(self._on_close)


def _trust(address: Address, certificate: Certificate) -> ssl.SSLContext | bool:
    """Which certificates the server may show. For plain text nothing is loaded, which takes longer than a call."""
    import ssl

    import httpx2

    if not address.is_encrypted:
        return False
    if isinstance(certificate, ssl.SSLContext):
        return certificate
    if certificate is None:
        return httpx2.create_ssl_context()  # with SSL_CERT_FILE and SSL_CERT_DIR
    return ssl.create_default_context(cafile=str(certificate))


def _reason(error: Exception) -> str:
    """The operating system's words for *error*, without numbers."""
    text = str(error) or type(error).__name__
    return text.partition("] ")[2].lower() or text


# A connection to the API: its life, and any call of it.


class Connection:
    """What a site is apart from what it knows of providers and claims."""

    def __init__(self, calling: Calling) -> None:
        """Nothing is sent yet."""
        self._calling = calling

    def __repr__(self) -> str:
        return f"<Site {self._calling.transport.shown}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connections, or Stead in this process. Claims remain. Later calls raise :class:`SiteClosed`."""
        await self._calling.close()

    @property
    def url(self) -> str:
        """The URL without user and password; in this process, the directory or URL of the database."""
        return self._calling.transport.shown

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        stead: str | None = None,
        placement: str = calls.PLACEMENT,
        **query: Any,
    ) -> Any:
        """The decoded response of any call of the API.

        A GET is repeated if its response is lost; other methods are not. None if the response has no body.

        Args:
            path: with or without a query string.
            stead: the version of Stead's own features to enable.
            placement: the microversion; the newest that this library knows if it is missing.
            query: parameters; None leaves one out, a list repeats one.
        """
        return (await self.response(method, path, body, stead=stead, placement=placement, **query)).json()

    async def response(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        stead: str | None = None,
        placement: str = calls.PLACEMENT,
        **query: Any,
    ) -> Reply:
        """As :meth:`request`, with the status and the header fields of the response."""
        call = Call(
            method, calls.with_query(path, query), body, stead, is_repeatable=method == "GET", placement=placement
        )
        return await self._calling.send(call)

    async def supports(self, version: str) -> bool:
        """Whether the server has Stead's own features of *version*, for example ``1.1``. OpenStack Placement has none.

        Raises:
            Unavailable: there was no answer.
        """
        try:
            return calls.announces((await self._calling.send(calls.versions())).json(), version)
        except Unavailable:
            raise
        except Refused:
            return False


# Calls that are repeated until they succeed, fail for good, or the time is over.


class Calling:
    """Sends calls with a token, again where that is safe.

    Attributes:
        transport: sends each of them once.
        timeout: seconds for a call with all its repetitions, if the call does not say otherwise.
        names: of providers, by uuid, as they were last read. Only for what people see: a provider may have a new name.
    """

    def __init__(self, transport: Transport, tokens: Tokens, timeout: float, *, retry: bool = True) -> None:
        """Nothing is sent yet. Without *retry*, nothing is sent twice."""
        self.transport = transport
        self.timeout = timeout
        self.names: dict[str, str] = {}
        self._retries = retry
        self._tokens = tokens
        self._is_closed = False
        self._knows_leases = True

    def note_names(self, names: Iterable[tuple[str, str]]) -> None:
        """Remember pairs of the uuid and the name of a provider."""
        if len(self.names) > MOST_NAMES:
            self.names.clear()
        self.names.update(names)

    async def close(self) -> None:
        """Send nothing more."""
        if not self._is_closed:
            self._is_closed = True
            await self.transport.close()

    async def send(self, call: Call, timeout: float | None = None) -> Reply:
        """The response to *call*, which has a status below 300.

        Raises:
            Refused: the last error.
            SiteClosed: the site was closed.
        """
        deadline = monotonic() + (self.timeout if timeout is None else timeout)
        may_renew = self._tokens.is_renewable
        for attempts in count(1):
            if self._is_closed:
                raise SiteClosed(f"{self.transport.shown} was closed, so {call.method} {call.path} was not sent")
            retry_after = None
            try:
                # For each attempt, because a token can expire during the pauses.
                headers = {**call.headers, **await self._tokens.headers()}
                # A slow renewal can end after the deadline, and a timeout must be positive.
                reply = await self.transport.send(call, headers, max(deadline - monotonic(), 0.001))
            except Refused as failure:
                error: Refused | None = failure
            else:
                error = reply.error(call)
                if error is None:
                    return reply
                retry_after = calls.retry_after(reply.headers)
            assert error is not None
            if may_renew and isinstance(error, NotAllowed) and error.status == 401:
                # Only once: the second rejection is of a fresh token, so another one would not help.
                may_renew = False
                await self._tokens.renew()
                continue
            pause = calls.pause_before(call, error, attempts, deadline - monotonic(), retry_after)
            if pause is None or not self._retries:
                raise self._worded(error, headers)
            await sleep(pause)
        raise AssertionError("counting does not end")

    def _worded(self, error: Refused, headers: dict[str, str]) -> Refused:
        """*error*, which says of a rejected token where it was sent: Keystone's and Stead's words do not."""
        if error.status != 401:
            return error
        shown = self.transport.shown
        if "x-auth-token" in headers:
            return error.worded(f"{shown} does not accept the token; it may be wrong or expired")
        return error.worded(f"{shown} requires a token: connect(url, token)")

    async def allocations_of(self, consumer: str, timeout: float | None = None) -> Json:
        """What the consumer with this uuid has, with its end if the server knows leases."""
        if self._knows_leases:
            try:
                record: Json = (await self.send(calls.allocations(consumer, with_end=True), timeout)).json()
            except Unsupported:
                self._knows_leases = False
            else:
                return record
        without_end: Json = (await self.send(calls.allocations(consumer), timeout)).json()
        return without_end

    async def changes(self, since: str | None, seconds: int, timeout: float | None = None) -> Json:
        """What changed since a token, with ends if the server knows leases."""
        if self._knows_leases:
            try:
                body: Json = (await self.send(calls.changes(since, seconds, with_ends=True), timeout)).json()
            except Unsupported:
                self._knows_leases = False
            else:
                return body
        without_ends: Json = (await self.send(calls.changes(since, seconds), timeout)).json()
        return without_ends

    async def pages(self, call: Call, *older: Call) -> AsyncIterator[Json]:
        """The body of each page of a list.

        Args:
            older: sent instead of *call*, one after the other, to a server that does not accept that.
        """
        firsts = [call, *older]
        page: Call | None = call
        while page is not None:
            try:
                body = (await self.send(page)).json()
            except (Invalid, Unsupported):
                # Only of the first page: later ones would begin again. If *call* is wrong, the last response says so.
                if page is not firsts[0] or len(firsts) == 1:
                    raise
                firsts.pop(0)
                page = firsts[0]
                continue
            yield body
            page = next_page(page, body)


# The token of each call: fixed, or from Keystone.


TokenSource = str | Callable[[], str | Awaitable[str | None] | None] | Any
"""A token, a function that returns one, or a session of keystoneauth1."""


class Tokens:
    """Returns the token for each call."""

    def __init__(self, source: TokenSource | None) -> None:
        """Nothing is requested yet."""
        self._source = source

    @property
    def is_renewable(self) -> bool:
        """Whether a rejected token may be replaced by another one."""
        return self._source is not None and not isinstance(self._source, str)

    async def headers(self) -> dict[str, str]:
        """The header fields that identify the client.

        Raises:
            InvalidRequest: the token has characters that no header can carry.
        """
        token = self._source
        if token is not None and not isinstance(token, str):
            token = await called(getattr(token, "get_token", token))
        if token is None:
            return {}
        if not (token.isascii() and token.isprintable()):
            raise InvalidRequest("the token contains characters that cannot be sent in a header")
        return {"x-auth-token": token}

    async def renew(self) -> None:
        """Discard a token that was rejected. A function is expected to return a valid one by itself."""
        invalidate = getattr(self._source, "invalidate", None)
        if invalidate is not None:
            await called(invalidate)
