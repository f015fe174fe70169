"""Health, as a load balancer asks for it. Source: "Health", docs/api.md."""

import threading

import pytest

from stead.api.middleware import Health, Prefix
from stead.domain.errors import Unavailable
from stead.observe.health import FRESH_SECONDS, Readiness
from tests.system.api.client import wsgi_door


def elsewhere(_environ, start_response):
    start_response("418 Elsewhere", [("content-length", "0")])
    return []


def refuse():
    raise Unavailable("The database does not answer.")


@pytest.mark.parametrize("path", ["/healthcheck", "/healthcheck/ready", "/healthcheck/live"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_worker_that_is_up_to_date_is_well(path, method):
    status, headers, body = wsgi_door(Health(elsewhere, lambda: None))(method, path, [], None)
    assert (status, body) == (200, b'{"status": "ok"}' if method == "GET" else b"")
    assert dict(headers)["content-type"] == "application/json"


def test_one_that_is_not_lives_all_the_same(caplog):
    caplog.set_level("INFO")
    problems = ["The database does not answer.", "still", None]
    door = wsgi_door(Health(elsewhere, lambda: problems.pop(0)))
    assert door("GET", "/healthcheck/live", [], None)[0] == 200
    status, _, body = door("GET", "/healthcheck", [], None)
    assert (status, body) == (503, b'{"status": "unavailable", "reason": "The database does not answer."}')
    assert [door("GET", "/healthcheck", [], None)[0] for _ in range(2)] == [503, 200]
    assert caplog.messages == ["not ready: The database does not answer.", "ready again"]  # what changed only


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/healthcheck"), ("GET", "/healthcheck/"), ("GET", "/healthcheckup"), ("GET", "/"), ("GET", "")],
)
def test_all_else_is_the_application_s(method, path):
    assert wsgi_door(Health(elsewhere, refuse))(method, path, [], None)[0] == 418


def test_below_a_prefix():
    door = wsgi_door(Prefix(Health(elsewhere, lambda: None), "/placement"))
    paths = ["/placement/healthcheck", "/placement", "/placement/", "/healthcheck", "/placementx", "/"]
    assert [door("GET", path, [], None)[0] for path in paths] == [200, 418, 418, 404, 404, 404]


def test_memory_that_is_fresh_is_not_refreshed():
    assert Readiness(lambda: FRESH_SECONDS / 2, refuse).problem() is None


def test_old_memory_is_refreshed_and_the_reason_told_if_that_fails():
    assert Readiness(lambda: 100.0, lambda: None).problem() is None
    assert Readiness(lambda: 100.0, refuse).problem() == "The database does not answer."

    def bug():
        raise ZeroDivisionError

    assert "ZeroDivisionError" in Readiness(lambda: 100.0, bug).problem()


def test_a_database_that_hangs_keeps_nobody_waiting_and_one_thread_only():
    release, began = threading.Event(), []

    def hang():
        began.append(1)
        release.wait()

    readiness = Readiness(lambda: 100.0, hang, patience=0.1)
    try:
        assert {readiness.problem() for _ in range(5)} == {"The database does not answer in time."}
        assert len(began) == 1
    finally:
        release.set()
