"""The URL of a server: http, https, or a Unix socket with a path below it."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from stead.client.errors import InvalidRequest

_UNIX = "unix://"


@dataclass(frozen=True, slots=True)
class Address:
    """Where calls go.

    Attributes:
        shown: the URL for messages, without user and password.
        base: what targets are appended to; for a socket its host is meaningless.
        socket: the Unix socket, or None.
        may_use_proxy: TLS to another machine. Every other proxy could read the token.
    """

    shown: str
    base: str
    socket: Path | None = None
    may_use_proxy: bool = False

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS protects the calls."""
        return self.base.startswith("https:")

    @property
    def obstacle(self) -> str | None:
        """Why there is no socket to connect to; None if there is one, or none is needed."""
        if self.socket is None or self.socket.is_socket():
            return None
        return "not a socket" if self.socket.exists() else "no such file or directory"


def read(url: str, *, encrypted: bool = False) -> Address:
    """What *url* names. In ``unix:///run/stead.sock/placement`` the first part that is a socket ends its path.

    Args:
        encrypted: whether a Unix socket has TLS.

    Raises:
        InvalidRequest: it cannot be the URL of a server. The message does not show it: it may hold a password.
    """
    url = url.rstrip("/")
    if url.startswith(_UNIX + "/"):
        socket, prefix = _socket_in(Path(unquote(url.removeprefix(_UNIX))))
        return Address(url, ("https" if encrypted else "http") + "://localhost" + quote(prefix), socket)
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None  # reading the port checks it
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidRequest(
            "the URL must begin with http:// or https:// and a host, or be unix:// and a socket's path"
        )
    shown = url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1)
    return Address(shown, url, may_use_proxy=parts.scheme == "https" and not _is_of_this_machine(host))


def _is_of_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _socket_in(path: Path) -> tuple[Path, str]:
    """The socket that *path* leads to or through, and what follows it. A missing one may be created later."""
    for place in (*reversed(path.parents), path):
        try:
            mode = place.stat().st_mode
        except OSError:
            break
        if stat.S_ISSOCK(mode):
            below = str(path.relative_to(place))
            return place, "" if below == "." else f"/{below}"
    return path, ""
