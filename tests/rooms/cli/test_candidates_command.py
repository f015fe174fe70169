from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.cli.candidates import amounts_by_group, in_rows
from stead.client.calls import query_of
from stead.client.candidate import Candidates

HOST, NUMA, NIC = "uuid-of-host", "uuid-of-numa", "uuid-of-nic"
NAMES = {HOST: "host-1", NUMA: "host-1-numa0", NIC: "host-1-nic"}
QUERY = "resources=VCPU:1&resources_N=PCPU:4&resources_V=VF:1&group_policy=none"


def summary(**resources):
    amounts = {name: {"capacity": capacity, "used": used} for name, (capacity, used) in resources.items()}
    return {"resources": amounts, "traits": [], "parent_provider_uuid": None, "root_provider_uuid": HOST}


def answer():
    return {
        "allocation_requests": [
            {
                "allocations": {
                    HOST: {"resources": {"VCPU": 1}},
                    NUMA: {"resources": {"PCPU": 4}},
                    NIC: {"resources": {"VF": 1}},
                },
                "mappings": {"": [HOST], "_N": [NUMA], "_V": [NIC]},
            }
        ],
        "provider_summaries": {
            HOST: summary(VCPU=(128, 0)),
            NUMA: summary(PCPU=(16, 8)),
            NIC: summary(VF=(1, 0), OTHER=(5, 0)),
        },
    }


def rows_of(request, summaries, groups):
    body = {"allocation_requests": [request], "provider_summaries": summaries}
    candidates = Candidates.of(body, is_complete=True)
    return in_rows(candidates[0], candidates.summaries, groups).rows


def listed(uuid, name, root=HOST):
    """An entry of GET /resource_providers."""
    parent = None if uuid == root else root
    return {"uuid": uuid, "name": name, "generation": 0, "parent_provider_uuid": parent, "root_provider_uuid": root}


def can(server, query, body=None):
    server.can(f"GET /allocation_candidates?{query}", body or answer())
    records = [listed(uuid, name) for uuid, name in NAMES.items()]
    for uuid in NAMES:
        server.can(f"GET /resource_providers?in_tree={uuid}", {"resource_providers": records})


@pytest.mark.parametrize(
    ("typed", "limit", "sent"),
    [
        ("resources=VCPU:1", None, "resources=VCPU:1"),
        ("?resources=VCPU:1", 20, "resources=VCPU:1&limit=20"),
        (" /allocation_candidates?resources=VCPU:1 ", 20, "resources=VCPU:1&limit=20"),
        ("http://h/placement/allocation_candidates?a=b", None, "a=b"),
        ("resources=VCPU:1&limit=5", 20, "resources=VCPU:1&limit=5"),
        ("resources=VCPU:1&limit=", 20, "resources=VCPU:1&limit="),
        ("", 20, "limit=20"),
        ("required=!A,in:B,C&x=%2C", None, "required=!A,in:B,C&x=%2C"),
        ("a=#b c\né", None, "a=%23b%20c%0A%C3%A9"),
    ],
)
def test_a_typed_query_becomes_one_that_can_be_sent(typed, limit, sent):
    assert query_of(typed, limit) == sent


def test_the_amounts_of_suffixed_groups_are_read_from_the_query():
    query = "resources=VCPU:9&resources1=A:1,B:2&resources_X=C:3,C:4&required1=T&resources1=A:5&limit=1"
    assert amounts_by_group(query) == {"1": {"A": 5}, "_X": {"C": 4}}


def test_what_two_groups_take_from_one_provider_is_told_apart():
    request = {
        "allocations": {NUMA: {"resources": {"PCPU": 9, "MEMORY_MB": 100}}},
        "mappings": {"": [NUMA], "1": [NUMA], "_A": [NUMA]},
    }
    summaries = {NUMA: summary(PCPU=(16, 2), MEMORY_MB=(1000, 0))}
    rows = rows_of(request, summaries, {"1": {"PCPU": 5}})
    assert [(row.group, row.resource_class, row.amount) for row in rows] == [
        ("1", "PCPU", 5),
        ("_A", "", 0),
        ("", "PCPU", 4),
        ("", "MEMORY_MB", 100),
    ]
    assert {row.free_after for row in rows if row.resource_class == "PCPU"} == {5}


def test_a_provider_that_only_satisfies_a_group_without_resources_is_shown():
    request = {"allocations": {NUMA: {"resources": {"PCPU": 1}}}, "mappings": {"_N": [NUMA], "_A": [HOST]}}
    rows = rows_of(request, answer()["provider_summaries"], {"_N": {"PCPU": 1}})
    assert [(row.provider, row.group, row.resource_class) for row in rows] == [(NUMA, "_N", "PCPU"), (HOST, "_A", "")]


amounts = st.dictionaries(st.sampled_from("ABC"), st.integers(1, 9), min_size=1)
wishes = st.dictionaries(st.sampled_from(["", "1", "2", "_X"]), st.tuples(st.sampled_from("pqr"), amounts), min_size=1)


@given(wishes)
def test_the_rows_add_up_to_the_allocations(groups_asked):
    taken: dict[str, Counter] = {}
    for provider, resources in groups_asked.values():
        taken.setdefault(provider, Counter()).update(resources)
    request = {
        "allocations": {provider: {"resources": dict(resources)} for provider, resources in taken.items()},
        "mappings": {group: [provider] for group, (provider, _) in groups_asked.items()},
    }
    summaries = {provider: summary(A=(99, 0), B=(99, 0), C=(99, 0)) for provider in "pqr"}
    groups = {group: resources for group, (_, resources) in groups_asked.items() if group}
    rows = rows_of(request, summaries, groups)
    assert Counter({(row.provider, row.group, row.resource_class): row.amount for row in rows}) == Counter(
        {(provider, group, name): n for group, (provider, rs) in groups_asked.items() for name, n in rs.items()}
    )


def test_the_command_shows_who_gives_what_and_what_stays_free(server, stead):
    can(server, f"{QUERY}&limit=20")
    ran = stead("candidates", QUERY)
    assert (ran.code, ran.err) == (0, "")
    bars = ["▓" + "░" * 31, "█" * 16 + "▓" * 8 + "░" * 8, "▓" * 32]
    assert ran.out.splitlines()[2:] == [
        f"1  host-1                 1 VCPU  {bars[0]}  127 of 128",
        f"     host-1-numa0  _N     4 PCPU  {bars[1]}     4 of 16",
        f"     host-1-nic    _V     1 VF    {bars[2]}      0 of 1",
    ]


def test_the_command_in_json_has_the_services_own_request_beside_the_names(server, stead):
    can(server, f"{QUERY}&limit=3")
    (candidate,) = stead("candidates", QUERY, "--limit", "3", "--json").json["candidates"]
    assert candidate["allocation_request"] == answer()["allocation_requests"][0]
    assert candidate["providers"][1] == {
        "uuid": NUMA,
        "name": "host-1-numa0",
        "root_uuid": HOST,
        "root_name": "host-1",
        "group": "_N",
        "resources": {"PCPU": {"amount": 4, "capacity": 16, "used_before": 8, "free_after": 4}},
    }


def test_a_list_that_was_cut_says_so(server, stead):
    can(server, f"{QUERY}&limit=1")
    assert stead("candidates", QUERY, "--limit", "1").out.endswith("The first 1 are shown; --limit shows more.\n")
    assert "shown" not in stead("candidates", f"{QUERY}&limit=1").out


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_nothing_fits_is_a_no_in_one_line(server, stead, arguments):
    can(server, f"{QUERY}&limit=20", {"allocation_requests": [], "provider_summaries": {}})
    ran = stead("candidates", QUERY, *arguments)
    assert (ran.code, ran.err) == (
        1,
        "stead: nothing fits; `stead explain` with the same query says why\n",
    )
    assert ran.out == "" or ran.json == {"candidates": []}


def test_a_bad_query_is_refused_with_the_services_reason(server, stead):
    server.refuse("GET /allocation_candidates?resources=FOO:1&limit=20", 400, "No such resource class FOO.")
    ran = stead("candidates", "resources=FOO:1")
    assert (ran.code, ran.out, ran.err) == (
        2,
        "",
        "stead: No such resource class FOO. Names of your own begin with CUSTOM_, as CUSTOM_FOO (400)\n",
    )


def test_where_names_may_not_be_read_uuids_are_shown(server, stead):
    server.can(f"GET /allocation_candidates?{QUERY}&limit=20", answer())
    for uuid in NAMES:
        server.refuse(f"GET /resource_providers?in_tree={uuid}", 403, "Policy does not allow it")
    ran = stead("candidates", QUERY)
    assert ran.code == 0
    assert NUMA in ran.out


def test_many_trees_are_named_by_one_list(server, stead):
    roots = [f"root-{number}" for number in range(60)]
    requests = [{"allocations": {root: {"resources": {"A": 1}}}, "mappings": {"": [root]}} for root in roots]
    summaries = {root: summary(A=(2, 0)) | {"root_provider_uuid": root} for root in roots}
    body = {"allocation_requests": requests, "provider_summaries": summaries}
    server.can("GET /allocation_candidates?resources=A:1&limit=100", body)
    records = [listed(root, f"name-of-{root}", root) for root in roots]
    server.can("GET /resource_providers", {"resource_providers": records})
    ran = stead("candidates", "resources=A:1&limit=100")
    assert "name-of-root-59" in ran.out
    assert [call for call in server.calls() if "in_tree" in call] == []


def test_a_provider_name_cannot_steer_the_terminal(server, stead):
    can(server, f"{QUERY}&limit=20")
    for uuid in NAMES:
        server.answers[f"GET /resource_providers?in_tree={uuid}"].clear()
        server.can(f"GET /resource_providers?in_tree={uuid}", {"resource_providers": [listed(uuid, "\x1b[2J[red]")]})
    ran = stead("candidates", QUERY)
    assert "\x1b" not in ran.out
    assert "\\x1b[2J[red]" in ran.out
