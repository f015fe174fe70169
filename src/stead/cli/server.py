"""The server that a command calls: its address, the token for it, and the server that runs on a data directory."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import socket
import stat
import struct
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import quote as url_quoted

from stead.cli.arguments import Options, chosen_data_dir, data_directory, options
from stead.cli.errors import NO, REFUSED, CommandError
from stead.cli.suggestions import hint_for

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from stead import Site
    from stead.client.blocking.transport import Transport
    from stead.client.errors import Refused
    from stead.config import Settings


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
    url = None if _is_outranked(given) else given.url
    if url is None:
        directory = data_directory()
        server = running(directory)
        if server is None:
            raise CommandError(_none_runs(given, directory))
        token = None if _is_outranked(given) and "token" in given.from_environment else given.token
        return Endpoint(server.url, token or _admin_token(directory), server.certificate)
    with suppress(CommandError):  # the user named another server, so errors of this one do not matter
        directory = data_directory()
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
    from stead.process.files import read_regular

    try:
        return read_regular(directory / "admin-token").decode().strip() or None
    except (OSError, ValueError):
        return None


# The address of the service: an IP address and a port, or a Unix socket.


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
        return f"unix://{url_quoted(str(self.path))}"


# The server that a command uses, as a site of the library, and the library's errors as those of commands.
#
# The library is imported when a command connects, so that ``stead --help`` does not wait for it.


_ANSWER_SECONDS = 300.0
_STATUSES_THAT_MEAN_NO = frozenset({404, 409})


@contextmanager
def connect(*, may_open: bool = False) -> Iterator[Site]:
    """The server that the shared options name (see :func:`stead.cli.server`).

    Args:
        may_open: if no server runs on the data directory that is named, open it in this process.

    Raises:
        CommandError: what the library raised inside, in the words of a command.
    """
    from stead.client.errors import Error, Refused

    directory = _without_server() if may_open else None
    where = endpoint() if directory is None else Endpoint(str(directory), None)
    try:
        with open_site(where) if directory is None else _open_here(directory) as site:
            try:
                yield site
            except Refused as error:
                raise _complaint(error, site, where) from error
    except Error as error:
        raise CommandError(str(error)) from error


def _without_server() -> Path | None:
    """The data directory that the options name, if no server runs on it."""
    given = options()
    if given.data_dir is None or (given.url is not None and not _is_outranked(given)):
        return None
    directory = data_directory()
    return directory if running(directory) is None else None


def _open_here(directory: Path) -> Site:
    import logging

    from stead.client.blocking.connecting import open as open_in_process

    logging.getLogger().addHandler(logging.NullHandler())  # else the log of the service is on stderr
    return open_in_process(directory)


def open_site(where: Endpoint) -> Site:
    """The site at *where*. No call is repeated: the user sees each error at once."""
    from stead.cli import plain_http
    from stead.client import calls
    from stead.client.blocking.site import Site

    address = calls.read(where.url, encrypted=where.certificate is not None)
    transport: Transport
    if plain_http.serves(address):
        transport = plain_http.PlainHttp(address)
    else:
        from stead.client.blocking.transport import Http

        transport = Http(address, None if where.certificate is None else trusting_only(where.certificate))
    return Site(transport, where.token, timeout=_ANSWER_SECONDS, retry=False)


def summary(error: Refused) -> str:
    """*error* in one line: its detail and its status, if there was a response."""
    return f"{error.detail} ({error.status})" if error.status else error.detail


def _complaint(error: Refused, site: Site, where: Endpoint) -> CommandError:
    from stead.client.calls import NotSent
    from stead.client.errors import Unsupported

    words = summary(error)
    if isinstance(error, NotSent):
        words += " (`stead serve` starts a server, --url names another)"
    elif isinstance(error, Unsupported) and error.missing:
        words = f"the server has no {error.missing}; this command requires Stead with `stead {error.version}`"
    elif error.status == 401:
        reason = "wants a token" if where.token is None else "does not accept the token"
        words = f"{site.url} {reason}; give one with --token or STEAD_TOKEN (401)"
    elif error.status and not error.facts and not isinstance(error, Unsupported):
        words = f"{site.url}: {words}"  # no error of the API: something else answers
    complaint = CommandError(words + _hint(error, site))
    is_no = error.status in _STATUSES_THAT_MEAN_NO and not isinstance(error, Unsupported)
    complaint.exit_code = NO if is_no else REFUSED
    return complaint


def _hint(error: Refused, site: Site) -> str:
    """A similar name that exists; empty if there is none."""
    from stead.client.errors import Unavailable

    return "" if isinstance(error, Unavailable) else hint_for(site, error.detail)


def trusting_only(certificate: Path) -> ssl.SSLContext:
    """Trust only the first certificate of the PEM file *certificate*, which need not name the host."""
    import ssl

    try:
        text = certificate.read_text()
        start, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be self-signed
        context.load_verify_locations(cadata=text[text.index(start) : text.index(end) + len(end)])
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CommandError(f"cannot read the server's certificate {certificate}: {reason.lower()}") from error
    return context


# The server that runs on a data directory. There is at most one, and commands find it through the directory.
#
# ``server.lock`` is never removed. The server holds record locks on two of its bytes, which the kernel releases when
# the process ends in any way: the first from its start, the second as soon as ``server.json`` has its address.
# Decision 6 compares this lock with others.
#
# ``server.json`` has the server's ``url``, its ``pid``, the ``network`` in which the URL is valid, its TLS
# ``certificate`` if it has one, and the URL of its ``metrics`` if they are enabled. A killed server leaves the file
# behind; without the lock it is ignored.


LOCK = "server.lock"
NOTE = "server.json"

_STARTED, _LISTENS = 0, 1
"""The bytes of the lock file, and the meaning of a lock on each."""

_ATTEMPTS = 3

_FLOCK = "hhqqi0q"  # l_type, l_whence, l_start, l_len, l_pid and padding. Source: fcntl(2), fcntl_locking(2)


@dataclass(frozen=True, slots=True)
class Running:
    """A listening server.

    Attributes:
        certificate: the PEM file of its TLS certificate, None for plain HTTP.
        metrics: the URL of its metrics, None if it has none.
    """

    url: str
    pid: int
    certificate: Path | None = None
    metrics: str | None = None


class Occupation:
    """A data directory that this process uses exclusively, during :func:`occupied`."""

    def __init__(self, directory: Path, lock: int) -> None:
        self._note = directory / NOTE
        self._lock = lock

    def decide(self, url: str) -> None:
        """Publish the URL at which this process will listen, for the error message of a second server."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, json.dumps({"url": url}).encode() + b"\n", 0)

    def announce(self, url: str, certificate: Path | None = None, metrics: str | None = None) -> None:
        """Publish *url*, at which commands find this process, and that of its *metrics*."""
        from stead.process.files import replace_privately

        note = {"url": url, "pid": os.getpid(), "network": _network()}
        if certificate is not None:
            note["certificate"] = str(certificate)
        if metrics is not None:
            note["metrics"] = metrics
        # The note before the lock: a command that sees the second byte locked must find the note.
        replace_privately(self._note, json.dumps(note) + "\n")
        fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LISTENS)


@contextmanager
def occupied(directory: Path) -> Iterator[Occupation]:
    """Lock *directory*, which exists, against other servers.

    Raises:
        NotServed: another server runs on it, or it cannot be locked.
    """
    path = directory / LOCK
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise NotServed(f"cannot lock {path}: {error.strerror}") from error
    try:
        _require_file(path, lock)
        _take(directory, lock)
        note = directory / NOTE
        note.unlink(missing_ok=True)  # left by a killed server; removed before the second byte is locked
        try:
            yield Occupation(directory, lock)
        finally:
            note.unlink(missing_ok=True)
    finally:
        os.close(lock)  # releases the locks


def running(directory: Path) -> Running | None:
    """The server that listens for *directory*; None if none runs.

    Raises:
        CommandError: one is starting but does not listen yet, is unreachable from here, or the directory is unreadable.
    """
    try:
        lock = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CommandError(f"cannot read data directory {directory}: {error.strerror}") from error
    try:
        if _holder(lock, _LISTENS) is not None:
            return _noted(directory)
        pid = _holder(lock, _STARTED)
    finally:
        os.close(lock)
    if pid is None:
        return None
    raise CommandError(f"the server of data directory {directory} ({_named(pid)}) does not listen yet; retry")


def _require_file(path: Path, lock: int) -> None:
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise NotServed(f"cannot lock {path}: not a regular file")


def _take(directory: Path, lock: int) -> None:
    holder = None
    for _ in range(_ATTEMPTS):
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _STARTED)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                reason = f"{error.strerror}. Use a file system with locks"
                raise NotServed(f"cannot lock {directory / LOCK}: {reason}") from error
        else:
            return
        holder = _holder(lock, _STARTED)
        if holder is not None:  # otherwise it has just ended
            break
    url = _decided(lock)
    listens = f", which listens on {url}" if url else ""
    raise NotServed(
        f"data directory {directory} is in use by {_named(holder or 0)}{listens}. "
        "Stop that server first, or choose another directory with --data-dir"
    )


def _holder(lock: int, byte: int) -> int | None:
    """The process that locks *byte*, 0 if its pid is not visible here (another container); None if none does."""
    question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, question))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _decided(lock: int) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(os.pread(lock, 65536, 0))["url"])
    return None


def _named(pid: int) -> str:
    return f"process {pid}" if pid > 0 else "a process of another container or host"


def _noted(directory: Path) -> Running | None:
    try:
        note = json.loads((directory / NOTE).read_text())
        certificate = Path(note["certificate"]) if "certificate" in note else None
        server = Running(str(note["url"]), int(note["pid"]), certificate, note.get("metrics"))
        network = str(note["network"])
    except FileNotFoundError:  # it has just stopped
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(f"cannot read {directory / NOTE}. Restart the server of this directory") from error
    if network != _network() and not server.url.startswith("unix:"):
        raise CommandError(
            f"the server of data directory {directory} listens on {server.url} of another host or container "
            f"({network.partition(' ')[0]}). Run the command there, or name the server with --url"
        )
    return server


def _network() -> str:
    """Host and network namespace, which determine the meaning of 127.0.0.1. Hosts may share a home directory."""
    try:
        namespace = str(Path("/proc/self/ns/net").readlink())
    except OSError:
        namespace = "-"
    return f"{socket.gethostname()} {namespace}"


# Determines from /proc which process uses a TCP port of this machine.
#
# Source: proc_net_tcp(5) of the kernel's documentation, proc_pid_fd(5).


_PROC = Path("/proc")
_TCP_LISTENS = "0A"


@dataclass(frozen=True, slots=True)
class _Socket:
    inode: int
    user: int
    listens: bool


def port_holder(host: str, port: int) -> str | None:
    """The process that occupies *port* of *host*: ``process 4242 (nginx)``; None if /proc does not show one.

    The descriptors of another user's process cannot be read; then the result names the user: ``a process of root``.
    Command lines are left out, since they may contain passwords.
    """
    sockets = list(_sockets_at(ip_address(host.partition("%")[0]), port))
    if not sockets:
        return None
    socket = max(sockets, key=lambda each: each.listens)
    pids = set(_processes_with(socket.inode))
    if not pids:
        return f"a process of {_user(socket.user)}"
    pid = min(pid for pid in pids if _parent(pid) not in pids)  # not a worker that inherited the socket
    return f"process {pid} ({_name(pid)})"


def _sockets_at(host: IPv4Address | IPv6Address, port: int) -> Iterator[_Socket]:
    """The sockets that conflict with a new one at this address."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (_PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            address, _, local = fields[1].partition(":")
            if int(local, 16) == port and int(fields[9]) and _collide(_address(address), host):
                yield _Socket(int(fields[9]), int(fields[7]), fields[3] == _TCP_LISTENS)


def _address(text: str) -> IPv4Address | IPv6Address:
    """The address in words in this machine's byte order."""
    words = (int(text[place : place + 8], 16) for place in range(0, len(text), 8))
    address = ip_address(b"".join(struct.pack("=I", word) for word in words))
    return getattr(address, "ipv4_mapped", None) or address


def _collide(address: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address) -> bool:
    return address == other or _covers(address, other) or _covers(other, address)


def _covers(every: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address) -> bool:
    """Whether a socket at *every* address also covers *other*; ``::`` covers both IP versions."""
    return every.is_unspecified and every.version >= other.version


def _processes_with(inode: int) -> Iterator[int]:
    link = f"socket:[{inode}]"
    for process in _PROC.glob("[0-9]*"):
        try:
            if any(_target(each) == link for each in (process / "fd").iterdir()):
                yield int(process.name)
        except OSError:  # the process belongs to another user, or has ended
            continue


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _name(pid: int) -> str:
    try:
        name = (_PROC / str(pid) / "comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return "?"
    return "".join(sign if sign.isprintable() else "?" for sign in name)  # processes can set any name


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


# The settings of the service, for commands that open its database or its token file.


def service_settings(config_file: list[Path] | None, config_dir: list[Path] | None) -> Settings:
    """The settings of a service with this configuration; creates the directory of an embedded one.

    Raises:
        CommandError: the configuration is invalid, or the directory cannot be created.
    """
    from stead.auth.tokens import private_directory
    from stead.config import ConfigError, load

    try:
        settings = load(config_file or None, config_dir or None, data_dir=chosen_data_dir())
        if settings.embedded:
            private_directory(settings.data_dir)
    except ConfigError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"data directory {settings.data_dir}: {error.strerror}") from error
    return settings
