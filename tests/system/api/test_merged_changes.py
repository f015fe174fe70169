"""GET ``/changes?merged=true``. Source: "GET /changes", docs/stead-api.md."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from stead.api.resources import changes
from tests.system.api.client import NEWEST, Api, fresh_uuid, wsgi_door
from tests.system.api.test_changes import opened, token
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.one_database]

OWN = f"{NEWEST}, stead 1.1"


def merged(own: Api, since: str) -> Any:
    return own.get("/changes", {"merged": "true", "since": since}).expect(200).json


class TestPoll:
    def test_without_changes_it_returns_a_token(self, api: Api) -> None:
        own = api.at(OWN)
        answer = own.get("/changes", {"merged": "true"}).expect(200).json
        assert answer["trees"] == {"name": [], "used": {}}
        assert (answer["reload"], answer["provider_count"], answer["consumer_count"]) == (False, 0, 0)
        assert merged(own, answer["token"]) == answer

    def test_claims_in_a_tree_change_its_sums(self, empty_api: Api) -> None:
        own = empty_api.at(OWN)
        host = own.create_provider(inventories={"VCPU": 8})
        child = own.create_provider(parent=host, inventories={"VCPU": 4, "MEMORY_MB": 16})
        other = own.create_provider(inventories={"VCPU": 8})
        before = token(own)
        own.claim((host, {"VCPU": 3}))
        own.claim((child, {"VCPU": 2, "MEMORY_MB": 5}), (other, {"VCPU": 1}))
        answer = merged(own, before)
        assert (answer["reload"], answer["provider_count"], answer["consumer_count"]) == (False, 3, 2)
        used = {
            name: dict(zip(answer["trees"]["name"], of, strict=True)) for name, of in answer["trees"]["used"].items()
        }
        assert used == {"VCPU": {host.name: 5, other.name: 1}, "MEMORY_MB": {host.name: 5, other.name: -1}}

    @pytest.mark.parametrize("change", ["inventories", "traits", "name", "create", "delete", "move"])
    def test_changes_of_more_than_usages_require_a_reload(self, empty_api: Api, change: str) -> None:
        own = empty_api.at(OWN)
        host, other = own.create_provider(inventories={"VCPU": 8}), own.create_provider()
        before = token(own)
        {
            "inventories": lambda: own.set_inventories(host, {"VCPU": 3}),
            "traits": lambda: own.put(host.traits, traits=["HW_CPU_X86_VMX"], resource_provider_generation=1),
            "name": lambda: own.put(host.path, {"name": host.name + "x"}),
            "create": lambda: own.create_provider(),
            "delete": lambda: own.delete(host.path),
            "move": lambda: own.put(other.path, {"name": other.name, "parent_provider_uuid": host.uuid}),
        }[change]()
        answer = merged(own, before)
        assert (answer["reload"], answer["trees"]["name"]) == (True, [])

    def test_an_invalid_token_is_400(self, api: Api) -> None:
        assert api.at(OWN).get("/changes", {"merged": "true", "since": "x"}).refused(400, "no token")

    def test_stead_1_0_does_not_know_it(self, api: Api) -> None:
        assert api.at(f"{NEWEST}, stead 1.0").get("/changes", {"merged": "true"}).status == 400


ENVIRON = {
    "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/changes", "SERVER_NAME": "127.0.0.1",
    "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "REMOTE_ADDR": "127.0.0.1",
    "HTTP_OPENSTACK_API_VERSION": f"placement {OWN}", "HTTP_X_AUTH_TOKEN": "admin", "wsgi.input": None,
    "HTTP_ACCEPT": "text/event-stream", "wsgi.errors": None, "wsgi.multithread": True,
    "wsgi_lanes.carries_streams": True,
}  # fmt: skip


class Stream:
    """A stream of merged changes as `stead serve` carries it; its events."""

    headers: dict[str, str]

    def __init__(self, app: Any, query: str = "merged=true", **environ: Any) -> None:
        self.parts: list[bytes | None] = []
        self._arrived = threading.Condition()
        self.status, self.headers = 0, {}
        self._body = app({**ENVIRON, "QUERY_STRING": query, **environ}, self._start)
        if self.status == 200:
            self._body.attach(self._receive)

    def _start(self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
        self.status, self.headers = int(status.split()[0]), dict(headers)

    def _receive(self, part: bytes | None) -> None:
        with self._arrived:
            self.parts.append(part)

    def events(self) -> list[Any]:
        """The data of the events so far."""
        lines = b"".join(part or b"" for part in list(self.parts)).decode().split("\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]

    def close(self) -> None:
        self._body.close()


@pytest.fixture
def site(ready_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, Any, Any]]:
    monkeypatch.setenv("OS_STEAD__MAX_WATCHERS", "2")
    with opened(tmp_path, ready_database_url) as (service, app):
        yield Api(wsgi_door(app), version=OWN), app, service


class TestStream:
    def test_it_begins_with_what_changed_since_the_token(self, site: tuple[Api, Any, Any]) -> None:
        own, app, _ = site
        host = own.create_provider(inventories={"VCPU": 9})
        before = token(own)
        own.claim((host, {"VCPU": 1}))
        for query in ({"query": f"merged=true&since={before}"}, {"HTTP_LAST_EVENT_ID": before}):
            stream = Stream(app, **query)
            assert stream.headers["content-type"] == "text/event-stream"
            assert stream.events()[0]["trees"] == {"name": [host.name], "used": {"VCPU": [1]}}
            stream.close()

    def test_every_claim_arrives_and_many_share_a_message(self, site: tuple[Api, Any, Any]) -> None:
        own, app, _ = site
        hosts = [own.create_provider(inventories={"VCPU": 99}) for _ in range(3)]
        streams = [Stream(app), Stream(app)]
        for _ in range(20):
            for host in hosts:
                own.claim((host, {"VCPU": 1}))
        for stream in streams:
            wait_until(lambda stream=stream: sum(event["consumer_count"] for event in stream.events()) == 60)
            latest: dict[str, int] = {}
            for event in stream.events():
                latest.update(zip(event["trees"]["name"], event["trees"]["used"].get("VCPU", []), strict=True))
            assert latest == {host.name: 20 for host in hosts}
            assert len(stream.events()) < 20
        assert streams[0].events()[1:] == streams[1].events()[1:]
        for stream in streams:
            stream.close()

    def test_a_message_has_a_limit_and_the_rest_follows(
        self, site: tuple[Api, Any, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, app, _ = site
        hosts = [own.create_provider(inventories={"VCPU": 9}) for _ in range(8)]
        stream = Stream(app)
        monkeypatch.setattr(changes, "MOST_BYTES", 320)
        monkeypatch.setattr(changes, "MERGED_SECONDS", 0.0)
        begun = stream.events()[0]["token"]
        own.claim(*((host, {"VCPU": 2}) for host in hosts))
        wait_until(lambda: sum(len(event["trees"]["name"]) for event in stream.events()) == 8)
        events = stream.events()[1:]
        assert len(events) > 1
        assert [event["token"] == begun for event in events] == [True] * (len(events) - 1) + [False]
        stream.close()

    def test_more_streams_than_allowed_are_503(self, site: tuple[Api, Any, Any]) -> None:
        _, app, service = site
        streams = [Stream(app), Stream(app)]
        assert Stream(app).status == 503
        streams[0].close()
        assert Stream(app).status == 200
        assert service.watchers.waiting == 1

    def test_a_client_with_all_streams_gives_one_to_another(self, site: tuple[Api, Any, Any]) -> None:
        _, app, service = site
        greedy = [Stream(app), Stream(app)]
        other = Stream(app, HTTP_X_AUTH_TOKEN="ann:p", HTTP_X_ROLES="admin")
        assert other.status == 200
        assert [stream.parts[-1] for stream in greedy].count(None) == 1
        assert other.parts[-1] is not None
        assert Stream(app).status == 503
        assert Stream(app, HTTP_X_AUTH_TOKEN="ann:p", HTTP_X_ROLES="admin").status == 503  # half is its share
        assert service.watchers.waiting == 1

    def test_the_last_that_closes_ends_the_watching(self, site: tuple[Api, Any, Any]) -> None:
        _, app, service = site
        stream = Stream(app)
        stream.close()
        assert service.watchers.waiting == 0

    def test_a_service_that_closes_ends_the_streams(self, site: tuple[Api, Any, Any]) -> None:
        _, app, service = site
        stream = Stream(app)
        service.watchers.close()
        assert stream.parts[-1] is None

    def test_servers_that_would_hold_a_thread_return_503(self, site: tuple[Api, Any, Any]) -> None:
        own = site[0]
        refused = own.get("/changes", {"merged": "true"}, headers={"Accept": "text/event-stream"})
        assert refused.status == 503
        assert b"Poll GET /changes with merged=true instead" in refused.body


def test_a_deleted_provider_of_a_tree_is_no_error(empty_api: Api) -> None:
    own = empty_api.at(OWN)
    before = token(own)
    own.delete(own.create_provider(fresh_uuid()).path).expect(204)
    assert merged(own, before)["reload"]
