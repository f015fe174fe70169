"""Which lane a request has, and which credential identifies its client."""

import json
from base64 import urlsafe_b64encode
from dataclasses import fields
from http import HTTPStatus

import pytest

from stead.config.options import GROUPS
from stead.serve.worker import OPTIONS, SMALL_CLAIM, ApiRoutes, error_body
from wsgi_lanes.bounds import Bounds
from wsgi_lanes.requests import Lane, Peers, Request

pytestmark = pytest.mark.one_database

CLAIM = b'{"consumer_uuid": "a", "query": "resources=VCPU:1"}'


def request(method="GET", path="/", query="", body=b"", **fields):
    return Request(
        method=method,
        path=path,
        query=query,
        fields={f"HTTP_{name.upper()}": value for name, value in fields.items()},
        is_1_0=False,
        body=body,
        declared=len(body),
        keeps_connection=True,
        peers=Peers("192.0.2.1", False, {}),
        receiver=None,
        arrived=0.0,
    )


def cookie(session):
    return f"other=1; stead-session={urlsafe_b64encode(session.encode()).decode()}"


@pytest.mark.parametrize("prefix", ["", "/placement"])
@pytest.mark.parametrize(
    ("lane", "method", "target"),
    [
        (Lane.INSTANT, "GET", "/"),
        (Lane.LIVE, "GET", "/healthcheck/live"),
        (Lane.HEALTH, "HEAD", "/healthcheck"),
        (Lane.SIGN_IN, "POST", "/ui/sign-in"),
        (Lane.READ, "GET", "/ui/sign-in"),
        (Lane.CLAIM, "PUT", "/allocations/a"),
        (Lane.CLAIM, "POST", "/ui/api/claims"),
        (Lane.READ, "GET", "/allocation_candidates?resources=VCPU:1&limit=100"),
        (Lane.READ, "GET", "/ui/"),
        (Lane.READ, "GET", "/flavors"),
        (Lane.BULK, "GET", "/allocation_candidates?resources=VCPU:1"),
        (Lane.BULK, "GET", "/allocation_candidates?resources=VCPU:1&limit=101"),
        (Lane.BULK, "GET", "/allocation_candidates/explain?resources=VCPU:1&limit=1"),
        (Lane.BULK, "GET", "/headroom?resources=VCPU:1&limit=1"),
        (Lane.BULK, "GET", "/headroom?mix=2:m1.large"),
        (Lane.BULK, "GET", "/flavors?headroom=true&limit=1"),
        (Lane.BULK, "GET", "/advice?resources=VCPU:1"),
        (Lane.BULK, "POST", "/whatif"),
        (Lane.BULK, "PUT", "/provider_trees"),
        (Lane.BULK, "GET", "/consumers"),
        (Lane.BULK, "GET", "/changes?since=a"),
        (Lane.BULK, "GET", "/ui/ask?resources=VCPU:1"),
        (Lane.BULK, "GET", "/ui/providers/a/drain"),
        (Lane.BULK, "GET", "/ui/api/provider_trees?columns=true"),
    ],
)
def test_what_may_take_long_has_a_lane_of_its_own(prefix, lane, method, target):
    path, _, query = target.partition("?")
    assert ApiRoutes(prefix, 1000).lane(request(method, prefix + path, query)) is lane


@pytest.mark.parametrize(
    ("lane", "body"),
    [
        (Lane.CLAIM, b""),
        (Lane.CLAIM, b'{"claims": [' + CLAIM + b"]}"),
        (Lane.BULK, b'{"claims": [' + CLAIM + b", " + CLAIM + b"]}"),
        (Lane.BULK, b'{"claims": [' + CLAIM + b" " * SMALL_CLAIM + b"]}"),
    ],
)
def test_a_gang_is_no_small_claim(lane, body):
    assert ApiRoutes("", 1000).lane(request("POST", "/claims", body=body)) is lane


@pytest.mark.parametrize(
    ("credential", "path", "fields"),
    [
        ("a token", "/traits", {"x_auth_token": "a token", "cookie": cookie("a session")}),
        ("a session", "/ui/", {"x_auth_token": "a token", "cookie": cookie("a session")}),
        ("a session", "/ui/api/traits", {"cookie": cookie("a session")}),
        (None, "/ui/", {"x_auth_token": "a token"}),
        (None, "/ui/", {"cookie": "stead-session=%"}),
        (None, "/traits", {"x_auth_token": ""}),
        (None, "/traits", {"cookie": cookie("a session")}),
    ],
)
def test_a_client_is_its_token_or_below_the_pages_its_session(credential, path, fields):
    assert ApiRoutes("/p", 1000).credential(request(path=f"/p{path}", **fields)) == credential


def test_refusals_of_the_server_name_options_that_exist():
    limits = {field.name for field in fields(Bounds)}
    known_options = {f"[stead] {option.dest}" for option in GROUPS["stead"]}
    assert set(OPTIONS) <= limits
    assert set(OPTIONS.values()) <= known_options


def test_an_error_of_the_server_has_the_form_of_the_api():
    headers, body = error_body(HTTPStatus.SERVICE_UNAVAILABLE, "no")
    (error,) = json.loads(body)["errors"]
    assert dict(headers) == {"content-type": "application/json", "x-openstack-request-id": error.pop("request_id")}
    assert error == {"status": 503, "title": "Service Unavailable", "detail": "no"}
