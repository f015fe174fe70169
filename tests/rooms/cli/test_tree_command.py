import pytest

from stead import Provider
from stead.cli.forest import draw_forest, natural, plant, prune, sort_trees, sums_of, walk
from stead.cli.terminal import PIPE_WIDTH, amount_text
from stead.cli.text import Text

AGGREGATE = "d004302c-7a16-4304-9958-993c19403760"
UNLIMITED = {"reserved": 0, "min_unit": 1, "max_unit": 2147483647, "step_size": 1, "allocation_ratio": 1.0}


def record(name, parent=None):
    return Provider(f"uuid-of-{name}", name, 0, parent and f"uuid-of-{parent}", "", {}, {}, frozenset(), frozenset())


def forest_of(**parents):
    return plant(record(name, parent) for name, parent in parents.items())


def lines(tops, width=100, *, traits=False):
    return [line.plain for line in draw_forest(tops, width, traits=traits)]


def site():
    """A host with two NUMA nodes, one of them half full, and a pool that shares."""
    tops = forest_of(pool=None, host=None, numa0="host", numa1="host", nic="numa0")
    named = {provider.name: provider for provider in walk(tops)}
    pool, host, nic = named["pool"], named["host"], named["nic"]
    numa0, numa1 = named["numa0"], named["numa1"]
    pool.inventories = {"DISK_GB": {**UNLIMITED, "total": 40100, "reserved": 100}}
    pool.traits = ["MISC_SHARES_VIA_AGGREGATE"]
    pool.aggregates = host.aggregates = [AGGREGATE]
    host.traits = ["COMPUTE_NODE", "CUSTOM_RACK_A"]
    for numa in (numa0, numa1):
        numa.inventories = {"PCPU": {**UNLIMITED, "total": 16}, "MEMORY_MB": {**UNLIMITED, "total": 65536}}
    numa0.usages = {"PCPU": 8, "MEMORY_MB": 1024}
    nic.inventories = {"SRIOV_NET_VF": {**UNLIMITED, "total": 8}}
    return tops


def listing(provider, top):
    """An entry of GET /resource_providers."""
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": 7,
        "parent_provider_uuid": provider.parent,
        "root_provider_uuid": top.uuid,
    }


def can_site(server):
    """The same on the wire."""
    tops = site()
    listed = [listing(each, top) for top in tops for each in walk([top])]
    server.can("GET /resource_providers", {"resource_providers": listed})
    for each in listed:
        named, tree = f"name={each['name']}", f"in_tree={each['root_provider_uuid']}"
        server.can(f"GET /resource_providers?{named}", {"resource_providers": [each]})
        members = [other for other in listed if other["root_provider_uuid"] == each["root_provider_uuid"]]
        server.can(f"GET /resource_providers?{tree}", {"resource_providers": members})
        server.can(f"GET /resource_providers?in_tree={each['uuid']}", {"resource_providers": members})
    for provider in walk(tops):
        path = f"GET /resource_providers/{provider.uuid}"
        for part in ("inventories", "usages", "traits", "aggregates"):
            server.can(f"{path}/{part}", {part: getattr(provider, part), "resource_provider_generation": 7})


def test_names_with_numbers_are_in_the_order_a_person_expects():
    names = ["node-10", "node-9", "a", "node-1b", "node-1", "10", "9", ""]
    assert sorted(names, key=natural) == ["", "a", "node-1", "node-1b", "node-9", "node-10", "9", "10"]


def test_a_provider_whose_parent_was_not_listed_stands_at_the_top():
    assert [top.name for top in plant([record("child", "unknown"), record("root")])] == ["child", "root"]


def test_the_picture_of_a_site_with_traits():
    assert lines(site(), traits=True) == [
        "host ⊂1          COMPUTE_NODE CUSTOM_RACK_A",
        "├── numa0        PCPU          ███████░░░░░░░      8 / 16         50 %",
        "│   │            MEMORY_MB     █░░░░░░░░░░░░░  1 GiB / 64 GiB      1 %",
        "│   └── nic      SRIOV_NET_VF  ░░░░░░░░░░░░░░      0 / 8           0 %",
        "└── numa1        PCPU          ░░░░░░░░░░░░░░      0 / 16          0 %",
        "                 MEMORY_MB     ░░░░░░░░░░░░░░      0 / 64 GiB      0 %",
        "pool ⇄ ⊂1        DISK_GB       ░░░░░░░░░░░░░░      0 / 39.1 TiB    0 %  100 GiB reserved",
        "                 MISC_SHARES_VIA_AGGREGATE",
        "",
        "all 2 trees      PCPU          ████░░░░░░░░░░      8 / 32         25 %",
        "                 MEMORY_MB     █░░░░░░░░░░░░░  1 GiB / 128 GiB     0 %",
        "                 DISK_GB       ░░░░░░░░░░░░░░      0 / 39.1 TiB    0 %  100 GiB reserved",
        "                 SRIOV_NET_VF  ░░░░░░░░░░░░░░      0 / 8           0 %",
        "",
        "⇄  shares with the trees of its aggregates",
        f"⊂1 aggregate {AGGREGATE}",
    ]


def test_many_traits_break_into_lines_that_fit():
    tops = forest_of(host=None)
    tops[0].traits = [f"CUSTOM_TRAIT_{number:03}" for number in range(40)]
    drawn = lines(tops, width=70, traits=True)
    assert max(map(len, drawn)) <= 70
    assert [word for line in drawn for word in line.split() if word != "host"] == tops[0].traits


def test_a_long_name_loses_its_middle_but_in_a_pipe_and_the_bars_stay_in_their_column():
    tops = forest_of(**{"short": None, "long-" * 20: None})
    for top in tops:
        top.inventories = {"VCPU": {**UNLIMITED, "total": 4}}
    drawn = [line for line in lines(tops, width=100) if "VCPU" in line]
    assert len({line.index("VCPU") for line in drawn}) == 1
    assert drawn[0].startswith("long-long-")
    assert drawn[0].partition("…")[2].startswith("ng-long-")
    assert "long-" * 20 in "".join(lines(tops, PIPE_WIDTH))


def test_traits_are_left_out_unless_they_are_asked_for():
    assert not [line for line in lines(site()) if "COMPUTE_NODE" in line]


def test_a_disabled_provider_is_marked():
    (top,) = forest_of(host=None)
    top.traits = ["COMPUTE_STATUS_DISABLED"]
    assert lines([top]) == ["host disabled"]


def test_a_cut_tree_shows_the_sums_of_what_is_hidden_and_the_totals_stay():
    tops, whole = site(), site()
    prune(tops, 0)
    assert [" ".join(line.split()[-6:]) for line in lines(tops) if line.startswith("host")] == [
        "████░░░░░░░░░░ 8 / 32 25 %"
    ]
    assert sums_of(tops) == sums_of(whole)


@pytest.mark.parametrize(
    ("order", "names"), [("name", ["a", "b", "c"]), ("used", ["b", "c", "a"]), ("free", ["a", "c", "b"])]
)
def test_trees_are_sorted_by_their_fullest_class(order, names):
    tops = forest_of(c=None, a=None, b=None)
    for top in tops:
        top.inventories = {"VCPU": {**UNLIMITED, "total": 8}, "DISK_GB": {**UNLIMITED, "total": 100}}
        top.usages = {"VCPU": {"a": 1, "b": 8, "c": 0}[top.name], "DISK_GB": {"a": 0, "b": 0, "c": 50}[top.name]}
    sort_trees(tops, order)
    assert [top.name for top in tops] == names


def test_a_name_cannot_steer_the_terminal_nor_the_colours():
    tops = forest_of(**{"evil\x1b[2J\n[red]host": None})
    (line,) = draw_forest(tops, 100)
    assert isinstance(line, Text)
    assert line.plain == "evil\\x1b[2J\\n[red]host"


def test_what_is_reserved_is_shown_beside_the_capacity_that_it_lowers():
    (top,) = forest_of(host=None)
    top.inventories = {"MEMORY_MB": {**UNLIMITED, "total": 4096, "reserved": 512}, "VCPU": {**UNLIMITED, "total": 8}}
    cpus, memory = lines([top])
    assert memory.endswith("0 / 3.5 GiB    0 %  512 MiB reserved")
    assert cpus.endswith("0 / 8          0 %")


def test_one_long_cell_does_not_cost_the_others_their_bars():
    tops = forest_of(a=None, **{"b" * 60: None})
    for top, reserved in zip(tops, (0, 123_456_789), strict=True):
        record = {**UNLIMITED, "total": 987_654_321, "reserved": reserved}
        top.inventories = {"VCPU": {**UNLIMITED, "total": 8}, "CUSTOM_A_CLASS": record}
    drawn = lines(tops, width=80)
    assert max(map(len, drawn)) <= 80
    assert all("░" in line for line in drawn if " / 8 " in line)


def test_each_host_is_one_line_at_depth_0(server, stead, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    can_site(server)
    out = stead("tree", "--depth", "0").out.splitlines()
    assert [line.split()[0] for line in out[:3]] == ["host", "host", "pool"]
    assert "8 / 32  25 %" in out[1]
    assert "1 GiB / 128 GiB   0 %" in out[1]
    assert out[4].startswith("all 2 trees")


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("MEMORY_MB", 0, "0"),
        ("MEMORY_MB", 1, "1 MiB"),
        ("MEMORY_MB", 1023, "1,023 MiB"),
        ("MEMORY_MB", 1024, "1 GiB"),
        ("MEMORY_MB", 1500, "1.46 GiB"),
        ("MEMORY_MB", 65024, "63.5 GiB"),
        ("MEMORY_MB", 262_144_000, "250 TiB"),
        ("DISK_GB", 100, "100 GiB"),
        ("DISK_GB", 40_000, "39.1 TiB"),
        ("CUSTOM_HBM_GB", 2048, "2 TiB"),
        ("VCPU", 1024, "1,024"),
        ("MEMORY_MB", -512, "-512 MiB"),
    ],
)
def test_memory_and_disk_have_units(name, amount, text):
    assert amount_text(name, amount) == text


def test_an_empty_site_says_so():
    assert lines([]) == ["no resource providers"]


@pytest.mark.parametrize(
    ("inventory", "used", "percent"),
    [
        ({"total": 4, "reserved": 4}, 0, "– %"),
        ({"total": 4, "allocation_ratio": 0.5}, 3, "150 %"),
        ({"total": 3}, 2, "66 %"),
    ],
)
def test_the_percentage_is_of_the_capacity_and_never_rounded_up(inventory, used, percent):
    (top,) = forest_of(host=None)
    top.inventories = {"VCPU": {**UNLIMITED, **inventory}}
    top.usages = {"VCPU": used}
    assert f" {percent}" in lines([top])[0]


def test_a_cut_forest_counts_what_it_hides():
    tops = site()
    prune(tops, 1)
    assert {provider.name: provider.hidden for provider in walk(tops)} == {"host": 0, "numa0": 1, "numa1": 0, "pool": 0}
    assert lines(tops)[1].startswith("├── numa0 +1 below ")


def test_the_command_draws_what_the_server_has(server, stead):
    can_site(server)
    ran = stead("tree")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == lines(site(), PIPE_WIDTH)


def test_the_command_nests_json(server, stead):
    can_site(server)
    ran = stead("tree", "host", "--json")
    (host,) = ran.json["roots"]
    assert [child["name"] for child in host["children"]] == ["numa0", "numa1"]
    assert host["children"][0]["inventories"]["PCPU"] == {**UNLIMITED, "total": 16, "capacity": 16, "used": 8}
    assert host["children"][0]["children"][0]["uuid"] == "uuid-of-nic"
    assert (host["generation"], host["aggregates"], host["traits"]) == (
        7,
        [AGGREGATE],
        ["COMPUTE_NODE", "CUSTOM_RACK_A"],
    )


def test_only_the_tree_that_is_shown_is_asked_for(server, stead):
    can_site(server)
    assert stead("tree", "host", "--depth", "0").code == 0
    asked = {call.split("/")[2] for call in server.calls() if "/uuid-of-" in call}
    assert asked == {"uuid-of-host", "uuid-of-numa0", "uuid-of-numa1", "uuid-of-nic"}


def test_an_unknown_root_is_a_no(server, stead):
    can_site(server)
    server.can("GET /resource_providers?name=nowhere", {"resource_providers": []})
    server.refuse("GET /resource_providers?limit=1000", 400, "Invalid query string parameters")
    ran = stead("tree", "nowhere")
    assert (ran.code, ran.out, ran.err) == (1, "", "stead: no resource provider 'nowhere'\n")


def test_a_provider_deleted_meanwhile_is_shown_as_such(server, stead):
    can_site(server)
    server.answers["GET /resource_providers/uuid-of-pool/traits"].clear()
    ran = stead("tree", "pool")
    assert ran.code == 0
    assert ran.out.startswith("pool just deleted")


def test_a_refusal_half_way_ends_the_command(server, stead):
    can_site(server)
    server.answers["GET /resource_providers/uuid-of-nic/traits"].clear()
    server.refuse("GET /resource_providers/uuid-of-nic/traits", 403, "Policy does not allow it")
    ran = stead("tree")
    assert (ran.code, ran.out, ran.err) == (2, "", "stead: Policy does not allow it (403)\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_slow_site_shows_its_progress_on_a_terminal_and_never_on_stdout(server, stead, monkeypatch, is_terminal):
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    records = [record(f"host-{number}") for number in range(60)]
    server.can("GET /resource_providers", {"resource_providers": [listing(each, each) for each in records]})
    for listed in records:
        path = f"GET /resource_providers/{listed.uuid}"
        for part, empty in (("inventories", {}), ("traits", []), ("aggregates", [])):
            server.can(f"{path}/{part}", {part: empty, "resource_provider_generation": 0})
    server.seconds["GET /resource_providers"] = 0.6
    ran = stead("tree", "--json")
    assert [top["name"] for top in ran.json["roots"]] == [f"host-{number}" for number in range(60)]
    assert ("reading providers" in ran.err) == is_terminal
    assert is_terminal or ran.err == ""
