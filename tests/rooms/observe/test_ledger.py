"""The counters of claims, releases, conflicts and requests beside a ledger that the clients keep."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stead import application
from stead.api.versions import NEWEST_STEAD
from stead.config import load
from stead.observation import Observation
from stead.observe import metrics
from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_uuid, holding, wsgi_door
from tests.system.segments.cases import cases, preparations
from tests.system.ui.wsgi_browser import Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stead.observe.activity import Done

pytestmark = pytest.mark.one_database

OWN = f"{NEWEST}, stead {NEWEST_STEAD}"
WISH = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}


class Site:
    """A service in this process, its counters, and its clients."""

    def __init__(self, observation: Observation, app: Any) -> None:
        self._observation = observation
        self.app = app
        self.api = Api(wsgi_door(app)).at(OWN)

    def counter(self, metric: metrics.Metric) -> Counter[str]:
        """A counter with one label, by its value; counts of zero are absent."""
        assert self._observation._recorder is not None
        tallies = self._observation._recorder.tallies()
        return +Counter({labels[0]: int(values[-1]) for name, labels, values in tallies if name == metric.name})

    def requests(self) -> Counter[tuple[str, str, int]]:
        """Requests by method, route and status."""
        assert self._observation._recorder is not None
        tallies = self._observation._recorder.tallies()
        return Counter(
            {
                (method, route, int(status)): int(sum(values[:-1]))
                for name, (method, route, status), values in (row for row in tallies if row[0] == metrics.REQUESTS.name)
            }
        )

    def done(self) -> Done:
        return self._observation.activity_counts.done()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "placement.conf"
    (tmp_path / "metrics").mkdir()
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
        f"[api]\nauth_strategy = noauth2\n"
        f"[stead]\nui_writes = true\nmetrics = 9\nmetrics_directory = {tmp_path}/metrics\n"
    )
    settings = load([file])
    observation = Observation(settings)
    service = application.build_service(settings, observation)
    yield Site(observation, application.assemble(service, settings, observation))
    service.close()


class Ledger:
    """Clients that write and delete allocations in every way, and what they know about it."""

    def __init__(self, site: Site, seed: int) -> None:
        self.site, self.api, self.random = site, site.api, random.Random(seed)
        self.claims: Counter[str] = Counter()
        self.releases: Counter[str] = Counter()
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.hosts = [self.api.create_provider(inventories={"VCPU": 6}) for _ in range(4)]
        self.generations: dict[str, int] = {}
        self.window = Browser(site.app)
        self.window.sign_in("admin")
        self.csrf = self.window.get("/ui/").csrf

    def entered(self, status: int, method: str, route: str, claims: int, releases: int) -> bool:
        """Enter a request; returns whether it succeeded."""
        outcome = "written" if status < 400 else "conflict" if status == 409 else "invalid"
        self.claims[outcome] += claims
        self.releases[outcome] += releases
        self.requests[method, route, status] += 1
        return status < 400

    def consumer(self) -> tuple[str, int | None]:
        """A new one, one that has allocations, or one with a wrong generation."""
        if self.generations and self.random.random() < 0.5:
            uuid = self.random.choice(list(self.generations))
            return uuid, self.generations[uuid] + (self.random.random() < 0.2)
        return fresh_uuid(), None

    def allocations(self, *, empty: float = 0.3) -> list[tuple[Provider, dict[str, int]]]:
        if self.random.random() < empty:
            return []
        name = self.random.choice(["VCPU"] * 9 + ["CUSTOM_UNKNOWN"])
        return [(self.random.choice(self.hosts), {name: self.random.randint(1, 4)})]

    def written(self, records: dict[str, dict[str, Any]]) -> None:
        """Remember the generations of consumers whose write succeeded."""
        for uuid, record in records.items():
            if record["allocations"]:
                self.generations[uuid] = (record["consumer_generation"] or 0) + 1
            else:
                self.generations.pop(uuid, None)

    def put(self) -> None:
        uuid, generation = self.consumer()
        record = holding(*self.allocations(empty=0.3 if generation else 0.0), generation=generation)
        status = self.api.put(f"/allocations/{uuid}", record).status
        is_claim = bool(record["allocations"])
        if self.entered(status, "PUT", "/allocations/{consumer_uuid}", is_claim, not is_claim):
            self.written({uuid: record})

    def _records(self) -> dict[str, dict[str, Any]]:
        consumers = dict(self.consumer() for _ in range(self.random.randint(1, 3)))
        return {
            uuid: holding(*self.allocations(empty=0.3 if generation else 0.0), generation=generation)
            for uuid, generation in consumers.items()
        }

    def _enter_records(self, answer: Answer, route: str, records: dict[str, dict[str, Any]]) -> None:
        claims = sum(bool(record["allocations"]) for record in records.values())
        if self.entered(answer.status, "POST", route, claims, len(records) - claims):
            self.written(records)

    def post(self) -> None:
        records = self._records()
        self._enter_records(self.api.post("/allocations", records), "/allocations", records)

    def reshape(self) -> None:
        records, host = self._records(), self.random.choice(self.hosts)
        generation = self.api.generation(host)
        self.requests["GET", "/resource_providers/{uuid}", 200] += 1
        inventories = {host.uuid: {"resource_provider_generation": generation, "inventories": {"VCPU": {"total": 6}}}}
        body = {"inventories": inventories, "allocations": records}
        self._enter_records(self.api.post("/reshaper", body), "/reshaper", records)

    def delete(self) -> None:
        uuid = self.random.choice([*self.generations, fresh_uuid()])
        if self.entered(self.api.delete(f"/allocations/{uuid}").status, "DELETE", "/allocations/{consumer_uuid}", 0, 1):
            del self.generations[uuid]

    def claim_by_query(self) -> None:
        consumers = dict(self.consumer() for _ in range(self.random.randint(1, 3)))
        query = self.random.choice(
            ["resources=VCPU:1", "resources=VCPU:5", "resources=VCPU:7", "resources=CUSTOM_NO:1"]
        )
        wishes = [{"consumer_uuid": uuid, "query": query, "consumer_generation": generation, **WISH}
                  for uuid, generation in consumers.items()]  # fmt: skip
        body = {"claims": wishes, "distinct_roots": self.random.random() < 0.3}
        answer = self.api.post("/claims", body)
        if self.entered(answer.status, "POST", "/claims", len(wishes), 0):
            self.generations |= {one["consumer_uuid"]: one["consumer_generation"] for one in answer.claims}

    def claim_in_browser(self) -> None:
        uuid = fresh_uuid()
        amounts = {host.uuid: resources for host, resources in self.allocations(empty=0.0)}
        form = {"csrf": self.csrf, "consumer": uuid, "project": "p", "user": "u", "allocations": json.dumps(amounts)}
        if self.entered(self.window.post("/ui/ask", form).status, "POST", "/ui/ask", 1, 0):
            self.generations[uuid] = 1

    def release_in_browser(self) -> None:
        uuid = self.random.choice([*self.generations, fresh_uuid()])
        page = self.window.post("/ui/consumers", {"csrf": self.csrf, "consumer": uuid})
        if self.entered(page.status, "POST", "/ui/consumers", 0, 1):
            del self.generations[uuid]

    def plan(self) -> None:
        """Questions, and writes of something else: they count as neither."""
        self.entered(
            self.api.get("/allocation_candidates?resources=VCPU:1").status, "GET", "/allocation_candidates", 0, 0
        )
        changes = [{"claim": {"query": "resources=VCPU:1"}}, {"drain": self.random.choice(self.hosts).uuid}]
        body = {"changes": changes[self.random.randint(0, 1) :], "ask": {"totals": True}}
        self.entered(self.api.post("/whatif", body).status, "POST", "/whatif", 0, 0)
        host = self.random.choice(self.hosts)
        self.entered(
            self.api.put(host.inventories, inventories={}, generation=0).status,
            "PUT", "/resource_providers/{uuid}/inventories", 0, 0,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_the_counters_are_what_the_clients_did(site: Site, seed: int) -> None:
    ledger = Ledger(site, seed)
    before = site.requests()
    actions: list[Callable[[], None]] = [
        ledger.put, ledger.post, ledger.reshape, ledger.delete, ledger.claim_by_query, ledger.claim_by_query,
        ledger.claim_in_browser, ledger.release_in_browser,
    ]  # fmt: skip
    for _ in range(12):
        for action in actions:
            action()
        if any(ledger.generations):
            ledger.plan()
        ledger.random.shuffle(actions)

    assert set(ledger.claims) >= {"written", "conflict", "invalid"}
    assert set(ledger.releases) >= {"written", "conflict", "invalid"}
    assert site.counter(metrics.CLAIMS) == +ledger.claims
    assert site.counter(metrics.RELEASES) == +ledger.releases
    requests = site.requests()
    requests.subtract(before)
    assert {key: number for key, number in requests.items() if number} == dict(ledger.requests)

    conflicts = sum(number for (_, _, status), number in ledger.requests.items() if status == 409)
    assert site.counter(metrics.CONFLICTS).total() == conflicts
    done = site.done()
    assert (done.written, done.released) == (ledger.claims["written"], ledger.releases["written"])
    writing = {"/allocations", "/allocations/{consumer_uuid}", "/reshaper", "/claims", "/ui/ask", "/ui/consumers"}
    refused = sum(
        number for (_, route, status), number in ledger.requests.items() if route in writing and status >= 400
    )
    assert sum(done.refused_claims.values()) == refused
    others = sum(
        number for (_, route, status), number in ledger.requests.items() if route not in writing and status == 409
    )
    assert sum(done.conflicts.values()) == others


def test_every_route_counts_the_consumers_that_it_changes(site: Site) -> None:
    for method, path, body in preparations():
        site.api.call(method, path, body).expect(200, 201, 204)
    changing = set()
    for case in cases():
        if case.kind != "a success" or case.method == "GET":
            continue
        token = site.api.get("/changes").expect(200).token
        claims, releases = site.counter(metrics.CLAIMS), site.counter(metrics.RELEASES)
        answer = site.api.call(case.method, case.target, raw=case.body)
        assert answer.status in case.statuses, (case, answer)
        consumers = site.api.get(f"/changes?since={token}&timeout=0").consumers
        generations = [consumer["generation"] for consumer in consumers]
        released = generations.count(None)
        if generations:
            changing.add(case.target.partition("?")[0].split("/")[1])
        assert site.counter(metrics.CLAIMS) - claims == +Counter(written=len(generations) - released), case
        assert site.counter(metrics.RELEASES) - releases == +Counter(written=released), case
    assert changing >= {"allocations", "claims"}
