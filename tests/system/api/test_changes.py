"""GET ``/changes``: what changed since a token, nothing missed; by long poll and as a stream of events.

Source: "GET /changes", docs/stead-api.md.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from stead import application
from stead.api.resources import changes
from stead.config import load
from stead.store.feed import watching
from tests.conftest import open_door, write_configuration
from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_uuid, holding, wsgi_door
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stead.service.service import Service
    from tests.databases import Server

pytestmark = [
    pytest.mark.differs("it has nothing of Stead's own"),
    pytest.mark.timeout(120),  # some wait for changes for up to a minute
]

OWN = f"{NEWEST}, stead 1.0"
NEWER = f"{NEWEST}, stead 1.1"
START_OVER = "stead.start_over"
EVENTS = {"Accept": "text/event-stream"}


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


def token(own: Api) -> str:
    return str(own.get("/changes").expect(200).token)


def since(own: Api, before: str, timeout: int = 0) -> Answer:
    return own.get("/changes", {"since": before, "timeout": timeout}).expect(200)


def changed(answer: Answer, what: str) -> dict[str, int | None]:
    return {one["uuid"]: one["generation"] for one in answer.json[what]}


def stands_in(thread: threading.Thread, function: Any) -> bool:
    """Whether *thread* runs *function*, or waits in it."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None


class TestPoll:
    def test_the_first_answer_is_a_token_and_no_changes(self, own: Api) -> None:
        answer = own.get("/changes").expect(200)
        assert answer.json == {"token": answer.token, "providers": [], "consumers": []}

    def test_who_changes_is_listed_with_the_generation(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        before = token(own)
        assert since(own, before).providers == []
        consumer = own.claim((host, {"VCPU": 1}))
        answer = since(own, before)
        assert (changed(answer, "providers"), changed(answer, "consumers")) == ({host.uuid: 2}, {consumer: 1})
        assert since(own, answer.token).json == {"token": answer.token, "providers": [], "consumers": []}

    @pytest.mark.parametrize(
        "change",
        [
            lambda own, host: own.put(host.path, {"name": host.name + "x"}),
            lambda own, host: own.set_inventories(host, {"VCPU": 3}),
            lambda own, host: own.put(host.traits, traits=["HW_CPU_X86_VMX"], generation=1),
            lambda own, host: own.put(host.aggregates, aggregates=[fresh_uuid()], generation=1),
            lambda own, host: own.create_provider(parent=host),
        ],
        ids=["name", "inventories", "traits", "aggregates", "child"],
    )
    def test_every_kind_of_change_is_one(self, own: Api, change: Callable[[Api, Provider], Any]) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        before = token(own)
        change(own, host)
        assert host.uuid in changed(since(own, before), "providers")

    def test_from_stead_1_1_providers_are_listed_with_their_names_and_what_changed(self, own: Api) -> None:
        newer = own.at(NEWER)
        host, other = own.create_provider(inventories={"VCPU": 8}), own.create_provider()
        child = own.create_provider(parent=other)
        before = token(own)

        def told(change: Callable[[], object]) -> dict[str, tuple[str | None, list[str]]]:
            nonlocal before
            change()
            answer = since(newer, before)
            assert [set(one) for one in answer.consumers] in ([], [{"uuid", "generation"}])
            old = since(own, before)
            assert changed(old, "providers") == changed(answer, "providers")
            assert all(set(one) == {"uuid", "generation"} for one in old.providers)
            before = answer.token
            return {one["uuid"]: (one["name"], one["changes"]) for one in answer.providers}

        def put(path: str, **body: Any) -> Callable[[], object]:
            return lambda: own.put(path, body).expect(200)

        def expecting(generation: int, **body: Any) -> dict[str, Any]:
            return {"resource_provider_generation": generation, **body}

        def named(*changes: str) -> dict[str, tuple[str | None, list[str]]]:
            return {host.uuid: (host.name, list(changes))}

        assert told(lambda: own.claim((host, {"VCPU": 1}))) == named("usages")
        assert told(put(host.inventories, **expecting(2, inventories={"VCPU": {"total": 9}}))) == named("inventories")
        assert told(put(host.traits, **expecting(3, traits=["HW_NUMA_ROOT"]))) == named("traits")
        assert told(put(host.traits, **expecting(4, traits=["HW_NUMA_ROOT"]))) == named()
        assert told(put(host.aggregates, **expecting(4, aggregates=[fresh_uuid()]))) == named("aggregates")
        assert told(put(host.path, name="x" + host.name)) == {host.uuid: ("x" + host.name, ["name"])}
        moved = told(put(other.path, name=other.name, parent_provider_uuid=host.uuid))
        assert moved == {
            host.uuid: ("x" + host.name, []),
            other.uuid: (other.name, ["tree"]),
            child.uuid: (child.name, ["tree"]),
        }
        state = {"disabled": {"reason": "broken fan"}}
        disabled = told(lambda: newer.call("PATCH", f"/provider_trees/{other.uuid}", state).expect(200))
        assert disabled[child.uuid] == (child.name, ["disabled", "usages"])
        assert disabled[other.uuid] == (other.name, ["traits", "disabled", "usages"])
        assert told(lambda: own.delete(child.path).expect(204))[child.uuid] == (None, ["deleted"])

        def several() -> None:
            own.claim((host, {"VCPU": 1}))
            own.set_inventories(host, {"VCPU": 7})

        assert told(several)[host.uuid][1] == ["inventories", "usages"]
        created: list[Provider] = []
        assert told(lambda: created.append(own.create_provider()))[created[0].uuid] == (created[0].name, ["created"])

    def test_a_document_of_trees_tells_what_it_changes(self, own: Api) -> None:
        newer = own.at(NEWER)
        root = own.create_provider()
        branch = own.create_provider(parent=root)
        leaf, before = own.create_provider(parent=branch), token(own)
        providers = [
            {"uuid": branch.uuid, "parent_provider_uuid": None, "traits": ["HW_NUMA_ROOT"]},
            {"uuid": leaf.uuid, "inventories": {"VCPU": {"total": 8}}},
        ]
        newer.put("/provider_trees", {"provider_trees": [{"providers": providers}]}).expect(200)
        told = {one["uuid"]: one["changes"] for one in since(newer, before).providers}
        assert told == {  # a move touches the usages of both trees, see rule 5 of docs/protocol.md
            root.uuid: ["usages"],
            branch.uuid: ["tree", "traits", "usages"],
            leaf.uuid: ["tree", "inventories", "usages"],
        }

    def test_who_is_gone_has_no_generation(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        consumer, root = own.claim((host, {"VCPU": 1})), own.create_provider()
        child = own.create_provider(parent=root)
        before = token(own)
        own.delete(f"/allocations/{consumer}").expect(204)
        own.delete(child.path).expect(204)
        brief = own.create_provider()
        own.delete(brief.path).expect(204)
        answer = since(own, before)
        assert changed(answer, "consumers") == {consumer: None}
        assert changed(answer, "providers") == {host.uuid: 2, root.uuid: 0, child.uuid: None, brief.uuid: None}

    def test_who_came_again_is_there(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        consumer, brief = own.claim((host, {"VCPU": 1})), own.create_provider()
        before = token(own)
        own.delete(f"/allocations/{consumer}").expect(204)
        own.put(f"/allocations/{consumer}", holding((host, {"VCPU": 1}))).expect(204)
        own.delete(brief.path).expect(204)
        own.post("/resource_providers", uuid=brief.uuid, name=brief.name).expect(200)
        answer = since(own, before)
        assert changed(answer, "consumers") == {consumer: 1}
        assert changed(answer, "providers")[brief.uuid] == 0

    def test_all_consumers_of_one_request_are_listed_and_those_that_give_up(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        leaving = own.claim((host, {"VCPU": 1}))
        before, coming = token(own), fresh_uuid()
        own.post("/allocations", {leaving: holding(generation=1), coming: holding((host, {"VCPU": 1}))}).expect(204)
        assert changed(since(own, before), "consumers") == {leaving: None, coming: 1}

    def test_a_reshape_is_told(self, own: Api) -> None:
        host, child = own.create_provider(inventories={"VCPU": 8}), own.create_provider()
        consumer = own.claim((host, {"VCPU": 1}))
        before = token(own)
        inventories = {
            host.uuid: {"resource_provider_generation": 2, "inventories": {}},
            child.uuid: {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}},
        }
        moved = holding((child, {"VCPU": 1}), generation=1)
        own.post("/reshaper", {"inventories": inventories, "allocations": {consumer: moved}}).expect(204)
        answer = since(own, before)
        assert changed(answer, "providers").keys() == {host.uuid, child.uuid}
        assert changed(answer, "consumers") == {consumer: 2}

    def test_what_is_refused_is_no_change(self, own: Api) -> None:
        host = own.create_provider(inventories={"VCPU": 1})
        before = token(own)
        own.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 2}))).expect(409)
        assert since(own, before).json == {"token": before, "providers": [], "consumers": []}

    def test_who_waits_is_told_as_soon_as_something_changes(self, own: Api, database_server: Server) -> None:
        host = own.create_provider(inventories={"VCPU": 8})
        before = token(own)
        told: list[Answer] = []
        watcher = threading.Thread(target=lambda: told.append(since(own, before, timeout=60)), daemon=True)
        watcher.start()
        if database_server.kind != "url":  # another process does not show that it waits; then it is told at once
            wait_until(lambda: stands_in(watcher, watching.Follower.__next__))
        consumer = own.claim((host, {"VCPU": 1}))
        watcher.join(PATIENCE_SECONDS)
        assert changed(told[0], "consumers") == {consumer: 1}

    def test_who_waits_in_vain_is_told_so(self, own: Api) -> None:
        before = token(own)
        began = time.monotonic()
        answer = since(own, before, timeout=1)
        assert time.monotonic() - began >= 1
        assert (answer.providers, answer.consumers) == ([], [])

    @pytest.mark.one_database
    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ({"since": ""}, "should be non-empty"),
            ({"since": "nonsense"}, "'since' is no token of this service."),
            ({"since": "A" * 300}, "'since' is no token of this service."),
            ({"since": "AQ"}, "'since' is no token of this service."),
            ({"since": "\u2603"}, "'since' is no token of this service."),
            ({"timeout": "61"}, "'61' does not match"),
            ({"timeout": "-1"}, "'-1' does not match"),
            ({"colour": "red"}, "'colour' was unexpected"),
        ],
    )
    def test_a_malformed_query_is_refused(self, own: Api, query: dict[str, str], words: str) -> None:
        assert own.get("/changes", query).refused(400, "Invalid query string parameters:", words)

    @pytest.mark.one_database
    def test_every_cut_of_a_token_is_refused(self, own: Api) -> None:
        own.create_provider()
        whole = token(own)
        for length in range(1, len(whole)):
            refused = own.get("/changes", {"since": whole[:length]})
            assert refused.refused(400, "'since' is no token of this service."), length

    def test_without_stead_there_is_no_such_path(self, api: Api) -> None:
        assert api.get("/changes").refused(404)

    def test_a_reader_may_not(self, own: Api) -> None:
        reader = Api(own.door, token="someone:p", roles="reader", version=OWN)
        assert reader.get("/changes").refused(403, "stead:changes:list")


@contextmanager
def opened(directory: Path, url: str) -> Iterator[tuple[Service, Any]]:
    """A service of its own, and its application."""
    settings = load([write_configuration(directory, url)])
    service = application.build_service(settings)
    yield service, application.assemble(service, settings)
    service.close()


class Watching(threading.Thread):
    """Is told what changes until it is stopped, by one service after the other."""

    def __init__(self, apis: list[Api], start: str, turn: int) -> None:
        super().__init__()
        self.told: dict[str, int | None] = {}
        self.stopped = threading.Event()
        self._apis, self._last, self._turn = apis, start, turn

    def run(self) -> None:
        ended = False
        while not ended:
            ended = self.stopped.is_set()
            self._turn += 1
            answer = since(self._apis[self._turn % 2], self._last, timeout=0 if ended else 1)
            self.told.update(changed(answer, "consumers"))
            self._last = answer.token


def test_nothing_is_missed_while_several_write_to_several_services(ready_database_url: str, tmp_path: Path) -> None:
    """Who watches, at one service after the other, is told of every consumer that was made."""
    with opened(tmp_path, ready_database_url) as (_, one), opened(tmp_path, ready_database_url) as (_, other):
        apis = [Api(wsgi_door(one), version=OWN), Api(wsgi_door(other), version=OWN)]
        hosts = [apis[0].create_provider(inventories={"VCPU": 1000}) for _ in range(3)]
        start = token(apis[0])
        made: list[str] = []

        def write(number: int) -> None:
            for n in range(25):
                api = apis[(number + n) % 2]
                made.append(api.claim((hosts[n % 3], {"VCPU": 1})))
                if n % 3 == 0:
                    api.delete(f"/allocations/{made[-1]}")  # or another's, who was faster, which may be gone

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        watchers = [Watching(apis, start, number) for number in range(2)]
        for thread in (*writers, *watchers):
            thread.start()
        for thread in writers:
            thread.join()
        for watcher in watchers:
            watcher.stopped.set()
            watcher.join()
        there = {consumer for consumer in made if apis[0].held(consumer)}
        for told in (watchers[0].told, watchers[1].told, changed(since(apis[1], start), "consumers")):
            assert set(told) == set(made)
            assert {consumer for consumer, generation in told.items() if generation is not None} == there


class TestStartOver:
    def test_a_token_older_than_what_is_kept(
        self, ready_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from stead.store.feed.pruning import Pruning

        with opened(tmp_path, ready_database_url) as (service, app):
            own = Api(wsgi_door(app), version=OWN)
            host = own.create_provider(inventories={"VCPU": 100})
            old = token(own)
            for _ in range(30):
                own.claim((host, {"VCPU": 1}))
            late = token(own)
            own.claim((host, {"VCPU": 1}))
            Pruning(service._store, 10).step()
            assert own.get("/changes", {"since": old}).refused(410, "Request a new token", code=START_OVER)
            assert len(since(own, late).consumers) == 1
            kept = service.read(lambda connection: connection.exec_driver_sql("SELECT COUNT(*) FROM stead_change_log"))
            assert kept.scalar_one() <= 10

    def test_a_token_from_before_a_restore(self, ready_database_url: str, tmp_path: Path) -> None:
        from stead.store.protocol import store

        with opened(tmp_path, ready_database_url) as (service, app):
            own = Api(wsgi_door(app), version=OWN)
            before = token(own)
            service.write(store.renew_epoch)
            assert own.get("/changes", {"since": before}).refused(410, code=START_OVER)

    def test_a_token_of_a_future_that_was_lost(self, ready_database_url: str, tmp_path: Path) -> None:
        with opened(tmp_path, ready_database_url) as (service, app):
            own = Api(wsgi_door(app), version=OWN)
            own.create_provider()
            before = token(own)
            statement = "UPDATE stead_clock SET tick = tick - 1 WHERE tick > 0"
            service.write(lambda tx: tx.connection.exec_driver_sql(statement))
            assert own.get("/changes", {"since": before}).refused(410, code=START_OVER)

    def test_more_than_is_listed(
        self, ready_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from stead.store.protocol import clock

        monkeypatch.setattr(clock, "TOO_MANY", 3)
        with opened(tmp_path, ready_database_url) as (_, app):
            own = Api(wsgi_door(app), version=OWN)
            host = own.create_provider(inventories={"VCPU": 100})
            before = token(own)
            own.post("/allocations", {fresh_uuid(): holding((host, {"VCPU": 1})) for _ in range(4)}).expect(204)
            assert own.get("/changes", {"since": before}).refused(410, code=START_OVER)
            assert since(own, token(own)).consumers == []


class Following:
    """A stream of events, read by hand."""

    def __init__(self, app: Any, query: str = "", **headers: str) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        environ = {
            "REQUEST_METHOD": "GET", "SCRIPT_NAME": "", "PATH_INFO": "/changes", "QUERY_STRING": query,
            "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http",
            "REMOTE_ADDR": "127.0.0.1", "HTTP_OPENSTACK_API_VERSION": f"placement {OWN}", "HTTP_X_AUTH_TOKEN": "admin",
            "HTTP_ACCEPT": "text/event-stream", "wsgi.input": None, "wsgi.errors": None, "wsgi.multithread": True,
            **{f"HTTP_{name.upper()}": value for name, value in headers.items()},
        }  # fmt: skip
        self.parts = app(environ, self._start)
        self._left = iter(self.parts)

    def _start(self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> None:
        self.status, self.headers = int(status.split()[0]), dict(headers)

    def next(self) -> dict[str, str]:
        """The fields of the next event."""
        text = next(self._left).decode()
        assert text.endswith("\n\n")
        return dict(line.split(": ", 1) for line in text.strip().split("\n") if not line.startswith(":"))

    def close(self) -> None:
        self.parts.close()


@pytest.fixture
def site(ready_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Api, Any]]:
    monkeypatch.setenv("OS_STEAD__MAX_WATCHERS", "2")
    monkeypatch.setenv("OS_STEAD__MAX_CONCURRENT_REQUESTS", "6")
    monkeypatch.setenv("OS_STEAD__COMPRESS_RESPONSES", "true")
    with opened(tmp_path, ready_database_url) as (_, app):
        yield Api(wsgi_door(app), version=OWN), app


@pytest.mark.one_database
class TestEvents:
    def test_it_begins_with_a_token_and_goes_on_with_changes(self, site: tuple[Api, Any]) -> None:
        own, app = site
        host = own.create_provider(inventories={"VCPU": 9})
        stream = Following(app)
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert stream.headers["cache-control"] == "no-cache"
        assert stream.next() == {"retry": "1000"}
        begun = stream.next()
        assert begun["event"] == "token"
        assert json.loads(begun["data"]) == {"token": begun["id"]}
        consumer = own.claim((host, {"VCPU": 1}))
        told = stream.next()
        assert told["event"] == "changes"
        data = json.loads(told["data"])
        assert data == {
            "token": told["id"],
            "providers": [{"uuid": host.uuid, "generation": 2}],
            "consumers": [{"uuid": consumer, "generation": 1}],
        }
        own.delete(f"/allocations/{consumer}").expect(204)
        assert json.loads(stream.next()["data"])["consumers"] == [{"uuid": consumer, "generation": None}]
        stream.close()

    def test_it_goes_on_after_the_last_event_that_arrived(self, site: tuple[Api, Any]) -> None:
        own, app = site
        host = own.create_provider(inventories={"VCPU": 9})
        stream = Following(app)
        stream.next()
        begun = stream.next()
        stream.close()
        consumer = own.claim((host, {"VCPU": 1}))
        for again in (Following(app, last_event_id=begun["id"]), Following(app, f"since={begun['id']}")):
            assert again.next() == {"retry": "1000"}
            assert json.loads(again.next()["data"])["consumers"] == [{"uuid": consumer, "generation": 1}]
            again.close()

    def test_quiet_times_are_filled_with_comments(self, site: tuple[Api, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(changes, "HEARTBEAT_SECONDS", 0.05)
        stream = Following(site[1])
        stream.next()
        stream.next()
        assert stream.next() == stream.next() == {}
        stream.close()

    def test_it_ends_after_some_minutes(self, site: tuple[Api, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(changes, "LONGEST_SECONDS", 0.2)
        stream = Following(site[1])
        assert [part[:6] for part in stream.parts][:2] == [b"retry:", b"event:"]

    def test_what_can_not_be_told_any_more_ends_it(self, site: tuple[Api, Any]) -> None:
        stream = Following(site[1])
        stream.next()
        stream.next()
        own = site[0]
        own.create_provider()
        from stead.store.protocol import clock

        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(clock, "TOO_MANY", 0)
        own.create_provider()
        monkeypatch.undo()
        events = [part.decode() for part in stream.parts]
        assert events[-1] == "event: start-over\ndata: {}\n\n"
        own.get("/changes").expect(200)

    def test_a_token_that_is_too_old_is_410_before_it_begins(self, site: tuple[Api, Any]) -> None:
        own, app = site
        future = token(own)
        stream = Following(app, "since=x")
        assert stream.status == 400
        assert future


@pytest.mark.one_database
class TestBounds:
    def test_more_watchers_than_are_let_wait_are_503(self, site: tuple[Api, Any]) -> None:
        own, app = site
        streams = [Following(app) for _ in range(2)]
        assert [stream.status for stream in streams] == [200, 200]
        third = Following(app)
        assert (third.status, third.headers["retry-after"]) == (503, "1")
        waiting = own.get("/changes", {"since": token(own), "timeout": 5})
        assert waiting.refused(503, "Too many watchers")
        assert since(own, token(own)).consumers == []  # who does not wait is none
        streams[0].close()
        fourth = Following(app)
        assert fourth.status == 200
        for stream in (streams[1], fourth):
            stream.close()
        assert all(Following(app).status == 200 for _ in range(5))  # whoever is dropped makes room too

    def test_a_client_with_all_watchers_gives_one_to_another(self, site: tuple[Api, Any]) -> None:
        _, app = site
        greedy = [Following(app) for _ in range(2)]
        other = Following(app, X_AUTH_TOKEN="ann:p", X_ROLES="admin")
        assert [stream.status for stream in (*greedy, other)] == [200, 200, 200]
        assert Following(app).status == 503  # half is the share of each
        assert Following(app, X_AUTH_TOKEN="ann:p", X_ROLES="admin").status == 503

    def test_streams_count_as_requests_under_way(self, site: tuple[Api, Any]) -> None:
        own, app = site
        for _ in range(10):
            stream = Following(app)
            stream.next()
            stream.close()
        own.get("/changes").expect(200)

    def test_a_service_that_closes_lets_its_watchers_go(self, ready_database_url: str, tmp_path: Path) -> None:
        with opened(tmp_path, ready_database_url) as (service, app):
            stream = Following(app)
            stream.next()
            stream.next()
            service.watchers.close()
            assert list(stream.parts) == []


@pytest.mark.one_database
@pytest.mark.parametrize(
    ("accept", "found"),
    [
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream, application/json", "text/event-stream"),
        ("text/event-stream;q=0.5, application/json", "application/json"),
        ("application/json", "application/json"),
        ("*/*", "application/json"),
    ],
)
def test_the_form_follows_what_is_accepted(site: tuple[Api, Any], accept: str, found: str) -> None:
    stream = Following(site[1], accept=accept)
    assert stream.headers["content-type"] == found
    getattr(stream.parts, "close", lambda: None)()


@pytest.mark.one_database
def test_what_is_neither_is_not_acceptable(own: Api) -> None:
    assert own.get("/changes", headers={"Accept": "text/csv"}).status == 406


@pytest.mark.one_database
def test_none_waits_where_none_may(ready_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_STEAD__MAX_WATCHERS", "0")
    with open_door(tmp_path, ready_database_url) as door:
        own = Api(door, version=OWN)
        began = time.monotonic()
        since(own, token(own), timeout=60)
        assert time.monotonic() - began < 60
        assert own.get("/changes", headers=EVENTS).status == 503
