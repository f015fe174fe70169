"""The metrics of flavors: what GET /headroom tells of the same site, in all trees and in zones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead.api.query.candidates import stored_request
from stead.config import load
from stead.config.values import ConfigError
from stead.domain.errors import Unavailable
from stead.domain.request import FlavorRoom
from stead.observation import headroom_text
from stead.observe.metrics import text_of_flavors
from tests.rooms.observe.test_capacity import samples, started, value
from tests.system.api.client import NEWEST, Api, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stead.service.service import Service
    from tests.rooms.observe.test_capacity import Samples

ZONE_A, ZONE_B, NO_ZONE = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "123")
ZONES = {"zone-a": ZONE_A, "zone-b": ZONE_B, "nowhere": NO_ZONE}
FLAVORS = {"m1.small": "resources=VCPU:1", "m1.large": "resources=VCPU:4", "m1.disk": "resources=VCPU:1,DISK_GB:10"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Service, Api]]:
    """Two hosts in zone a, one in zone b and one in none, of 8 VCPU; storage for both zones."""
    with started(tmp_path) as (service, api):
        api = api.at(f"{NEWEST}, stead 1.1")
        for zones in ([ZONE_A], [ZONE_A], [ZONE_B], []):
            api.create_provider(inventories={"VCPU": 8}, aggregates=zones)
        api.create_provider(
            inventories={"DISK_GB": 45}, aggregates=[ZONE_A, ZONE_B], traits=["MISC_SHARES_VIA_AGGREGATE"]
        )
        for name, query in FLAVORS.items():
            api.put(f"/flavors/{name}", {"query": query}).expect(201)
        yield service, api


def scraped(service: Service) -> Samples:
    return samples(headroom_text(service, stored_request, ZONES))


def expected(api: Api) -> Samples:
    """What GET /headroom says, also of what is stranded; a query with ``root_member_of`` stands for a zone."""
    told: Samples = {}
    for name in FLAVORS:
        for zone, uuid in {"": "", **ZONES}.items():
            among = f"&root_member_of={uuid}" if zone else ""
            headroom = api.get(f"/headroom?flavor={name}{among}").expect(200).json["headroom"]
            labels = frozenset({("flavor", name), *([("aggregate", zone)] if zone else [])})
            told["stead_headroom", labels] = headroom["at_least"]
            told["stead_headroom_at_most", labels] = headroom["at_most"]
    stranded = api.at(f"{NEWEST}, stead 1.2").get("/headroom").expect(200).json["headroom"]["stranded"]
    assert stranded.keys() == {"VCPU", "DISK_GB"}
    told |= {("stead_stranded", frozenset({("resource_class", name)})): amount for name, amount in stranded.items()}
    return told


@pytest.mark.one_database
def test_each_flavor_has_the_bounds_of_its_headroom_also_after_claims(site: tuple[Service, Api]) -> None:
    service, api = site
    assert scraped(service) == expected(api)
    for _ in range(6):
        claim = {"consumer_uuid": fresh_uuid(), "query": "flavor=m1.disk", "consumer_type": "INSTANCE"}
        owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
        api.post("/claims", {"claims": [claim | owner]}).expect(200, 409)
        assert scraped(service) == expected(api)
    assert value(scraped(service), "stead_headroom", flavor="m1.disk") == 0
    assert value(scraped(service), "stead_headroom", flavor="m1.large", aggregate="zone-a") in (2, 3, 4)


@pytest.mark.one_database
def test_a_flavor_of_a_class_that_is_gone_has_no_samples_and_the_others_have(site: tuple[Service, Api]) -> None:
    service, api = site
    api.put("/flavors/gone", {"query": "resources=CUSTOM_GONE:1"}).expect(201)
    assert scraped(service) == expected(api)


@pytest.mark.one_database
def test_a_name_is_written_as_a_label_must_be() -> None:
    read = samples(text_of_flavors([FlavorRoom("m1", 'a "zone"\\', 1, 2)]))
    assert value(read, "stead_headroom_at_most", flavor="m1", aggregate='a "zone"\\') == 2


@pytest.mark.one_database
def test_a_scrape_works_while_the_database_does_not_answer() -> None:
    class Down:
        def read(self, *_: object) -> None:
            raise Unavailable("the database does not answer")

    assert headroom_text(Down(), stored_request, {}) == ""  # type: ignore[arg-type]  # nothing else of it is used


@pytest.mark.one_database
@pytest.mark.parametrize(
    "aggregates",
    ["zone-a:nonsense", ",".join(f"zone-{number}:{ZONE_A}" for number in range(33))],
    ids=["no uuid", "33"],
)
def test_aggregates_that_cannot_be_are_refused_at_start(tmp_path: Path, aggregates: str) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/p.db\n[stead]\nheadroom_aggregates = {aggregates}\n"
    )
    with pytest.raises(ConfigError, match="headroom_aggregates"):
        load([file])
