"""`[stead] compress_responses`, through the whole application. Source: "Compression", docs/api.md."""

import gzip

import pytest

from stead import application
from stead.config import load
from tests.conftest import write_configuration
from tests.system.api.client import NEWEST, one_header, wsgi_door

pytestmark = pytest.mark.one_database

ADMIN = [("X-Auth-Token", "admin"), ("OpenStack-API-Version", f"placement {NEWEST}")]
LONG, SHORT = "/traits", "/traits?name=in:HW_CPU_X86_VMX"
VARY = "openstack-api-version"


@pytest.fixture
def ask(ready_database_url, tmp_path):
    """Ask a service that has this line below `[stead]` of its configuration."""
    services = []

    def ask(target, accepted=None, *, method="GET", option="compress_responses = true", headers=()):
        file = write_configuration(tmp_path, ready_database_url)
        with file.open("a") as more:
            more.write(f"[stead]\n{option}\n[cors]\nallowed_origin = https://a.example\n")
        settings = load([file])
        services.append(application.build_service(settings))
        door = wsgi_door(application.assemble(services[-1], settings))
        encodings = [] if accepted is None else [("Accept-Encoding", accepted)]
        return door(method, target, [*ADMIN, *encodings, *headers], None)

    yield ask
    for service in services:
        service.close()


@pytest.mark.parametrize(
    "accepted",
    [
        *("gzip", "GZip, deflate", "x-gzip", "*", "gzip;q=0.001", "br, gzip; q=0.5", "gzip;q=1.0, identity"),
        *("*;q=0.5,,", "identity;q=0, *", "gzip, *;q=0"),
    ],
)
def test_a_long_body_is_compressed_for_who_accepts_it(ask, accepted):
    plain = ask(LONG)[2]
    status, headers, body = ask(LONG, accepted)
    assert status == 200
    assert one_header(headers, "content-encoding") == "gzip"
    assert one_header(headers, "content-length") == str(len(body))
    assert one_header(headers, "vary") == f"{VARY}, accept-encoding"
    assert gzip.decompress(body) == plain
    assert len(body) < len(plain) / 2


@pytest.mark.parametrize(
    "accepted",
    [
        *(None, "", "br", "identity", "gzip;q=0", "gzip;q=0, *", "*;q=0", "gzip;q=0.5, identity;q=0.6"),
        *("gzip;q=2", "gzip;level=9", "*;q=0.4, identity", "gzip deflate"),
    ],
)
def test_for_others_it_only_says_what_it_varies_by(ask, accepted):
    status, headers, body = ask(LONG, accepted)
    assert status == 200
    assert one_header(headers, "content-encoding") is None
    assert one_header(headers, "content-length") == str(len(body))
    assert one_header(headers, "vary") == f"{VARY}, accept-encoding"
    assert body.startswith(b'{"traits":[')


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [("GET", SHORT, 200), ("GET", "/traits/HW_CPU_X86_VMX", 204), ("HEAD", LONG, 405), ("GET", "/nothing", 404)],
)
def test_short_bodies_and_none_are_left_alone(ask, method, target, status):
    answered, headers, body = ask(target, "gzip", method=method)
    assert answered == status
    assert len(body) < 1024
    assert one_header(headers, "content-encoding") is None
    assert one_header(headers, "vary") == VARY


def test_an_error_is_compressed_too(ask):
    status, headers, body = ask("/traits?" + "colour=1&" * 3 + "x" * 2000, "gzip")
    assert status == 400
    assert one_header(headers, "content-encoding") == "gzip"
    assert b"Additional properties" in gzip.decompress(body)


def test_it_varies_by_origin_too_for_pages_of_others(ask):
    _, headers, _ = ask(LONG, "gzip", headers=[("Origin", "https://a.example")])
    assert [value for name, value in headers if name.lower() == "vary"] == [f"{VARY}, Origin, accept-encoding"]


def test_nothing_changes_unless_it_is_switched_on(ask):
    _, headers, body = ask(LONG, "gzip", option="compress_responses = false")
    assert one_header(headers, "content-encoding") is None
    assert one_header(headers, "vary") == VARY
    assert body.startswith(b'{"traits":[')
