"""stead topology apply never leaves more allocated than an inventory can hold, unless it is told to."""

import json
import re
from dataclasses import asdict, fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from stead.cli.app import run
from stead.cli.sites import Overcommits, Watcher, apply_steps, rehearse
from stead.client.blocking.connecting import connect
from stead.domain.provider import Inventory
from stead.topology.document import load
from stead.topology.plan import InventoryChange, Overcommitted
from stead.topology.site import SiteError
from tests.rooms.cli.sites.server import Server
from tests.rooms.topology.sites import CLASSES, sites
from tests.servers.placements import other_placement, stead_itself

pytestmark = pytest.mark.timeout(900)  # the released service may have to be installed first


def site(vcpu="8", memory="1024"):
    return load(f"providers: [{{name: numa, inventories: {{VCPU: {vcpu}, MEMORY_MB: {memory}}}}}]")


def in_use(used=6):
    server = Server()
    apply_steps(server, site(), Watcher(), prune=False)
    server.allocate("numa", "VCPU", used)
    server.writes.clear()
    return server


LOWERED = {
    "total": "4",
    "reserved": "{total: 8, reserved: 3}",
    "allocation_ratio": "{total: 8, allocation_ratio: 0.5}",
    "all of it": "{total: 8, reserved: 8}",
    "several": "{total: 16, reserved: 10, allocation_ratio: 0.9}",
}
CAPACITIES = {"total": 4, "reserved": 5, "allocation_ratio": 4, "all of it": 0, "several": 5}


@pytest.mark.parametrize("what", LOWERED)
@pytest.mark.parametrize("prune", [False, True])
def test_an_inventory_is_not_lowered_below_its_use(what, prune):
    server = in_use()
    amounts = f"VCPU of provider numa: 6 used, capacity 8 -> {CAPACITIES[what]}; nothing was changed"
    with pytest.raises(Overcommits, match=re.escape(amounts)) as refused:
        apply_steps(server, site(LOWERED[what], memory="2048"), Watcher(), prune=prune)
    assert "--allow-overcommit" in str(refused.value)
    assert server.writes == []
    rehearsed = rehearse(server, site(LOWERED[what]), Watcher(), prune=prune)
    assert [str(inventory_change) in amounts for inventory_change in rehearsed.overcommitted] == [True]


@pytest.mark.parametrize("what", LOWERED)
def test_it_is_lowered_where_that_is_allowed_and_said(what):
    server = in_use()
    done = apply_steps(server, site(LOWERED[what]), Watcher(), prune=False, allow_overcommit=True)
    (overcommitted,) = done.overcommitted
    assert (overcommitted.provider, overcommitted.change.used) == ("numa", 6)
    assert overcommitted.change.after.capacity == CAPACITIES[what]
    assert asdict(overcommitted.change.after) == server.named("numa")["inventories"]["VCPU"]


@pytest.mark.parametrize("vcpu", ["6", "7", "100", "{total: 8, reserved: 2}", "{total: 3, allocation_ratio: 2.0}"])
def test_an_inventory_that_still_holds_what_is_used_is_lowered(vcpu):
    server = in_use()
    assert apply_steps(server, site(vcpu), Watcher(), prune=False).overcommitted == ()


def test_units_may_change_below_what_is_used_since_they_bind_new_claims_only():
    units = "{total: 8, max_unit: 2, min_unit: 2, step_size: 2}"
    assert len(apply_steps(in_use(), site(units), Watcher(), prune=False).steps) == 1


def test_an_inventory_that_the_plan_does_not_change_is_not_its_doing():
    server = in_use(used=9)
    assert len(apply_steps(server, site(memory="2048"), Watcher(), prune=True).steps) == 1


def test_an_inventory_that_grows_and_stays_too_small_is_refused():
    with pytest.raises(Overcommits, match="20 used, capacity 8 -> 10"):
        apply_steps(in_use(used=20), site("10"), Watcher(), prune=False)


def test_a_message_names_some_and_counts_the_rest():
    change = InventoryChange("VCPU", Inventory(8), Inventory(4), 6)
    text = str(Overcommits(tuple(Overcommitted(f"host{number}", change) for number in range(1000)), steps_done=3))
    assert "host4: 6 used" in text
    assert "host5" not in text
    assert "and 995 more; 3 steps are done" in text


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sites(), sites(), st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 2**40)), st.booleans())
def test_whatever_is_applied_no_changed_inventory_is_smaller_than_its_use(before, after, used, prune):
    server = Server()
    apply_steps(server, before, Watcher(), prune=True)
    for provider in server.providers.values():
        for name in provider["inventories"]:
            provider["usages"][name] = used.get(name, 0)
    said = {
        name: dict(provider["inventories"]) for provider in server.providers.values() for name in [provider["name"]]
    }
    server.writes.clear()
    try:
        apply_steps(server, after, Watcher(), prune=prune)
    except Overcommits:
        assert server.writes == []
        return
    except SiteError:  # the two together would close a loop
        return
    for provider in server.providers.values():
        for name, record in provider["inventories"].items():
            if record != said.get(provider["name"], {}).get(name):
                assert provider["usages"].get(name, 0) <= Inventory(**record).capacity


def test_use_that_grows_after_the_plan_stops_the_write():
    """What a claim changes, the provider's generation, is what the write shows."""
    server = in_use(used=2)

    def claim_once(server):
        server.interfere = lambda _server: None
        server.allocate("numa", "VCPU", 6)

    server.interfere = claim_once
    with pytest.raises(Overcommits, match="6 used, capacity 8 -> 4; nothing was changed"):
        apply_steps(server, site("4"), Watcher(), prune=False)
    assert server.named("numa")["inventories"]["VCPU"]["total"] == 8


@pytest.mark.parametrize("moment", ["inventories", "usages"])
def test_use_that_grows_while_the_provider_is_read_stops_the_write(moment):
    class Busy(Server):
        def get(self, path):
            said = super().get(path)
            if path.endswith(moment) and self.named("numa")["usages"].get("VCPU") == 2:
                self.allocate("numa", "VCPU", 6)
            return said

    server = Busy(**{name: getattr(in_use(used=2), name) for name in ("providers", "classes", "traits")})
    with pytest.raises(Overcommits, match="6 used, capacity 8 -> 4"):
        apply_steps(server, site("4"), Watcher(), prune=False)


def test_steps_that_were_done_before_the_use_grew_are_counted():
    server = in_use(used=2)

    def claim_at_the_second_write(server):
        if server.writes:
            server.interfere = lambda _server: None
            server.allocate("numa", "VCPU", 6)

    server.interfere = claim_at_the_second_write
    described = load("providers: [{name: new}, {name: numa, inventories: {VCPU: 4}}]")
    with pytest.raises(Overcommits, match="1 steps are done, the rest is not"):
        apply_steps(server, described, Watcher(), prune=False)


@pytest.mark.parametrize("name", [field.name for field in fields(Inventory)])
def test_a_change_shows_every_field_before_and_after(name):
    old = Inventory(total=64, reserved=1, min_unit=2, max_unit=32, step_size=2, allocation_ratio=2.0)
    value = getattr(old, name)
    new = Inventory(**{**asdict(old), name: value * 2})
    words = str(InventoryChange("VCPU", old, new, 12345))
    assert f"{name} {value} -> {value * 2}" in words
    assert "reserved 1" in words
    assert words.endswith(", 12,345 used")
    if name in ("total", "reserved", "allocation_ratio"):
        assert f"capacity {old.capacity} -> {new.capacity}" in words


def test_what_is_added_and_removed_is_shown_with_what_it_reserves():
    inventory = Inventory(total=4096, reserved=512)
    assert (
        str(InventoryChange("MEMORY_MB", None, inventory, 0)) == "+MEMORY_MB total 4,096, reserved 512, capacity 3,584"
    )
    assert (
        str(InventoryChange("MEMORY_MB", inventory, None, 0)) == "-MEMORY_MB total 4,096, reserved 512, capacity 3,584"
    )
    assert str(InventoryChange("VCPU", Inventory(8), Inventory(9), 0)) == "VCPU total 8 -> 9"


# The same with servers

CONSUMER = "2f0f2d34-6d6d-4f3c-9d6e-0a1b2c3d4e5f"
FILE = "providers: [{{name: numa, inventories: {{VCPU: {vcpu}, MEMORY_MB: 1024}}}}]"


@pytest.fixture(scope="module", params=[stead_itself, other_placement], ids=["stead", "released"])
def server(request, tmp_path_factory):
    """The URL and a token of a server."""
    with request.param(tmp_path_factory.mktemp("server")) as (url, token):
        yield url, token


@pytest.fixture
def stead(server, tmp_path, capsys, monkeypatch):
    """``stead.apply("4", "--dry-run")`` on a server where 6 of 8 VCPU are used."""
    for name in ("COLUMNS", "STEAD_URL", "STEAD_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    url, token = server

    def call(*arguments):
        code = run(["--url", url, "--token", token, *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    def apply_(vcpu, *arguments):
        (tmp_path / "site.yaml").write_text(FILE.format(vcpu=vcpu))
        return call("topology", "apply", str(tmp_path / "site.yaml"), *arguments)

    def claim(amount):
        owner = ("--consumer", CONSUMER, "--project", "p", "--user", "u", "--replace")
        assert call("claim", f"resources=VCPU:{amount}", *owner)[0] == 0

    call.apply, call.claim, call.server = apply_, claim, (url, token)
    call("release", CONSUMER)  # what the test before left
    assert apply_("8")[0] == 0
    claim(6)
    return call


@pytest.mark.one_database
def test_the_command_refuses_and_changes_nothing(stead):
    refusal = "stead: more is used than the site leaves: VCPU of provider numa: 6 used, capacity 8 -> 3; nothing was"
    lowered = "{total: 5, reserved: 2}"
    change = "  VCPU total 8 -> 5, reserved 0 -> 2, capacity 8 -> 3, 6 used"
    code, out, err = stead.apply(lowered)
    assert (code, out) == (2, "")
    assert err.startswith(refusal)
    code, out, err = stead.apply(lowered, "--dry-run")
    assert out.splitlines()[:2] == ["set inventories of numa:", change]
    assert code == 2
    assert err.startswith(refusal)
    assert "6 / 8 " in stead("tree")[1]
    code, out, err = stead.apply(lowered, "--dry-run", "--json")
    (step,) = json.loads(out)["steps"]
    (vcpu,) = step["inventories"]
    assert (code, vcpu["resource_class"], vcpu["used"]) == (2, "VCPU", 6)
    assert (vcpu["before"]["reserved"], vcpu["after"]["reserved"]) == (0, 2)
    assert (vcpu["before"]["capacity"], vcpu["after"]["capacity"]) == (8, 3)
    assert json.loads(out)["overcommitted"] == [{"provider": "numa", **vcpu}]


@pytest.mark.one_database
def test_the_command_obeys_who_allows_it(stead):
    assert stead.apply("4", "--dry-run", "--allow-overcommit")[0] == 0
    code, out, err = stead.apply("4", "--allow-overcommit")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "over-committed: VCPU of provider numa: 6 used, capacity 8 -> 4"
    assert "6 / 4 " in stead("tree")[1]
    assert stead.apply("4")[0] == 0  # which changes nothing
    assert stead.apply("6")[0] == 0


@pytest.mark.one_database
def test_a_rehearsal_fits_the_terminal(stead, monkeypatch):
    everything = "{total: 50000, reserved: 100, min_unit: 2, max_unit: 3000, step_size: 4, allocation_ratio: 16.5}"
    for columns in (80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, _ = stead.apply(everything, "--dry-run")
        assert code == 0
        assert max(map(cell_len, out.splitlines())) <= columns
        words = " ".join(out.split())
        for change in ("total 8 -> 50,000", "reserved 0 -> 100", "min_unit 1 -> 2", "step_size 1 -> 4"):
            assert change in words
        for change in (
            "max_unit 2,147,483,647 -> 3,000",
            "allocation_ratio 1.0 -> 16.5",
            "capacity 8 -> 823,350, 6 used",
        ):
            assert change in words


@pytest.mark.one_database
@pytest.mark.parametrize("moment", ["GET usages", "PUT inventories"])
def test_a_claim_between_the_plan_and_the_write_is_seen_by_either_server(stead, moment):
    """The claim raises the generation, so the server refuses the write; the next plan refuses the site."""

    class Interrupted:
        claimed = False

        def __init__(self, site):
            self.site = site

        def _interrupt(self, method, path):
            if not self.claimed and f"{method} {path.rpartition('/')[2]}" == moment:
                self.claimed = True
                stead.claim(7)

        def request(self, method, path, body=None):
            if method == "PUT":
                self._interrupt(method, path)
            said = self.site.request(method, path, body)
            if method == "GET":
                self._interrupt(method, path)
            return said

    assert stead("release", CONSUMER)[0] == 0
    stead.claim(1)
    url, token = stead.server
    api = Interrupted(connect(url, token))
    with api.site, pytest.raises(Overcommits, match="7 used, capacity 8 -> 6"):
        apply_steps(api, load(FILE.format(vcpu="6")), Watcher(), prune=False)
    assert api.claimed
    assert "7 / 8 " in stead("tree")[1]
