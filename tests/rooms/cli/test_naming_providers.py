"""Providers in commands and queries: by UUID, by any name, and what is said of one that does not exist."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import stead
from scripts.commands import leaves
from stead import Node, testing
from stead.cli.app import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Call = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.one_database

NAME = "1c0ffee0-0000-4000-8000-000000000001"
"""A name, as ironic gave them: another provider's UUID is what it looks like."""
UUID = "5ead0000-0000-4000-8000-000000000001"
MISSING = "fedcba98-7654-4321-9876-fedcba987654"

COMMANDS = {
    ("tree", "PROVIDER"): ["tree {}"],
    ("who", "HOST"): ["who {}"],
    ("release", "HOST"): ["release --all-of {} --dry-run"],
    ("run", "HOST"): ["run --host {} -r VCPU:1 -- true"],
    ("plan drain", "HOST"): ["plan drain {}"],
    ("provider show", "PROVIDER"): ["provider show {}"],
    ("provider set", "PROVIDER"): ["provider set {} --trait HW_NUMA_ROOT --dry-run"],
    ("provider create", "PARENT"): ["provider create new --below {} --dry-run"],
    ("provider move", "PROVIDER"): ["provider move {} --below other --dry-run"],
    ("provider move", "PARENT"): ["provider move other --below {} --dry-run"],
    ("provider delete", "PROVIDER"): ["provider delete {} --dry-run"],
    ("provider disable", "PROVIDER"): ["provider disable {} --reason r --dry-run"],
    ("provider enable", "PROVIDER"): ["provider enable {} --dry-run"],
    ("whatif", "HOST"): ["whatif --drain {}"],
    ("whatif", "PROVIDER"): ["whatif --disable {}"],
    ("whatif", "HOST=COUNT"): ["whatif --copy {}=2"],
    ("whatif", "[PROVIDER:]CLASS=NUMBER"): [
        f"whatif {option}=7" for option in ("--ratio {}:VCPU", "--reserved {}:VCPU", "--total {}:VCPU")
    ],
    ("whatif", "PROVIDER:CLASS"): ["whatif --remove-inventory {}:DISK_GB"],
    ("whatif", "PROVIDER:TRAIT"): [
        f"whatif --{verb}-trait {{}}:{trait}" for verb, trait in (("add", "HW_NUMA_ROOT"), ("remove", "COMPUTE_NODE"))
    ],
}
"""By command and by what its help calls the value: a line with the value left out."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with testing.placement() as url:
        host = Node(NAME, VCPU=8, DISK_GB=8, traits="COMPUTE_NODE", uuid=UUID)
        url.site().apply([host, Node("other", VCPU=4), Node("compute-1", VCPU=8)])
        yield url


@pytest.fixture
def call(url: str, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["--url", url, "--token", "admin", *words])
        return code, *capsys.readouterr()

    return call


def test_each_command_that_names_a_provider_is_listed() -> None:
    nouns = ("HOST", "PROVIDER", "PARENT")
    naming = {
        (words, each.metavar)
        for words, command in leaves()
        for each in command.params
        if each.metavar and any(noun in each.metavar for noun in nouns)
    }
    assert naming == set(COMMANDS)


@pytest.mark.parametrize("line", [line for lines in COMMANDS.values() for line in lines])
def test_a_provider_whose_name_looks_like_a_uuid_is_named_as_any_other(call: Call, line: str) -> None:
    def answer(reference: str) -> tuple[int, Any, str]:
        code, out, err = call(*line.format(reference).split(), "--json")
        return code, json.loads(out or "null"), err

    by_uuid = answer(UUID)
    assert (by_uuid[0], by_uuid[2]) == (0, "")
    assert comparable(answer(NAME)) == comparable(answer(f"name:{NAME}")) == comparable(by_uuid)
    for missing in ("none", f"name:{MISSING}", MISSING):
        code, out, err = call(*line.format(missing).split())
        name = missing.removeprefix("name:")
        assert (code, out, err) == (1, "", f"stead: no resource provider {name!r}\n")


def comparable(answer: tuple[int, Any, str]) -> Any:
    """Without tokens, which grow."""
    code, body, err = answer
    return code, {**body, "generation": None} if body and "generation" in body else body, err


def test_a_uuid_is_preferred_to_a_name_that_looks_like_it(call: Call) -> None:
    with testing.placement() as url:
        url.site().apply([Node(NAME, VCPU=1), Node("by-uuid", VCPU=2, uuid=NAME)])

        def name_of(reference: str) -> str:
            _, out, _ = call("--url", url, "provider", "show", reference, "--json")
            return str(json.loads(out)["name"])

        assert (name_of(NAME), name_of(f"name:{NAME}"), name_of(NAME.upper())) == ("by-uuid", NAME, "by-uuid")


QUERIES = {
    "candidates": "candidates {}",
    "explain": "explain {}",
    "headroom": "headroom {}",
    "claim": "claim {} --project p --user u",
    "run": "run -q {} -- true",
    "plan room": "plan room {}",
    "flavor set": "flavor set f {}",
    "whatif": "whatif explain {}",
}
"""By command: a line without its query."""

PLACES = ("in_tree={}", "in_subtree={}", "resources_A=VCPU:2&in_tree_A={}", "resources_A=VCPU:2&in_subtree_A={}")


def ask(call: Call, line: str, place: str) -> tuple[int, str, str]:
    return call(*(word.format(f"resources=VCPU:1&{place}") for word in line.split()))


def test_each_command_with_a_query_is_listed() -> None:
    assert {words for words, command in leaves() if any(each.name == "query" for each in command.params)} == set(
        QUERIES
    )


@pytest.mark.parametrize("line", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("place", PLACES)
def test_a_bare_name_in_a_query_is_refused_with_how_to_write_it(call: Call, line: str, place: str) -> None:
    code, out, err = ask(call, line, place.format("compute-1"))
    assert (code, out) == (2, "")
    assert err.endswith("Got: compute-1 (400) Did you mean name:compute-1?\n")


@pytest.mark.parametrize("line", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize(
    ("place", "missing"),
    [
        *product(PLACES, (f"name:{MISSING}", "name:none", MISSING)),
        *product(("member_of={}", "root_member_of={}", "resources_A=VCPU:1&member_of_A=in:{}"), (MISSING,)),
    ],
)
def test_a_place_that_does_not_exist_is_no_constraint_that_providers_fail(
    call: Call, line: str, place: str, missing: str
) -> None:
    _, out, err = ask(call, line, place.format(missing))
    said = out + err
    assert "fail only" not in said
    assert "fails only" not in said
    if "explain {}" in line:
        parameter = place.rpartition("&")[2].partition("=")[0]
        assert f"{parameter}={missing}: no such {'aggregate' if 'member_of' in place else 'provider'}" in said
    elif line.startswith(("candidates", "claim", "plan")) and "member_of" not in place:
        assert "no resource provider" in err
        assert missing.removeprefix("name:") in err


def test_a_uuid_in_a_query_that_is_a_name_is_told_from_one(call: Call) -> None:
    code, out, err = ask(call, "candidates {}", f"in_tree={NAME}")
    told = f"no resource provider has the uuid {NAME}; one has it as its name: name:{NAME}"
    assert (code, out, err) == (1, "", f"stead: {told}\n")
    assert ask(call, "candidates {}", f"in_tree=name:{NAME}")[0] == 0


def test_the_library_names_a_provider_by_a_name_that_looks_like_a_uuid(url: str) -> None:
    with stead.connect(url, "admin", project="p") as site:
        assert site.provider(f"name:{NAME}").uuid == site.tree(f"name:{NAME}").root.uuid == UUID
        request = stead.Request(stead.Group(VCPU=1, in_tree=f"name:{NAME}"))
        assert {tuple(candidate.allocations) for candidate in site.candidates(request)} == {(UUID,)}
