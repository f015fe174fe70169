"""What is over a limit is refused with its status and changes nothing. Source: "Limits", docs/api.md."""

from __future__ import annotations

import http.client
import re
import threading
import tracemalloc
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import stead
from stead import application
from stead.api.middleware import Concurrency, RequestLog
from stead.config import load
from tests.conftest import write_configuration
from tests.servers.stead import serving
from tests.system.api.client import NEWEST, Api, fresh_name, fresh_uuid, holding, http_door, one_header, wsgi_door
from tests.waiting import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.databases import Server

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # starts servers

SMALL = {
    "max_body_size": 4000,
    "max_query_length": 300,
    "max_request_groups": 3,
    "max_suffix_length": 8,
    "max_allocations": 4,
    "max_candidate_work": 200,
}


@pytest.fixture(scope="module")
def configuration(database_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The configuration of a service with small limits, on a database of its own."""
    if database_server.kind == "url":
        pytest.skip("for a service with limits of its own")
    url = database_server.create()
    file = write_configuration(tmp_path_factory.mktemp("small"), url)
    with file.open("a") as more:
        more.write("[stead]\n" + "".join(f"{name} = {value}\n" for name, value in SMALL.items()))
    yield file
    database_server.drop(url)


@pytest.fixture(scope="module")
def small(configuration: Path) -> Iterator[Api]:
    settings = load([configuration])
    service = application.build_service(settings)
    yield Api(wsgi_door(application.assemble(service, settings)))
    service.close()


@pytest.fixture(scope="module")
def served(configuration: Path) -> Iterator[Api]:
    with serving(configuration, workers=1) as url:
        yield Api(http_door(url))


@pytest.fixture(params=["small", "served"])
def any_api(request: pytest.FixtureRequest, configuration: Path) -> Api:
    """The application in this process, and behind its HTTP server."""
    found: Api = request.getfixturevalue(request.param)
    return found


def body_of(size: int) -> tuple[str, bytes]:
    """The name of a provider, and a body of so many bytes that makes it."""
    name = fresh_name()
    start = f'{{"name": "{name}"'.encode()
    return name, start + b" " * (size - len(start) - 1) + b"}"


def test_a_body(any_api: Api) -> None:
    name, just_right = body_of(4000)
    any_api.call("POST", "/resource_providers", raw=just_right).expect(200)
    name, too_long = body_of(4001)
    assert any_api.call("POST", "/resource_providers", raw=too_long).refused(413, "more than 4000 bytes")
    assert any_api.get("/resource_providers", {"name": name}).resource_providers == []


def test_a_body_of_one_thing_where_large_bodies_are_allowed(api: Api) -> None:
    name, just_right = body_of(65_536)
    api.call("POST", "/resource_providers", raw=just_right).expect(200)
    name, too_long = body_of(65_537)
    assert api.call("POST", "/resource_providers", raw=too_long).refused(413, "more than 65536 bytes")
    assert api.get("/resource_providers", {"name": name}).resource_providers == []


@pytest.mark.parametrize("value", ["[]", "{}", '{"":0}', "[[[[[]]]]]", "0"])
def test_a_body_of_too_many_values(small: Api, value: str) -> None:
    body = f"[{','.join([value] * 600)}]"[:4000].encode()
    assert small.call("POST", "/reshaper", raw=body).refused(413, "more than 333 JSON values")


def test_a_body_that_ends_too_early(small: Api) -> None:
    name, body = body_of(1000)
    answer = small.call("POST", "/resource_providers", raw=body, headers={"Content-Length": "1001"})
    assert answer.refused(400, "ended after 1000 of 1001 bytes")
    assert small.get("/resource_providers", {"name": name}).resource_providers == []


def header_names() -> list[str]:
    """Every header that the source names by its place in a WSGI environ."""
    source = Path(stead.__file__).parent
    texts = (file.read_text() for folder in ("api", "auth", "observe") for file in (source / folder).rglob("*.py"))
    names = {name for text in texts for name in re.findall(r"HTTP_([A-Z][A-Z_]*[A-Z])", text)}
    return [name.replace("_", "-").title() for name in sorted(names | {"HOST", "IF_NONE_MATCH"})]


HOSTILE = ("a" * 1_000_000, "," * 1_000_000, " " * 999_999 + "x", "a/b;q=1," * 100_000, '"' * 999_999, "a=b;" * 200_000)


@pytest.mark.parametrize("name", header_names())
def test_a_header(small: Api, name: str) -> None:
    for value in HOSTILE:
        status, headers, body = small.door("GET", "/resource_providers", [(name, value)], None)
        assert status == 431
        assert b"has more than" in body
        assert one_header(headers, "x-openstack-request-id")


@pytest.mark.parametrize("name", header_names())
def test_headers_are_not_kept_in_memory(small: Api, name: str) -> None:
    def ask(number: int) -> int:
        long = f"a/b,{number:04}" + "x" * 4000
        return small.door("GET", "/", [(name, long)], None)[0]

    ask(0)
    tracemalloc.start()
    try:
        for number in range(1, 301):
            assert ask(number) != 431
        assert tracemalloc.get_traced_memory()[0] < 300_000
    finally:
        tracemalloc.stop()


def in_chunks(url: str, size: int) -> tuple[int | None, str]:
    """The status of a body that does not say how long it is, None if the connection ended; and the name in it."""
    where = urlsplit(url)
    name, body = body_of(size)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=PATIENCE_SECONDS)
    headers = {
        "X-Auth-Token": "admin",
        "Content-Type": "application/json",
        "OpenStack-API-Version": f"placement {NEWEST}",
    }
    parts = (body[start : start + 1000] for start in range(0, size, 1000))
    status: int | None = None
    with closing(connection), suppress(ConnectionError):  # the server hangs up on who goes on sending
        connection.request("POST", "/resource_providers", parts, headers, encode_chunked=True)
        status = connection.getresponse().status
    return status, name


def test_a_body_in_chunks(configuration: Path) -> None:
    with serving(configuration, workers=1) as url:
        api = Api(http_door(url))
        assert in_chunks(url, 4000)[0] == 200
        for size, statuses in ((4001, {413}), (500_000, {413, None})):
            status, name = in_chunks(url, size)
            assert status in statuses
            assert api.get("/resource_providers", {"name": name}).resource_providers == []


def test_a_query(any_api: Api) -> None:
    query = "name=" + "a" * 295
    assert any_api.get(f"/resource_providers?{query}").status in (200, 400)
    assert any_api.get(f"/resource_providers?{query}a").refused(414, "more than 300 bytes")


def test_request_groups(small: Api) -> None:
    groups = [(f"resources{number}", "VCPU:1") for number in range(1, 4)]
    policy = ("group_policy", "none")
    small.get("/allocation_candidates", [*groups, policy]).expect(200)
    assert small.get("/allocation_candidates", [*groups, policy, ("resources", "VCPU:1")]).refused(400, "4 request")


def test_the_work_of_a_query(any_api: Api) -> None:
    lamp = f"CUSTOM_{fresh_name().upper().replace('-', '_')}"
    any_api.put(f"/resource_classes/{lamp}").expect(201)
    for _ in range(30):
        any_api.create_provider(inventories={lamp: 8})
    few = any_api.get("/allocation_candidates", {"resources": f"{lamp}:1", "limit": "5"}).expect(200)
    assert (len(few.json["allocation_requests"]), few.header("stead-incomplete")) == (5, None)
    for _ in range(2):
        many = any_api.get("/allocation_candidates", {"resources": f"{lamp}:1"}).expect(200)
        assert 5 < len(many.json["allocation_requests"]) < 30
        assert many.header("stead-incomplete") == "work"


def test_the_work_of_an_advice(small: Api) -> None:
    lamp = f"CUSTOM_{fresh_name().upper().replace('-', '_')}"
    small.put(f"/resource_classes/{lamp}").expect(201)
    for _ in range(3):
        host = small.create_provider(inventories={lamp: 8})
        small.put(f"/allocations/{fresh_uuid()}", holding((host.uuid, {lamp: 1}))).expect(204)
    found = small.at(f"{NEWEST}, stead 1.1").get(f"/advice?resources={lamp}:8&make_room_for=1").expect(200)
    assert found.header("stead-incomplete") == "work"
    assert (found.advice["moves"], found.advice["reason"]) == (None, "not_found")


@pytest.mark.parametrize("version", ["1.25", NEWEST])
def test_a_suffix(small: Api, version: str) -> None:
    small.at(version).get("/allocation_candidates", {"resources" + "1" * 8: "VCPU:1"}).expect(200)
    assert small.at(version).get("/allocation_candidates", {"resources" + "1" * 9: "VCPU:1"}).refused(400, "suffix")


def test_allocations(small: Api) -> None:
    hosts = [small.create_provider(inventories={"VCPU": 8, "DISK_GB": 8}) for _ in range(3)]
    both = {"VCPU": 1, "DISK_GB": 1}
    fits, too_many = fresh_uuid(), fresh_uuid()
    small.put(f"/allocations/{fits}", holding((hosts[0], both), (hosts[1], both))).expect(204)
    several = {fresh_uuid(): holding((host, both)) for host in hosts}
    one = holding(*((host, both) for host in hosts))
    reshape = {"inventories": {}, "allocations": several}
    reshape["inventories"] = {hosts[0].uuid: {"resource_provider_generation": 2, "inventories": {"VCPU": {"total": 9}}}}
    for refused in (
        small.put(f"/allocations/{too_many}", one),
        small.post("/allocations", several),
        small.post("/reshaper", reshape),
    ):
        assert refused.refused(413, "6 allocations")
    assert [small.used(host) for host in hosts] == [both, both, {"VCPU": 0, "DISK_GB": 0}]
    assert small.get(hosts[0].inventories).inventories["VCPU"]["total"] == 8


def half_sent(url: str, body: bytes) -> http.client.HTTPConnection:
    """A request of whose body the second half is missing."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=PATIENCE_SECONDS)
    connection.putrequest("POST", "/resource_providers")
    headers = {"X-Auth-Token": "admin", "Content-Type": "application/json", "Content-Length": str(len(body))}
    for header in headers.items():
        connection.putheader(*header)
    connection.endheaders(body[: len(body) // 2])
    return connection


def test_a_request_takes_no_place_before_its_body_is_there(configuration: Path, tmp_path: Path) -> None:
    one = tmp_path / "placement.conf"
    one.write_text(configuration.read_text() + "max_concurrent_requests = 1\n")
    with serving(one, workers=1) as url:
        api = Api(http_door(url))
        name, body = body_of(1000)
        with closing(half_sent(url, body)) as connection:
            for _ in range(20):
                api.get("/resource_providers").expect(200)
            connection.send(body[len(body) // 2 :])
            assert connection.getresponse().status == 201
        assert [found["name"] for found in api.get("/resource_providers", {"name": name}).resource_providers] == [name]


def test_a_request_beside_one_under_way() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(environ, start_response):
        entered.set()
        leave.wait(PATIENCE_SECONDS)
        start_response("204 No Content", [])
        return []

    door = wsgi_door(RequestLog(Concurrency(slow, 1)))
    statuses: list[int] = []
    first = threading.Thread(target=lambda: statuses.append(door("GET", "/", [], None)[0]))
    first.start()
    assert entered.wait(PATIENCE_SECONDS)
    refused = Api(door).at("1.0").call("GET", "/", headers={"OpenStack-API-Version": None})
    leave.set()
    first.join()
    assert refused.refused(503, "all the requests", code=None)
    assert refused.header("retry-after") == "1"
    assert statuses == [204]
    assert door("GET", "/", [], None)[0] == 204


def test_a_place_is_free_again_when_the_application_fails() -> None:
    def broken(environ, start_response):
        raise OSError("gone")

    app = Concurrency(broken, 1)
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            app({"REQUEST_METHOD": "GET"}, lambda *_: None)
