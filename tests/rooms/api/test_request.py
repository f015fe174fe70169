"""What the edge reads off a request before any handler does."""

import io
import logging

import pytest
from falcon.testing import create_environ

from stead.api.answers import install
from stead.api.request import App, Request
from tests.system.api.client import NEWEST, Api, wsgi_door


def request(body=b"", **environ):
    made = create_environ(path="/resource_providers", method="POST", host="127.0.0.1")
    made.pop("CONTENT_LENGTH", None)
    return Request({**made, "wsgi.input": io.BytesIO(body), **environ})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"CONTENT_LENGTH": "4"}, b"body"),
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, b"body and more"),
        ({"wsgi.input_terminated": True}, b"body and more"),
        ({"wsgi.input_terminated": True, "CONTENT_LENGTH": "4"}, b"body"),
        ({}, b""),
    ],
)
def test_a_body_is_as_long_as_is_said_or_as_the_server_lets_it_be(environ, expected):
    assert request(b"body and more", **environ).read_all() == expected


@pytest.mark.parametrize(
    ("path", "read"), [("/a\0b", "/a\ufffdb"), ("/a\xff", "/a\ufffd"), ("/\xc5\xbe", "/ž"), ("", "/")]
)
def test_a_path_holds_nothing_that_no_database_could_look_for(path, read):
    assert request(PATH_INFO=path).path == read


@pytest.mark.parametrize(
    ("length", "content_type", "text"),
    [
        ("x", "application/json", "content-length header must be an integer"),
        ("-1", "application/json", "content-length header must be an integer"),
        ("1.5", None, "content-length header must be an integer"),
        ("4", None, "content-type header required"),
        ("4", "", "content-type header required"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("PUT", "/resource_providers/x"), ("GET", "/"), ("BREW", "/nowhere")])
def test_headers_of_a_body_are_looked_at_before_the_path(stranger, method, path, length, content_type, text):
    headers = {"Content-Length": length, "Content-Type": content_type}
    assert stranger.call(method, path, raw=b"body", headers=headers).refused(400, text)


@pytest.mark.parametrize(("length", "content_type"), [("0", None), ("", None), (None, None)])
def test_without_a_body_there_need_be_no_type(stranger, length, content_type):
    headers = {"Content-Length": length, "Content-Type": content_type}
    assert stranger.call("PUT", "/resource_providers/x", headers=headers).refused(
        415, "The media type None is not supported, use application/json"
    )


def test_a_version_is_looked_at_before_the_headers_of_a_body(stranger):
    assert stranger.at("1.40").call("GET", "/nowhere", headers={"Content-Length": "x"}).status == 406


def test_what_is_said_of_a_bug_is_in_the_log_in_one_line(edge, caplog):
    assert (
        Api(wsgi_door(edge)).door(
            "GET", "/traits/a%0Ab", [("X-Auth-Token", "admin"), ("OpenStack-API-Version", "placement 1.6")], None
        )[0]
        == 500
    )
    assert caplog.messages[0].startswith("GET '/traits/a\\nb' failed (req-")


def test_no_secret_of_a_request_is_in_a_log(edge, caplog):
    """Under ``noauth2`` the user's token is none."""
    caplog.set_level(logging.DEBUG)
    secrets = [
        ("X-Service-Token", "s3cr3t"),
        ("X-Subject-Token", "s3cr3t"),
        ("Cookie", "s3cr3t"),
        ("Authorization", "s3cr3t"),
    ]
    for path, roles in [("/resource_classes", "admin"), ("/resource_classes", "x"), ("/", "x"), ("/x%0A", "x")]:
        sent = [("X-Auth-Token", "admin"), ("X-Roles", roles), ("OpenStack-API-Version", f"placement {NEWEST}")]
        wsgi_door(edge)("GET", path, [*secrets, *sent], None)
    assert "status: 500" in caplog.text
    assert "status: 403" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_method_of_several_lines_is_one_line_of_the_log(caplog):
    app = App(middleware=[Broken()], request_type=Request)
    install(app)
    status, _, _ = wsgi_door(app)("G\nINFO forged", "/", [], None)
    assert status == 500
    assert caplog.messages[0].startswith("G\\nINFO forged '/' failed (")


class Broken:
    """Falcon middleware that lets no request through."""

    def process_request(self, _req, _resp):
        raise ValueError
