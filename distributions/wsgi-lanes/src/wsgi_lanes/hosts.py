"""Which Host headers are names of this service, wherever a browser on its network needs no secret to reach it.

A page of another site can make its own name point to the address of this service (DNS rebinding). The browser then
sends that name as the host, and lets the page read the responses.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment


@dataclass(frozen=True, slots=True)
class Hosts:
    """The accepted names.

    Attributes:
        names: accepted beside IP addresses and localhost, in lower case; None: every name, but none over loopback.
        is_proxied: a request over loopback is one of a proxy, which clients reach by any name.
        option: where the operator lists the names, for the message.
    """

    names: frozenset[str] | None = None
    is_proxied: bool = False
    option: str = "the names of this service"

    def problem(self, environ: WSGIEnvironment) -> str | None:
        """Why the Host header of a request is refused, or None."""
        host = environ.get("HTTP_HOST", "")
        accepts_all = self.names is None and (self.is_proxied or not is_over_loopback(environ))
        if accepts_all or is_known_host(host, self.names or frozenset()):
            return None
        return f"Unknown Host header {host[:200]!r}. If it is a name of this service, add it to {self.option}."


def is_known_host(header: str, hosts: frozenset[str]) -> bool:
    """Whether a Host header has one of *hosts*, localhost or an IP address, with any port.

    A page of another site can make its name point to 127.0.0.1, but it cannot have an IP address as its name.
    """
    name = header.strip().lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    if name in hosts or name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ip_address(name)
    except ValueError:
        return name == ""  # HTTP/1.0, which browsers do not speak
    return True


def is_over_loopback(environ: WSGIEnvironment) -> bool:
    """Whether both ends of the connection have a loopback address, as for a browser on the machine of the server.

    Servers that put another name than the address into SERVER_NAME are not recognized.
    """
    return all(_is_loopback(environ.get(name, "")) for name in ("SERVER_NAME", "REMOTE_ADDR"))


def _is_loopback(address: str) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    # A socket that listens on `::` has IPv4 clients with mapped addresses, ::ffff:127.0.0.1.
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback
