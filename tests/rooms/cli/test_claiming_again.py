"""stead claim for a consumer that holds a place already, on Stead and on a server without Stead's features."""

import json

import pytest

from stead.cli.app import run
from tests.servers.placements import other_placement, stead_itself

WHY = "`stead explain` with the same query says why\n"
pytestmark = pytest.mark.one_database

SITE = """
providers:
- name: host
  inventories: {VCPU: 8}
  children:
  - {name: numa, inventories: {PCPU: 4}}
"""
CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
ALL_OF_IT = "resources=VCPU:8&resources_N=PCPU:4"


@pytest.fixture(scope="module", params=[stead_itself, other_placement], ids=["stead", "released"])
def server(request, tmp_path_factory):
    """The URL and a token of a server with the site, and whether it has POST /claims."""
    directory = tmp_path_factory.mktemp("server")
    with request.param(directory) as (url, token):
        (directory / "site.yaml").write_text(SITE)
        assert run(["--url", url, "--token", token, "topology", "apply", str(directory / "site.yaml")]) == 0
        yield url, token, request.param is stead_itself


@pytest.fixture
def stead(server, capsys):
    """``stead("claim", …)`` on a server with the site, empty; *stead.has_claims* says whether it has POST /claims."""
    url, token, has_claims = server

    def call(*arguments):
        code = run(["--url", url, "--token", token, *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    call("release", CONSUMER)  # what the test before left
    call.has_claims = has_claims
    return call


def claim(stead, query, *arguments):
    return stead("claim", query, "--consumer", CONSUMER, "--project", "p", "--user", "u", *arguments)


def test_a_claim_looks_the_same_from_either_server(stead):
    code, out, err = claim(stead, ALL_OF_IT, "--json")
    assert (code, err) == (0, "")
    claimed = json.loads(out)
    assert (claimed["consumer"], claimed["tries"], claimed["replaced"]) == (CONSUMER, 1, {})
    shown = [
        (provider["name"], provider["root_name"], provider["group"], provider["resources"])
        for provider in claimed["providers"]
    ]
    assert sorted(shown) == [
        ("host", "host", "", {"VCPU": {"amount": 8, "capacity": 8, "used_before": 0, "free_after": 0}}),
        ("numa", "host", "_N", {"PCPU": {"amount": 4, "capacity": 4, "used_before": 0, "free_after": 0}}),
    ]
    tree = stead("tree")[1]
    assert "8 / 8 " in tree
    assert "4 / 4 " in tree


def test_a_consumer_that_fills_a_place_may_claim_it_again_where_the_server_finds_places(stead):
    assert claim(stead, ALL_OF_IT)[0] == 0
    code, out, err = claim(stead, ALL_OF_IT, "--replace")
    if stead.has_claims:
        assert (code, err) == (0, "")
        assert out.startswith(f"claimed for consumer {CONSUMER}, in place of what it held\n")
    else:  # it counts as used what the consumer holds, whoever asks
        assert (code, out, err) == (
            1,
            "",
            f"stead: nothing fits {ALL_OF_IT}; {WHY}",
        )
    assert stead("release", CONSUMER)[1] == f"released {CONSUMER}: 8 VCPU, 4 PCPU\n"


def test_a_consumer_that_holds_a_part_grows_and_shrinks(stead):
    for amount in (2, 6, 3) if stead.has_claims else (2, 6, 1):
        code, out, err = claim(stead, f"resources=VCPU:{amount}", "--replace", "--json")
        assert (code, err) == (0, "")
        (provider,) = json.loads(out)["providers"]
        amounts = {"amount": amount, "capacity": 8, "used_before": 0, "free_after": 8 - amount}
        assert provider["resources"] == {"VCPU": amounts}
    assert stead("release", CONSUMER)[1] == f"released {CONSUMER}: {amount} VCPU\n"


def test_another_claim_for_a_consumer_that_holds_something_is_refused_and_changes_nothing(stead):
    assert claim(stead, ALL_OF_IT)[0] == 0
    before = stead("tree", "--json")[1]
    for arguments in (("resources=VCPU:1",), ("resources=VCPU:9",), (ALL_OF_IT, "--type", "JOB")):
        code, out, err = claim(stead, *arguments)
        assert (code, out) == (1, "")
        assert err == f"stead: consumer {CONSUMER} has 8 VCPU, 4 PCPU already; --replace claims instead of that\n"
        assert stead("tree", "--json")[1] == before
    code, out, _ = claim(stead, ALL_OF_IT)  # only the service can tell that this is the same claim
    assert (code, out.startswith(f"claimed for consumer {CONSUMER}\n")) == (
        (0, True) if stead.has_claims else (1, False)
    )
    assert stead("tree", "--json")[1] == before


def test_nothing_fits_says_so_and_writes_nothing(stead):
    code, out, err = claim(stead, "resources=VCPU:9")
    assert (code, out, err) == (
        1,
        "",
        "stead: nothing fits resources=VCPU:9; `stead explain` with the same query says why\n",
    )
    assert stead("release", CONSUMER)[0] == 1
