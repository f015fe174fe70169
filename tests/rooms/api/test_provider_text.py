"""The text of a provider is the JSON of what it shows. Source: "GET /resource_providers", docs/api.md."""

import json

import pytest
from falcon.testing import create_environ

from stead.api.answers import ProviderForm
from stead.api.request import Request
from stead.api.versions import Agreed, V
from stead.domain.provider import Provider

UUID, ROOT = "4e8e5957-649f-477b-9e5b-f1f75b21c03c", "aaaaaaaa-649f-477b-9e5b-f1f75b21c03c"
RELS = ["self", "inventories", "usages", "aggregates", "traits", "allocations"]


def form(version, prefix=""):
    req = Request(create_environ(root_path=prefix))
    req.agreed = Agreed(version)
    return ProviderForm.of(req)


@pytest.mark.parametrize(
    ("version", "rels", "tells_tree"),
    [
        (V.INITIAL, RELS[:3], False),
        (V.AGGREGATES, RELS[:4], False),
        (V.TRAITS, RELS[:5], False),
        (V.ALLOCATIONS_LINK, RELS, False),
        (V.NESTED_PROVIDERS, RELS, True),
    ],
)
@pytest.mark.parametrize("parent", [None, ROOT])
@pytest.mark.parametrize("name", ["host-1", 'a "quoted" \\ name', "a\nline", "🐧 \x7f\u2028", "%s {uuid}"])
@pytest.mark.parametrize("prefix", ["", "/placement", '/"\\u0000{uuid}'])
def test_a_provider_is_told_in_the_form_of_its_microversion(version, rels, tells_tree, parent, name, prefix):
    path = f"{prefix}/resource_providers/{UUID}"
    tree = {"parent_provider_uuid": parent, "root_provider_uuid": ROOT} if tells_tree else {}
    told = form(version, prefix).text(Provider(UUID, name, 7, parent, ROOT, 0))
    assert json.loads(told) == {
        "uuid": UUID,
        "name": name,
        "generation": 7,
        "links": [{"rel": rel, "href": path if rel == "self" else f"{path}/{rel}"} for rel in rels],
        **tree,
    }


def test_microversions_that_show_the_same_have_one_form():
    assert form(V.NESTED_PROVIDERS) == form(max(V))
    assert form(V.NESTED_PROVIDERS) != form(V.ALLOCATIONS_LINK)
    assert form(V.NESTED_PROVIDERS) != form(V.NESTED_PROVIDERS, "/placement")
