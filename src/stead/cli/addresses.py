"""Where the service listens: an address and a port, or a Unix socket; in plain text or with TLS."""

from __future__ import annotations

import errno
import socket
import stat
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from stead.cli.errors import NO, CommandError

if TYPE_CHECKING:
    from pathlib import Path


class NotServed(CommandError):
    """The service did not start, or a worker ended by itself."""

    exit_code = NO


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate with those that signed it, and its key: PEM files. ``clients`` signed those of clients, if any."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def checked(self) -> Tls:
        """The same, if it can be used.

        Raises:
            NotServed
        """
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            if self.clients is not None:
                context.load_verify_locations(self.clients)
        except (OSError, ssl.SSLError, _PasswordWanted) as error:
            raise NotServed(f"the certificate or its key can not be used: {_words(error)}") from error
        return self


class _PasswordWanted(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    raise _PasswordWanted("the key must not be encrypted, or nobody could start the service")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error)


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address and a port; port 0 is any that is free."""

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
        """Whether nobody else can connect."""
        return ip_address(self.host.partition("%")[0]).is_loopback

    def checked(self) -> Address:
        """The same with the port decided. Nobody listened there a moment ago.

        Raises:
            NotServed: the port is in use, or may not be used.
        """
        # Granian listens with SO_REUSEPORT, so a second service on the port would share it with the first.
        with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                what = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
                raise NotServed(f"port {self.port} of {self.host} {what}") from error
            return replace(self, port=probe.getsockname()[1])

    @property
    def url(self) -> str:
        """What clients on this machine call."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{self.scheme}://[{host}]:{self.port}" if ":" in host else f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket, with the permissions that say who may connect."""

    path: Path
    permissions: int = 0o660
    is_of_this_machine_only = True

    def checked(self) -> UnixAddress:
        """The same; what an earlier service left behind is removed.

        Raises:
            NotServed: somebody listens there, or something else is there, or the directory can not be used.
        """
        try:
            if self.path.exists():
                self._remove_what_is_left()
            elif not self.path.parent.is_dir():
                raise NotServed(f"socket {self.path}: there is no such directory")
        except OSError as error:
            raise NotServed(f"socket {self.path} cannot be used: {error.strerror}") from error
        return self

    def _remove_what_is_left(self) -> None:
        if not stat.S_ISSOCK(self.path.stat().st_mode):
            raise NotServed(f"{self.path} is no socket")
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.path))
            except ConnectionRefusedError:
                self.path.unlink()
                return
        raise NotServed(f"socket {self.path} is in use")

    @property
    def url(self) -> str:
        """What clients on this machine call."""
        return f"unix://{self.path}"
