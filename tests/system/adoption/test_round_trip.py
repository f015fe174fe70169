"""A deployment of the released service is adopted, written to through Stead, and given back."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from stead.cli.app import run
from stead.cli.placement import manage as placement_manage
from stead.cli.placement import status as placement_status
from tests.rooms.cli.placement.deployment import exit_code
from tests.servers.environment import Unavailable
from tests.system.adoption import site
from tests.system.adoption.layout import layout, own_tables
from tests.system.differential import released
from tests.system.differential.asking import Request
from tests.system.differential.comparison import compare
from tests.system.differential.pair import Side, opened_door, stead

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.api.client import Answer

pytestmark = pytest.mark.timeout(900)  # the released service may have to be installed first

NEWEST = 39


@pytest.fixture(scope="session")
def venv() -> Path:
    """The virtual environment of the released service."""
    try:
        return released.RELEASED.installed()
    except Unavailable as unavailable:
        text = f"NOT ADOPTED FROM THE RELEASED SERVICE: {unavailable}"
        if os.environ.get("CI"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


@contextmanager
def upstream(directory: Path) -> Iterator[Side]:
    with released.serving(directory) as port, opened_door(port) as door:
        yield Side(door)


@contextmanager
def ours(directory: Path) -> Iterator[Side]:
    with stead(directory) as door:
        yield Side(door)


def require_alike(ours: Side, theirs: Side) -> None:
    """Both answer every GET about the site alike, the headers included."""
    for request in site.questions(NEWEST):
        require_same(request, ours.ask(request), theirs.ask(request))


def require_same(request: Request, ours: Answer, theirs: Answer, apart: timedelta = timedelta()) -> None:
    if (request.path, theirs.status) == ("/usages", 500):  # the released service can not group by type on PostgreSQL
        assert ours.status == 200
        return
    exchange = compare(request, ours, theirs, apart)
    assert not exchange.facets, str(exchange)


def put(side: Side, path: str, body: object) -> Answer:
    return side.ask(Request("PUT", path, NEWEST, body=body))


def write_through(side: Side) -> None:
    """Change something of each kind: names, a tree, an inventory, aggregates, traits, claims, a release, a reshape."""

    def send(method: str, path: str, body: object = None) -> None:
        answer = side.ask(Request(method, path, NEWEST, body=body))
        assert answer.status < 300, (path, answer.status, answer.body)

    def generation(provider: str) -> int:
        found: int = side.ask(Request("GET", f"/resource_providers/{provider}")).json["generation"]
        return found

    more = site.uuid("made by Stead")
    send("PUT", "/resource_classes/CUSTOM_SILVER")
    send("PUT", "/traits/CUSTOM_SLOW")
    send("POST", "/resource_providers", {"name": "one more", "uuid": more, "parent_provider_uuid": site.HOST})
    stock = {"CUSTOM_SILVER": {"total": 5}, "VCPU": {"total": 4}}
    put(side, f"/resource_providers/{more}/inventories", {"resource_provider_generation": 0, "inventories": stock})
    traits = {"resource_provider_generation": generation(site.NUMA1), "traits": ["CUSTOM_SLOW"]}
    send("PUT", f"/resource_providers/{site.NUMA1}/traits", traits)
    aggregates = {"resource_provider_generation": generation(site.HOST), "aggregates": [site.RACK, more]}
    send("PUT", f"/resource_providers/{site.HOST}/aggregates", aggregates)
    send("PUT", f"/resource_providers/{site.NUMA0}", {"name": "renamed", "parent_provider_uuid": site.HOST})
    claim = site.claim(NEWEST, {more: {"CUSTOM_SILVER": 2}, site.OTHER: {"MEMORY_MB": 100}}, "MIGRATION")
    send("PUT", f"/allocations/{site.uuid('by Stead')}", claim)
    send("DELETE", f"/allocations/{site.VOLUME}")
    again = site.claim(NEWEST, {site.NUMA0: {"VCPU": 4}}, generation=1)
    send("PUT", f"/allocations/{site.SERVER}", again)
    inventories = {
        site.OTHER: {
            "resource_provider_generation": generation(site.OTHER),
            "inventories": {"MEMORY_MB": {"total": 9000}},
        },
        more: {"resource_provider_generation": generation(more), "inventories": {**stock, "VCPU": {"total": 20}}},
    }
    pair = {site.PAIR: site.claim(NEWEST, {more: {"VCPU": 7}}, generation=1)}
    send("POST", "/reshaper", {"inventories": inventories, "allocations": pair})


def test_a_deployment_is_adopted_and_given_back(
    database_url: str, tmp_path: Path, venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = str(released.configure(tmp_path, released.connection_of(database_url)))
    given = ["--config-file", configuration]
    with upstream(tmp_path) as theirs:
        site.fill(theirs.ask)
        before = layout(database_url)
        assert run(["db", "upgrade", *given]) == 0
        assert run(["db", "check", *given]) == 0
        with ours(tmp_path) as stead_side:
            require_alike(stead_side, theirs)  # side by side, while nobody writes
    with ours(tmp_path) as stead_side:
        write_through(stead_side)
        asked_at = datetime.now(UTC)
        said = {request: stead_side.ask(request) for request in questions()}
    with upstream(tmp_path) as theirs, ours(tmp_path) as stead_side:
        require_alike(stead_side, theirs)  # upstream does not mind the tables beside its own
    capsys.readouterr()
    assert run(["db", "downgrade", "--to", "upstream", *given]) == 0
    assert own_tables(database_url) == []
    assert layout(database_url) == before
    with upstream(tmp_path) as theirs:
        for request, answer in said.items():
            # A Last-Modified that means "now" is as much later as the second service is asked later.
            require_same(request, answer, theirs.ask(request), datetime.now(UTC) - asked_at)
        assert put(theirs, "/resource_classes/CUSTOM_BRONZE", None).status == 201
        last = site.claim(NEWEST, {site.OTHER: {"MEMORY_MB": 8800}})
        assert put(theirs, f"/allocations/{site.uuid('by upstream again')}", last).status == 204
        too_much = site.claim(NEWEST, {site.OTHER: {"MEMORY_MB": 101}})
        assert put(theirs, f"/allocations/{site.uuid('too much')}", too_much).status == 409
    assert released.run(venv, tmp_path, "placement-status", "upgrade", "check")[0] == 0
    assert released.run(venv, tmp_path, "placement-manage", "db", "sync")[0] == 0


def questions() -> list[Request]:
    more = site.uuid("made by Stead")
    return [
        *site.questions(NEWEST),
        *(Request("GET", f"/resource_providers/{more}/{part}") for part in ("inventories", "usages", "allocations")),
        *(Request("GET", f"/allocations/{site.uuid(name)}") for name in ("by Stead", "server", "volume")),
        Request("GET", "/resource_classes/CUSTOM_SILVER"),
    ]


COMMANDS = [
    ("placement-manage", "db", "version"),
    ("placement-manage", "db", "online_data_migrations"),
    ("placement-manage", "db", "online_data_migrations", "--max-count", "5"),
    ("placement-manage", "db", "online_data_migrations", "--max-count", "0"),
    ("placement-manage", "db", "sync"),
    ("placement-manage", "db", "stamp", "a082b8bb98d0"),
    ("placement-status", "upgrade", "check"),
]


@pytest.mark.one_database
def test_the_commands_of_operators_say_what_they_always_said(
    database_url: str, tmp_path: Path, venv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configuration = released.configure(tmp_path, released.connection_of(database_url))
    with upstream(tmp_path) as theirs:
        site.fill(theirs.ask)
    for program, *arguments in COMMANDS:
        expected = released.run(venv, tmp_path, program, *arguments)
        command = placement_manage.run if program == "placement-manage" else placement_status.run
        capsys.readouterr()
        code = exit_code(command, ["--config-file", str(configuration), *arguments])
        assert (code, _blanks_apart(capsys.readouterr().out)) == (expected[0], _blanks_apart(expected[1])), arguments


def _blanks_apart(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())
