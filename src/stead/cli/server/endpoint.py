"""The server that a command calls, and the token for it. The server is never guessed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING

from stead.cli.errors import CommandError
from stead.cli.options import Options, data_directory, options
from stead.cli.server.running import running

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and the identity for requests to it.

    Attributes:
        token: None if there is none for this server.
        certificate: PEM file with the only TLS certificate that the server may present; None: any trusted one.
    """

    url: str
    token: str | None = field(repr=False)
    certificate: Path | None = None


def endpoint() -> Endpoint:
    """The server that the shared options name: by its URL, or by its data directory.

    The command line precedes the environment: ``--data-dir`` overrides ``STEAD_URL``, and also ``STEAD_TOKEN``, which
    belongs to that URL. The admin token of a data directory is sent only to the server that runs on it.

    Raises:
        CommandError: no URL is named, and no server runs on the data directory.
    """
    given = options()
    directory = data_directory()
    url = None if _is_outranked(given) else given.url
    if url is None:
        server = running(directory)
        if server is None:
            raise CommandError(_none_runs(given, directory))
        token = None if _is_outranked(given) and "token" in given.from_environment else given.token
        return Endpoint(server.url, token or _admin_token(directory), server.certificate)
    with suppress(CommandError):  # the user named another server, so errors of this one do not matter
        server = running(directory)
        if server is not None and server.url.rstrip("/") == url.rstrip("/"):
            return Endpoint(server.url, given.token or _admin_token(directory), server.certificate)
    return Endpoint(url, given.token)


def _is_outranked(given: Options) -> bool:
    """Whether the command line names a data directory, and only the environment a URL."""
    return (
        given.data_dir is not None
        and "data_dir" not in given.from_environment
        and given.url is not None
        and "url" in given.from_environment
    )


def _none_runs(given: Options, directory: Path) -> str:
    if given.data_dir is None:
        return (
            f"no server is named, and none runs on the data directory {directory}. "
            "Name one with --url or STEAD_URL, or start one: stead serve"
        )
    return f"no server runs on data directory {directory}. Start one: stead --data-dir {quote(str(directory))} serve"


def _admin_token(directory: Path) -> str | None:
    from stead.auth.private_files import read_regular

    try:
        return read_regular(directory / "admin-token").decode().strip() or None
    except (OSError, ValueError):
        return None
