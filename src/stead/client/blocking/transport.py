# Generated from stead/client/aio/transport.py by `python -m scripts.twins`. Change that file.
"""How calls reach a server: over HTTP, or as a function call in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stead.client import in_process
from stead.client.blocking.running import LONGEST_WAIT, in_thread
from stead.client.calls import Reply
from stead.client.errors import InvalidRequest, Unreachable
from stead.client.retrying import NotSent

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from pathlib import Path
    from wsgiref.types import WSGIApplication

    from stead.client.address import Address
    from stead.client.calls import Call

    Certificate = Path | str | ssl.SSLContext | None

CONNECT_SECONDS = 10.0


class Transport(Protocol):
    """Sends calls.

    Attributes:
        shown: names the server in messages.
        longest_wait: seconds that a call may wait for a change.
    """

    shown: str
    longest_wait: int

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        """The response, within *timeout* seconds.

        Raises:
            NotSent: there was no connection.
            Unreachable: there was no response; the call may have been done.
        """

    def close(self) -> None:
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
            self._client = httpx2.Client(
                transport=httpx2.HTTPTransport(uds=str(address.socket), verify=verify) if address.socket else None,
                trust_env=address.may_use_proxy,
                verify=verify,
            )
        except (ImportError, OSError, ValueError, httpx2.InvalidURL) as error:  # ImportError: SOCKS needs a package
            raise InvalidRequest(f"cannot use the certificate or the proxy of the environment: {error}") from error

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:
        """The response, within *timeout* seconds of silence."""
        import httpx2

        obstacle = self._address.obstacle
        if obstacle is not None:
            raise NotSent(0, f"cannot reach {self.shown}: {obstacle}")
        try:
            response = self._client.request(
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

    def close(self) -> None:
        """End all connections."""
        self._client.close()


class InProcess:
    """A WSGI application in this process."""

    longest_wait = LONGEST_WAIT

    def __init__(self, application: WSGIApplication, shown: str, on_close: Callable[[], None]) -> None:
        """*shown* names the application; *on_close* ends what it runs on."""
        self.shown = shown
        self._application = application
        self._on_close = on_close

    def send(self, call: Call, headers: dict[str, str], timeout: float) -> Reply:  # noqa: ARG002  # the signature of a transport
        """The response. The service itself bounds its time."""
        return in_thread(in_process.answer, self._application, call, headers)

    def close(self) -> None:
        """Close the service."""
        in_thread(self._on_close)


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
