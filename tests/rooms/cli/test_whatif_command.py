"""``stead whatif``: the answers of a real server, and what cannot be asked."""

import json

import pytest
from rich.cells import cell_len

from stead.cli import arguments
from stead.cli.app import run
from stead.cli.errors import CommandError
from stead.cli.what_if import draw_plan, draw_totals
from stead.client.provider import Place, Total
from stead.client.what_if import WhatIf
from tests.servers.placements import stead_itself

pytestmark = pytest.mark.one_database

RACK = "aaaaaaaa-0000-4000-8000-000000000001"
SITE = f"""
providers:
- {{name: "host:1", inventories: {{VCPU: 8, DISK_GB: 100}}, aggregates: [{RACK}]}}
- {{name: host-2, inventories: {{VCPU: 8, DISK_GB: 100}}, traits: [HW_CPU_X86_AVX2]}}
- {{name: other, inventories: {{VCPU: 4}}}}
"""
QUERY = "resources=VCPU:1"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    directory = tmp_path_factory.mktemp("whatif")
    with stead_itself(directory) as (url, token):
        asking = ["--url", url, "--token", token]
        (directory / "site.yaml").write_text(SITE)
        assert run([*asking, "topology", "apply", str(directory / "site.yaml")]) == 0
        claim = ["claim", "resources=VCPU:3&in_tree=name:host-2", "--project", "p", "--user", "u"]
        assert run([*asking, *claim, "--consumer-name", "vm"]) == 0
        assert run([*asking, "flavors", "set", "m1.two", "resources=VCPU:2"]) == 0
        yield url, token


@pytest.fixture
def stead_whatif(address, capsys, monkeypatch):
    url, token = address
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        capsys.readouterr()
        code = run(["--url", url, "--token", token, "whatif", *arguments])
        out, err = capsys.readouterr()
        return code, "\n".join(line.rstrip() for line in out.splitlines()) + "\n" if out else "", err

    return call


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ([], 17),
        (["--disable", "host:1"], 9),
        (["--disable", "host:1", "--disable", "other"], 5),
        (["--copy", "host:1=2"], 33),
        (["--ratio", "VCPU=2"], 37),
        (["--ratio", "host:1:VCPU=2"], 25),
        (["--ratio", "host*:VCPU=2"], 33),
        (["--ratio", "VCPU=2", "--reserved", "host-2:VCPU=1"], 35),
        (["--total", "other:VCPU=6"], 19),
        (["--remove-inventory", "host:1:VCPU"], 9),
        (["--drain", "host-2"], 9),
        (["--drain", "host-2", "--same-traits"], 12),
        (["--drain", "host-2", "--same-aggregates"], 12),
    ],
)
def test_the_headroom_after_changes(stead_whatif, changes, fits):
    code, out, err = stead_whatif(*changes, "--json", "--", "headroom", QUERY)
    assert (code, err) == (0, "")
    assert json.loads(out)["headroom"]["at_least"] == fits


@pytest.mark.parametrize(
    ("changes", "query", "fits"),
    [
        (["--add-trait", "other:HW_CPU_X86_AVX2"], f"{QUERY}&required=HW_CPU_X86_AVX2", 9),
        (["--remove-trait", "host-2:HW_CPU_X86_AVX2"], f"{QUERY}&required=HW_CPU_X86_AVX2", 0),
        (["--delete-aggregate", RACK], f"{QUERY}&member_of={RACK}", 0),
        (["--total", "other:DISK_GB=7"], "resources=DISK_GB:1", 207),
    ],
)
def test_the_headroom_after_other_changes(stead_whatif, changes, query, fits):
    out = stead_whatif(*changes, "--json", "--", "headroom", query)[1]
    assert json.loads(out)["headroom"]["at_least"] == fits


DRAINED = """\
1 consumer moves (`stead plan drain` lists them)

Fits 4 times in 2 trees.

  host:1         2  ████████████
  other          2  ████████████

Runs out first
  2 trees: VCPU

Left over when full
  1 VCPU

Now: fits 8 times in 3 trees.
"""


def test_a_headroom_is_drawn_beside_that_of_now(stead_whatif):
    code, out, err = stead_whatif("--drain", "host-2", "--flavor", "m1.two", "--", "headroom")
    assert (code, err) == (0, "")
    assert out == DRAINED
    assert "Now:" not in stead_whatif("headroom", QUERY)[1]


TOTALS = """\
class    capacity now  capacity then  used  free then
VCPU               20             40     3         37
DISK_GB       200 GiB        200 GiB     0    200 GiB
"""


def test_without_a_question_the_sums_are_shown(stead_whatif):
    assert stead_whatif("--ratio", "VCPU=2")[1] == TOTALS
    assert stead_whatif("--ratio", "VCPU=2", "totals")[1] == TOTALS
    assert "40" not in stead_whatif()[1]


def test_candidates_and_explanations_are_those_of_the_planned_site(stead_whatif):
    code, out, _ = stead_whatif("--disable", "host:1", "--", "candidates", "resources=VCPU:5")
    assert code == 0
    assert "host-2" in out
    assert "host:1" not in out
    away = ["--disable", "host:1", "--disable", "host-2"]
    assert stead_whatif(*away, "--", "candidates", "resources=VCPU:5") == (
        1,
        "",
        "stead: nothing fits; `stead whatif` with the question explain says why\n",
    )
    assert "2 are disabled only (host-2, host:1)" in stead_whatif(*away, "--", "explain", "resources=VCPU:5")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["headroom"], "give a QUERY, --flavor, or both"),
        (["totals", QUERY], "totals has no query"),
        (["--flavor", "m1.two"], "totals has no query"),
        (["--ratio", "VCPU"], "--ratio VCPU: expected CLASS=NUMBER or PROVIDER:CLASS=NUMBER"),
        (["--reserved", "VCPU=x"], "--reserved VCPU=x: 'x' is not a number"),
        (["--total", f"VCPU={10**21}"], f"--total VCPU={10**21}: '{10**21}' is out of range"),
        (["--ratio", "VCPU=nan"], "--ratio VCPU=nan: 'nan' is out of range"),
        (["--ratio", "VCPU=1e400"], "--ratio VCPU=1e400: '1e400' is out of range"),
        (["--copy", "other"], "--copy other: expected HOST=COUNT"),
        (["--add-trait", "CUSTOM_A"], "--add-trait CUSTOM_A: expected PROVIDER:TRAIT"),
        (["--ratio", "VGPU=2"], "no provider has VGPU"),
        (["--ratio", "host*:VGPU=2"], "no provider host* has VGPU"),
        (["--delete-aggregate", "rack"], "'rack' is no uuid of an aggregate"),
        (["--drain", "host-2", "--disable", "host-2"], "changes[1].provider: "),
    ],
)
def test_what_cannot_be_asked_is_refused(stead_whatif, arguments, words):
    code, out, err = stead_whatif(*arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_a_provider_that_does_not_exist_is_answered_with_the_one_that_is_like_it(stead_whatif):
    refused = (1, "", "stead: no resource provider 'host-3'. Did you mean host-2?\n")
    assert stead_whatif("--disable", "host-3") == stead_whatif("--total", "host-3:VCPU=1") == refused


def test_more_inventories_than_a_request_can_change_are_refused(server, stead):
    tree = {"uuid": "u", "generation": 1, "usages": {}, "traits": [], "aggregates": []}
    providers = [
        {
            **tree,
            "uuid": f"u{number}",
            "name": f"n{number}",
            "parent_provider_uuid": None,
            "inventories": {"VCPU": {"total": 1}},
        }
        for number in range(1001)
    ]
    trees = [{"root_provider_uuid": each["uuid"], "providers": [each]} for each in providers]
    server.can("GET /provider_trees", {"provider_trees": trees, "provider_count": 1001, "links": []})
    ran = stead("whatif", "--ratio", "VCPU=2")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "stead: 1,001 inventories would change; a request can change 1,000\n"


def test_a_server_without_what_ifs_is_told(server, stead):
    server.refuse("POST /whatif", 404, "The resource could not be found.")
    ran = stead("whatif")
    assert (ran.code, ran.err) == (
        2,
        "stead: the server has no POST /whatif; this command requires Stead with `stead 1.1`\n",
    )


@pytest.mark.parametrize("text", ["", "VCPU", "=3", "VCPU=", ":VCPU=3", "host:=3"])
def test_text_that_is_no_inventory_is_refused(text):
    with pytest.raises(CommandError):
        arguments.inventory("--total", "total", text)


def both(planned):
    return planned.moves, planned.without_place


def plan(moves, stuck):
    def part(number):
        return {
            "consumer_uuid": f"{number:032x}",
            "consumer_generation": 1,
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "X",
            "from": {"a": {"resources": {"VCPU": 4, "CUSTOM_" + "N" * 200: number}}, "pool": {"resources": {"D": 1}}},
            "allocations": {"b": {"resources": {"VCPU": 4}}, "pool": {"resources": {"D": 1}}},
            "gave_up": bool(number % 2),
        }

    return WhatIf({"moves": [part(number) for number in moves], "without_place": [part(number) for number in stuck]})


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_is_longer_than_the_terminal(width):
    places = {"a": Place("a", "host-" + "a" * 90), "b": Place("b", "計算ノード" * 20)}
    totals = {"CUSTOM_" + "N" * 200: Total(2**31, 0, 2**31, 1)}
    for lines in (draw_plan(*both(plan(range(1, 12), [1, 2])), places, width), draw_totals({}, totals, width)):
        assert max(cell_len(line.plain) for line in lines) <= width


def test_what_stays_where_it_is_is_no_part_of_a_move():
    lines = [line.plain for line in draw_plan(*both(plan([1], [])), {"pool": Place("pool", "pool")}, 200)]
    assert "a → b: " in lines[1]
    assert "pool" not in lines[1]
