"""How answers and errors show themselves."""

import io
import pickle

import pytest
from rich.console import Console

import stead
from stead import Group, Node, Request, testing
from stead.client.errors import refusal


@pytest.fixture(scope="module")
def site():
    with testing.site(project="lab") as made:
        made.apply(Node("host", VCPU=8, children=[Node("gpu0", {"PGPU": 1}, traits=["HW_GPU_API_VULKAN"])]))
        yield made


def drawn(value):
    """The lines of *value* in a wide terminal, without blanks at their ends."""
    console = Console(file=io.StringIO(), width=200)
    console.print(value)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_tree_is_drawn_with_what_is_used(site):
    site.claim(Request(Group(VCPU=2)), "drawn")
    assert drawn(site.tree("host")) == ["host  VCPU 2/8", "└── gpu0  PGPU 0/1"]
    assert repr(site.tree("host")) == "<Tree of host: 2 providers>"
    assert repr(site.provider("gpu0")).startswith("<Provider gpu0 ")
    assert drawn(site.provider("host"))[1:] == [" class  capacity  used  free", " VCPU   8         2     6"]


def test_claims_and_candidates_are_tables(site):
    request = Request(Group(VCPU=1), Group("gpu", PGPU=1))
    candidates, claim = site.candidates(request), site.claim(request, "train-1")
    assert repr(candidates) == "<1 candidate of 2 providers>"
    assert repr(candidates[0]) == "<Candidate VCPU:1 of host, PGPU:1 of gpu0>"
    assert repr(claim).startswith("<Claim of train-1 (lab): ")
    assert " gpu0      gpu    PGPU:1" in drawn(claim)
    assert any(line.endswith("PGPU:1") for line in drawn(candidates))
    claim.release()
    assert repr(claim) == "<Claim of train-1 (lab): nothing>"


def test_an_explanation_is_text_and_a_table(site):
    explanation = site.explain(Request(Group("gpu", PGPU=1, required="HW_GPU_API_DXVA")))
    assert repr(explanation) == "<Explanation: No provider with PGPU has the trait HW_GPU_API_DXVA.>"
    assert "requiredgpu=HW_GPU_API_DXVA: removes 1, 0 remain" in str(explanation)
    assert any("ould help" in line for line in drawn(explanation))


def test_names_in_markup_are_shown_as_they_are(site):
    with testing.site() as other:
        other.apply(Node("[red]host[/red]", VCPU=1))
        assert drawn(other.tree("[red]host[/red]")) == ["[red]host[/red]  VCPU 0/1"]


def test_an_applied_document_lists_its_changes(site):
    applied = site.apply(Node("other", VCPU=1), dry_run=True)
    assert repr(applied) == "<Applied: would change 1 provider>"
    assert " other     created, inventories" in drawn(applied)
    assert applied.uuids == {}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {}, stead.Invalid),
        (401, {"message": "The request you have made requires authentication.", "code": 401}, stead.NotAllowed),
        (403, {"errors": [{"detail": "Forbidden\n\nPolicy does not allow x"}]}, stead.NotAllowed),
        (404, [], stead.NotFound),
        (406, {}, stead.Unsupported),
        (409, {"errors": [{"code": "placement.undefined_code"}]}, stead.Conflict),
        (409, {"errors": [{"code": "placement.concurrent_update"}]}, stead.Stale),
        (409, {"errors": [{"code": "stead.nothing_fits", "claim": 2, "explanation": None}]}, stead.NothingFits),
        (410, {}, stead.StartOver),
        (413, {}, stead.TooLarge),
        (500, {"errors": ["?"]}, stead.Failed),
        (503, None, stead.Unavailable),
        (599, None, stead.Failed),
        (418, None, stead.Refused),
    ],
)
def test_each_refusal_has_its_type_its_facts_and_advice(status, body, kind):
    error = refusal(status, body, {"x-openstack-request-id": "req-1"})
    assert (type(error), error.status, error.request_id) == (kind, status, "req-1")
    assert isinstance(error, stead.Refused)
    assert error.advice
    assert f"({status})" in str(error)
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_every_kind_of_error_is_an_error_of_the_library_with_advice():
    kinds = [getattr(stead, name) for name in stead.__all__]
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Exception)]
    assert all(issubclass(kind, stead.Error) for kind in errors)
    assert len({kind.advice for kind in errors if kind is not stead.Error}) == len(errors) - 1
