"""``stead claim`` by name, for gangs and with a wait, and ``stead release`` of several, on a real server."""

import fcntl
import io
import json
import os
import pty
import subprocess
import sys
import termios
import uuid

import pytest

from stead.cli.app import run
from stead.client.consumers import NAMESPACE, uuid_of
from tests.servers.placements import stead_itself
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.one_database

STEAD = [sys.executable, "-c", "from stead.cli import main; main()"]
OWNER = ("--project", "p", "--user", "u")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    directory = tmp_path_factory.mktemp("claims")
    with stead_itself(directory) as (url, token):
        hosts = "".join(f"- {{name: host-{number}, inventories: {{VCPU: 8}}}}\n" for number in range(1, 4))
        (directory / "site.yaml").write_text(f"providers:\n{hosts}")
        assert run(["--url", url, "--token", token, "topology", "apply", str(directory / "site.yaml")]) == 0
        yield url, token


@pytest.fixture
def stead(address, capsys):
    url, token = address

    def call(*arguments):
        capsys.readouterr()
        code = run(["--url", url, "--token", token, *arguments])
        return code, *capsys.readouterr()

    yield call
    call("release", "--project", "p", "--yes")
    call("release", "--project", "q", "--yes")


def consumers(stead):
    return {each["uuid"]: each for each in json.loads(stead("consumers", "--json")[1])["consumers"]}


def test_a_name_is_always_the_same_consumer_and_a_claim_can_be_repeated_and_resized_in_place(stead):
    for amount in (2, 2, 8, 1):
        code, out, err = stead("claim", f"resources=VCPU:{amount}", *OWNER, "--consumer-name", "train-1", "--replace")
        assert (code, err) == (0, "")
        assert f"{uuid_of('train-1')} (train-1)" in out
        assert {key: each["resources"] for key, each in consumers(stead).items()} == {
            uuid_of("train-1"): {"VCPU": amount}
        }
    assert uuid_of("train-1") == str(uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_DNS, "consumers.stead"), "train-1"))
    assert uuid.uuid5(NAMESPACE, "train-1") == uuid.UUID(uuid_of("train-1"))
    assert stead("release", "train-1")[0] == 0
    assert consumers(stead) == {}


def place_of(stead, name):
    (provider,) = json.loads(stead("consumer", "show", uuid_of(name), "--json")[1])["allocations"]
    return provider["name"]


@pytest.mark.parametrize("query", ["resources=VCPU:{}", "resources_A=VCPU:{}&resources_B=VCPU:1&group_policy=none"])
def test_a_consumer_that_is_resized_stays_on_its_host_while_it_fits_there(stead, query):
    before = None
    for amount in (1, 5, 2, 6, 3, 7, 4):
        assert stead("claim", query.format(amount), *OWNER, "--consumer-name", "train-1", "--replace")[0] == 0
        assert place_of(stead, "train-1") == (before := before or place_of(stead, "train-1"))
    assert stead("claim", f"resources=VCPU:3&in_tree=name:{before}", *OWNER, "--consumer-name", "other")[0] == 0
    assert stead("claim", query.format(6), *OWNER, "--consumer-name", "train-1", "--replace")[0] == 0
    assert place_of(stead, "train-1") != before


def test_a_gang_gets_a_place_for_each_on_distinct_hosts_or_none_at_all(stead):
    gang = ("claim", "resources=VCPU:8", *OWNER, "--consumer-name", "gang", "--distinct-hosts", "--json")
    code, out, _ = stead(*gang, "--count", "3")
    assert code == 0
    claims = json.loads(out)["claims"]
    assert [each["consumer_name"] for each in claims] == ["gang-0", "gang-1", "gang-2"]
    assert len({each["providers"][0]["root_name"] for each in claims}) == 3
    stead("release", "--project", "p", "--yes")
    code, out, err = stead(*gang, "--count", "4")
    assert (code, out, err) == (
        1,
        "",
        "stead: nothing fits 4 times resources=VCPU:8; `stead explain` with the same query says why\n",
    )
    assert consumers(stead) == {}


def test_a_gang_takes_no_consumer_that_another_client_claimed_unless_it_says_replace(stead):
    assert stead("claim", "resources=VCPU:2", "--project", "q", "--user", "v", "--consumer-name", "gang-1")[0] == 0
    before = consumers(stead)
    gang = ("claim", "resources=VCPU:3", *OWNER, "--consumer-name", "gang", "--count", "2")
    for wait in ((), ("--wait", str(PATIENCE_SECONDS))):  # waiting makes it no other consumer
        code, out, err = stead(*gang, *wait)
        assert (code, out) == (1, "")
        assert err.startswith(f"stead: consumer {uuid_of('gang-1')} (gang-1) has 2 VCPU already; --replace")
        assert consumers(stead) == before
    assert stead(*gang, "--replace")[0] == 0
    assert {each["resources"]["VCPU"] for each in consumers(stead).values()} == {3}
    assert {each["project"] for each in consumers(stead).values()} == {"p"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--consumer-name", "x", "--consumer", str(uuid.uuid4())),
        ("--consumer-name", ""),
        ("--count", "0"),
        ("--wait", "-1"),
        ("--wait", "soon"),
    ],
)
def test_wrong_options_claim_nothing(stead, arguments):
    assert stead("claim", "resources=VCPU:1", *OWNER, *arguments)[0] == 2
    assert consumers(stead) == {}


def test_a_claim_waits_until_another_consumer_releases_its_place(address, stead):
    url, token = address
    assert stead("claim", "resources=VCPU:8", *OWNER, "--count", "3", "--consumer-name", "full")[0] == 0
    assert stead("claim", "resources=VCPU:8", *OWNER)[0] == 1
    assert stead("claim", "resources=VCPU:8", *OWNER, "--wait", "0.1")[0] == 1
    assert stead("claim", "resources=VCPU:8", *OWNER, "--wait", "1s")[0] == 1
    arguments = ["claim", "resources=VCPU:8", *OWNER, "--wait", str(PATIENCE_SECONDS), "--consumer-name", "late"]
    with subprocess.Popen([*STEAD, "--url", url, "--token", token, *arguments], stdout=subprocess.PIPE) as waiting:
        assert stead("release", "full-1")[0] == 0
        out, _ = waiting.communicate(timeout=PATIENCE_SECONDS)
    assert waiting.returncode == 0
    assert uuid_of("late") in out.decode()


@pytest.fixture
def two_projects(stead):
    for name, project, kind in (("a", "p", "JOB"), ("b", "p", "INSTANCE"), ("c", "q", "JOB")):
        owner = ["--project", project, "--user", "u", "--type", kind, "--consumer-name", name]
        assert stead("claim", "resources=VCPU:2&order_by=pack", *owner)[0] == 0
    return {uuid_of(name): name for name in "abc"}


def remaining(stead, names):
    return "".join(sorted(names[each] for each in consumers(stead)))


@pytest.mark.parametrize(
    ("options", "staying"),
    [
        (("--project", "p"), "c"),
        (("--type", "JOB"), "b"),
        (("--project", "p", "--type", "JOB"), "bc"),
        (("--user", "nobody"), "abc"),
    ],
)
def test_several_are_listed_and_released_by_project_and_type(stead, two_projects, options, staying):
    code, out, err = stead("release", *options, "--dry-run")
    assert (code, err) == (0, "")
    assert {name for uuid, name in two_projects.items() if uuid in out} == set("abc") - set(staying)
    assert remaining(stead, two_projects) == "abc"
    code, _, err = stead("release", *options)
    assert code == (2 if staying != "abc" else 0)  # no terminal to ask on
    assert remaining(stead, two_projects) == "abc"
    code, out, _ = stead("release", *options, "--yes")
    assert code == 0
    count = {1: "1 of 1 consumer", 2: "2 of 2 consumers"}.get(3 - len(staying))
    assert out.splitlines()[-1:] == ([f"released {count}"] if count else ["no consumers"])
    assert remaining(stead, two_projects) == staying


def test_all_consumers_of_a_host_are_released(stead, two_projects):
    (host,) = {place["root_name"] for each in consumers(stead).values() for place in each["allocations"]}
    code, out, _ = stead("release", "--all-of", host, "--project", "p", "--yes", "--json")
    assert code == 0
    assert {two_projects[each["uuid"]] for each in json.loads(out)["released"]} == {"a", "b"}
    assert stead("release", "--all-of", host, "--yes")[0] == 0
    assert remaining(stead, two_projects) == ""


@pytest.mark.parametrize(("answer", "code", "unbuffered"), [("y\n", 0, "1"), ("n\n", 2, "")])
def test_on_a_terminal_the_operator_is_asked_after_the_list(address, stead, two_projects, answer, code, unbuffered):
    url, token = address
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*STEAD, "--url", url, "--token", token, "release", "--project", "p"],
        **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    ) as releasing:
        os.close(theirs)
        shown = ""

        def asked():
            nonlocal shown
            shown += os.read(ours, 65536).decode(errors="replace")
            return "[y/N]" in shown

        wait_until(asked)
        listing = shown.partition("[y/N]")[0]
        assert all((uuid in listing) == (name in "ab") for uuid, name in two_projects.items()), shown
        os.write(ours, answer.encode())
        assert releasing.wait(PATIENCE_SECONDS) == code
    os.close(ours)
    assert remaining(stead, two_projects) == ("c" if code == 0 else "abc")


@pytest.mark.parametrize("form", ["lines", "json"])
def test_orphans_are_listed_and_released(stead, two_projects, form, tmp_path, monkeypatch):
    everyone = [each["uuid"] for each in json.loads(stead("consumer", "list", "--json")[1])["consumers"]]
    known, orphans = everyone[:1], everyone[1:]
    file = tmp_path / "servers"
    file.write_text("\n".join(known) if form == "lines" else json.dumps([{"ID": each, "Name": "x"} for each in known]))
    code, out, err = stead("consumer", "list", "--not-in", str(file), "-o", "name")
    assert (code, err) == (0, "")
    assert out.split() == orphans
    for words in (["release", "-"], ["release", *orphans]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
        assert stead(*words, "--dry-run")[0] == 0
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
        refused = stead(*words)
        assert refused[0] == 2
        assert "requires --yes" in refused[2]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    assert stead("release", "-", "--yes")[::2] == (0, "")
    assert [each["uuid"] for each in json.loads(stead("consumer", "list", "--json")[1])["consumers"]] == known


def test_an_empty_list_makes_no_orphans(stead, two_projects, tmp_path):
    file = tmp_path / "servers"
    for text, reason in (("", "has no UUIDs"), ("[]", "has no UUIDs"), ("[{}]", "expected a UUID on each line")):
        file.write_text(text)
        code, out, err = stead("consumer", "list", "--not-in", str(file))
        assert (code, out) == (2, "")
        assert reason in err


def test_a_consumer_without_allocations_is_told_beside_those_that_are_released(stead, two_projects):
    one = json.loads(stead("consumer", "list", "--json")[1])["consumers"][0]["uuid"]
    code, out, err = stead("release", one, "nobody", "--yes")
    assert (code, err) == (1, "")
    assert "no allocations of 'nobody'" in out
    assert "released 1 of 1 consumer" in out
    assert stead("consumer", "show", one)[0] == 1


def test_a_query_names_a_host_in_place_of_its_uuid(stead):
    query = "resources=VCPU:1&in_tree=name:host-2"
    assert "host-2" in stead("candidates", query)[1]
    assert stead("explain", query)[1].startswith("There is 1 candidate.")
    code, out, err = stead("claim", query, *OWNER, "--json")
    assert (code, err) == (0, "")
    assert [each["root_name"] for each in json.loads(out)["providers"]] == ["host-2"]


@pytest.mark.parametrize("command", [("candidates",), ("claim", *OWNER)], ids=["candidates", "claim"])
def test_a_name_that_no_provider_has_is_told_with_the_one_that_was_meant(stead, command):
    code, _, err = stead(*command, "resources=VCPU:1&in_tree=name:hots-2")
    assert code == 1
    assert err == "stead: no resource provider 'hots-2'. Did you mean host-2?\n"
