"""``stead provider``: one provider shown and changed, on a real server, and drawn at every usual width."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from stead.cli.app import run
from stead.cli.arguments import changed
from stead.cli.errors import CommandError
from stead.cli.provider import draw_provider
from tests.rooms.cli.test_line_widths import awkward_forest
from tests.rooms.cli.test_tree_command import site as small_site
from tests.servers.placements import other_placement, stead_itself

pytestmark = pytest.mark.one_database

AGGREGATE = "d004302c-7a16-4304-9958-993c19403760"
CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with stead_itself(tmp_path_factory.mktemp("provider")) as (url, token):
        yield url, token


@pytest.fixture
def stead(address, capsys):
    url, token = address

    def call(*arguments):
        code = run(["--url", url, "--token", token, *arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def host(stead, request):
    """A host with a NUMA node below it, named after the test."""
    name = f"host-{abs(hash(request.node.name))}"
    assert stead("provider", "create", name, "--inventory", "VCPU=8", "--trait", "HW_CPU_X86_AVX2")[0] == 0
    assert stead("provider", "create", f"{name}-numa", "--below", name, "--inventory", "MEMORY_MB=4096")[0] == 0
    return name


def shown(stead, name):
    code, out, err = stead("provider", "show", name, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def claim(stead, name, query="resources=VCPU:2"):
    query = f"{query}&in_tree={shown(stead, name)['uuid']}"
    return stead("claim", query, "--project", "p", "--user", "u", "--consumer", CONSUMER)


def test_a_provider_is_created_with_everything_and_shown_on_one_page(stead, host):
    provider = shown(stead, host)
    assert (provider["name"], provider["traits"]) == (host, ["HW_CPU_X86_AVX2"])
    assert provider["inventories"]["VCPU"]["capacity"] == 8
    assert shown(stead, f"{host}-numa")["path"] == [host, f"{host}-numa"]
    assert claim(stead, host)[0] == 0
    assert shown(stead, host)["consumers"] == {CONSUMER: {"resources": {"VCPU": 2}}}
    page = stead("provider", "show", provider["uuid"])[1]
    for text in (host, provider["uuid"], "HW_CPU_X86_AVX2", "VCPU", CONSUMER, "2 VCPU", f"{host}-numa", "enabled"):
        assert text in page
    stead("release", CONSUMER)


def test_everything_that_is_given_is_changed_at_once_and_the_rest_stays(stead, host):
    code, out, _ = stead(
        *("provider", "set", host, "--inventory", "VCPU:allocation_ratio=4", "--inventory", "DISK_GB=100"),
        *("--trait", "CUSTOM_RACK_A", "--remove-trait", "HW_CPU_X86_AVX2", "--aggregate", AGGREGATE),
    )
    assert code == 0
    assert f"{host}: VCPU allocation_ratio 1 -> 4, capacity 8 -> 32" in out
    provider = shown(stead, host)
    assert (provider["traits"], provider["aggregates"]) == (["CUSTOM_RACK_A"], [AGGREGATE])
    assert {name: record["capacity"] for name, record in provider["inventories"].items()} == {
        "VCPU": 32,
        "DISK_GB": 100,
    }
    assert stead("provider", "set", host, "--remove-inventory", "DISK_GB", "--remove-aggregate", AGGREGATE)[0] == 0
    assert stead("provider", "set", host, "--name", f"{host}-new")[0] == 0
    provider = shown(stead, f"{host}-new")
    assert (list(provider["inventories"]), provider["aggregates"]) == (["VCPU"], [])


@pytest.mark.parametrize(
    "change",
    [
        ("set", "--inventory", "VCPU=16", "--name", "other"),
        ("move", "--below", "elsewhere"),
        ("delete", "--recursive"),
        ("disable", "--reason", "a test"),
        ("enable",),
    ],
    ids=lambda change: change[0],
)
def test_a_dry_run_changes_nothing(stead, host, change):
    stead("provider", "create", "elsewhere")
    before = shown(stead, host)
    for arguments in ((), ("--json",)):
        code, out, err = stead("provider", change[0], host, *change[1:], "--dry-run", *arguments)
        assert (code, err) == (0, "")
        assert out
    assert shown(stead, host) == before
    code, out, _ = stead("provider", "create", f"{host}-2", "--dry-run")
    assert (code, out.splitlines()[0]) == (0, f"create provider {host}-2")
    assert stead("provider", "show", f"{host}-2")[0] == 1


def test_a_provider_is_moved_below_another_and_to_the_top(stead, host):
    numa = f"{host}-numa"
    stead("provider", "create", f"{host}-other")
    assert stead("provider", "move", numa, "--below", f"{host}-other")[1] == (
        f"move {numa} from below {host} to below {host}-other\n"
    )
    assert shown(stead, numa)["path"] == [f"{host}-other", numa]
    assert stead("provider", "move", numa, "--root")[1] == f"move {numa} from below {host}-other to the top\n"
    assert stead("provider", "move", numa, "--root")[1] == "nothing to change\n"
    assert stead("provider", "move", numa)[0] == stead("provider", "move", numa, "--root", "--below", host)[0] == 2
    assert stead("provider", "move", numa, "--below", f"{host}-othr")[2].endswith(f"Did you mean {host}-other?\n")


def states(stead, pattern):
    code, out, err = stead("provider", "list", pattern, "--json")
    assert (code, err) == (0, "")
    return {each["name"]: each["disabled"] for each in json.loads(out)["providers"]}


@pytest.fixture
def rack(stead):
    """Three hosts, each with a node below it, of which the last two are in an aggregate."""
    for number in range(3):
        inside = ["--aggregate", AGGREGATE, "--trait", "CUSTOM_RACK"] if number else []
        name = f"rack-{number}"
        if stead("provider", "show", name)[0]:
            stead("provider", "create", name, "--inventory", "VCPU=8", *inside)
            stead("provider", "create", f"{name}-numa", "--below", name, "--inventory", "PCPU=8", *inside)
    yield
    assert stead("provider", "enable", "rack-*", "--yes")[0] == 0


@pytest.mark.parametrize(
    ("selected", "disabled"),
    [
        (["rack-0", "rack-2"], {0, 2}),
        (["rack-[12]"], {1, 2}),
        (["rack-*"], {0, 1, 2}),
        (["--aggregate", AGGREGATE], {1, 2}),
        (["--trait", "CUSTOM_RACK", "rack-1*"], {1}),
        (["rack-0", "rack-0*"], {0}),
    ],
)
def test_several_providers_are_disabled_at_once(stead, rack, selected, disabled):
    code, out, err = stead("provider", "disable", *selected, "--reason", "r", "--dry-run")
    assert (code, err) == (0, "")
    assert out == "".join(f"would be disabled: rack-{number} and 1 below it\n" for number in sorted(disabled))
    refused = stead("provider", "disable", *selected, "--reason", "r")
    assert refused[:2] == (2, "")
    assert refused[2].startswith("stead: changing several providers without a terminal requires --yes")
    assert not any(states(stead, "rack-?").values())
    code, out, err = stead("provider", "disable", *selected, "--reason", "r", "--yes")
    assert (code, out.count("\n"), err) == (0, len(disabled), "")
    assert states(stead, "rack-?") == {f"rack-{number}": number in disabled for number in range(3)}
    told = json.loads(stead("provider", "enable", *selected, "--yes", "--json")[1])
    assert {each["name"] for each in told["providers"]} == {f"rack-{number}" for number in disabled}
    assert told["failed"] == []


@pytest.mark.parametrize(
    ("selected", "code", "reason"),
    [
        ([], 2, "give a PROVIDER, --trait or --aggregate"),
        (["rack-0", "rack-x"], 1, "no resource provider 'rack-x'"),
        (["none-*"], 1, "no resource provider matches 'none-*'"),
        (["rack-0", "--trait", "CUSTOM_RACK"], 1, "no resource provider matches 'rack-0'"),
    ],
)
def test_a_selection_that_misses_changes_nothing(stead, rack, selected, code, reason):
    ran = stead("provider", "disable", *selected, "--reason", "r", "--yes")
    assert ran[:2] == (code, "")
    assert ran[2].startswith(f"stead: {reason}")
    assert not any(states(stead, "rack-?").values())


def test_a_disabled_provider_says_why_gives_nothing_and_gives_again_when_it_is_enabled(stead, host):
    query = f"resources=VCPU:1&in_tree={shown(stead, host)['uuid']}"
    reason = ("--reason", "new memory", "--until", "2131-01-01T00:00:00Z")
    code, out, err = stead("provider", "disable", host, *reason)
    assert (code, out, err) == (0, f"disabled: {host} and 1 below it\n", "")
    provider = shown(stead, host)
    assert (provider["disabled"]["reason"], provider["disabled"]["until"]) == ("new memory", "2131-01-01T00:00:00Z")
    assert "disabled: new memory, until 2131-01-01T00:00:00Z" in stead("provider", "show", host)[1]
    assert f"{host} disabled" in stead("tree", host)[1]
    assert stead("candidates", query)[0] == 1
    assert stead("provider", "enable", host)[0] == 0
    assert "disabled" not in shown(stead, host)
    assert stead("candidates", query)[0] == 0
    for dry_run in ((), ("--dry-run",)):
        code, _, err = stead("provider", "disable", host, "--reason", "x", "--until", "soon", *dry_run)
        assert code == 2
        assert err.startswith("stead: --until: 'soon' is not a span such as 90s, 30m, 12h or 7d, or a time with a zone")
    assert stead("provider", "disable", host, "--reason", "x", "--until", "12h")[0] == 0
    until = datetime.fromisoformat(shown(stead, host)["disabled"]["until"])
    assert timedelta(hours=11) < until - datetime.now(UTC) <= timedelta(hours=12)
    assert stead("provider", "enable", host)[0] == 0


def test_a_provider_with_children_or_allocations_is_deleted_only_on_request_or_not_at_all(stead, host):
    assert stead("provider", "delete", host)[0] == 1
    claim(stead, host)
    code, _, err = stead("provider", "delete", host, "--recursive")
    assert (code, err) == (1, f"stead: allocations exist from {host}; `stead who {host}` lists them\n")
    stead("release", CONSUMER)
    assert stead("provider", "delete", host, "--recursive")[1] == f"deleted {host}-numa\ndeleted {host}\n"
    assert stead("provider", "show", host)[0] == 1


def test_a_capacity_below_its_use_is_refused_unless_it_is_allowed(stead, host):
    claim(stead, host)
    code, out, _ = stead("provider", "set", host, "--inventory", "VCPU=1", "--dry-run")
    assert code == 1
    assert f"over-committed: VCPU of {host}: 2 used, capacity 1" in out
    assert stead("provider", "set", host, "--inventory", "VCPU=1")[0] == 1
    assert shown(stead, host)["inventories"]["VCPU"]["total"] == 8
    assert stead("provider", "set", host, "--inventory", "VCPU=1", "--allow-overcommit")[0] == 0
    assert shown(stead, host)["inventories"]["VCPU"]["total"] == 1
    stead("release", CONSUMER)


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--trait", "HW_CPU_X86_AVX22"), 2, "Did you mean HW_CPU_X86_AVX2?"),
        (("--inventory", "VCPUS=1"), 2, "VCPUS"),
        (("--inventory", "VCPU"), 2, "expected CLASS=TOTAL"),
        (("--inventory", "VCPU=many"), 2, "total must be a number, not 'many'"),
        (("--inventory", "VCPU:totl=1"), 2, "Did you mean total?"),
        (("--inventory", "PGPU:reserved=1"), 2, "a new inventory needs a total"),
        (("--remove-inventory", "VCPUS"), 2, "Did you mean VCPU?"),
        (("--remove-trait", "HW_CPU_X86_AVX"), 2, "Did you mean HW_CPU_X86_AVX2?"),
        ((), 2, "nothing to change"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason_and_nothing_is_changed(stead, host, arguments, code, reason):
    before = shown(stead, host)
    refused = stead("provider", "set", host, *arguments)
    assert (refused[0], refused[1]) == (code, "")
    assert reason in refused[2]
    assert shown(stead, host) == before


def test_a_name_that_exists_is_not_created_again(stead, host):
    assert stead("provider", "create", host)[:2] == (1, "")


def test_another_placement_service_shows_providers_and_says_that_it_cannot_change_them(tmp_path, capsys):
    with other_placement(tmp_path) as (url, token):
        (tmp_path / "site.yaml").write_text("providers: [{name: host, inventories: {VCPU: 8}}]")
        asking = ["--url", url, "--token", token]
        assert run([*asking, "topology", "apply", str(tmp_path / "site.yaml")]) == 0
        assert run([*asking, "provider", "show", "host"]) == 0
        assert "VCPU" in capsys.readouterr().out
        assert run([*asking, "provider", "set", "host", "--inventory", "VCPU=9"]) == 2
        assert "requires Stead" in capsys.readouterr().err


def test_fields_that_no_option_gives_stay():
    record = {"total": 8, "reserved": 1, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 2.0}
    after = changed({"VCPU": record, "PGPU": record}, ["VCPU=9", "DISK_GB:total=5,reserved=1"], ["PGPU"])
    assert after["VCPU"] == {**record, "total": 9}
    assert after["DISK_GB"]["reserved"] == 1
    assert "PGPU" not in after
    assert record["total"] == 8
    with pytest.raises(CommandError, match="no inventory of PGPU"):
        changed({}, [], ["PGPU"])


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_of_the_page_is_longer_than_the_terminal(width):
    for top in (*awkward_forest(), *small_site()):
        consumers = {f"{number:032x}": {"VCPU": 2, "MEMORY_MB": 10**6} for number in range(30)}
        drawn = [line.plain for line in draw_provider(top, ["a" * 50, top.name], consumers, width)]
        assert [line for line in drawn if cell_len(line) > width] == []
        assert any("10 more consumers" in line for line in drawn) or width == 40


def test_the_page_of_a_provider():
    provider = small_site()[0].children[0]
    provider.disabled = {"reason": "new memory", "until": "2031-01-01T00:00:00Z"}
    assert [line.plain for line in draw_provider(provider, ["host", "numa0"], {"c": {"PCPU": 8}}, 80)] == [
        "numa0",
        "uuid        uuid-of-numa0",
        "generation  0",
        "state       disabled: new memory, until 2031-01-01T00:00:00Z",
        "tree        host › numa0, 1 below",
        "children    nic",
        "",
        "inventory   total  reserved  ratio    min  max   step  capacity   used    free",
        "PCPU           16         0      1      1    –      1        16      8       8",
        "MEMORY_MB  64 GiB         0      1  1 MiB    –  1 MiB    64 GiB  1 GiB  63 GiB",
        "",
        "consumer  allocations",
        "c         8 PCPU",
    ]
