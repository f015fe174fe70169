"""The address of the service: an IP address and a port, or a Unix socket."""

from __future__ import annotations

import errno
import socket
import stat
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote

from stead.cli.errors import NO, CommandError
from stead.cli.server.port_holder import port_holder

if TYPE_CHECKING:
    from pathlib import Path


BACKLOG = 1024
"""Maximum number of connections that wait to be accepted, for example while workers are replaced."""


class NotServed(CommandError):
    """The service did not start, or a worker ended by itself."""

    exit_code = NO


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address and a port; with port 0 the kernel chooses a free one."""

    host: str
    port: int
    scheme: str = "http"

    @classmethod
    def of(cls, host: str, port: int, scheme: str = "http") -> Address:
        """The first address of *host*.

        Raises:
            CommandError: *host* is unknown.
        """
        try:
            where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4]
        except (OSError, UnicodeError) as error:
            raise CommandError(f"no address is known for --host {host}") from error
        return cls(str(where[0]), port, scheme)

    @property
    def is_of_this_machine_only(self) -> bool:
        """Whether only clients on this machine can connect."""
        return ip_address(self.host.partition("%")[0]).is_loopback

    def bound(self, advice: str = "Stop that process, or choose another port with --port") -> socket.socket:
        """A socket at this address that does not listen yet. With port 0 the kernel chooses a port.

        Args:
            advice: what to do if the port is in use.

        Raises:
            NotServed: the port is in use, or may not be used; the message names the process that uses it.
        """
        sock = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        # Closed connections of the previous server occupy the port for a minute, and would prevent a restart.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((self.host, self.port))
        except OSError as error:
            sock.close()
            raise self._not_served(error, advice) from error
        return sock

    def _not_served(self, error: OSError, advice: str) -> NotServed:
        what = f"cannot be used: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            holder = port_holder(self.host, self.port)
            what = f"is in use by {holder}. {advice}" if holder else f"is in use. {advice}"
        return NotServed(f"port {self.port} of {self.host} {what}")

    def listen(self, sock: socket.socket) -> None:
        """Make *sock* listen.

        Raises:
            NotServed: another process has bound the port too, and listens already.
        """
        try:
            sock.listen(BACKLOG)
        except OSError as error:
            raise self._not_served(error, "Stop that process, or choose another port with --port") from error

    def at(self, sock: socket.socket) -> Address:
        """The same address with the port of *sock*."""
        return replace(self, port=sock.getsockname()[1])

    def release(self) -> None:
        """Do nothing: there is nothing to remove."""

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{self.scheme}://[{host}]:{self.port}" if ":" in host else f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket; its permissions control which clients may connect."""

    path: Path
    permissions: int = 0o660
    is_of_this_machine_only = True

    def bound(self) -> socket.socket:
        """A socket at this path that does not listen yet. Removes the socket of an earlier service.

        Raises:
            NotServed: another service listens there, or there is a file of another kind, or the directory cannot be
                used.
        """
        sock = socket.socket(socket.AF_UNIX)
        try:
            if self.path.exists():
                self._remove_what_is_left()
            elif not self.path.parent.is_dir():
                raise NotServed(f"socket {self.path}: there is no such directory")
            sock.bind(str(self.path))
            self.path.chmod(self.permissions)  # no client can connect before the socket listens
        except OSError as error:
            sock.close()
            raise NotServed(f"socket {self.path} cannot be used: {error.strerror or error}") from error
        except NotServed:
            sock.close()
            raise
        return sock

    def listen(self, sock: socket.socket) -> None:
        """Make *sock* listen."""
        sock.listen(BACKLOG)

    def at(self, _sock: socket.socket) -> UnixAddress:
        """The same address."""
        return self

    def release(self) -> None:
        """Remove the socket."""
        self.path.unlink(missing_ok=True)

    def _remove_what_is_left(self) -> None:
        if not stat.S_ISSOCK(self.path.stat().st_mode):
            raise NotServed(f"{self.path} is no socket")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.path))
            # No process listens, so a server that was killed left the file behind.
            except ConnectionRefusedError:
                self.path.unlink()
                return
        raise NotServed(f"socket {self.path} is in use")

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        return f"unix://{quote(str(self.path))}"
