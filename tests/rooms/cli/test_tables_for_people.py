"""What a person sees in a terminal of 80 columns: memory and disk with units, names beside UUIDs, the cause first."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

import pytest

from stead.cli.app import run
from stead.client.consumers import uuid_of
from tests.servers.placements import stead_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Command = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.one_database

RACK = "aaaaaaaa-0000-4000-8000-000000000001"
PROJECT = "aaaaaaaa-0000-4000-8000-000000000002"
SITE = f"""
providers:
- name: host
  inventories: {{VCPU: 8, MEMORY_MB: 131072, DISK_GB: 5000}}
  aggregates: [{RACK}]
- {{name: other, inventories: {{VCPU: 8, MEMORY_MB: 131072, DISK_GB: 5000}}}}
- {{name: broken, inventories: {{VCPU: 8, MEMORY_MB: 131072}}}}
"""
QUERY = "resources=VCPU:2,MEMORY_MB:8192,DISK_GB:1500"
OWNER = ("--project", PROJECT, "--user", "u")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    directory = tmp_path_factory.mktemp("people")
    with stead_itself(directory) as (url, token):
        asking = ("--url", url, "--token", token)
        (directory / "site.yaml").write_text(SITE)
        for command in [
            ("topology", "apply", str(directory / "site.yaml")),
            ("claim", f"{QUERY}&in_tree=name:host", *OWNER, "--consumer-name", "vm"),
            ("claim", f"{QUERY}&in_tree=name:host", *OWNER, "--consumer-name", "job", "--type", "RUN"),
            ("flavor", "set", "m1", QUERY),
            ("provider", "disable", "broken", "--reason", "bad DIMM"),
        ]:
            assert run([*asking, *command]) == 0
        yield asking


@pytest.fixture
def stead(address: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    capsys.readouterr()

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run([*address, *arguments])
        return code, *capsys.readouterr()

    return call


WITH_AMOUNTS = {
    ("candidates", QUERY): ("8 GiB", "8,192"),
    ("claim", QUERY, *OWNER, "--consumer-name", "vm"): ("8 GiB", "8,192"),
    ("consumer", "list"): ("8 GiB", "8,192"),
    ("consumer", "show", "vm"): ("1.46 TiB", "1,500"),
    ("who", "host"): ("2.93 TiB", "3,000"),
    ("usage",): ("2.93 TiB", "3,000"),
    ("ps",): ("1.46 TiB", "1,500"),
    ("headroom", QUERY): ("GiB", "MEMORY_MB"),
    ("headroom",): ("6.84 TiB", "7,000"),
    ("plan", "drain", "host"): ("1.46 TiB", "1,500"),
    ("whatif", "--drain", "host"): ("9.77 TiB", "10,000"),
    ("whatif", "candidates", QUERY, "--drain", "host"): ("8 GiB", "8,192"),
    ("release", "vm", "--dry-run"): ("1.46 TiB", "1,500"),
    ("provider", "show", "host"): ("4.88 TiB", "5,000"),
    ("provider", "list"): ("4.88 TiB", "5,000"),
    ("tree", "host"): ("4.88 TiB", "5,000"),
}


@pytest.mark.parametrize(("command", "amounts"), WITH_AMOUNTS.items(), ids=lambda value: " ".join(value)[:30])
def test_memory_and_disk_have_units_unless_they_are_asked_for_exactly(
    stead: Command, command: tuple[str, ...], amounts: tuple[str, str]
) -> None:
    short, exact = amounts
    out = stead(*command)[1]
    assert short in out
    assert not re.search(r"\d{3} (MEMORY_MB|DISK_GB)|\d,\d{3}(?! [MGT]iB)", out)
    assert max(map(len, out.splitlines())) <= 80
    raw = stead(*command, "--raw")[1]
    assert exact in raw
    assert not re.search("[MGT]iB", raw)
    for form in ("json", "yaml", "csv"):
        assert not re.search("[MGT]iB", stead(*command, "-o", form)[1])


def test_names_are_columns_of_csv_beside_their_uuids(stead: Command) -> None:
    def rows(*command: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(stead(*command, "-o", "csv")[1])))

    assert not any(".alias" in column for column in rows("consumer", "list")[0])
    for uuid, name in ((uuid_of("vm"), "web-1"), (PROJECT, "demo"), (RACK, "rack-1")):
        stead("alias", "set", uuid, name)
    by_uuid = {row["uuid"]: row for row in rows("consumer", "list")}
    assert (by_uuid[uuid_of("vm")]["uuid.alias"], by_uuid[uuid_of("job")]["uuid.alias"]) == ("web-1", "")
    assert {row["project.alias"] for row in by_uuid.values()} == {"demo"}
    columns = list(by_uuid[uuid_of("vm")])
    assert columns[columns.index("project") + 1] == "project.alias"
    assert rows("provider", "show", "host")[0]["aggregates.alias"] == "rack-1"
    assert rows("alias", "list")[0].keys() == {"name", "uuid"}


def test_wide_tables_have_the_names(stead: Command) -> None:
    for uuid, name in ((uuid_of("vm"), "web-1"), (PROJECT, "demo"), (RACK, "rack-1")):
        stead("alias", "set", uuid, name)
    wide = stead("consumer", "list", "-o", "wide")[1]
    assert f"{uuid_of('vm')} web-1" in wide
    assert f"{PROJECT} demo" in wide
    assert f"{PROJECT} demo" in stead("ps", "-o", "wide")[1]
    assert f"{PROJECT} demo" in stead("usage", "-o", "wide")[1]
    assert f"{RACK} rack-1" in stead("tree", "-o", "wide")[1]
    assert f"{uuid_of('vm')} web-1 (vm)" in stead("claim", QUERY, *OWNER, "--consumer-name", "vm", "-o", "wide")[1]


@pytest.mark.parametrize("query", ["resources=VCPU:1&in_tree=name:broken", "resources=VCPU:1&in_subtree=name:broken"])
def test_the_first_line_is_that_the_host_is_disabled_since_when_why_and_the_cure(stead: Command, query: str) -> None:
    code, out, _ = stead("explain", query)
    first, second = out.splitlines()[:2]
    assert code == 1
    assert re.fullmatch(r"broken is disabled since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ: bad DIMM", first)
    assert second.strip() == "(`stead provider enable broken`)."  # a command is not torn


def test_a_refusal_names_the_consumer_as_it_was_named(stead: Command) -> None:
    code, _, error = stead("claim", "resources=VCPU:1", *OWNER, "--consumer-name", "vm")
    assert code == 1
    assert f"consumer {uuid_of('vm')} (vm) has 2 VCPU, 8 GiB MEMORY_MB, 1.46 TiB DISK_GB already" in error


def test_a_long_last_column_of_a_list_wraps_and_empty_facts_are_left_out(
    stead: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    heading, first, second, *_ = stead("provider", "list")[1].splitlines()
    assert heading.split() == ["provider", "state", "used"]
    assert first == "broken    disabled  0 / 8 VCPU,"
    assert second == f"{' ' * 20}0 / 128 GiB MEMORY_MB"
    monkeypatch.setenv("COLUMNS", "30")
    paragraphs = [part.splitlines() for part in stead("provider", "list")[1].split("\n\n")]
    assert [[line.split()[0] for line in part[:2]] for part in paragraphs] == [
        ["broken", "state"],
        ["host", "used"],
        ["other", "used"],
    ]
