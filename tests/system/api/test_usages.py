"""``/resource_providers/{uuid}/usages`` and ``/usages``."""

import pytest

from tests.system.api.client import Api, fresh_name, fresh_uuid, holding


class TestOfProvider:
    def test_every_class_with_inventory_is_shown(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 9, "DISK_GB": 9})
        api.claim((host, {"VCPU": 2}))
        api.claim((host, {"VCPU": 3}))
        assert api.get(host.usages).json == {"resource_provider_generation": 3, "usages": {"VCPU": 5, "DISK_GB": 0}}

    def test_without_inventory_there_is_nothing_to_show(self, api: Api) -> None:
        host = api.create_provider()
        assert api.get(host.usages).json == {"resource_provider_generation": 0, "usages": {}}

    def test_an_unknown_provider_is_404(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.get(f"/resource_providers/{uuid}/usages")
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")


class TestOfProject:
    @pytest.fixture
    def project(self, api: Api) -> str:
        """A project: two instances and a volume of one user, an instance of another, and one without a type."""
        project = fresh_name("project")
        host = api.create_provider(inventories={"VCPU": 99, "DISK_GB": 99})
        api.claim((host, {"VCPU": 1, "DISK_GB": 10}), project=project, user="ann", consumer_type="INSTANCE")
        api.claim((host, {"VCPU": 2}), project=project, user="ann", consumer_type="INSTANCE")
        api.claim((host, {"DISK_GB": 30}), project=project, user="ann", consumer_type="VOLUME")
        api.claim((host, {"VCPU": 4}), project=project, user="bob", consumer_type="INSTANCE")
        untyped = holding((host, {"VCPU": 8}), project=project, user="bob")
        del untyped["consumer_type"]
        api.at("1.37").put(f"/allocations/{fresh_uuid()}", untyped).expect(204)
        api.claim((host, {"VCPU": 64}), project=fresh_name("another"), user="ann")
        return project

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (
                {},
                {
                    "INSTANCE": {"consumer_count": 3, "VCPU": 7, "DISK_GB": 10},
                    "VOLUME": {"consumer_count": 1, "DISK_GB": 30},
                    "unknown": {"consumer_count": 1, "VCPU": 8},
                },
            ),
            (
                {"user_id": "ann"},
                {
                    "INSTANCE": {"consumer_count": 2, "VCPU": 3, "DISK_GB": 10},
                    "VOLUME": {"consumer_count": 1, "DISK_GB": 30},
                },
            ),
            ({"consumer_type": "VOLUME"}, {"VOLUME": {"consumer_count": 1, "DISK_GB": 30}}),
            ({"consumer_type": "VOLUME", "user_id": "bob"}, {}),
            ({"consumer_type": "all"}, {"all": {"consumer_count": 5, "VCPU": 15, "DISK_GB": 40}}),
            ({"consumer_type": "all", "user_id": "bob"}, {"all": {"consumer_count": 2, "VCPU": 12}}),
            ({"consumer_type": "unknown"}, {"unknown": {"consumer_count": 1, "VCPU": 8}}),
            ({"consumer_type": "unknown", "user_id": "ann"}, {}),
            ({"consumer_type": "NOBODY_HAS_THIS"}, {}),
            ({"consumer_type": "ALL"}, {}),
            ({"consumer_type": "UNKNOWN"}, {}),
            ({"consumer_type": "allx"}, {}),
            ({"user_id": "nobody"}, {}),
        ],
    )
    def test_usages_are_grouped_by_consumer_type(
        self, api: Api, project: str, query: dict[str, str], expected: dict[str, dict[str, int]]
    ) -> None:
        assert api.get("/usages", {"project_id": project, **query}).expect(200).json == {"usages": expected}

    def test_what_was_released_is_no_longer_counted(self, api: Api) -> None:
        project, host = fresh_name("project"), api.create_provider(inventories={"VCPU": 9})
        consumer = api.claim((host, {"VCPU": 1}), project=project)
        api.delete(f"/allocations/{consumer}").expect(204)
        assert api.get("/usages", {"project_id": project}).usages == {}

    @pytest.mark.parametrize("consumer_type", [None, "all", "unknown", "INSTANCE"])
    def test_an_unknown_project_uses_nothing(self, api: Api, consumer_type: str | None) -> None:
        query = {"project_id": fresh_name("project")} | ({"consumer_type": consumer_type} if consumer_type else {})
        assert api.get("/usages", query).expect(200).json == {"usages": {}}

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ({}, "'project_id' is a required property"),
            ({"user_id": "ann"}, "'project_id' is a required property"),
            ({"project_id": ""}, ""),
            ({"project_id": "p" * 256}, "Failed validating 'maxLength'"),
            ({"project_id": "p", "user_id": "u" * 256}, "Failed validating 'maxLength'"),
            ({"project_id": "p", "consumer_type": "instance"}, "does not match"),
            ({"project_id": "p", "consumer_type": "unknownx"}, "does not match"),
            ({"project_id": "p", "colour": "red"}, "Additional properties are not allowed"),
        ],
    )
    def test_a_malformed_query_is_refused(self, api: Api, query: dict[str, str], text: str) -> None:
        assert api.get("/usages", query).refused(400, "Invalid query string parameters", text)
