"""``/mix``: what the order ``headroom`` leaves room for, from weights or learned.

Source: "The mix", docs/stead-api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.config import load
from tests.configuration import write_configuration
from tests.system.api.client import NEWEST, Api, Provider, fresh_uuid, wsgi_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stead.service.service import Service

pytestmark = [pytest.mark.differs("it has nothing of Stead's own"), pytest.mark.one_database]

NEW = f"{NEWEST}, stead 1.2"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    settings = load([write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db")])
    service = application.build_service(settings)
    yield service
    service.close()


@pytest.fixture
def own(service: Service, tmp_path: Path) -> Api:
    settings = load([tmp_path / "placement.conf"])
    return Api(wsgi_door(application.assemble(service, settings))).at(NEW)


@pytest.fixture
def hosts(own: Api) -> list[Provider]:
    return [own.create_provider(inventories={"VCPU": 8}) for _ in range(2)]


def learn(service: Service) -> None:
    """What the worker does twice a minute."""
    assert service.learning is not None
    service.learning.step()
    service.forget_mix()  # read the flavors now, and not within 5 s


def claim(amount: int) -> dict[str, object]:
    return {
        "consumer_uuid": fresh_uuid(),
        "query": f"resources=VCPU:{amount}",
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer_generation": None,
    }


def mix(own: Api) -> tuple[str, dict[str, float]]:
    found = own.get("/mix").expect(200).mix
    return found["source"], {form["flavor"] or form["query"]: form["share"] for form in found["forms"]}


def test_it_is_learned_from_candidates_and_claims_of_any_version(
    service: Service, own: Api, hosts: list[Provider]
) -> None:
    assert mix(own) == ("none", {})
    for version in ("1.10", NEWEST, NEW):
        for _ in range(10):
            own.at(version).get("/allocation_candidates", {"resources": "VCPU:2"}).expect(200)
    for _ in range(10):
        own.get("/allocation_candidates", {"resources": "CUSTOM_NO_SUCH:2"}).expect(400)
    refused = claim(99)
    for _ in range(5):
        own.post("/claims", {"claims": [refused]}).expect(409)
    for _ in range(9):
        own.post("/claims", {"claims": [claim(1)]}).expect(200)
    learn(service)
    expected = {"resources=VCPU:2": 30 / 40, "resources=VCPU:1": 9 / 40, "resources=VCPU:99": 1 / 40}
    assert mix(own) == ("learned", pytest.approx(expected))


def test_weights_replace_it_and_it_can_be_forgotten(service: Service, own: Api, hosts: list[Provider]) -> None:
    for _ in range(30):
        own.get("/allocation_candidates", {"resources": "VCPU:2"}).expect(200)
    learn(service)
    own.put("/flavors/m1", {"query": "resources=VCPU:4"}).expect(201)
    assert mix(own)[0] == "learned"
    own.put("/flavors/m1", {"query": "resources=VCPU:4", "weight": 2}).expect(200)
    assert mix(own) == ("weights", {"m1": 1.0})
    own.put("/flavors/m1", {"query": "resources=VCPU:4", "weight": None}).expect(200)
    assert mix(own)[0] == "learned"
    own.delete("/mix").expect(204)
    assert mix(own) == ("flavors", {"m1": 1.0})
    own.delete("/mix").expect(204)


def test_claims_leave_room_for_what_was_learned(service: Service, own: Api) -> None:
    big, small = (own.create_provider(inventories={"VCPU": total}) for total in (8, 7))
    query = {"resources": "VCPU:1", "order_by": "headroom"}

    def first() -> str:
        return str(
            next(iter(own.get("/allocation_candidates", query).expect(200).allocation_requests[0]["allocations"]))
        )

    own.claim((small, {"VCPU": 1}))
    assert first() == big.uuid  # as `spread`
    for _ in range(200):
        own.get("/allocation_candidates", {"resources": "VCPU:8"}).expect(200)
    learn(service)
    assert first() == small.uuid


def test_older_versions_do_not_have_it(own: Api) -> None:
    own.at(f"{NEWEST}, stead 1.1").get("/mix").expect(404)
    own.at(NEWEST).get("/mix").expect(404)
    assert b"'a' was unexpected" in own.get("/mix", {"a": "b"}).expect(400).body
    own.call("PUT", "/mix", {}).expect(405)
