"""Each line that is logged during a request names that request, and no other line names any."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from wsgiref.util import setup_testing_defaults

import pytest

from stead.api.middleware import RequestLog
from stead.observe.log import NameRequest
from tests.servers.stead import started
from tests.system.api.client import NEWEST
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.stead import Serving

pytestmark = [pytest.mark.timeout(180), pytest.mark.one_database]  # starts servers


# SQL is logged in every request that writes, with the names it is about; reconcile passes log SQL in the background.
LOUD = """[DEFAULT]
debug = true
default_log_levels =
log_options = false
logging_context_format_string = %(levelname)s %(threadName)s <%(request_id)s %(user)s %(project)s> %(message)s
logging_default_format_string = %(levelname)s %(threadName)s <> %(message)s
[placement_database]
connection = sqlite:///{directory}/placement.db
sync_on_startup = true
connection_debug = 50
[api]
auth_strategy = noauth2
[stead]
log_json = {json_lines}
reconcile_interval = 0.2
"""


@dataclass(frozen=True)
class Line:
    """One line of the log. Text has user and project too, JSON has not."""

    request_id: str | None
    caller: str | None
    message: str

    @classmethod
    def of(cls, text: str) -> Line:
        if text.startswith("{"):
            fields = json.loads(text)
            return cls(fields.get("request_id"), None, json.dumps(fields))
        head, _, message = text.partition(">")
        request_id, _, caller = head.partition("<")[2].partition(" ")
        return cls(request_id or None, caller or None, message)


class Log:
    """The log of a server, as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def lines(self, begin: int = 0, end: int | None = None) -> list[Line]:
        """The lines from a byte on. What continues a line of text, as a traceback does, is part of it."""
        whole = self._path.read_bytes()[begin:end].decode().rpartition("\n")[0]
        beginnings = re.split(r"\n(?=\{|[A-Z]+ [^<\n]*<)", whole)
        return [Line.of(text) for text in beginnings if text.startswith("{") or "<" in text]

    def size(self) -> int:
        return self._path.stat().st_size

    def wait(self, condition: Callable[[list[Line]], bool], begin: int = 0) -> list[Line]:
        """The lines from a byte on, as soon as they are what the caller waits for."""
        wait_until(lambda: condition(self.lines(begin)), lambda: str(self.lines(begin)[-10:]))
        return self.lines(begin)


class Service:
    """A server, and a client that gets the id of each of its requests."""

    def __init__(self, serving: Serving, directory: Path) -> None:
        self._place = urlsplit(serving.url).netloc
        self.log = Log(directory / "placement.log")
        self.started = self.log.size()
        self._database = directory / "placement.db"

    def open(
        self, method: str, path: str, caller: str, body: object = None, accept: str = "application/json"
    ) -> tuple[HTTPConnection, HTTPResponse]:
        user, _, project = caller.partition(" ")
        connection = HTTPConnection(self._place, timeout=60)
        headers = {
            "X-Auth-Token": f"{user}:{project}",
            "X-Roles": "admin",
            "OpenStack-API-Version": f"placement {NEWEST}, stead 1.0",
            "Content-Type": "application/json",
            "Accept": accept,
        }
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection, connection.getresponse()

    @contextmanager
    def without_table(self, name: str) -> Iterator[None]:
        """The database lacks a table in the block."""
        for old, new in ((name, "elsewhere"), ("elsewhere", name)):
            with closing(sqlite3.connect(self._database, timeout=30)) as direct, direct:
                direct.execute(f"ALTER TABLE {old} RENAME TO {new}")
            if new == "elsewhere":
                yield

    def ask(self, method: str, path: str, caller: str, body: object = None) -> tuple[int, str]:
        connection, answer = self.open(method, path, caller, body)
        with closing(connection):
            answer.read()
            return answer.status, str(answer.headers["x-openstack-request-id"])


@pytest.fixture(scope="module", params=[False, True], ids=["text", "json"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("serving")
    configuration = directory / "placement.conf"
    configuration.write_text(LOUD.format(directory=directory, json_lines=request.param))
    with started(configuration, workers=1) as serving:
        yield Service(serving, directory)


def about(lines: list[Line], word: str) -> list[Line]:
    return [line for line in lines if word in line.message]


def require_named(lines: list[Line], word: str, request_id: str, caller: str) -> None:
    """All *lines* about *word* name this request; there are some."""
    named = about(lines, word)
    assert named, word
    assert {line.request_id for line in named} == {request_id}
    assert {line.caller for line in named} <= {caller, None}


def test_requests_on_the_threads_of_a_pool_are_named_each_in_its_own_lines(service: Service) -> None:
    names = [f"CUSTOM_LAMP_{number:03d}_" for number in range(60)]
    callers = {name: f"user{number % 7} project{number}" for number, name in enumerate(names)}
    with ThreadPoolExecutor(12) as pool:
        asked = dict(
            zip(names, pool.map(lambda name: service.ask("PUT", f"/traits/{name}", callers[name]), names), strict=True)
        )
    assert {status for status, _ in asked.values()} == {201}
    lines = service.log.wait(lambda lines: len(about(lines, "status: 201")) == len(names))
    for name, (_, request_id) in asked.items():
        require_named(lines, name, request_id, callers[name])


def test_a_request_that_is_refused_or_fails_is_named_in_its_own_lines(service: Service) -> None:
    taken = {"name": "taken-host"}
    assert service.ask("POST", "/resource_providers", "first one", taken)[0] == 200
    begin = service.log.size()
    status, refused = service.ask("POST", "/resource_providers", "second two", taken)
    assert status == 409
    with service.without_table("traits"):
        status, failed = service.ask("PUT", "/traits/CUSTOM_BROKEN", "third three")
    assert status == 500
    lines = service.log.wait(lambda lines: bool(about(lines, "status: 500")), begin)
    require_named(lines, "taken-host", refused, "second two")
    require_named(lines, "CUSTOM_BROKEN", failed, "third three")
    assert failed in {line.request_id for line in about(lines, "Traceback")}


def test_a_stream_names_itself_and_the_polls_for_all_streams_name_none(service: Service) -> None:
    connection, stream = service.open("GET", "/changes", "watching one", accept="text/event-stream")
    with closing(connection):
        streaming = str(stream.headers["x-openstack-request-id"])
        assert stream.readline()
        begin = service.log.size()
        _, writing = service.ask("PUT", "/traits/CUSTOM_SEEN", "writing two")
        lines = service.log.wait(lambda lines: bool(about(lines, "201")), begin)
        require_named(lines, "CUSTOM_SEEN", writing, "writing two")
        assert not [line for line in lines if line.request_id == streaming]
        with service.without_table("stead_clock"):
            stream.read()  # it ends
    broken = about(service.log.lines(begin), "a stream of changes ends early")
    assert {line.request_id for line in broken} == {streaming}
    assert {line.request_id for line in about(service.log.lines(begin), "polling for changes failed")} == {None}


def test_what_happens_outside_of_requests_names_none(service: Service) -> None:
    start = service.log.lines(0, service.started)
    assert start
    assert {line.request_id for line in start} == {None}
    with ThreadPoolExecutor(12) as pool:  # on every thread of the server
        list(pool.map(lambda number: service.ask("PUT", f"/traits/CUSTOM_{number}", "user project"), range(48)))
    service.log.wait(lambda lines: len(about(lines, "status: 201")) >= 48)
    begin = service.log.size()
    with service.without_table("stead_clock"):
        wait_until(lambda: service.ask("GET", "/healthcheck", "user project") == (503, "None"))
    lines = service.log.wait(lambda lines: len(lines) > 30, begin)  # of reconcile passes
    assert about(lines, "not ready")
    assert {line.request_id for line in lines} == {None}


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.addFilter(NameRequest())

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def root_handler() -> Iterator[Kept]:
    handler = Kept()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def answer_of(app: Callable[..., object]) -> tuple[str, dict[str, str], object]:
    environ: dict[str, str] = {}
    setup_testing_defaults(environ)
    started: list[tuple[str, dict[str, str]]] = []
    body = RequestLog(app)(environ, lambda status, headers, *_: started.append((status, dict(headers))))  # type: ignore[arg-type]  # a start_response that returns no write
    return *started[-1], body


def test_what_a_layer_around_the_api_raises_is_a_500_that_both_name(root_handler: Kept) -> None:
    def broken(_environ: object, _start: object) -> list[bytes]:
        raise RuntimeError("no such layer")

    status, headers, body = answer_of(broken)
    (error,) = json.loads(b"".join(body))["errors"]  # type: ignore[arg-type]  # parts of bytes
    assert status == "500 Internal Server Error"
    assert error["request_id"] == headers["x-openstack-request-id"]
    (record,) = [record for record in root_handler.records if record.exc_info]
    assert record.context.request_id == error["request_id"]  # type: ignore[attr-defined]  # oslo.log adds it to records
    logging.getLogger("afterwards").warning("outside")
    assert root_handler.records[-1].context is None  # type: ignore[attr-defined]  # oslo.log adds it to records
