"""From what went wrong to an answer. Source: "Errors", docs/api.md."""

import json

import pytest

from stead.api.answers import LOG, Answer, problem_of
from stead.domain import errors as domain
from tests.system.api.client import NEWEST, Api, wsgi_door


def every_error(base=domain.SteadError):
    for cls in base.__subclasses__():
        yield cls
        yield from every_error(cls)


@pytest.mark.parametrize(
    "error", [cls for cls in every_error() if cls.__module__ == domain.__name__], ids=lambda cls: cls.__name__
)
def test_every_error_of_the_domain_has_a_status_of_its_own(error):
    """None of them is a bug, so none of them is 500."""
    statuses = {
        domain.Forbidden: 403,
        domain.Unavailable: 503,
        domain.BadRequest: 400,
        domain.NotFound: 404,
        domain.Conflict: 409,
        domain.StartOver: 410,
    }
    expected = next(status for base, status in statuses.items() if issubclass(error, base))
    made = error.__new__(error)
    for name in getattr(error, "__dataclass_fields__", {}):
        setattr(made, name, "x")
    made.retry_after = 1
    assert problem_of(made).status == expected


def test_a_route_words_an_error_its_own_way():
    rows = {domain.InventoryInUse: Answer(409, "a.code", "Unable to delete {resource_class} of {uuid}: {error}")}
    error = domain.InventoryInUse("p", ["VCPU", "DISK_GB"])
    problem = problem_of(error, rows, {"uuid": "{p}", "resource_class": "VCPU"})
    assert problem.message == (
        "Unable to delete VCPU of {p}: Inventory for 'VCPU, DISK_GB' on resource provider 'p' in use."
    )
    assert problem.code == "a.code"


def test_a_row_for_a_class_beats_the_table_s_for_the_same_class_only():
    rows = {domain.Conflict: Answer(409, "of.the.base")}
    assert problem_of(domain.GenerationConflict("p", 1, 2), rows).code == "placement.concurrent_update"
    assert problem_of(domain.TraitInUse("T"), rows).code == "of.the.base"


@pytest.mark.parametrize(
    ("among", "code"),
    [("Inventory", "placement.resource_provider.not_found"), ("Allocation", "placement.undefined_code")],
)
def test_an_unknown_provider_has_a_code_among_inventories_only(among, code):
    assert problem_of(domain.UnknownProvider("p", among)).code == code


def test_a_busy_database_says_when_to_come_again():
    assert problem_of(domain.Unavailable("busy", 7)).headers == {"retry-after": "7"}


def accepting(edge, accept):
    return Api(wsgi_door(edge)).call("GET", "/traits/%3Cb%3Ebold%3C/b%3E/a%0Ab", headers={"Accept": accept})


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/*", "application/json"),
        ("text/html", "text/html; charset=UTF-8"),
        ("text/*", "text/html; charset=UTF-8"),
        ("application/json, text/html", "text/html; charset=UTF-8"),
        ("application/json, text/html;q=0.9", "application/json"),
        ("text/plain", "text/plain; charset=UTF-8"),
        ("application/xml", "text/plain; charset=UTF-8"),
    ],
)
def test_the_form_follows_the_accept_header(edge, accept, content_type):
    answer = accepting(edge, accept)
    assert (answer.status, answer.header("content-type")) == (404, content_type)
    assert "The resource could not be found." in answer.body.decode()


def test_the_detail_is_two_lines_without_markup(edge):
    """Some clients show only what follows the last line break."""
    detail = accepting(edge, "application/json").json["errors"][0]["detail"]
    assert detail == "The resource could not be found.\n\n No such path: /traits/bold/a b  "


@pytest.mark.parametrize(
    ("path", "version"), [("/claims", "1.0"), ("/changes", "1.0"), ("/flavors/small", "1.1"), ("/whatif", "1.1")]
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_a_path_of_steads_own_names_the_version_that_it_requires(edge, method, path, version):
    answer = Api(wsgi_door(edge)).call(method, path)
    asks = f"No such path: {path}; requires OpenStack-API-Version: placement {NEWEST}, stead {version}"
    assert answer.refused(404, asks)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\x85", "\x0b"])
def test_a_method_of_several_lines_is_told_in_one(edge, end):
    status, _, body = wsgi_door(edge)(f"GET{end}X", "/traits", [("X-Auth-Token", "admin")], None)
    detail = json.loads(body)["errors"][0]["detail"]
    assert (status, len(detail.splitlines())) == (405, 3)


def test_a_bug_is_500_with_no_word_of_what_it_was(edge, caplog, monkeypatch):
    # Directly, since a server in another thread of this process may configure the handlers of the root.
    monkeypatch.setattr(LOG, "handlers", [caplog.handler])
    monkeypatch.setattr(LOG, "disabled", False)
    answer = Api(wsgi_door(edge)).door(
        "GET", "/resource_classes", [("X-Auth-Token", "admin"), ("OpenStack-API-Version", f"placement {NEWEST}")], None
    )
    status, headers, body = answer
    assert status == 500
    assert b"NoneType" not in body
    assert {name for name, _ in headers} == {"content-type", "content-length", "x-openstack-request-id"}
    assert "'NoneType' object has no attribute 'snapshot'" in caplog.text


def test_an_error_nobody_thought_of_says_nothing_of_itself():
    class Unheard(domain.SteadError):
        pass

    problem = problem_of(Unheard("secret"))
    assert (problem.status, "secret" in problem.message) == (500, False)
