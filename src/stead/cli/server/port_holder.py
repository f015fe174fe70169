"""Determines from /proc which process uses a TCP port of this machine.

Source: proc_net_tcp(5) of the kernel's documentation, proc_pid_fd(5).
"""

from __future__ import annotations

import pwd
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
_LISTENS = "0A"


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
                yield _Socket(int(fields[9]), int(fields[7]), fields[3] == _LISTENS)


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
