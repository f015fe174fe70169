"""``stead tree`` of sites of 8 and of 1,000 hosts: trees or a summary, at every usual width, and on a real server."""

import json

import pytest
from rich.cells import cell_len

from stead.cli.app import run
from stead.cli.forest import Amount, Provider, folded, group_trees
from stead.cli.tree import draw_summary, summary_as_json
from tests.servers.placements import stead_itself

WIDTHS = [80, 120, 200]


def roots(hosts=1000):
    """Hosts of two kinds and one that is disabled, each with the sums of its tree."""
    tops = []
    for number in range(1, hosts + 1):
        has_gpus = number % 10 == 0
        top = Provider(f"uuid-{number}", f"compute-{number:04}", None, hidden=19 if has_gpus else 7)
        top.sums = {
            "MEMORY_MB": Amount(262144, 1024 * (number % 3), 512),
            "PCPU": Amount(64, 8),
            "CUSTOM_NET_BANDWIDTH_KILOBITS_PER_SECOND": Amount(10**8, 0),
        }
        if has_gpus:
            top.sums["PGPU"] = Amount(8, 6)
        tops.append(top)
    tops[0].traits = ["COMPUTE_STATUS_DISABLED"]
    return tops


def summary(width, tops=None, order=None):
    return [line.plain for line in draw_summary(tops or roots(), order, width)]


def test_the_summary_of_a_thousand_hosts_on_a_narrow_terminal():
    assert summary(80)[:5] == [
        "trees  names                        providers     state  PCPU  MEMORY_MB  PGPU",
        "  899  compute-0002 … compute-0999          8   enabled  12 %        0 %     –",
        "  100  compute-0010 … compute-1000         20   enabled  12 %        0 %  75 %",
        "    1  compute-0001                         8  disabled  12 %        0 %     –",
        "not shown for want of width: CUSTOM_NET_BANDWIDTH_KILOBITS_PER_SECOND",
    ]


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("hosts", [8, 1000])
def test_no_line_of_a_summary_is_longer_than_the_terminal(width, hosts):
    assert [line for line in summary(width, roots(hosts)) if cell_len(line) > width] == []


def test_a_wide_terminal_has_amounts_and_every_class():
    heading, first = summary(200)[:2]
    assert "CUSTOM_N…_SECOND" in heading
    assert "7,192 / 57,536" in first


def test_each_tree_is_in_one_group_and_the_sums_of_the_groups_are_those_of_the_site():
    told = summary_as_json(roots(), None)
    assert sum(group["trees"] for group in told["groups"]) == told["trees"] == 1000
    assert sorted(name for group in told["groups"] for name in group["names"]) == sorted(top.name for top in roots())
    assert sum(group["sums"]["PCPU"]["used"] for group in told["groups"]) == told["totals"]["PCPU"]["used"] == 8000


def test_groups_are_sorted_by_size_or_by_their_fullest_class():
    assert [len(group.names) for group in group_trees(roots())] == [899, 100, 1]
    assert len(group_trees(roots(), "used")[0].names) == 100
    assert len(group_trees(roots(), "free")[-1].names) == 100


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["a"], "a"),
        ([f"n{number}" for number in range(1, 21)], "n[1-20]"),
        ([f"n{number:03}" for number in (1, 2, 3, 5, 7, 8)], "n[001-003,005,007-008]"),
        (["n01", "n1"], "n[01,1]"),
        (["rack1-host1", "rack1-host2", "rack2-host1"], "rack1-host[1-2],rack2-host1"),
        (["a.site", "b.site"], "a.site,b.site"),
        ([], ""),
    ],
)
def test_names_are_folded_into_ranges(names, shown):
    assert folded(names, 100) == shown


@pytest.mark.parametrize("width", range(1, 60))
def test_folded_names_fit_at_every_width(width):
    for names in ([f"host-{n:05}.example" for n in range(9)], ["x" * 80, "y" * 80], ["計算ノード１", "計算ノード２"]):
        assert cell_len(folded(names, width)) <= width


# A real server.


def site_file(directory, hosts):
    rows = [
        f"- name: host-{number:04}\n  inventories: {{VCPU: {8 if number % 4 else 16}, MEMORY_MB: 4096}}\n"
        f"  traits: [{'HW_CPU_X86_AVX2' if number % 2 else 'COMPUTE_NODE'}]\n"
        + (f"  children: [{{name: host-{number:04}-gpu, inventories: {{PGPU: 2}}}}]\n" if number == 4 else "")
        for number in range(1, hosts + 1)
    ]
    (directory / "site.yaml").write_text("providers:\n" + "".join(rows))
    return str(directory / "site.yaml")


@pytest.fixture(scope="module", params=[8, 60])
def site(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    with stead_itself(directory) as (url, token):
        assert run(["--url", url, "--token", token, "topology", "apply", site_file(directory, request.param)]) == 0
        yield url, token, request.param


@pytest.fixture
def stead(site, capsys):
    url, token, _ = site

    def call(*arguments):
        capsys.readouterr()
        code = run(["--url", url, "--token", token, *arguments])
        return code, *capsys.readouterr()

    return call


def names_in(answer):
    return [top["name"] for top in json.loads(answer[1])["roots"]]


def test_a_site_is_drawn_whole_up_to_fifty_trees_and_above_only_on_request(site, stead):
    hosts = site[2]
    assert ("host-0001 " in stead("tree")[1]) == (hosts == 8)
    assert stead("tree")[1].startswith("trees  names") == (hosts == 60)
    assert stead("tree", "--summary")[1].startswith("trees  names")
    for arguments in (("--all",), ("--depth", "0")):
        out = stead("tree", *arguments)[1]
        assert "host-0001 " in out
        assert f"host-{hosts:04} " in out
    assert len(names_in(stead("tree", "--json"))) == hosts


def test_trees_are_filtered_by_name_trait_and_aggregate(stead):
    assert names_in(stead("tree", "--filter", "host-000[12]", "--json")) == ["host-0001", "host-0002"]
    assert names_in(stead("tree", "--filter", "*-gpu", "--json")) == ["host-0004"]
    assert names_in(stead("tree", "host-000*", "--filter", "*-gpu", "--json")) == ["host-0004"]
    assert names_in(stead("tree", "--trait", "HW_CPU_X86_AVX2", "--filter", "host-000*", "--json"))[:2] == [
        "host-0001",
        "host-0003",
    ]
    assert names_in(stead("tree", "--aggregate", "d004302c-7a16-4304-9958-993c19403760", "--json")) == []


def test_a_provider_is_shown_by_its_name_alone_and_a_tree_at_a_depth_with_its_sums(stead):
    (gpu,) = json.loads(stead("tree", "host-0004-gpu", "--json")[1])["roots"]
    assert gpu["name"] == "host-0004-gpu"
    for arguments in (("host-0004",), ("host-0004*",)):
        (host,) = json.loads(stead("tree", *arguments, "--depth", "0", "--json")[1])["roots"]
        assert host["hidden"] == 1
        assert host["sums"]["PGPU"] == {"capacity": 2, "used": 0, "reserved": 0}
        (host,) = json.loads(stead("tree", *arguments, "--depth", "1", "--json")[1])["roots"]
        assert [child["name"] for child in host["children"]] == ["host-0004-gpu"]


def test_an_unknown_name_or_trait_is_answered_with_the_one_that_is_like_it(stead):
    assert stead("tree", "hots-0001") == (1, "", "stead: no resource provider 'hots-0001'. Did you mean host-0001?\n")
    code, _, err = stead("tree", "--trait", "HW_CPU_X86_AVX22")
    assert code == 2
    assert err.endswith("Did you mean HW_CPU_X86_AVX2?\n")
    assert "Did you mean" not in stead("tree", "nothing-like-it")[2]
