"""Who may: 401 without a token, 403 without a role (``noauth2``, default policy)."""

from dataclasses import replace

import pytest

from tests.system.api.client import Api, fresh_uuid

pytestmark = pytest.mark.one_database

UUID = "d0d0d0d0-0000-4000-8000-00000000dead"

# One call of every policy rule, with a body that would pass.
CALLS = [
    ("GET", "/resource_providers"),
    ("POST", "/resource_providers"),
    ("GET", f"/resource_providers/{UUID}"),
    ("PUT", f"/resource_providers/{UUID}"),
    ("DELETE", f"/resource_providers/{UUID}"),
    ("GET", f"/resource_providers/{UUID}/inventories"),
    ("POST", f"/resource_providers/{UUID}/inventories"),
    ("PUT", f"/resource_providers/{UUID}/inventories"),
    ("DELETE", f"/resource_providers/{UUID}/inventories"),
    ("GET", f"/resource_providers/{UUID}/inventories/VCPU"),
    ("PUT", f"/resource_providers/{UUID}/inventories/VCPU"),
    ("DELETE", f"/resource_providers/{UUID}/inventories/VCPU"),
    ("GET", f"/resource_providers/{UUID}/usages"),
    ("GET", f"/resource_providers/{UUID}/aggregates"),
    ("PUT", f"/resource_providers/{UUID}/aggregates"),
    ("GET", f"/resource_providers/{UUID}/allocations"),
    ("GET", f"/resource_providers/{UUID}/traits"),
    ("PUT", f"/resource_providers/{UUID}/traits"),
    ("DELETE", f"/resource_providers/{UUID}/traits"),
    ("GET", "/resource_classes"),
    ("POST", "/resource_classes"),
    ("GET", "/resource_classes/VCPU"),
    ("PUT", "/resource_classes/CUSTOM_X"),
    ("DELETE", "/resource_classes/CUSTOM_X"),
    ("GET", "/traits"),
    ("GET", "/traits/HW_CPU_X86_SHA"),
    ("PUT", "/traits/CUSTOM_X"),
    ("DELETE", "/traits/CUSTOM_X"),
    ("POST", "/allocations"),
    ("GET", f"/allocations/{UUID}"),
    ("PUT", f"/allocations/{UUID}"),
    ("DELETE", f"/allocations/{UUID}"),
    ("GET", "/allocation_candidates"),
    ("GET", "/usages?project_id=p"),
    ("POST", "/reshaper"),
]
SERVED = {200, 201, 204, 400, 404}


def ask(api: Api, method: str, path: str) -> int:
    return api.call(method, path, {} if method in ("PUT", "POST") else None).status


@pytest.mark.parametrize(("method", "path"), [*CALLS, ("GET", "/nothing"), ("PATCH", "/traits")])
def test_a_stranger_is_401(api: Api, method: str, path: str) -> None:
    answer = api.call(method, path, headers={"X-Auth-Token": None})
    assert answer.status == 401
    assert answer.header("openstack-api-version") is None
    assert answer.json["code"] == "401 Unauthorized"
    assert answer.json["title"] == "Unauthorized"
    assert "errors" not in answer.json


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("roles", [None, "member", "reader"])
def test_a_caller_without_the_role_is_403(api: Api, method: str, path: str, roles: str | None) -> None:
    answer = replace(api, token="somebody", roles=roles).call(method, path, {} if method in ("PUT", "POST") else None)
    assert answer.refused(403)


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("roles", ["admin", "service", "Service", " reader , ADMIN "])
def test_admins_and_services_are_served(api: Api, method: str, path: str, roles: str) -> None:
    status = ask(replace(api, token="somebody", roles=roles), method, path)
    if path == "/reshaper" and "service" not in roles.lower():
        assert status == 403
    else:
        assert status in SERVED


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_system_scope_is_403(api: Api, method: str, path: str) -> None:
    body: dict[str, str] | None = {} if method in ("PUT", "POST") else None
    assert api.call(method, path, body, headers={"OpenStack-System-Scope": "all"}).refused(403)


class TestToken:
    def test_the_user_admin_is_an_admin(self, api: Api) -> None:
        assert ask(replace(api, token="admin", roles=None), "GET", "/traits") == 200
        assert ask(replace(api, token="admin:some-project", roles=None), "GET", "/traits") == 200

    def test_given_roles_replace_those_of_the_user(self, api: Api) -> None:
        assert ask(replace(api, token="admin", roles="member"), "GET", "/traits") == 403

    def test_an_empty_token_is_somebody_without_roles(self, api: Api) -> None:
        assert ask(replace(api, token="", roles=None), "GET", "/traits") == 403

    def test_the_root_needs_none(self, api: Api) -> None:
        assert api.get("/", headers={"X-Auth-Token": None}).status == 200


class TestReader:
    """A reader sees the usages of the own project."""

    def usages(self, api: Api, project: str | None, *, of: str | None = None, token: str = "ann") -> int:
        headers = {"X-Project-Id": of}
        query = {"project_id": project} if project else {}
        return replace(api, token=token, roles="reader").get("/usages", query, headers=headers).status

    def test_only_the_own_project_is_shown(self, api: Api) -> None:
        mine, yours = fresh_uuid(), fresh_uuid()
        assert self.usages(api, mine, token=f"ann:{mine}") == 200
        assert self.usages(api, yours, token=f"ann:{mine}") == 403

    def test_the_project_header_decides(self, api: Api) -> None:
        mine, yours = fresh_uuid(), fresh_uuid()
        assert self.usages(api, yours, token=f"ann:{mine}", of=yours) == 200
        assert self.usages(api, mine, token=f"ann:{mine}", of=yours) == 403

    def test_without_a_project_in_the_query_it_is_403(self, api: Api) -> None:
        assert self.usages(api, None) == 403
