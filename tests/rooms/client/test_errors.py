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


VALIDATED = "JSON does not validate: "
SCHEMA = " in schema['properties']['x']: {'type': 'x'} On instance"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (
            f"{VALIDATED}'soon' is not a 'date-time' Failed validating 'format'{SCHEMA}['disabled']['until']: 'soon'",
            "disabled.until: 'soon' is not a time with a zone such as 2031-01-01T00:00:00Z",
        ),
        (
            f"{VALIDATED}'a' is not of type 'integer' Failed validating 'type'{SCHEMA}['claims'][3]['n']: 'a'",
            "claims[3].n: expected 'integer', not 'a'",
        ),
        (
            f"Invalid query string parameters: Additional properties are not allowed ('m1.large' was unexpected) "
            f"Failed validating 'additionalProperties'{SCHEMA}: {{'m1.large': ''}}",
            "the query: unknown: 'm1.large'",
        ),
        (f"{VALIDATED}trees[0].name: 'name' is a required property", "trees[0].name: 'name' is missing"),
        (
            f"{VALIDATED}'lamp' does not match '^CUSTOM_[A-Z0-9_]+$' Failed validating 'pattern'{SCHEMA}: 'lamp'",
            "'lamp' must begin with CUSTOM_, and have A-Z, 0-9 and _ only",
        ),
        (f"{VALIDATED}two of the claims are of the same consumer", "two of the claims are of the same consumer"),
        ("No such resource class CUSTOM_GONE.", "No such resource class CUSTOM_GONE."),
        ("No such trait(s): A100.", "No such trait(s): A100. Names of your own begin with CUSTOM_, as CUSTOM_A100"),
    ],
)
def test_no_words_of_a_validator_reach_people(sent, shown):
    error = refusal(400, {"errors": [{"code": GENERAL, "detail": sent}]}, {})
    assert (error.detail, error.facts["detail"]) == (shown, sent)


BAD_BODIES = [
    ("PUT", "/provider_trees", {"provider_trees": [{"providers": [{"name": "a", "inventories": {"VCPU": {}}}]}]}),
    ("PUT", "/provider_trees", {"provider_trees": [{"providers": [{"name": "a", "traits": "A"}]}]}),
    ("POST", "/claims", {"claims": []}),
    ("POST", "/claims", {"claims": [{"consumer_uuid": "x"}]}),
    ("POST", "/whatif", {"changes": [{"change": "copy", "provider": "name:a", "count": 0}], "ask": {}}),
    ("PUT", "/flavors/a b", {"query": "resources=VCPU:1", "description": ""}),
    ("PUT", "/traits/lamp", None),
    ("GET", "/resource_providers?colour=red", None),
    ("GET", "/allocation_candidates?m1.large", None),
]


@pytest.mark.parametrize(("method", "path", "body"), BAD_BODIES)
def test_the_words_of_this_servers_validator_are_known(method, path, body):
    with stead.testing.site() as site, pytest.raises(stead.Invalid) as refused:
        site.request(method, path, body, stead="1.2")
    assert not re.search(r"validat|schema|On instance|JSON|Additional|propert", str(refused.value)), str(refused.value)


def test_a_token_that_is_missing_or_rejected_is_said_with_the_url():
    with stead.testing.placement() as url:
        for token, words in ((None, "requires a token: connect"), ("wrong", "does not accept the token; it may be")):
            url.faults.fail_next(401)
            with stead.connect(url, token) as site, pytest.raises(stead.NotAllowed, match=f"^{url} {words}"):
                site.usages("lab")


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
