"""Parameters that a query repeats: one value is checked, decides and is answered, or the query is refused.

A proxy, a policy and a query that each take another value of the same parameter open what the policy closes.
"""

import pytest

from tests.system.api.client import NEWEST, Api, fresh_name

OWN = f"{NEWEST}, stead 1.2"
DUPLICATE_KEY = "placement.query.duplicate_key"
SOME, OTHER = "5a000000-0000-4000-8000-000000000001", "5a000000-0000-4000-8000-000000000002"


@pytest.fixture
def projects(api: Api) -> tuple[str, str]:
    """Two projects: a consumer of the first holds 1 VCPU, one of the second 2."""
    host = api.create_provider(inventories={"VCPU": 9})
    mine, other = fresh_name("mine"), fresh_name("other")
    api.claim((host, {"VCPU": 1}), project=mine)
    api.claim((host, {"VCPU": 2}), project=other)
    return mine, other


@pytest.fixture
def reader(api: Api, projects: tuple[str, str]) -> Api:
    """The API as a reader of the first project sees it."""
    return Api(api.door, token=f"someone:{projects[0]}", roles="reader,member")


class TestOfThePolicy:
    def test_usages_are_those_of_the_project_that_the_policy_allowed(
        self, reader: Api, projects: tuple[str, str]
    ) -> None:
        mine, other = projects
        own_last = reader.get("/usages", [("project_id", other), ("project_id", mine)]).expect(200)
        assert own_last.usages == {"INSTANCE": {"consumer_count": 1, "VCPU": 1}}
        own_first = reader.get("/usages", [("project_id", mine), ("project_id", other)])
        assert own_first.refused(403, "placement:usages")

    def test_an_empty_project_beside_the_own_one_opens_no_other(self, reader: Api, projects: tuple[str, str]) -> None:
        assert reader.get("/usages", [("project_id", projects[0]), ("project_id", "")]).refused(403)

    @pytest.mark.differs("it has nothing of Stead's own")
    @pytest.mark.parametrize("own_is_last", [True, False])
    def test_consumers_of_two_projects_are_listed_to_nobody(
        self, reader: Api, api: Api, projects: tuple[str, str], own_is_last: bool
    ) -> None:
        named = [("project_id", project) for project in (reversed(projects) if own_is_last else projects)]
        assert reader.at(OWN).get("/consumers", named).status in (400, 403)
        refused = api.at(OWN).get("/consumers", named)
        assert refused.refused(400, "Query parameter 'project_id' may be specified only once.", code=DUPLICATE_KEY)


@pytest.mark.differs("it has nothing of Stead's own")
@pytest.mark.one_database
@pytest.mark.parametrize(
    ("path", "key", "values"),
    [
        ("/consumers", "project_id", ("a", "b")),
        ("/consumers", "user_id", ("a", "b")),
        ("/consumers", "consumer_type", ("A", "B")),
        ("/consumers", "provider", (SOME, OTHER)),
        ("/consumers", "in_tree", (SOME, OTHER)),
        ("/consumers", "totals", ("true", "false")),
        ("/consumers", "expires_before", ("2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z")),
        ("/consumers", "limit", ("1", "2")),
        ("/consumers", "marker", (SOME, OTHER)),
        ("/resource_providers", "limit", ("1", "2")),
        ("/resource_providers", "marker", (SOME, OTHER)),
        ("/provider_trees", "in_tree", (SOME, OTHER)),
        ("/provider_trees", "name", ("a*", "b*")),
        ("/provider_trees", "resources", ("VCPU:1", "DISK_GB:1")),
        ("/provider_trees", "root_required", ("HW_CPU_X86_SHA", "HW_CPU_X86_AVX")),
        ("/provider_trees", "fields", ("name", "traits")),
        ("/provider_trees", "depth", ("0", "1")),
        ("/provider_trees", "totals", ("true", "false")),
        ("/provider_trees", "limit", ("1", "2")),
        ("/provider_trees", "marker", (SOME, OTHER)),
        ("/headroom", "can_split", ("VCPU", "DISK_GB")),
        ("/headroom", "order_by", ("pack", "spread")),
        ("/headroom", "limit", ("1", "2")),
        ("/headroom", "marker", (SOME, OTHER)),
        ("/headroom", "flavor", ("a", "b")),
        ("/advice", "flavor", ("a", "b")),
        ("/advice", "make_room_for", ("1", "2")),
        ("/advice", "same_traits", ("true", "false")),
        ("/advice", "same_aggregates", ("true", "false")),
        ("/flavors", "headroom", ("true", "false")),
        ("/flavors", "limit", ("1", "2")),
        ("/flavors", "marker", ("a", "b")),
        ("/changes", "since", ("a", "b")),
        ("/changes", "timeout", ("1", "2")),
        ("/allocation_candidates", "can_split", ("VCPU", "DISK_GB")),
        ("/allocation_candidates", "order_by", ("pack", "spread")),
        ("/allocation_candidates/explain", "order_by", ("pack", "spread")),
    ],
)
def test_a_parameter_of_stead_with_one_value_is_refused_if_repeated(
    api: Api, path: str, key: str, values: tuple[str, str]
) -> None:
    query = [("resources", "VCPU:1")] if path.startswith(("/allocation_candidates", "/headroom", "/advice")) else []
    query += [("make_room_for", "1")] if path == "/advice" and key != "make_room_for" else []
    for first, last in (values, values[:1] * 2):  # also if both values are the same
        answer = api.at(OWN).get(path, [*query, (key, first), (key, last)])
        assert answer.refused(400, f"Query parameter '{key}' may be specified only once.", code=DUPLICATE_KEY)


class TestOfPlacement:
    """The parameters that other Placement services have, too: there as here the last value counts."""

    def test_the_last_filter_of_providers_counts(self, api: Api) -> None:
        one, two = api.create_provider(), api.create_provider()
        for key, value, last in (
            ("uuid", one.uuid, two.uuid),
            ("name", one.name, two.name),
            ("in_tree", one.uuid, two.uuid),
        ):
            listed = api.get("/resource_providers", [(key, value), (key, last)]).resource_providers
            assert [provider["uuid"] for provider in listed] == [two.uuid], key

    def test_the_last_user_and_type_of_usages_count(self, api: Api, projects: tuple[str, str]) -> None:
        mine, _ = projects
        for key, value in (("user_id", "nobody"), ("consumer_type", "UNHEARD_OF")):
            query = [("project_id", mine), ("consumer_type", "INSTANCE"), (key, value)]
            assert api.get("/usages", query).expect(200).usages == {}

    @pytest.mark.parametrize(
        ("path", "key", "good", "bad"),
        [
            ("/resource_providers", "uuid", SOME, "x"),
            ("/resource_providers", "in_tree", SOME, "x"),
            ("/resource_providers", "resources", "VCPU:1", "VCPU"),
            ("/traits", "associated", "true", "perhaps"),
            ("/traits", "name", "startswith:HW_", "HW_"),
            ("/usages", "project_id", "p", "p" * 256),
        ],
    )
    def test_the_value_that_counts_is_the_value_that_is_checked(
        self, api: Api, path: str, key: str, good: str, bad: str
    ) -> None:
        assert api.get(path, [(key, good), (key, bad)]).status == 400
        assert api.get(path, [(key, bad), (key, good)]).status == 200
