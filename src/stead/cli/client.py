"""The Placement API as the commands call it: JSON in, JSON out, every refusal an exception.

httpx2 is imported when the first connection is made, so that ``stead --help`` does not wait for it.
"""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from stead.cli import server_url
from stead.cli.endpoint import endpoint
from stead.cli.errors import ApiError, CommandError, Unreachable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    import httpx2

    from stead.cli.server_url import ServerUrl

__all__ = ["Api", "ApiError", "CommandError", "Unreachable", "connect"]

MICROVERSION = "1.39"

OWN_VERSION = "1.0"
"""Of Stead's own features, where they are asked for."""

_VERSION_HEADER = "OpenStack-API-Version"
_OWN = {_VERSION_HEADER: f"placement {MICROVERSION}, stead {OWN_VERSION}"}

_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 300.0


class Api:
    """A Placement server. Safe to use from several threads; close it, or use it as a context manager.

    Every call returns the decoded JSON body, or None where the answer has none.

    Raises:
        ApiError: the server answered with a status of 400 or more.
        Unreachable: nothing answered, or not the Placement API.
        CommandError: the URL or the token cannot be used at all.
    """

    def __init__(self, url: str, token: str | None = None, certificate: Path | None = None) -> None:
        """A server at *url*, which with *certificate*, a PEM file, may show no other.

        A proxy of the environment is used only for TLS to another machine: every other proxy could read the token.
        """
        import httpx2

        where = server_url.read(url, encrypted=certificate is not None)
        self._base = where.base
        self._has_token = token is not None
        self.url = where.shown
        headers = {_VERSION_HEADER: f"placement {MICROVERSION}", "Accept": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable()):
                raise CommandError("the token contains characters that cannot be sent in a header")
            headers["X-Auth-Token"] = token
        verify = _trust(where, certificate)
        try:
            self._client = httpx2.Client(
                headers=headers,
                timeout=httpx2.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
                transport=httpx2.HTTPTransport(uds=str(where.socket), verify=verify) if where.socket else None,
                trust_env=where.is_encrypted and not where.is_of_this_machine,
                verify=verify,
            )
        except (ImportError, ValueError, httpx2.InvalidURL) as error:  # ImportError: SOCKS needs a package
            raise CommandError("cannot use the proxy that HTTPS_PROXY or ALL_PROXY names") from error

    def __repr__(self) -> str:
        return f"Api({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **params: object) -> Any:
        """GET *path*, which may have a query string of its own; None leaves a parameter out, a list repeats it."""
        given = {name: value for name, value in params.items() if value is not None}
        return self._call("GET", path, params=given or None)

    def get_own(self, path: str) -> Any:
        """GET *path*, which may have a query string of its own, with what Stead has beyond the Placement API.

        Another Placement server does not hear that.
        """
        return self._call("GET", path, headers=_OWN)

    def post_own(self, path: str, body: object) -> Any:
        """POST *body* to *path* of what Stead has beyond the Placement API."""
        return self._call("POST", path, json=body, headers=_OWN)

    def has_own(self) -> bool:
        """Whether the server says that it has what Stead has beyond the Placement API."""
        try:
            said = self.get_own("/")
            own = said["versions"][0]["stead"]
            return _numbers(own["min_version"]) <= _numbers(OWN_VERSION) <= _numbers(own["max_version"])
        except (CommandError, LookupError, TypeError, ValueError):
            return False  # what matters is asked for next, and fails there if the server fails

    def post(self, path: str, body: object) -> Any:
        """POST *body* to *path*."""
        return self._call("POST", path, json=body)

    def put(self, path: str, body: object = None) -> Any:
        """PUT *body* to *path*; None sends no body, as traits and resource classes want it."""
        return self._call("PUT", path) if body is None else self._call("PUT", path, json=body)

    def delete(self, path: str) -> Any:
        """DELETE *path*."""
        return self._call("DELETE", path)

    def _call(self, method: str, path: str, **arguments: Any) -> Any:
        import httpx2

        try:
            response = self._client.request(method, self._base + path, **arguments)
        except httpx2.TimeoutException as error:
            raise Unreachable(f"{self.url} did not answer in time") from error
        except httpx2.ConnectError as error:
            raise Unreachable(
                f"cannot reach {self.url}: {_reason(error)} (`stead serve` starts a server, --url names another)"
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreachable(f"the connection to {self.url} failed: {_reason(error)}") from error
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            raise self._refusal(response)
        return self._body(response)

    def _body(self, response: httpx2.Response) -> Any:
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            raise Unreachable(f"{self.url} redirects ({response.status_code}); give the URL it redirects to")
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise Unreachable(f"{self.url} does not speak the Placement API: its answer is not JSON") from error

    def _refusal(self, response: httpx2.Response) -> ApiError:
        status = response.status_code
        first = _first_error(response)
        code = str(first.get("code", ""))
        if status == HTTPStatus.UNAUTHORIZED:
            wanted = "does not accept the token" if self._has_token else "wants a token"
            return ApiError(status, code, f"{self.url} {wanted}; give one with --token or STEAD_TOKEN")
        if status == HTTPStatus.NOT_ACCEPTABLE and "max_version" in first:
            newest = first["max_version"]
            return ApiError(status, code, f"{self.url} speaks Placement {newest} at most; {MICROVERSION} is needed")
        return ApiError(status, code, _last_line(first.get("detail")) or response.reason_phrase or "refused")


@contextmanager
def connect() -> Iterator[Api]:
    """The server that the shared options name (see :func:`stead.cli.endpoint.endpoint`)."""
    where = endpoint()
    with Api(where.url, where.token, where.certificate) as api:
        yield api


def _trust(where: ServerUrl, certificate: Path | None) -> ssl.SSLContext | bool:
    """Which certificates the server may show. For plain text nothing is loaded, which takes longer than a call.

    Args:
        certificate: the PEM file of the only one, which need not name the host: it is known by itself.
    """
    import httpx2

    if not where.is_encrypted:
        return False
    if certificate is None:
        return httpx2.create_ssl_context()  # with SSL_CERT_FILE and SSL_CERT_DIR
    return _only(certificate)


def _only(certificate: Path) -> ssl.SSLContext:
    """Trust in the first certificate of the PEM file *certificate*, and in none that others have signed."""
    import ssl

    try:
        text = certificate.read_text()
        start, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be signed by itself
        context.load_verify_locations(cadata=text[text.index(start) : text.index(end) + len(end)])
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise CommandError(f"cannot read the server's certificate {certificate}: {_reason(error)}") from error
    return context


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _first_error(response: httpx2.Response) -> dict[str, Any]:
    """The first error object of the body; empty if the body has another form, as a proxy's has."""
    try:
        first = response.json()["errors"][0]
    except (ValueError, LookupError, TypeError):
        return {}
    return first if isinstance(first, dict) else {}


def _last_line(detail: object) -> str:
    lines = str(detail or "").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _reason(error: Exception) -> str:
    """The operating system's words for *error*, without numbers and repeats."""
    text = str(error) or type(error).__name__
    return text.partition("] ")[2].lower() or text
