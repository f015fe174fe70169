"""The header of a proxy before a connection. Source: "The PROXY protocol", HAProxy project."""

import asyncio
import select
import socket
import ssl
import struct
import threading
from contextlib import ExitStack
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes_testing.segments import send_cut
from lanes_testing.serving import GET, PATIENCE_SECONDS, received, serving
from lanes_testing.waiting import wait_until
from wsgi_lanes.proxy_protocol import SIGNATURE, Malformed, client_address, is_in

pytestmark = [pytest.mark.timeout(120)]  # sends every cut of a header

BEHIND = b"GET / HTTP/1.1\r\n\r\n\n"
TRUSTED = (ip_network("127.0.0.1"),)


def text(line):
    return f"PROXY {line}\r\n".encode()


def binary(addresses, *, command=0x21, kind=0x11, more=b"", length=None):
    addresses += more
    return SIGNATURE + struct.pack("!BBH", command, kind, len(addresses) if length is None else length) + addresses


def pair(source, destination="198.51.100.1"):
    return ip_address(source).packed + ip_address(destination).packed + struct.pack("!HH", 1, 8778)


IPV4, IPV6 = pair("192.0.2.7"), pair("2001:db8::7", "2001:db8::1")
CERTIFICATE = b"\x20" + struct.pack("!H", 9000) + b"c" * 9000
HEADERS = {
    "text": (text("TCP4 192.0.2.7 198.51.100.1 1 8778"), "192.0.2.7"),
    "text, IPv6": (text("TCP6 2001:DB8::7 2001:db8::1 65535 8778"), "2001:db8::7"),
    "text, IPv4 as IPv6": (text("TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 1 2"), "192.0.2.7"),
    "text, unknown": (text("UNKNOWN"), None),
    "text, unknown with addresses": (text("UNKNOWN " + "f" * 90), None),
    "binary": (binary(IPV4), "192.0.2.7"),
    "binary, IPv6": (binary(IPV6, kind=0x21), "2001:db8::7"),
    "binary, IPv4 as IPv6": (binary(pair("::ffff:192.0.2.7", "::1"), kind=0x21), "192.0.2.7"),
    "binary, with more": (binary(IPV4, more=CERTIFICATE), "192.0.2.7"),
    "binary, of the proxy itself": (binary(b"", command=0x20, kind=0), None),
    "binary, of the proxy itself with addresses": (binary(IPV4, command=0x20), None),
    "binary, of an unknown family": (binary(b"", kind=0), None),
    "binary, of a Unix socket": (binary(b"/a".ljust(216, b"\0"), kind=0x31), None),
}
MALFORMED = {
    "none": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
    "small letters": b"proxy TCP4 192.0.2.7 198.51.100.1 1 8778\r\n",
    "another family": text("UDP4 192.0.2.7 198.51.100.1 1 8778"),
    "the wrong family": text("TCP4 2001:db8::7 2001:db8::1 1 8778"),
    "the wrong family of the destination": text("TCP4 192.0.2.7 2001:db8::1 1 8778"),
    "no ports": text("TCP4 192.0.2.7 198.51.100.1"),
    "a large port": text("TCP4 192.0.2.7 198.51.100.1 65536 8778"),
    "a signed port": text("TCP4 192.0.2.7 198.51.100.1 +1 8778"),
    "two spaces": text("TCP4  192.0.2.7 198.51.100.1 1 8778"),
    "a space at the end": text("TCP4 192.0.2.7 198.51.100.1 1 8778 "),
    "a name": text("TCP4 localhost 198.51.100.1 1 8778"),
    "a scope": text("TCP6 fe80::1%lo fe80::2 1 8778"),
    "zeros": text("TCP4 192.000.002.007 198.51.100.1 1 8778"),
    "no ASCII": "PROXY TCP4 ١٩٢.0.2.7 198.51.100.1 1 8778\r\n".encode(),
    "a line feed": b"PROXY TCP4 192.0.2.7 198.51.100.1 1 8778\n",
    "a long line": text("UNKNOWN " + "f" * 92),
    "a line without an end": b"PROXY TCP4 " + b"1" * 1000,
    "a version that does not exist": binary(IPV4, command=0x31),
    "a command that does not exist": binary(IPV4, command=0x22),
    "a datagram": binary(IPV4, kind=0x12),
    "a family that does not exist": binary(IPV4, kind=0x41),
    "a length that is too small": binary(IPV4, length=11),
    "an IPv6 length that is too small": binary(IPV6, kind=0x21, length=35),
    "the end": binary(IPV4)[:-1],
    "nothing": b"",
}


def read(pieces):
    """What the header says, and the bytes that were not read."""
    pieces = list(pieces)

    async def receive(size):
        while pieces:
            piece, pieces[0] = pieces[0][:size], pieces[0][size:]
            if piece:
                return piece
            del pieces[0]
        return b""

    return asyncio.run(client_address(receive)), b"".join(pieces)


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_names_the_client_wherever_it_is_cut_and_nothing_behind_it_is_read(case):
    header, client = HEADERS[case]
    sent = header + BEHIND
    assert read(sent[place : place + 1] for place in range(len(sent))) == (client, BEHIND)
    for place in range(0, len(sent), len(sent) // 100 + 1):
        assert read([sent[:place], sent[place:]]) == (client, BEHIND)


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_header_is_refused(case):
    with pytest.raises(Malformed):
        read([MALFORMED[case]])


@given(st.ip_addresses(), st.integers(0, 65535))
def test_both_versions_name_the_same_client(client, port):
    family, kind = ("TCP4", 0x11) if client.version == 4 else ("TCP6", 0x21)
    named, _ = read([text(f"{family} {client} {client} {port} {port}")])
    assert named == read([binary(client.packed * 2 + struct.pack("!HH", port, port), kind=kind)])[0]
    mapped = client.ipv4_mapped if client.version == 6 else None
    assert named == str(mapped or client)


@given(st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"]), st.binary(max_size=300))
def test_no_bytes_break_the_reader_of_headers(begin, rest):
    try:
        client, _ = read([begin + rest])
    except Malformed:
        return
    assert client is None or ip_address(client)


def test_a_peer_is_trusted_by_its_address_in_either_family():
    networks = (ip_network("192.0.2.0/24"), ip_network("2001:db8::/32"))
    assert [is_in(peer, networks) for peer in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7", "fe80::1%1")] == [
        True, True, True, False,
    ]  # fmt: skip
    assert not is_in("192.0.3.7", networks)


# Over sockets.


def whoami(environ, start_response):
    start_response("200 OK", [])
    return [environ["REMOTE_ADDR"].encode() + b"!"]


def all_received(connection):
    content = b""
    while part := connection.recv(65536):
        content += part
    return content


def ending(address, sent):
    """What a client receives until the server ends the connection, be it by a reset."""
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        try:
            client.sendall(sent)
            return all_received(client)
        except ConnectionError:
            return b""


@pytest.mark.parametrize("case", ["text", "text, IPv6", "text, unknown", "binary", "binary, of the proxy itself"])
def test_the_client_is_the_one_that_the_proxy_names_wherever_the_header_is_cut(case):
    header, client = HEADERS[case]
    with serving(whoami, proxies=TRUSTED) as (_, address):
        for place in range(1, len(header + GET)):
            with socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection:
                send_cut(connection, header + GET, [place])
                answers = received(connection, b"!")
                connection.sendall(GET)  # the header is that of the connection, and not of a request
                answers += received(connection, b"!")
            assert answers.count((client or "127.0.0.1").encode() + b"!") == 2


@pytest.mark.parametrize("case", ["text", "binary", "binary, with more"])
def test_the_header_comes_before_tls(case, tls):
    header, client = HEADERS[case]
    context, clients_context = tls
    with serving(whoami, context=context, proxies=TRUSTED) as (server, address):
        for place in range(1, min(len(header), 60)):
            connection = socket.create_connection(address, timeout=PATIENCE_SECONDS)
            send_cut(connection, header, [place])
            with clients_context.wrap_socket(connection, server_hostname="localhost") as connection:
                connection.sendall(GET)
                assert received(connection, b"!").endswith(b"\r\n\r\n" + client.encode() + b"!")
        refused = []
        server.refusals.subscribe(refused.append)
        with (
            pytest.raises((ssl.SSLError, ConnectionError)),
            socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection,
        ):
            clients_context.wrap_socket(connection, server_hostname="localhost")
        assert refused == ["proxy_protocol"]


def test_each_client_of_a_proxy_has_its_own_share_of_the_queue():
    may_end, running = threading.Event(), threading.Semaphore(0)

    def slow(environ, start_response):
        running.release()
        assert may_end.wait(PATIENCE_SECONDS)
        return whoami(environ, start_response)

    with serving(slow, proxies=TRUSTED, queue_per_client=1) as (server, address), ExitStack() as stack:

        def ask(client):
            connection = stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS))
            connection.sendall(text(f"TCP4 {client} 198.51.100.1 1 2") + GET)
            return connection

        first = ask("192.0.2.1")
        assert running.acquire(timeout=PATIENCE_SECONDS)
        many = [ask("192.0.2.1") for _ in range(6)]

        def decided():
            """Requests that wait, run or are refused."""
            states = server.states()
            return states["working"] + states["idle"]

        wait_until(lambda: decided() == 7)
        answered, _, _ = select.select(many, [], [], PATIENCE_SECONDS)
        assert answered[0].recv(1000).startswith(b"HTTP/1.1 503 ")
        other = ask("192.0.2.2")
        wait_until(lambda: decided() == 8)
        may_end.set()
        received(first, b"192.0.2.1!")
        received(other, b"192.0.2.2!")


@pytest.mark.parametrize("case", [case for case in MALFORMED if case not in ("the end", "nothing")])
def test_a_connection_of_a_proxy_without_a_valid_header_is_closed_without_an_answer(case):
    with serving(whoami, proxies=TRUSTED) as (server, address):
        refused = []
        server.refusals.subscribe(refused.append)
        assert ending(address, MALFORMED[case] + GET) == b""
    assert refused == ["proxy_protocol"]


def test_a_header_that_does_not_come_in_time_ends_the_connection():
    with serving(whoami, proxies=TRUSTED, head_timeout=0.1) as (server, address):
        refused = []
        server.refusals.subscribe(refused.append)
        assert ending(address, HEADERS["text"][0][:-1]) == b""
    assert refused == ["head_timeout"]


@pytest.mark.parametrize("proxies", [(), (ip_network("192.0.2.0/24"), ip_network("::/0"))], ids=["none", "others"])
@pytest.mark.parametrize("case", ["text", "text, unknown", "binary", "binary, of the proxy itself"])
def test_the_header_of_any_other_peer_is_refused_wherever_it_is_cut(case, proxies):
    header, _ = HEADERS[case]
    with serving(whoami, proxies=proxies) as (_, address):
        for place in range(1, len(header)):
            with socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection:
                send_cut(connection, header + GET, [place])
                answer = all_received(connection)
            assert answer.startswith(b"HTTP/1.1 501 ")
            assert b"read from proxies only" in answer
            assert answer.count(b"HTTP/1.1 ") == 1


def test_a_header_within_a_connection_is_refused():
    with serving(whoami, proxies=TRUSTED) as (_, address):
        answers = ending(address, HEADERS["text"][0] + GET + HEADERS["text"][0] + GET)
    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")] == [b"", b"200", b"501"]


def test_a_server_that_drains_waits_for_a_header_no_longer_than_for_a_head():
    with (
        serving(whoami, proxies=TRUSTED, head_timeout=0.1) as (server, address),
        socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection,
    ):
        connection.sendall(HEADERS["text"][0][:5])
        wait_until(lambda: server.states()["opening"])  # it is accepted
        server.loop.call_soon_threadsafe(server.drain, 0)
        wait_until(server.loop.is_closed)
