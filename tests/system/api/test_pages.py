"""Pages: ``limit`` and ``marker`` when listing providers, and GET ``/consumers``.

Source: "Pages" and "GET /consumers", docs/stead-api.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.system.api.client import NEWEST, Answer, Api, Provider, fresh_name, fresh_uuid, holding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.differs("it has nothing of Stead's own")

OWN = f"{NEWEST}, stead 1.0"


@pytest.fixture
def own(api: Api) -> Api:
    return api.at(OWN)


def followed(
    own: Api, path: str, query: dict[str, Any], between: Callable[[], object] = lambda: None
) -> Iterator[Answer]:
    """The page of *query*, and those its links lead to; something may be done *between* them."""
    page = own.get(path, query).expect(200)
    yield page
    while page.links:
        between()
        [link] = page.links
        assert link["rel"] == "next"
        there = urlsplit(link["href"])
        assert there.path == path
        page = own.get(path, parse_qsl(there.query)).expect(200)
        yield page


@pytest.mark.one_database
class TestProviders:
    @pytest.fixture
    def rack(self, api: Api) -> str:
        """An aggregate with seven providers."""
        rack = fresh_uuid()
        for _ in range(7):
            api.create_provider(aggregates=[rack])
        return rack

    def all_of(self, api: Api, rack: str) -> list[str]:
        return sorted(one["uuid"] for one in api.get("/resource_providers", {"member_of": rack}).resource_providers)

    @pytest.mark.parametrize("limit", [1, 3, 6, 7, 8])
    def test_pages_hold_everybody_once_in_the_order_of_uuids(self, own: Api, rack: str, limit: int) -> None:
        pages = list(followed(own, "/resource_providers", {"member_of": rack, "limit": limit}))
        assert [one["uuid"] for page in pages for one in page.resource_providers] == self.all_of(own, rack)
        assert [len(page.resource_providers) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert len(pages) == -(-7 // limit)

    def test_a_page_shows_what_the_whole_list_shows(self, own: Api, rack: str) -> None:
        whole = {one["uuid"]: one for one in own.get("/resource_providers", {"member_of": rack}).resource_providers}
        for page in followed(own, "/resource_providers", {"member_of": rack, "limit": 2}):
            assert all(whole[one["uuid"]] == one for one in page.resource_providers)

    def test_without_a_limit_all_after_the_marker_are_shown_and_no_links(self, own: Api, rack: str) -> None:
        uuids = self.all_of(own, rack)
        answer = own.get("/resource_providers", {"member_of": rack, "marker": uuids[2]})
        assert [one["uuid"] for one in answer.resource_providers] == uuids[3:]
        assert set(answer.json) == {"resource_providers"}
        assert set(own.get("/resource_providers", {"member_of": rack}).json) == {"resource_providers"}

    def test_a_marker_that_was_deleted_is_one_all_the_same(self, own: Api, rack: str) -> None:
        uuids = self.all_of(own, rack)
        own.delete(f"/resource_providers/{uuids[2]}").expect(204)
        answer = own.get("/resource_providers", {"member_of": rack, "marker": uuids[2], "limit": 2})
        assert [one["uuid"] for one in answer.resource_providers] == uuids[3:5]

    def test_who_stays_is_shown_once_while_others_come_and_go(self, own: Api, rack: str) -> None:
        staying = self.all_of(own, rack)
        others: list[Provider] = []

        def change() -> None:
            others.append(own.create_provider(aggregates=[rack]))
            if len(others) % 2:
                own.delete(others.pop().path).expect(204)

        pages = followed(own, "/resource_providers", {"member_of": rack, "limit": 2}, change)
        shown = [one["uuid"] for page in pages for one in page.resource_providers]
        assert len(set(shown)) == len(shown)
        assert set(staying) <= set(shown)

    def test_an_empty_page_leads_nowhere(self, own: Api) -> None:
        answer = own.get("/resource_providers", {"name": fresh_name(), "limit": 5})
        assert answer.json == {"resource_providers": [], "links": []}

    @pytest.mark.one_database
    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ({"limit": "0"}, "'0' does not match"),
            ({"limit": "-1"}, "'-1' does not match"),
            ({"limit": "x"}, "'x' does not match"),
            ({"limit": ""}, "'' does not match"),
            ({"limit": "1\n"}, "is not a 'single line'"),
            ({"marker": "x"}, "'x' is not a 'uuid'"),
            ({"marker": ""}, "'' is not a 'uuid'"),
        ],
    )
    def test_a_malformed_value_is_refused(self, own: Api, query: dict[str, str], words: str) -> None:
        assert own.get("/resource_providers", query).refused(400, "Invalid query string parameters:", words)

    def test_a_limit_beyond_all_numbers_is_one(self, own: Api, rack: str) -> None:
        answer = own.get("/resource_providers", {"member_of": rack, "limit": "9" * 5000})
        assert len(answer.resource_providers) == 7

    @pytest.mark.parametrize("key", ["limit", "marker"])
    def test_without_stead_there_are_no_pages(self, api: Api, key: str) -> None:
        value = "1" if key == "limit" else fresh_uuid()
        assert api.get("/resource_providers", {key: value}).refused(400, f"'{key}' was unexpected")


class TestConsumers:
    @pytest.fixture
    def host(self, api: Api) -> Provider:
        return api.create_provider(inventories={"VCPU": 100, "DISK_GB": 100})

    @pytest.fixture
    def project(self) -> str:
        return fresh_name("project")

    def listed(self, own: Api, **query: Any) -> list[str]:
        return [one["uuid"] for one in own.get("/consumers", query).expect(200).consumers]

    def test_a_consumer_is_shown_as_its_allocations_are(self, own: Api, host: Provider, project: str) -> None:
        other = own.create_provider(inventories={"VCPU": 1})
        consumer = own.claim((host, {"VCPU": 2, "DISK_GB": 3}), (other, {"VCPU": 1}), project=project)
        shown = own.get(f"/allocations/{consumer}").json
        answer = own.get("/consumers", {"project_id": project})
        assert answer.json == {"consumers": [{"uuid": consumer, **shown}], "links": []}

    @pytest.mark.parametrize("limit", [1, 2, 4, 5, 6])
    def test_pages_hold_everybody_once(self, own: Api, host: Provider, project: str, limit: int) -> None:
        consumers = sorted(own.claim((host, {"VCPU": 1, "DISK_GB": 1}), project=project) for _ in range(5))
        pages = list(followed(own, "/consumers", {"project_id": project, "limit": limit}))
        assert [one["uuid"] for page in pages for one in page.consumers] == consumers
        assert len(pages) == -(-5 // limit)
        assert all(of["resources"] == {"VCPU": 1, "DISK_GB": 1}
                   for page in pages for one in page.consumers for of in one["allocations"].values())  # fmt: skip

    def test_they_are_listed_by_project_user_and_type(self, own: Api, host: Provider, project: str) -> None:
        user, other = fresh_name("user"), fresh_name("project")
        mine = own.claim((host, {"VCPU": 1}), project=project, user=user, consumer_type="INSTANCE")
        moving = own.claim((host, {"VCPU": 1}), project=project, user=user, consumer_type="MIGRATION")
        theirs = own.claim((host, {"VCPU": 1}), project=project, user=fresh_name("user"))
        elsewhere = own.claim((host, {"VCPU": 1}), project=other, user=user)
        assert self.listed(own, project_id=project) == sorted([mine, moving, theirs])
        assert self.listed(own, project_id=project, user_id=user) == sorted([mine, moving])
        assert self.listed(own, user_id=user) == sorted([mine, moving, elsewhere])
        assert self.listed(own, user_id=user, consumer_type="MIGRATION") == [moving]
        assert self.listed(own, project_id=project, consumer_type="UNHEARD_OF") == []
        assert self.listed(own, project_id=fresh_name()) == []

    def test_those_without_a_type_are_unknown(self, own: Api, api: Api, host: Provider, project: str) -> None:
        body = {key: of for key, of in holding((host, {"VCPU": 1}), project=project).items() if key != "consumer_type"}
        untyped = fresh_uuid()
        api.at("1.37").put(f"/allocations/{untyped}", body).expect(204)
        own.claim((host, {"VCPU": 1}), project=project)
        assert self.listed(own, project_id=project, consumer_type="unknown") == [untyped]
        [shown] = own.get("/consumers", {"project_id": project, "consumer_type": "unknown"}).consumers
        assert shown["consumer_type"] == "unknown"

    def test_who_gave_up_everything_is_listed_no_more(self, own: Api, host: Provider, project: str) -> None:
        consumer = own.claim((host, {"VCPU": 1}), project=project)
        own.delete(f"/allocations/{consumer}").expect(204)
        assert self.listed(own, project_id=project) == []

    def test_a_page_has_a_thousand_at_most(self, own: Api, host: Provider, project: str) -> None:
        pool = own.create_provider(inventories={"VCPU": 2000})
        body = {fresh_uuid(): holding((pool, {"VCPU": 1}), project=project) for _ in range(1001)}
        own.post("/allocations", body).expect(204)
        first, second = followed(own, "/consumers", {"project_id": project, "limit": 5000})
        assert (len(first.consumers), len(second.consumers)) == (1000, 1)
        assert len(own.get("/consumers", {"project_id": project}).consumers) == 1000

    @pytest.mark.one_database
    @pytest.mark.parametrize(
        ("query", "words"),
        [
            ({"limit": "0"}, "'0' does not match"),
            ({"marker": "x"}, "'x' is not a 'uuid'"),
            ({"project_id": ""}, "should be non-empty"),
            ({"consumer_type": "instance"}, "'instance' does not match"),
            ({"consumer_type": "all"}, "'all' does not match"),
            ({"colour": "red"}, "'colour' was unexpected"),
        ],
    )
    def test_a_malformed_query_is_refused(self, own: Api, query: dict[str, str], words: str) -> None:
        assert own.get("/consumers", query).refused(400, "Invalid query string parameters:", words)

    def test_without_stead_there_is_no_such_path(self, api: Api) -> None:
        assert api.get("/consumers").refused(404)

    def test_a_reader_may_list_those_of_the_own_project_only(self, own: Api, host: Provider, project: str) -> None:
        consumer = own.claim((host, {"VCPU": 1}), project=project)
        reader = Api(own.door, token=f"someone:{project}", roles="reader,member", version=OWN)
        assert self.listed(reader, project_id=project) == [consumer]
        assert reader.get("/consumers", {"project_id": fresh_name()}).refused(403, "stead:consumers:list")
        assert reader.get("/consumers").refused(403, "stead:consumers:list")
