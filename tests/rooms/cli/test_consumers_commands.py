"""``stead consumers``, ``consumer show``, ``usage`` and ``who``: on a real server, and drawn at every usual width."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from rich.cells import cell_len

from stead.cli.app import run
from stead.cli.arguments import age_text, read_age
from stead.cli.consumers import By, draw_consumer, draw_consumers, draw_sums, sums_by
from stead.cli.errors import CommandError
from stead.client.blocking.connecting import connect
from stead.client.consumers import uuid_of
from stead.client.provider import Consumer, Place
from tests.configuration import write_configuration
from tests.servers.stead import started

pytestmark = pytest.mark.one_database

SITE = """
providers:
- name: host-1
  inventories: {VCPU: 8}
  children: [{name: host-1-gpu, inventories: {PGPU: 2}}]
- name: host-2
  inventories: {VCPU: 8}
"""
CLAIMS = [  # name, project, user, type, query
    ("train-1", "red", "ann", "JOB", "resources=VCPU:2,PGPU:1"),
    ("train-2", "red", "bob", "JOB", "resources=VCPU:2,PGPU:1"),
    ("vm-1", "blue", "ann", "INSTANCE", "resources=VCPU:4&in_tree={host-2}"),
]
AGED = "train-2"  # two days old; the others are new


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    directory = tmp_path_factory.mktemp("consumers")
    # A process with its database in a file, which the tests change below.
    configuration = write_configuration(directory, f"sqlite:///{directory}/stead.db")
    with started(configuration, workers=1) as server:
        url, token = server.url, server.token
        asking = ["--url", url, "--token", token]
        (directory / "site.yaml").write_text(SITE)
        assert run([*asking, "topology", "apply", str(directory / "site.yaml")]) == 0
        with connect(url, token) as site:
            uuids = {provider.name: provider.uuid for provider in site.providers()}
        for name, project, user, kind, query in CLAIMS:
            owner = ["--consumer", uuid_of(name), "--project", project, "--user", user, "--type", kind]
            assert run([*asking, "claim", query.replace("{host-2}", uuids["host-2"]), *owner]) == 0
        with closing(sqlite3.connect(directory / "stead.db")) as database, database:
            aged = "UPDATE consumers SET created_at = datetime('now', '-2 days') WHERE uuid = ?"
            assert database.execute(aged, [uuid_of(AGED)]).rowcount == 1
        yield url, token


@pytest.fixture
def stead(address, capsys):
    url, token = address

    def call(*arguments):
        capsys.readouterr()
        code = run(["--url", url, "--token", token, *arguments])
        return code, *capsys.readouterr()

    return call


def listed(stead, *arguments):
    code, out, err = stead(*arguments, "--json")
    assert (code, err) == (0, "")
    return {each["uuid"]: each for each in json.loads(out)["consumers"]}, json.loads(out)["totals"]


def names(consumers):
    return {name for name, *_ in CLAIMS if uuid_of(name) in consumers}


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ((), {"train-1", "train-2", "vm-1"}),
        (("--project", "red"), {"train-1", "train-2"}),
        (("--user", "ann"), {"train-1", "vm-1"}),
        (("--type", "INSTANCE"), {"vm-1"}),
        (("--project", "red", "--user", "ann"), {"train-1"}),
        (("--project", "green"), set()),
        (("--older-than", "47h"), {"train-2"}),
        (("--older-than", "1d", "--user", "bob"), {"train-2"}),
        (("--older-than", "1d", "--user", "ann"), set()),
        (("--older-than", "3d"), set()),
        (("--older-than", "0s"), {"train-1", "train-2", "vm-1"}),
    ],
)
def test_consumers_are_listed_by_project_user_and_type(stead, arguments, chosen):
    consumers, totals = listed(stead, "consumers", *arguments)
    assert names(consumers) == chosen
    assert len(consumers) == len(chosen)
    assert totals.get("VCPU", 0) == sum(each["resources"]["VCPU"] for each in consumers.values())


def test_an_age_that_cannot_be_read_is_refused_with_an_example(stead):
    expected = (
        "stead: --older-than: 'yesterday' is not a span such as 90s, 30m, 12h or 7d, "
        "or a time with a zone such as 2031-01-01T00:00:00Z\n"
    )
    assert stead("consumers", "--older-than", "yesterday") == (2, "", expected)


def test_a_consumer_has_the_names_of_its_providers_and_hosts(stead):
    consumers, _ = listed(stead, "consumers")
    places = {each["name"]: each["root_name"] for each in consumers[uuid_of("train-1")]["allocations"]}
    assert places == {"host-1": "host-1", "host-1-gpu": "host-1"}
    out = stead("consumers")[1]
    assert "3 consumers: 8 VCPU, 2 PGPU" in out
    assert all(uuid_of(name) in out for name, *_ in CLAIMS)


def test_one_consumer_is_shown_by_its_uuid_or_its_name(stead):
    by_name, by_uuid = stead("consumer", "show", "train-1"), stead("consumer", "show", uuid_of("train-1"))
    assert by_name == by_uuid
    assert by_name[0] == 0
    for text in (uuid_of("train-1"), "JOB", "red", "ann", "host-1-gpu", "1 PGPU"):
        assert text in by_name[1]
    code, _, err = stead("consumer", "show", "train-9")
    assert (code, err) == (1, f"stead: no allocations of 'train-9' (consumer {uuid_of('train-9')})\n")


def test_the_end_of_a_lease_is_shown(address, stead):
    with connect(*address, project="red") as site, site.hold("resources=VCPU:1", "held", lease=3600) as claim:
        assert f"ends        {claim.expires_at:%Y-%m-%d %H:%M:%S} UTC (release)" in stead("consumer", "show", "held")[1]
        shown = json.loads(stead("consumer", "show", "held", "--json")[1])
        assert (shown["expires_at"], shown["on_expiry"]) == (claim.expires_at.isoformat(), "release")
    assert "ends" not in stead("consumer", "show", "train-1")[1]
    assert "expires_at" not in json.loads(stead("consumer", "show", "train-1", "--json")[1])


def test_the_consumers_of_a_host_are_those_of_its_whole_tree_with_its_part_only(stead):
    assert names(listed(stead, "who", "host-1")[0]) == {"train-1", "train-2"}
    consumers, totals = listed(stead, "who", "host-1-gpu")
    assert totals == {"PGPU": 2}
    assert consumers[uuid_of("train-1")]["project"] == "red"
    assert names(listed(stead, "who", "host-2")[0]) == {"vm-1"}
    assert stead("who", "host-3")[2].endswith("Did you mean host-2?\n") or stead("who", "host-3")[0] == 1


@pytest.mark.parametrize(
    ("by", "sums"),
    [
        ("project", {"red": (2, {"VCPU": 4, "PGPU": 2}), "blue": (1, {"VCPU": 4})}),
        ("user", {"ann": (2, {"VCPU": 6, "PGPU": 1}), "bob": (1, {"VCPU": 2, "PGPU": 1})}),
        ("type", {"JOB": (2, {"VCPU": 4, "PGPU": 2}), "INSTANCE": (1, {"VCPU": 4})}),
    ],
)
def test_usage_is_summed_by_project_user_or_type(stead, by, sums):
    told = json.loads(stead("usage", "--by", by, "--json")[1])
    assert {each[by]: (each["consumers"], each["resources"]) for each in told["usages"]} == sums
    assert told["totals"] == {"VCPU": 8, "PGPU": 2}
    assert "all" in stead("usage", "--by", by)[1]


def consumer(number, **changes):
    fields = {
        "project": "p" * 32,
        "user": "u" * 32,
        "type": "INSTANCE",
        "generation": 1,
        "allocations": {f"provider-{number}": {"VCPU": 2, "MEMORY_MB": 10**6}},
        "mappings": {},
        "created_at": datetime(2026, 11, 22, tzinfo=UTC),
    }
    return Consumer(f"{number:08}-0000-4000-8000-000000000000", **{**fields, **changes})


NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
PLACES = {f"provider-{number}": Place(f"compute-{number}-numa0", f"compute-{number}") for number in range(1000)}


@pytest.mark.parametrize("count", [0, 8, 1000])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_no_line_of_a_table_of_consumers_is_longer_than_the_terminal(width, count):
    consumers = [consumer(number) for number in range(count)]
    drawings = [draw_consumers(consumers, PLACES, width, NOW)]
    drawings += [draw_consumer(each, PLACES, width) for each in consumers[:3]]
    drawings += [draw_sums(by.value, sums_by(by, consumers), width) for by in By]
    assert [line.plain for drawing in drawings for line in drawing if cell_len(line.plain) > width] == []


def test_the_table_of_consumers_leaves_out_a_column_that_says_nothing():
    short = {"project": "red", "user": "ann"}
    drawn = [line.plain for line in draw_consumers([consumer(1, **short), consumer(2, **short)], PLACES, 120, NOW)]
    assert drawn == [
        "consumer                              type      project  user  age  host       allocations",
        "00000001-0000-4000-8000-000000000000  INSTANCE  red      ann   3d   compute-1  2 VCPU, 977 GiB MEMORY_MB",
        "00000002-0000-4000-8000-000000000000  INSTANCE  red      ann   3d   compute-2  2 VCPU, 977 GiB MEMORY_MB",
        "",
        "2 consumers: 4 VCPU, 1.91 TiB MEMORY_MB",
    ]
    assert " age " not in next(iter(draw_consumers([consumer(1, created_at=None)], PLACES, 300, NOW))).plain


def test_an_age_is_read_and_shown_in_its_largest_unit():
    assert [read_age("--x", text) for text in ("90s", "30m", "12h", "7d")] == [
        timedelta(seconds=90),
        timedelta(minutes=30),
        timedelta(hours=12),
        timedelta(days=7),
    ]
    ages = [timedelta(0), timedelta(seconds=59), timedelta(seconds=60), timedelta(hours=47), timedelta(days=-1)]
    assert [age_text(age) for age in ages] == ["0s", "59s", "1m", "1d", "0s"]
    for wrong in ("", "7", "d7", "-1d", "1w", "1.5h"):
        with pytest.raises(CommandError, match=r"^--x: .* is not a span such as 90s"):
            read_age("--x", wrong)


def test_ends_of_leases_are_a_column_and_a_filter(address, capsys):
    url, token = address
    listing = ["--url", url, "--token", token, "consumer", "list", "-o", "json"]
    with connect(url, token) as site:
        request = "resources=VCPU:1"
        site.claim(request, "leased", project="lab", user="ann", lease=3600)
        try:
            for time, expected in (("2h", [uuid_of("leased")]), ("30m", [])):
                assert run([*listing, "--expires-before", time]) == 0
                assert [each["uuid"] for each in json.loads(capsys.readouterr().out)["consumers"]] == expected
            assert run([*listing, "--expires-before", "soon"]) == 2
            assert "--expires-before" in capsys.readouterr().err
        finally:
            site.release("leased")
    ends = consumer(1, expires_at=NOW, on_expiry="release")
    for listed, is_shown in (([consumer(1), ends], True), ([consumer(1)], False)):
        text = "\n".join(str(line) for line in draw_consumers(listed, PLACES, 300, NOW))
        assert ("ends" in text, "2026-11-25 12:00:00 UTC" in text) == (is_shown, is_shown)
