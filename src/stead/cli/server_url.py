"""The URL of a server as a command is given it: http, https, or a Unix socket with a path below it."""

from __future__ import annotations

import stat
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from stead.cli.errors import CommandError, Unreachable

_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """Where requests go.

    Attributes:
        shown: the URL for messages, without user and password.
        base: what the paths of the API are appended to; for a socket its host means nothing.
        socket: the Unix socket to connect to, or None.
    """

    shown: str
    base: str
    socket: Path | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS protects what is sent."""
        return self.base.startswith("https:")

    @property
    def is_of_this_machine(self) -> bool:
        """Whether nothing leaves this machine."""
        host = urlsplit(self.base).hostname or ""
        with suppress(ValueError):
            return self.socket is not None or ip_address(host).is_loopback
        return host == "localhost"


def read(url: str, *, encrypted: bool = False) -> ServerUrl:
    """What *url* names. In ``unix:///run/stead.sock/placement`` the first part that is a socket ends its path.

    Args:
        encrypted: whether TLS is spoken on a Unix socket.

    Raises:
        CommandError: it cannot be the URL of a server. The message does not show it: it may hold a password.
        Unreachable: there is no such socket.
    """
    url = url.rstrip("/")
    if url.startswith(_UNIX + "/"):
        socket, prefix = _socket_in(unquote(url.removeprefix(_UNIX)), url)
        return ServerUrl(url, ("https" if encrypted else "http") + "://localhost" + quote(prefix), socket)
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return ServerUrl(url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1), url)
    raise CommandError(
        "the server's URL must begin with http:// or https:// and a host, or be unix:// and the path of a socket"
    )


def _socket_in(path: str, url: str) -> tuple[Path, str]:
    """The socket that *path* leads to or through, and what follows it."""
    whole = Path(path)
    reason = "not a socket"
    for place in (*reversed(whole.parents), whole):
        try:
            mode = place.stat().st_mode
        except OSError as error:
            reason = (error.strerror or "").lower()
            break
        if stat.S_ISSOCK(mode):
            below = str(whole.relative_to(place))
            return place, "" if below == "." else f"/{below}"
    raise Unreachable(f"cannot reach {url}: {reason} (`stead serve` starts a server, --url names another)")
