"""The PROXY protocol, versions 1 and 2: a header before all else on a connection, in which a proxy names its client.

Whether a connection has the header is decided by the address of its peer, never by its bytes: otherwise any client
could claim any address. Source: "The PROXY protocol", HAProxy project, sections 2 and 2.2.
"""

from __future__ import annotations

import re
import struct
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

Network = IPv4Network | IPv6Network

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
"""With which version 2 begins. It is shorter than any header of version 1."""

LONGEST_TEXT = 107
"""Bytes of a header of version 1, with its line end."""

_TEXT = re.compile(rb"PROXY (?:UNKNOWN(?: [\x20-\x7e]*)?|TCP([46]) (\S+) (\S+) ([0-9]{1,5}) ([0-9]{1,5}))\r\n")
_LONGEST_PIECE = 4096


class _Family(NamedTuple):
    """The addresses of version 2 in one family: bytes of both with their ports, and how to read one."""

    size: int
    address: type[IPv4Address | IPv6Address] | None = None
    address_size: int = 0


_FAMILIES = {
    0x00: _Family(0),  # unknown
    0x11: _Family(12, IPv4Address, 4),
    0x21: _Family(36, IPv6Address, 16),
    0x31: _Family(216),  # two paths of Unix sockets
}
"""Of TCP and Unix sockets, by their code. The others, such as UDP, cannot be the family of a connection."""

_LOCAL, _PROXY = 0x20, 0x21


class Malformed(Exception):
    """A connection that must begin with a header does not, or the header is invalid."""


def is_in(address: str, networks: Iterable[Network]) -> bool:
    """Whether the *address* of a peer is in one of *networks*."""
    peer = ip_address(address)
    if isinstance(peer, IPv6Address) and peer.ipv4_mapped:  # of a socket that listens for both families
        peer = peer.ipv4_mapped
    return any(peer in network for network in networks)


async def client_address(receive: Callable[[int], Awaitable[bytes]]) -> str | None:
    """Read the header of a connection, and not a byte after it: TLS or HTTP follows.

    Args:
        receive: returns at least one byte and at most the given number; none if the peer has ended the connection.

    Returns:
        The address of the client; None if the proxy speaks for itself, as for a health check, or names no address.

    Raises:
        Malformed: the connection does not begin with a valid header.
    """
    begin = await _exactly(receive, len(SIGNATURE))
    if begin == SIGNATURE:
        return await _binary(receive)
    if begin.startswith(b"PROXY "):
        return await _text(begin, receive)
    raise Malformed("no header of the PROXY protocol")


async def _text(begin: bytes, receive: Callable[[int], Awaitable[bytes]]) -> str | None:
    header = bytearray(begin)
    while not header.endswith(b"\n") and len(header) < LONGEST_TEXT:
        header += await _exactly(receive, 1)  # the length is not declared, and more would be of what follows
    match = _TEXT.fullmatch(header)
    if match is None:
        raise Malformed("malformed header of version 1")
    version, *addresses_and_ports = (group.decode("ascii", "replace") if group else "" for group in match.groups())
    if not version:
        return None
    family = IPv4Address if version == "4" else IPv6Address
    source, destination, *ports = addresses_and_ports
    if any(int(port) > 0xFFFF for port in ports) or "%" in source + destination:
        raise Malformed("malformed header of version 1")
    try:
        family(destination)
        return _shown(family(source))
    except ValueError:
        raise Malformed("malformed address in a header of version 1") from None


async def _binary(receive: Callable[[int], Awaitable[bytes]]) -> str | None:
    command, kind, length = struct.unpack("!BBH", await _exactly(receive, 4))
    if command == _LOCAL:  # whatever the addresses are, they are not those of a client
        await _skip(receive, length)
        return None
    family = _FAMILIES.get(kind)
    if command != _PROXY or family is None or length < family.size:
        raise Malformed("malformed header of version 2")
    addresses = await _exactly(receive, family.size)
    await _skip(receive, length - family.size)  # for other receivers: authorities, certificates, checksums
    return _shown(family.address(addresses[: family.address_size])) if family.address else None


async def _skip(receive: Callable[[int], Awaitable[bytes]], size: int) -> None:
    while size:
        size -= len(await _exactly(receive, min(size, _LONGEST_PIECE)))


def _shown(address: IPv4Address | IPv6Address) -> str:
    """The address as a socket names it. A client has one name, whichever family the proxy writes it in."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


async def _exactly(receive: Callable[[int], Awaitable[bytes]], size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        piece = await receive(size - len(pieces))
        if not piece:
            raise Malformed("the connection ended before its header")
        pieces += piece
    return bytes(pieces)
