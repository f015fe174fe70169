"""Who may what: every policy rule, asked by everybody whom Keystone knows.

Source: "Policy rules", docs/authentication.md.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stead.auth.policy import list_rules
from tests.system.api.client import NEWEST, Api, fresh_uuid
from tests.system.keystone.identity import DOMAIN, SYSTEM, Identity, of_project

# The library and what it imports use parts of the standard library that are on their way out.
pytestmark = [
    pytest.mark.timeout(900),  # Keystone may have to be installed first
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

RESHAPE, USAGES, CONSUMERS = "placement:reshaper:reshape", "placement:usages", "stead:consumers:list"
OF_A_PROJECT = {USAGES, CONSUMERS}
DISABLE = "stead:provider_trees:disable"


def calls() -> Iterator[tuple[str, str, str]]:
    """Rule, method and path of every route that a rule guards."""
    nowhere = {"uuid": fresh_uuid(), "consumer_uuid": fresh_uuid(), "resource_class": "VCPU", "name": "CUSTOM_KEYSTONE"}
    for rule in list_rules():
        for route in getattr(rule, "operations", ()):
            yield rule.name, route["method"], route["path"].format(**nowhere)


CALLS = [*calls()]
EVERYTHING = {rule for rule, _, _ in CALLS}
VERSION = f"placement {NEWEST}, stead 1.2"


def allowed(api: Api, project: str) -> set[str]:
    """The rules that let this caller pass; what is refused names its rule. *project* is asked for where one must be."""
    passed, refused = set(), set()
    for rule, method, path in CALLS:
        query = {"project_id": project} if rule in OF_A_PROJECT else None
        body = {} if method in ("PUT", "POST", "PATCH") else None
        answer = api.call(method, path, body, query=query, headers={"OpenStack-API-Version": VERSION})
        if answer.status == 403:
            assert rule in answer.error.detail
            refused.add(rule)
        else:
            assert answer.status in (200, 201, 204, 400, 404), (method, path, answer)
            passed.add(rule)
    assert not passed & refused, "routes of one rule"
    return passed


WHO = {
    "admin": ("alice", of_project("mine"), EVERYTHING - {RESHAPE}),
    "service": ("nova", of_project("service"), EVERYTHING - {DISABLE}),
    "reader": ("ron", of_project("mine"), OF_A_PROJECT),
    "nobody": ("norm", of_project("mine"), set()),
    "without scope": ("alice", None, set()),
    "system admin": ("alice", SYSTEM, set()),
    "domain admin": ("alice", DOMAIN, set()),
}


def test_there_is_a_call_for_every_rule() -> None:
    assert {rule.name for rule in list_rules() if rule.name.startswith(("placement:", "stead:"))} == EVERYTHING


@pytest.mark.parametrize(("user", "scope", "expected"), WHO.values(), ids=WHO)
def test_a_role_opens_what_its_rules_say(
    keystone: Identity, api: Callable[[str], Api], user: str, scope: dict[str, Any] | None, expected: set[str]
) -> None:
    assert allowed(api(keystone.token(user, scope)), keystone.projects["mine"]) == expected


def test_a_reader_sees_no_other_project(keystone: Identity, api: Callable[[str], Api]) -> None:
    assert allowed(api(keystone.token("ron", of_project("mine"))), keystone.projects["yours"]) == set()


def test_the_old_defaults_let_an_admin_reshape_and_still_nobody_of_the_system(
    keystone: Identity, in_process: Callable[..., Callable[[str], Api]]
) -> None:
    api = in_process("enforce_new_defaults = false")
    mine = keystone.projects["mine"]
    assert allowed(api(keystone.token("alice", of_project("mine"))), mine) == EVERYTHING
    assert allowed(api(keystone.token("alice", SYSTEM)), mine) == set()
    assert allowed(api(keystone.token("ron", of_project("mine"))), mine) == OF_A_PROJECT


def test_a_policy_file_gives_a_role_of_the_site_what_it_says(
    keystone: Identity, in_process: Callable[..., Callable[[str], Api]], tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(
        '"placement:traits:list": "role:nothing and user_domain_id:default"\n'
        '"placement:traits:show": "service_roles:service and service_user_domain_id:default"\n'
    )
    api = in_process()
    norm, nova = keystone.token("norm", of_project("mine")), keystone.token("nova", of_project("service"))
    assert allowed(api(norm), "p") == {"placement:traits:list"}
    refused = {"placement:traits:list", "placement:traits:show", DISABLE}
    assert allowed(api(nova), "p") == EVERYTHING - refused
    assert api(norm).get("/traits/HW_CPU_X86_AVX", headers={"X-Service-Token": nova}).status == 204
