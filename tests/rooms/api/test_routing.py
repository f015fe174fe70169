"""Which paths exist, and the methods they know. Source: "Routes", docs/api.md."""

import pytest
from falcon.testing import create_environ

from stead.api.app import create_app
from stead.api.middleware import RequestLog
from stead.api.request import METHODS, Allowed, JsonAnswer, JsonBody, Request, Router, Since, gates_of
from stead.api.versions import ALL_FEATURES, S, V
from tests.system.api.client import NEWEST, Api, wsgi_door

PROVIDER = "/resource_providers/{uuid}"

# Path, method, checks before anything is looked up, first microversion (and what is answered before it).
ROUTES = [
    ("/", "GET", "", None),
    ("/resource_providers", "GET", "accept policy", None),
    ("/resource_providers", "POST", "ctype policy", None),
    (PROVIDER, "GET", "accept policy", None),
    (PROVIDER, "PUT", "ctype policy", None),
    (PROVIDER, "DELETE", "policy", None),
    (f"{PROVIDER}/inventories", "GET", "accept policy", None),
    (f"{PROVIDER}/inventories", "POST", "ctype policy", None),
    (f"{PROVIDER}/inventories", "PUT", "ctype policy", None),
    (f"{PROVIDER}/inventories", "DELETE", "ver policy", (5, 405)),
    (f"{PROVIDER}/inventories/{{resource_class}}", "GET", "accept policy", None),
    (f"{PROVIDER}/inventories/{{resource_class}}", "PUT", "ctype policy", None),
    (f"{PROVIDER}/inventories/{{resource_class}}", "DELETE", "policy", None),
    (f"{PROVIDER}/usages", "GET", "accept policy", None),
    (f"{PROVIDER}/aggregates", "GET", "accept ver policy", (1, 404)),
    (f"{PROVIDER}/aggregates", "PUT", "ctype ver policy", (1, 404)),
    (f"{PROVIDER}/allocations", "GET", "accept policy", None),
    (f"{PROVIDER}/traits", "GET", "ver accept policy", (6, 404)),
    (f"{PROVIDER}/traits", "PUT", "ver ctype policy", (6, 404)),
    (f"{PROVIDER}/traits", "DELETE", "ver policy", (6, 404)),
    ("/resource_classes", "GET", "ver accept policy", (2, 404)),
    ("/resource_classes", "POST", "ver ctype policy", (2, 404)),
    ("/resource_classes/{name}", "GET", "ver accept policy", (2, 404)),
    ("/resource_classes/{name}", "PUT", "ver policy", (2, 404)),
    ("/resource_classes/{name}", "DELETE", "ver policy", (2, 404)),
    ("/traits", "GET", "ver accept policy", (6, 404)),
    ("/traits/{name}", "GET", "ver policy", (6, 404)),
    ("/traits/{name}", "PUT", "ver policy", (6, 404)),
    ("/traits/{name}", "DELETE", "ver policy", (6, 404)),
    ("/allocations", "POST", "ver ctype policy", (13, 404)),
    ("/allocations/{consumer_uuid}", "GET", "accept policy", None),
    ("/allocations/{consumer_uuid}", "PUT", "ctype policy", None),
    ("/allocations/{consumer_uuid}", "DELETE", "policy", None),
    ("/allocation_candidates", "GET", "ver accept policy", (10, 404)),
    ("/allocation_candidates/explain", "GET", "accept policy", None),
    ("/headroom", "GET", "accept policy", None),
    ("/flavors", "GET", "accept policy", None),
    ("/flavors/{name}", "GET", "accept policy", None),
    ("/flavors/{name}", "PUT", "ctype policy", None),
    ("/flavors/{name}", "DELETE", "policy", None),
    ("/mix", "GET", "accept policy", None),
    ("/mix", "DELETE", "policy", None),
    ("/usages", "GET", "ver accept policy", (9, 404)),
    ("/reshaper", "POST", "ver ctype policy", (30, 404)),
    ("/allocation_candidates/explain", "GET", "accept policy", None),
    ("/consumers", "GET", "accept policy", None),
    ("/provider_trees", "GET", "accept policy", None),
    ("/provider_trees", "PUT", "ctype policy", None),
    ("/provider_trees/{uuid}", "PATCH", "ctype policy", None),
    ("/leases", "PUT", "ctype policy", None),
    ("/claims", "POST", "ctype policy", None),
    ("/whatif", "POST", "ctype policy", None),
    ("/advice", "GET", "accept policy", None),
    ("/changes", "GET", "accept policy", None),
    ("/openapi.json", "GET", "accept", None),
]
GATED = [(method, path, *gate) for path, method, _, gate in ROUTES if gate]
REQUEST = Request(create_environ())
NAMES = {Since: "ver", Allowed: "policy", JsonBody: "ctype", JsonAnswer: "accept"}


def a_path(template):
    return template.format(uuid="some-uuid", resource_class="VCPU", name="CUSTOM_X", consumer_uuid="some-uuid")


@pytest.fixture
def table():
    """Handlers by path and method."""
    router = create_app(None, None)._router
    return {(path, method): handler for path, handlers in router.routes.items() for method, handler in handlers.items()}


def test_these_routes_exist_and_no_others(table):
    assert set(table) == {(path, method) for path, method, _, _ in ROUTES}


@pytest.mark.parametrize(("path", "method", "order", "gate"), ROUTES, ids=lambda value: str(value))
def test_the_checks_of_a_route_stand_in_the_contract_s_order(table, path, method, order, gate):
    gates = gates_of(table[path, method])
    assert " ".join(NAMES[type(gate)] for gate in gates) == order
    assert [(declared.first, declared.otherwise) for declared in gates if isinstance(declared, Since)] == (
        [gate] if gate else []
    )


@pytest.mark.parametrize(("method", "path", "first", "otherwise"), GATED)
def test_a_gate_is_shut_one_version_before_it_opens(stranger, method, path, first, otherwise):
    def status_at(minor):
        return stranger.at(f"1.{minor}").call(method, a_path(path), {} if method in ("PUT", "POST") else None).status

    assert (status_at(first - 1), status_at(first)) == (otherwise, 403)


def test_deleting_all_inventories_too_early_is_405_without_allow(stranger):
    refused = stranger.at("1.4").delete("/resource_providers/some-uuid/inventories")
    assert (refused.status, refused.header("allow")) == (405, None)


@pytest.mark.parametrize(("version", "status"), [("1.1", 404), ("1.6", 415), ("1.7", 403)])
def test_a_resource_class_is_put_in_two_forms(stranger, version, status):
    """Up to 1.6 the content type is looked at, before policy; from 1.7 on it is not."""
    assert (
        stranger.at(version)
        .call("PUT", "/resource_classes/CUSTOM_X", raw=b"{}", headers={"Content-Type": "a/b"})
        .status
        == status
    )


@pytest.mark.parametrize(
    "path",
    [
        "//",
        "/resource_providers/",
        "//resource_providers",
        "/resource_providers//",
        "/resource_providers//inventories",
        "/resource_providers/a/",
        "/traits/a/b",
        "/Traits",
        "/traits%2Fa%2Fb",
        "/unknown",
        "/resource_providers/a/unknown",
    ],
)
def test_no_other_path_is_known(stranger, path):
    answer = stranger.get(path)
    assert answer.refused(404, "The resource could not be found.")
    assert answer.header("openstack-api-version") == f"placement {NEWEST}"


@pytest.mark.parametrize("path", ["/", ""])
def test_the_root_is_known_with_and_without_its_slash(path):
    assert Api(wsgi_door(RequestLog(create_app(None, None)))).get(path).status == 200


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "TRACE", "get", "BREW"])
def test_a_method_that_no_route_knows_is_405_with_those_it_does(stranger, method):
    answer = stranger.call(method, "/resource_providers", headers={"Accept": "text/plain"})
    assert (answer.status, answer.header("allow")) == (405, "GET, POST")
    assert method == "HEAD" or f"The method {method} is not allowed for this resource." in answer.body.decode()


def test_the_known_methods_do_not_depend_on_the_microversion(stranger):
    answer = stranger.at("1.0").get("/allocations")
    assert (answer.status, answer.header("allow")) == (405, "POST")


def test_a_router_lists_methods_in_one_order():
    class Everything:
        def __init__(self):
            for method in METHODS:
                setattr(self, f"on_{method.lower()}", print)

    router = Router()
    router.add_route("/a/{b}", Everything())
    assert router.routes["/a/{b}"].allow == "GET, POST, PUT, DELETE, PATCH"
    assert router.find("/a/c", REQUEST)[2] == {"b": "c"}
    assert router.find("x/a/c", REQUEST) is None


def test_what_is_stead_s_own_is_found_by_who_asks_for_it():
    class Own:
        stead_since = S.OWN_FEATURES

        def on_get(self):
            """Nothing is asked of it."""

    router = Router()
    router.add_route("/own", Own())
    asking = Request(create_environ())
    asking.agreed = ALL_FEATURES
    assert router.find("/own", REQUEST) is None
    assert router.find("/own", asking)[3] == "/own"


def test_every_first_microversion_has_a_name():
    assert {V(first).name for _, _, first, _ in GATED} >= {"TRAITS", "RESHAPER", "CANDIDATES"}
