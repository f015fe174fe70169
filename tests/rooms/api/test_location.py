"""Where something new stands. Source: "Response headers", docs/api.md."""

import pytest
from falcon.testing import create_environ

from stead.api.answers import locate
from stead.api.request import Request, Response


def location(**environ):
    resp = Response()
    locate(Request({**create_environ(), "HTTP_HOST": "api:8778", **environ}), resp, "/traits/CUSTOM_A")
    return resp.get_header("location")


def test_it_is_absolute():
    assert location() == "http://api:8778/traits/CUSTOM_A"
    assert (
        location(HTTP_HOST="[2001:db8::1]:80", SCRIPT_NAME="/a%20b") == "http://[2001:db8::1]:80/a%20b/traits/CUSTOM_A"
    )


@pytest.mark.parametrize("name", ["HTTP_HOST", "SCRIPT_NAME", "wsgi.url_scheme"])
@pytest.mark.parametrize("words", ["x\r\nSet-Cookie: a=b", "\0", "a b", "\xe9", '"', "\x7f"])
def test_what_no_header_may_have_in_it_is_encoded(name, words):
    url = location(**{name: words})
    assert url.isascii()
    assert url.isprintable()
    assert not set(' "').intersection(url)
