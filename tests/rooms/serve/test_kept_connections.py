"""Connections that clients keep: no answer ends one unannounced, whatever is refused, wherever the request is cut."""

import socket
import ssl
import threading
import time

import pytest

from tests.rooms.serve.test_serve import machine
from tests.rooms.serve.test_serving import certificate
from tests.system.api.client import NEWEST

__all__ = ["certificate", "machine"]  # fixtures

pytestmark = pytest.mark.timeout(300)  # hundreds of requests, each cut in two

TOKEN = "admin"
BODY = b'{"name": "x"}'


@pytest.fixture(params=["tcp", "tls", "unix"])
def connect(request, machine, certificate):
    """A function that connects to a real service."""
    file = machine.config(
        f"[placement_database]\nconnection = sqlite:///{machine.home}/p.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n[stead]\nmax_body_size = 1000000\n"
    )
    path = machine.home / "s.sock"
    options = {
        "tcp": [],
        "tls": ["--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key)],
        "unix": ["--socket", str(path)],
    }[request.param]
    service = machine.serve("--config-file", str(file), *options, target="stead.wsgi:application")

    def connect():
        if request.param == "unix":
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(str(path))
        else:
            connection = socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if request.param == "tls":
            trusting = ssl.create_default_context(cafile=certificate.certificate)
            connection = trusting.wrap_socket(connection, server_hostname="localhost")
        connection.settimeout(30)
        return connection

    return connect


def head(method, path, body=b"", **fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if body:
        lines += [f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


USER = {"X_Auth_Token": TOKEN, "OpenStack_API_Version": f"placement {NEWEST}"}
JSON = {**USER, "Content_Type": "application/json"}
REFUSED = {
    "a trait, whose body is not read": (201, "PUT", "/traits/CUSTOM_Q", JSON),
    "no token": (401, "POST", "/resource_providers", {"Content_Type": "application/json"}),
    "not allowed": (403, "POST", "/resource_providers", {**JSON, "X_Auth_Token": "someone:else"}),
    "nowhere": (404, "POST", "/nowhere", JSON),
    "another method": (405, "PUT", "/resource_providers", JSON),
    "another answer": (406, "GET", "/traits", {**JSON, "Accept": "image/png"}),
    "another version": (406, "POST", "/resource_providers", {**JSON, "OpenStack_API_Version": "placement 9.9"}),
    "another form": (415, "POST", "/resource_providers", {**USER, "Content_Type": "text/plain"}),
    "a version without the route": (404, "PUT", "/traits/CUSTOM_Q", {**JSON, "OpenStack_API_Version": "placement 1.0"}),
    "a read": (200, "GET", "/traits", JSON),
    "health": (200, "GET", "/healthcheck", JSON),
    "a live check": (200, "GET", "/healthcheck/live", JSON),
    "a bad body": (400, "POST", "/resource_providers", JSON),
}


def read_answer(connection, received=b""):
    """Status and header of the next answer; its body is read too."""
    while b"\r\n\r\n" not in received:
        part = connection.recv(65536)
        assert part, f"the connection was closed after {received!r}"
        received += part
    top, _, rest = received.partition(b"\r\n\r\n")
    fields = {name.lower(): value for name, _, value in (line.partition(b": ") for line in top.split(b"\r\n")[1:])}
    while len(rest) < int(fields.get(b"content-length", 0)):
        part = connection.recv(65536)
        assert part, "the connection was closed within an answer"
        rest += part
    return int(top.split()[1]), fields


def test_no_refusal_ends_a_connection_wherever_the_request_is_cut(connect):
    sent = {case: head(method, path, BODY, **fields) + BODY for case, (_, method, path, fields) in REFUSED.items()}
    with connect() as connection:
        for case, (status, *_) in REFUSED.items():
            request = sent[case]
            if case == "a bad body":
                request = request.replace(b'"name"', b'"mane"')
            for cut in [len(request) - len(BODY), len(request) - 1, 1, 30, len(request) // 2]:
                connection.sendall(request[:cut])
                time.sleep(0.0005)  # so that the pieces are two segments, as clients send them
                connection.sendall(request[cut:])
                code, fields = read_answer(connection)
                assert code == status or (case.startswith("a trait") and code == 204) or status == 405, (case, code)
                assert fields.get(b"connection") is None, case


def test_clients_that_keep_their_connection_and_cut_their_requests_lose_none(connect):
    failures = []

    def ask():
        try:
            with connect() as connection:
                request = head("PUT", "/traits/CUSTOM_Q", b"{}", **JSON)
                for _ in range(40):
                    connection.sendall(request)
                    time.sleep(0.0005)
                    connection.sendall(b"{}")
                    assert read_answer(connection)[0] in (201, 204)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_body_that_is_too_long_is_refused_with_an_answer_that_arrives(connect):
    with connect() as connection:
        length = 50_000_000_000
        connection.sendall(head("POST", "/allocations", **JSON, Content_Length=length))
        status, fields = read_answer(connection)
        assert (status, fields[b"connection"]) == (413, b"close")


def test_a_client_that_sends_all_of_a_body_that_is_too_long_reads_its_answer(connect):
    with connect() as connection:
        body = b" " * 2_000_000
        connection.sendall(head("PUT", "/traits/CUSTOM_Q", body, **JSON))
        connection.sendall(body)
        assert read_answer(connection)[0] == 413
