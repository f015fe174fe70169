"""The WSGI layers around the API. Source: "CORS", "Proxy headers" and "Request ids", docs/api.md."""

import io
import logging
import re

import pytest

from stead.api.middleware import Cors, Drain, HeaderSizes, ProxyHeaders, RequestLog
from tests.system.api.client import NEWEST, one_header, wsgi_door

PAGE = "https://dash.example"


def echo(environ, start_response):
    """Answers with what it was told."""
    told = [
        environ.get(name, "") for name in ("wsgi.url_scheme", "HTTP_HOST", "REMOTE_ADDR", "SCRIPT_NAME", "HTTP_ACCEPT")
    ]
    start_response(
        "404 Not Found", [("content-length", "7"), ("openstack-api-version", "placement 1.5"), ("vary", "x")]
    )
    return [" ".join(told).encode()]


def told(headers):
    return wsgi_door(ProxyHeaders(echo), script_name="/placement")("GET", "/", headers, None)[2].decode().split(" ")[:4]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], ["http", "127.0.0.1:8778", "127.0.0.1", "/placement"]),
        (
            [
                ("X-Forwarded-Proto", "https"),
                ("X-Forwarded-Host", "api.example"),
                ("X-Forwarded-For", "1.2.3.4, 5.6.7.8"),
            ],
            ["https", "api.example", "1.2.3.4", "/placement"],
        ),
        ([("X-Forwarded-Prefix", "/cloud/")], ["http", "127.0.0.1:8778", "127.0.0.1", "/cloud/placement"]),
        (
            [
                ("Forwarded", 'for="[2001:db8::1]:4711";proto=https; host=api.example, for=9.9.9.9'),
                ("X-Forwarded-Host", "no"),
            ],
            ["https", "api.example", "[2001:db8::1]:4711", "/placement"],
        ),
        ([("Forwarded", "nonsense")], ["http", "127.0.0.1:8778", "127.0.0.1", "/placement"]),
    ],
)
def test_what_a_proxy_says_takes_the_place_of_its_own(headers, expected):
    assert told(headers) == expected


def test_every_request_has_an_id_and_a_line(caplog):
    caplog.set_level(logging.INFO, logger="placement.requestlog")
    given = "req-11111111-2222-3333-4444-555555555555"
    status, headers, _ = wsgi_door(RequestLog(echo))("GET", "/a%0Ab?c=d%20e", [("X-Openstack-Request-Id", given)], None)
    own = one_header(headers, "x-openstack-request-id")
    (line,) = caplog.records
    assert status == 404
    assert own != given
    assert (line.context.request_id, line.context.global_request_id) == (own, given)
    assert line.getMessage() == '127.0.0.1 "GET /a%0Ab?c=d%20e" status: 404 len: 7 microversion: 1.5'


def test_the_line_tells_the_microversion_whatever_else_was_agreed(caplog):
    def both(environ, start_response):
        versions = [("openstack-api-version", f"placement {NEWEST}"), ("openstack-api-version", "stead 1.0")]
        start_response("200 OK", versions)
        return []

    caplog.set_level(logging.INFO, logger="placement.requestlog")
    wsgi_door(RequestLog(both))("GET", "/", [], None)
    assert caplog.records[0].getMessage().endswith(f"microversion: {NEWEST}")


FORGED = '1" 200\n10.0.0.1 "DELETE /traits" status: 204\u2028\x85\x1b[2J\xe9'


@pytest.mark.parametrize("name", ["REMOTE_ADDR", "REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"])
def test_nobody_writes_more_than_a_field_of_a_line(caplog, name):
    """No server should let all of this through, but which one stands in front is the operator's choice."""
    caplog.set_level(logging.INFO, logger="placement.requestlog")
    environ = {"REMOTE_ADDR": "::1", "REQUEST_METHOD": "GET", "PATH_INFO": "/", name: FORGED}
    RequestLog(echo)(environ, lambda *_: None)
    (line,) = caplog.messages
    assert re.fullmatch(r'[!#-~]+ "[!#-~]+ [!#-~]+" status: 404 len: 7 microversion: 1\.5', line)


@pytest.mark.parametrize(
    "given",
    [
        "req-11111111-2222-3333-4444-555555555555\n",
        "req-11111111-2222-3333-4444-555555555555\nINFO forged",
        "req-" + "1" * 100_000,
        "req-11111111-2222-3333-4444-55555555555\xe9",
    ],
)
def test_what_is_no_id_is_no_global_one(caplog, given):
    caplog.set_level(logging.INFO, logger="placement.requestlog")
    wsgi_door(RequestLog(echo))("GET", "/", [("X-Openstack-Request-Id", given)], None)
    assert caplog.records[0].context.global_request_id is None


@pytest.mark.parametrize(
    ("sent", "seen"),
    [(None, "application/json"), ("*/*", "application/json"), ("", "application/json"), ("a/b", "a/b")],
)
def test_who_accepts_anything_gets_json(sent, seen):
    headers = [] if sent is None else [("Accept", sent)]
    assert wsgi_door(RequestLog(echo))("GET", "/", headers, None)[2].decode().split(" ")[-1] == seen


@pytest.fixture
def cors():
    return wsgi_door(
        Cors(
            echo,
            origins=[PAGE],
            allow_credentials=True,
            expose_headers=["A", "B"],
            max_age=60,
            allow_methods=["GET", "PUT"],
            allow_headers=["X-Auth-Token"],
        )
    )


def of_cors(headers):
    return {name: value for name, value in headers if name.startswith("access-control") or name == "vary"}


def test_an_answer_to_a_known_origin_may_be_read_there(cors):
    status, headers, _ = cors("GET", "/", [("Origin", PAGE)], None)
    assert status == 404
    assert of_cors(headers) == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-credentials": "true",
        "access-control-expose-headers": "A,B",
        "vary": "x, Origin",
    }


@pytest.mark.parametrize("headers", [[], [("Origin", "https://evil.example")]])
def test_nobody_else_is_told_anything(cors, headers):
    assert of_cors(cors("GET", "/", headers, None)[1]) == {"vary": "x"}


def ask(cors, origin=PAGE, method="PUT", headers="x-auth-token, content-TYPE"):
    return cors(
        "OPTIONS",
        "/",
        [("Origin", origin), ("Access-Control-Request-Method", method), ("Access-Control-Request-Headers", headers)],
        None,
    )


def test_a_preflight_is_told_what_it_asked_for(cors):
    status, headers, body = ask(cors)
    assert (status, body) == (200, b"")
    assert of_cors(headers) == {
        "vary": "Origin",
        "access-control-allow-origin": PAGE,
        "access-control-allow-credentials": "true",
        "access-control-max-age": "60",
        "access-control-allow-methods": "PUT",
        "access-control-allow-headers": "x-auth-token,content-TYPE",
    }


@pytest.mark.parametrize(
    "asked", [{"origin": "https://evil.example"}, {"method": "DELETE"}, {"headers": "X-Auth-Token, X-Evil"}]
)
def test_a_preflight_for_more_than_is_allowed_is_200_and_told_nothing(cors, asked):
    status, headers, body = ask(cors, **asked)
    assert (status, body, of_cors(headers)) == (200, b"", {})


def test_an_origin_of_several_lines_is_sent_back_to_nobody():
    everybody = Cors(
        echo,
        origins=["*"],
        allow_credentials=False,
        expose_headers=[],
        max_age=None,
        allow_methods=[],
        allow_headers=[],
    )
    for origin, told in [(PAGE, PAGE), (f"{PAGE}\r\nSet-Cookie: a=b", None)]:
        headers = wsgi_door(everybody)("GET", "/", [("Origin", origin)], None)[1]
        assert one_header(headers, "access-control-allow-origin") == told


class Connection(io.RawIOBase):
    """A body on a connection on which more never comes: to read past its end would wait for ever."""

    def __init__(self, body, *, ends):
        self.left, self.ends = body, ends

    def read(self, size=-1):
        assert self.ends or 0 <= size <= len(self.left), "waits for bytes that never come"
        part, self.left = self.left[:size], self.left[size:]
        return part


@pytest.mark.parametrize("taken", [0, 1, 100_000, 200_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_what_the_application_leaves_of_a_body_is_read_before_the_answer(taken, is_chunked):
    def app(environ, start_response):
        environ["wsgi.input"].read(taken)
        start_response("401 Unauthorized", [])
        return [b"no"]

    connection = Connection(b"x" * 200_000, ends=is_chunked)
    length = {"HTTP_TRANSFER_ENCODING": "Chunked", "wsgi.input_terminated": True} if is_chunked else {}
    environ = {"wsgi.input": connection, **(length or {"CONTENT_LENGTH": "200000"})}
    assert Drain(app, 200_000)(environ, lambda *_: None) == [b"no"]
    assert connection.left == b""


def test_the_client_of_a_body_that_is_somewhat_too_long_can_read_its_answer():
    """A server that has not read a body ends the connection by a reset, which destroys the answer."""
    connection = Connection(b"x" * 400_000, ends=False)
    assert Drain(lambda *_: [b"no"], 200_000)({"wsgi.input": connection, "CONTENT_LENGTH": "400000"}, None) == [b"no"]
    assert connection.left == b""


@pytest.mark.parametrize("length", ["400001", "9" * 30, "-1", "\u00b2", "x", "", "0"])
def test_a_body_that_is_much_too_long_or_of_unknown_length_is_not_read(length):
    connection = Connection(b"x" * 400_001, ends=False)
    assert Drain(lambda *_: [b"no"], 200_000)({"wsgi.input": connection, "CONTENT_LENGTH": length}, None) == [b"no"]
    assert len(connection.left) == 400_001


def test_a_client_that_is_gone_ends_the_reading():
    class Gone:
        def read(self, _size):
            raise ConnectionResetError

    assert Drain(lambda *_: [b"no"], 9)({"wsgi.input": Gone(), "CONTENT_LENGTH": "9"}, None) == [b"no"]


def test_two_hosts_that_a_server_joined_are_refused():
    door = wsgi_door(HeaderSizes(echo))
    assert door("GET", "/", [("Host", "one.example,other.example")], None)[0] == 400
    assert door("GET", "/", [("Host", "one.example:8778")], None)[0] == 404
