"""Every error code and status of the API has a type in the library, the one that docs/api.md names."""

import ast
import pickle
import re
from pathlib import Path

import pytest

import stead
import stead.testing
from stead.client.errors import refusal

ROOT = Path(stead.__file__).parent
DOCS = ROOT.parent.parent / "docs"
API = (DOCS / "api.md").read_text()
ROW = re.compile(r"^\| `((?:placement|stead)\.[a-z_.]+)` \| (\w+) \| `?([\w ]+)`? \|", re.MULTILINE)
ROWS = ROW.findall(API)
GENERAL = "placement.undefined_code"
NOT_CODES = {"placement.requestlog", "stead.credentials", "stead.request_id"}
"""The name of a log, and keys of the environ."""


def constants():
    """The texts in the modules of the API that look like codes."""
    for path in (ROOT / "api").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_code_of_the_api_is_documented_with_a_type():
    codes = {text for text in constants() if re.fullmatch(r"(placement|stead)\.[a-z_]+(\.[a-z_]+)*", text)}
    codes = {code for code in codes if not (ROOT / f"{code.removeprefix('stead.').replace('.', '/')}").exists()}
    assert codes - NOT_CODES == {code for code, _, _ in ROWS}


@pytest.mark.parametrize(("code", "status", "name"), [row for row in ROWS if row[0] != GENERAL])
def test_a_code_has_the_documented_type(code, status, name):
    error = refusal(int(status), {"errors": [{"code": code, "detail": "no"}]}, {})
    assert type(error) is getattr(stead, name)


def statuses():
    text = API + (DOCS / "stead-api.md").read_text()
    return sorted({int(status) for status in re.findall(r"\b[45]\d\d\b", text)})


@pytest.mark.parametrize("status", statuses())
def test_a_status_without_a_code_of_its_own_has_a_type(status):
    error = refusal(status, {"errors": [{"code": GENERAL, "detail": "no"}]}, {})
    assert type(error) is not stead.Refused
    assert type(error).advice != stead.Refused.advice


def test_an_error_keeps_the_fields_that_this_library_does_not_know():
    record = {"code": "stead.capacity_below_use", "detail": "no", "overcommitted": [{"name": "a"}], "newer": 1}
    error = refusal(409, {"errors": [record]}, {})
    assert isinstance(error, stead.CapacityBelowUse)
    again = pickle.loads(pickle.dumps(error.worded("other words")))
    assert (again.facts["newer"], again.overcommitted, again.detail) == (1, [{"name": "a"}], "other words")


def test_a_capacity_below_use_and_a_removal_of_what_is_in_use_are_errors_of_their_own():
    with stead.testing.site(project="lab") as site:
        site.apply(stead.Node("host", VCPU=4, children=[stead.Node("gpu", PGPU=1)]))
        site.claim(stead.Request(stead.Group(VCPU=3, PGPU=1)), "job")
        with pytest.raises(stead.CapacityBelowUse) as below:
            site.apply(stead.Node("host", VCPU=2))
        assert [record["resource_class"] for record in below.value.overcommitted] == ["VCPU"]
        with pytest.raises(stead.InUse):
            site.apply(stead.Node("host", VCPU=4), prune=True)


def test_a_claim_on_a_disabled_provider_is_an_error_of_its_own():
    with stead.testing.site(project="lab") as site:
        site.apply(stead.Node("host", VCPU=4))
        (host,) = site.providers()
        site.disable(host.uuid, "repair")
        body = {
            "allocations": {host.uuid: {"resources": {"VCPU": 1}}},
            "project_id": "lab",
            "user_id": "lab",
            "consumer_type": "JOB",
            "consumer_generation": None,
        }
        with pytest.raises(stead.ProviderDisabled):
            site.request("PUT", f"/allocations/{stead.uuid_of('job')}", body)
