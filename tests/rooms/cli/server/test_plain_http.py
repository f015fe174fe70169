"""What commands need of HTTP without TLS, against servers that play each way of answering."""

import gzip
import socket
import threading

import pytest

from stead.cli.plain_http import PlainHttp, serves
from stead.client.calls import Call, NotSent, read
from stead.client.errors import Unreachable

PATIENCE_SECONDS = 20


@pytest.fixture
def played(tmp_path):
    """A server on a Unix socket: a connection for each list of answers, one of which follows each request."""
    ours = socket.socket(socket.AF_UNIX)
    path = tmp_path / "s"
    ours.bind(str(path))
    ours.listen()
    requests = []

    def start(*connections):
        def serve():
            for answers in connections:
                with ours.accept()[0] as accepted:
                    accepted.settimeout(PATIENCE_SECONDS)
                    for answer in answers:
                        requests.append(_request(accepted))
                        if answer is None:
                            accepted.recv(1)  # until the client leaves
                        else:
                            accepted.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return PlainHttp(read(f"unix://{path}"))

    start.requests = requests
    yield start
    ours.close()


def _request(connection):
    read_so_far = b""
    while b"\r\n\r\n" not in read_so_far:
        read_so_far += connection.recv(4096)
    head, _, body = read_so_far.partition(b"\r\n\r\n")
    for line in head.lower().splitlines():
        if line.startswith(b"content-length:"):
            while len(body) < int(line.split(b":")[1]):
                body += connection.recv(4096)
    return head + b"\r\n\r\n" + body


def send(transport, method="GET", body=None, timeout=PATIENCE_SECONDS):
    return transport.send(Call(method, "/x?a=b", body), {"x-auth-token": "secret"}, timeout)


SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: 1\r\n\r\n{}"
ZIPPED = gzip.compress(b"{}", mtime=0)


@pytest.mark.parametrize(
    "answer",
    [
        SIZED,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nX-A: 1\r\n\r\n{}",
        b"HTTP/1.1 103 Early Hints\r\nX-B: 1\r\n\r\n" + SIZED,
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(ZIPPED), ZIPPED),
    ],
)
def test_every_form_of_a_body_is_read(answer, played):
    transport = played([answer])
    reply = send(transport)
    transport.close()
    assert (reply.status, reply.json(), reply.headers["x-a"]) == (200, {}, "1")
    assert "x-b" not in reply.headers
    assert played.requests[0].startswith(b"GET /x?a=b HTTP/1.1\r\nhost: localhost\r\n")
    assert b"\r\nx-auth-token: secret\r\n" in played.requests[0]


def test_connections_are_kept_and_replaced_when_the_server_closed_them(played):
    transport = played([SIZED, SIZED], [b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"], [SIZED])
    assert [send(transport).status for _ in range(2)] == [200, 200]
    assert send(transport, "PUT", {"a": 1}).status == 204
    assert send(transport).status == 200
    transport.close()
    assert played.requests[2].endswith(b'{"a":1}')


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"SSH-2.0-OpenSSH_9.2\r\n"])
def test_a_broken_answer_leaves_unknown_what_was_done(answer, played):
    with pytest.raises(Unreachable, match=r"^the connection to unix:") as raised:
        send(played([answer]))
    assert not isinstance(raised.value, NotSent)


def test_silence_ends_with_the_timeout(played):
    with pytest.raises(Unreachable, match=r"did not answer within 0\.1 s"):
        send(played([None]), timeout=0.1)


def test_what_cannot_be_reached_was_not_sent(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(NotSent, match=f"cannot reach {url}: connection refused"):
            send(PlainHttp(read(url)))
    with pytest.raises(NotSent, match="no such file or directory"):
        send(PlainHttp(read(f"unix://{tmp_path}/none")))


@pytest.mark.parametrize(
    ("url", "is_served"),
    [
        ("http://127.0.0.1:8778", True),
        ("http://[::1]:8778/placement", True),
        ("https://127.0.0.1", False),
        ("http://user:secret@host", False),
        ("http://höst", False),
    ],
)
def test_tls_passwords_and_other_alphabets_are_left_to_the_library(url, is_served):
    assert serves(read(url)) == is_served
