"""What stands around the API: where it is mounted, who calls from where, through which proxy, and what was configured.

Source: "Mounting under a prefix", "Proxy headers", "CORS", "Request ids", "Authentication and policy", docs/api.md.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from stead import application
from stead.auth.policy import list_rules
from stead.config import load
from tests.conftest import write_configuration
from tests.databases import Server
from tests.system.api.client import Answer, Api, fresh_name, fresh_uuid, wsgi_door
from tests.system.api.test_authentication import CALLS, SERVED
from tests.system.microversions.rows import put

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.one_database

PAGE = "https://dashboard.example"
CORS = f"""
[cors]
allowed_origin = {PAGE},https://other.example
allow_methods = GET,PUT,POST,DELETE,PATCH
allow_headers = X-Auth-Token,OpenStack-API-Version
expose_headers = OpenStack-API-Version,X-OpenStack-Request-Id
"""
PROXY = "\n[oslo_middleware]\nenable_proxy_headers_parsing = true\n"

Mounted = Callable[..., Api]


@pytest.fixture(scope="module")
def mounted(database_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    """The application, mounted at a prefix and with more in its configuration, each combination made once."""
    url = database_server.create()
    with ExitStack() as opened:
        made: dict[str, Any] = {}

        def mount(more: str = "", *, prefix: str = "") -> Api:
            if more not in made:
                directory: Path = tmp_path_factory.mktemp("conf")
                file = write_configuration(directory, url)
                file.write_text(file.read_text() + more)
                settings = load([file])
                service = application.build_service(settings)
                opened.callback(service.close)
                made[more] = application.assemble(service, settings)
            return Api(wsgi_door(made[more], script_name=prefix))

        yield mount
    database_server.drop(url)


SOMEBODY = "5ead0000-0000-4000-8000-00000000dead"


class TestPrefix:
    @pytest.mark.parametrize("path", ["", "/"])
    def test_the_root_is_found_with_and_without_its_slash(self, mounted: Mounted, path: str) -> None:
        answer = mounted(prefix="/placement").get(path).expect(200)
        assert answer.versions[0]["links"] == [{"rel": "self", "href": ""}]

    def test_the_root_needs_no_token_with_its_slash(self, mounted: Mounted) -> None:
        stranger = {"X-Auth-Token": None, "X-Roles": None}
        statuses = [mounted(prefix="/placement").get(path, headers=stranger).status for path in ("/", "")]
        assert statuses == [200, 401]

    def test_links_and_locations_have_it(self, mounted: Mounted) -> None:
        made = mounted(prefix="/placement").post("/resource_providers", name=fresh_name()).expect(200)
        path = f"/placement/resource_providers/{made.uuid}"
        assert [link["href"] for link in made.links[:2]] == [path, f"{path}/inventories"]
        assert made.header("location") == f"http://127.0.0.1:8778{path}"

    def test_links_of_resource_classes_have_it(self, mounted: Mounted) -> None:
        shown = mounted(prefix="/placement").get("/resource_classes/VCPU").expect(200)
        assert shown.links == [{"rel": "self", "href": "/placement/resource_classes/VCPU"}]

    def test_without_it_they_have_none(self, mounted: Mounted) -> None:
        assert mounted().get("/resource_classes/VCPU").links[0]["href"] == "/resource_classes/VCPU"


class TestProxy:
    SAID: ClassVar = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "api.example", "X-Forwarded-Prefix": "/cloud"}

    def made(self, api: Api, headers: dict[str, str]) -> Answer:
        return api.call("POST", "/resource_providers", {"name": fresh_name()}, headers=headers).expect(200)

    def test_what_it_says_is_in_links_and_locations(self, mounted: Mounted) -> None:
        made = self.made(mounted(PROXY, prefix="/placement"), self.SAID)
        path = f"/cloud/placement/resource_providers/{made.uuid}"
        assert (made.header("location"), made.links[0]["href"]) == (f"https://api.example{path}", path)

    def test_the_standard_header_beats_the_others(self, mounted: Mounted) -> None:
        forwarded = {"Forwarded": "for=192.0.2.1;proto=https;host=standard.example, for=192.0.2.2"}
        made = self.made(mounted(PROXY), {**self.SAID, **forwarded})
        assert (made.header("location") or "").startswith("https://standard.example/cloud/")

    def test_unless_switched_on_nobody_listens_to_it(self, mounted: Mounted) -> None:
        made = self.made(mounted(), self.SAID)
        assert made.header("location") == f"http://127.0.0.1:8778/resource_providers/{made.uuid}"


def of_cors(answer: Answer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers if name.lower().startswith("access-control-")}


class TestCors:
    ASKING: ClassVar = {"Origin": PAGE, "Access-Control-Request-Method": "PUT"}

    def preflight(self, api: Api, path: str = "/resource_providers", **headers: str) -> Answer:
        """A preflight as browsers send it: without a token."""
        asked = {**self.ASKING, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return api.call("OPTIONS", path, headers={"X-Auth-Token": None, "OpenStack-API-Version": None, **asked})

    @pytest.mark.parametrize(
        "path", ["/", "/resource_providers", "/allocations/5ead0000-0000-4000-8000-00000000dead", "/nothing"]
    )
    def test_a_preflight_is_answered_at_every_path_without_a_token(self, mounted: Mounted, path: str) -> None:
        answer = self.preflight(mounted(CORS), path)
        assert (answer.status, answer.body, answer.header("content-type")) == (200, b"", None)
        assert of_cors(answer)["access-control-allow-origin"] == PAGE
        assert answer.header("vary") == "Origin"

    def test_a_preflight_echoes_what_was_asked(self, mounted: Mounted) -> None:
        answer = self.preflight(mounted(CORS), Access_Control_Request_Headers="x-auth-TOKEN,accept")
        told = of_cors(answer)
        assert told["access-control-allow-headers"] == "x-auth-TOKEN,accept"
        assert told["access-control-allow-methods"] == "PUT"

    @pytest.mark.parametrize(
        "asked",
        [
            {"Origin": "https://evil.example"},
            {"Access_Control_Request_Method": "TRACE"},
            {"Access_Control_Request_Headers": "X-Evil"},
        ],
    )
    def test_a_preflight_for_what_is_not_allowed_is_200_and_told_nothing(
        self, mounted: Mounted, asked: dict[str, str]
    ) -> None:
        answer = self.preflight(mounted(CORS), **asked)
        assert (answer.status, of_cors(answer)) == (200, {})

    @pytest.mark.parametrize(
        ("headers", "status"), [({}, 200), ({"X-Auth-Token": None}, 401), ({"Accept": "text/plain"}, 406)]
    )
    def test_every_answer_to_a_known_page_may_be_read_there(
        self, mounted: Mounted, headers: dict[str, str | None], status: int
    ) -> None:
        answer = mounted(CORS).get("/traits", headers={"Origin": PAGE, **headers}).expect(status)
        told = of_cors(answer)
        assert told["access-control-allow-origin"] == PAGE
        assert told["access-control-expose-headers"] == "OpenStack-API-Version,X-OpenStack-Request-Id"
        assert "Origin" in (answer.header("vary") or "")

    def test_an_unknown_page_is_served_and_told_nothing(self, mounted: Mounted) -> None:
        answer = mounted(CORS).get("/traits", headers={"Origin": "https://evil.example"}).expect(200)
        assert of_cors(answer) == {}

    def test_without_configuration_a_preflight_is_405_or_401(self, mounted: Mounted) -> None:
        assert mounted().call("OPTIONS", "/traits", headers=self.ASKING).refused(405)
        assert self.preflight(mounted(), "/traits").status == 401


class TestRequestIds:
    @pytest.mark.parametrize("given", ["req-11111111-2222-3333-4444-555555555555", "req-nonsense", "", "\x7f"])
    def test_the_one_that_is_given_does_not_replace_the_own(self, mounted: Mounted, given: str) -> None:
        answer = mounted().get("/nothing", headers={"X-Openstack-Request-Id": given}).expect(404)
        assert answer.error.request_id == answer.header("x-openstack-request-id") != given

    def test_errors_of_every_layer_have_one(self, mounted: Mounted) -> None:
        api = mounted(CORS)
        answers = [
            api.get("/traits", headers={"X-Auth-Token": None}).expect(401),
            replace(api, roles="nobody").get("/traits").expect(403),
            api.get("/traits", headers={"OpenStack-API-Version": "placement 9.9"}).expect(406),
            api.call("OPTIONS", "/traits", headers={"OpenStack-API-Version": None}).expect(200),
        ]
        assert len({answer.header("x-openstack-request-id") for answer in answers}) == len(answers)


@pytest.fixture(scope="module")
def opened(mounted: Mounted, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """A service whose policy lets everybody do everything, as somebody without roles sees it."""
    names = [rule.name for rule in list_rules() if rule.name != "admin_api"]
    file = tmp_path_factory.mktemp("policy") / "open.yaml"
    file.write_text("".join(f'"{name}": "@"\n' for name in names))
    return replace(mounted(f"\n[oslo_policy]\npolicy_file = {file}\n"), token="user", roles=None)


class TestPolicy:
    LEGACY = "\n[oslo_policy]\nenforce_new_defaults = false\n"

    @pytest.mark.parametrize(("method", "path"), CALLS)
    def test_with_the_legacy_defaults_a_system_scope_is_403_too(self, mounted: Mounted, method: str, path: str) -> None:
        body: dict[str, str] | None = {} if method in ("PUT", "POST") else None
        headers = {"OpenStack-System-Scope": "all"}
        assert mounted(self.LEGACY).call(method, path, body, headers=headers).refused(403)

    @pytest.mark.parametrize(("more", "status"), [("", 403), (LEGACY, 400)], ids=["new", "legacy"])
    def test_an_admin_reshapes_only_by_the_legacy_defaults(self, mounted: Mounted, more: str, status: int) -> None:
        assert replace(mounted(more), roles="admin").post("/reshaper", {}).status == status

    @pytest.mark.parametrize("path", ["/resource_providers", "/resource_classes", "/traits"])
    def test_somebody_without_roles_sees_lists_by_an_open_policy_only(
        self, mounted: Mounted, opened: Api, path: str
    ) -> None:
        nobody = replace(mounted(), token="user", roles=None)
        assert [api.get(path).status for api in (nobody, opened)] == [403, 200]

    @pytest.mark.parametrize(("method", "path"), CALLS)
    def test_an_open_policy_lets_anybody_do_everything(self, opened: Api, method: str, path: str) -> None:
        assert opened.call(method, path, {} if method in ("PUT", "POST") else None).status in SERVED


class TestOwnerOfOldClaims:
    CONFIGURED = "\n[placement]\nincomplete_consumer_project_id = no-project\nincomplete_consumer_user_id = no-user\n"

    @pytest.mark.parametrize(("version", "owner"), [("1.7", ("no-project", "no-user")), ("1.8", ("mine", "me"))])
    def test_before_1_8_it_is_the_configured_one(self, mounted: Mounted, version: str, owner: tuple[str, str]) -> None:
        api, consumer = mounted(self.CONFIGURED), fresh_uuid()
        host = api.create_provider(inventories={"VCPU": 1})
        put(api.at(version), consumer, host, {"VCPU": 1}, project_id="mine", user_id="me").expect(204)
        held = api.get(f"/allocations/{consumer}")
        assert (held.project_id, held.user_id) == owner
