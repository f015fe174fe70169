"""The Placement API as the commands call it: JSON in, JSON out, every refusal an exception.

httpx is imported when the first connection is made, so that ``stead --help`` does not wait for it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, urlsplit

from stead.cli.errors import ApiError, CommandError, Unreachable
from stead.cli.options import endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

__all__ = ["Api", "ApiError", "CommandError", "Unreachable", "connect"]

MICROVERSION = "1.39"

OWN_VERSION = "1.0"
"""Of Stead's own features, where they are asked for."""

_VERSION_HEADER = "OpenStack-API-Version"

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

    def __init__(self, url: str, token: str | None = None) -> None:
        import httpx

        parts = _split(url)
        self._base = "http://localhost" if parts.scheme == "unix" else url.rstrip("/")
        self._has_token = token is not None
        self.url = url.rstrip("/").replace(
            parts.netloc, parts.netloc.rpartition("@")[2], 1
        )  # without a password, for messages
        headers = {_VERSION_HEADER: f"placement {MICROVERSION}", "Accept": "application/json"}
        if token is not None:
            if not (token.isascii() and token.isprintable()):
                raise CommandError("the token contains characters that cannot be sent in a header")
            headers["X-Auth-Token"] = token
        is_local = parts.scheme == "unix" or parts.hostname in ("127.0.0.1", "::1", "localhost")
        self._client = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            transport=httpx.HTTPTransport(uds=parts.path) if parts.scheme == "unix" else None,
            trust_env=not is_local,  # a proxy of the environment has no business between us and this machine
            verify=parts.scheme == "https",  # loading the certificates costs more than a whole plain-text call
        )

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
        return self._call("GET", path, headers={_VERSION_HEADER: f"placement {MICROVERSION}, stead {OWN_VERSION}"})

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
        import httpx

        try:
            response = self._client.request(method, self._base + path, **arguments)
        except httpx.TimeoutException as error:
            raise Unreachable(f"{self.url} did not answer in time") from error
        except httpx.ConnectError as error:
            raise Unreachable(
                f"cannot reach {self.url}: {_reason(error)} (`stead serve` starts a server, --url names another)"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unreachable(f"the connection to {self.url} failed: {_reason(error)}") from error
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            raise self._refusal(response)
        return self._body(response)

    def _body(self, response: httpx.Response) -> Any:
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            raise Unreachable(f"{self.url} redirects ({response.status_code}); give the URL it redirects to")
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError as error:
            raise Unreachable(f"{self.url} does not speak the Placement API: its answer is not JSON") from error

    def _refusal(self, response: httpx.Response) -> ApiError:
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
    """The server that the shared options name (see :func:`stead.cli.options.endpoint`)."""
    where = endpoint()
    with Api(where.url, where.token) as api:
        yield api


def _split(url: str) -> SplitResult:
    with suppress(ValueError):
        parts = urlsplit(url)
        if (parts.scheme in ("http", "https") and parts.hostname) or (parts.scheme == "unix" and parts.path):
            return parts
    raise CommandError(
        "the server's URL must begin with http:// or https:// and a host, or be unix:// and the path of a socket"
    )  # it may hold a password: not shown


def _first_error(response: httpx.Response) -> dict[str, Any]:
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
