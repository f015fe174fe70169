"""Rows that the tables permit and the API never writes: `db check` names them, and a repair repairs what is safe.

Each kind is planted alone into a database that the newest release made.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.cli.app import run
from stead.store.protocol import store
from stead.store.protocol.store import Store
from stead.store.sql.dialects import Database
from stead.store.tables import metadata, placement_aggregates, resource_providers
from tests.rooms.store.audit.test_audit import UNCHECKED, plant
from tests.servers.stead import serving
from tests.system.adoption import dumps, site
from tests.system.adoption.releases import DUMPED
from tests.system.differential import released
from tests.system.differential.asking import Request
from tests.system.differential.pair import Side, opened_door, stead

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stead.store.protocol.store import Transaction
    from tests.databases import Server

pytestmark = pytest.mark.timeout(300)  # many questions, several times

NEWEST = 39
HOST, NUMA0, OTHER, POOL = site.HOST, site.NUMA0, site.OTHER, site.POOL
GHOST = site.uuid("a consumer without a row")
NOBODY = "00000000-0000-0000-0000-000000000000"


def id_of(provider: str) -> str:
    # A derived table: MariaDB refuses a subquery in an UPDATE of the same table.
    return f"(SELECT id FROM (SELECT id FROM resource_providers WHERE uuid = '{provider}') AS found)"


def provider(uuid: str, values: str) -> str:
    return f"UPDATE resource_providers SET {values} WHERE uuid = '{uuid}'"


def allocation(of: str, consumer: str, class_id: int = 0) -> str:
    columns = "resource_provider_id, consumer_id, resource_class_id, used"
    return f"INSERT INTO allocations ({columns}) VALUES ({of}, '{consumer}', {class_id}, 3)"


def inventory(of: str, class_id: int) -> str:
    columns = "total, reserved, min_unit, max_unit, step_size, allocation_ratio"
    return (
        f"INSERT INTO inventories (resource_provider_id, resource_class_id, {columns})"
        f" VALUES ({of}, {class_id}, 8, 0, 1, 8, 1, 1.0)"
    )


def numbers(values: str) -> str:
    return f"UPDATE inventories SET {values} WHERE resource_provider_id = {id_of(OTHER)} AND resource_class_id = 0"


def amount(used: int) -> str:
    held = f"consumer_id = '{site.PAIR}' AND resource_provider_id = {id_of(OTHER)}"
    return f"UPDATE allocations SET used = {used} WHERE {held}"


def consumer(values: str) -> str:
    return f"UPDATE consumers SET {values} WHERE uuid = '{site.PAIR}'"


def member(table: str, column: str) -> str:
    return f"INSERT INTO {table} (resource_provider_id, {column}) VALUES ({id_of(OTHER)}, 999999)"


@dataclass(frozen=True)
class Kind:
    """A faulty row: what the audit calls it, and what its answers are about. Others must not change."""

    fault: str
    plant: str
    affects: tuple[str, ...]
    is_repaired: bool = True


IN_HOST = (HOST, NUMA0, site.NUMA1)
KINDS = {
    # Every nullable column, but for the times and those whose NULL the API writes.
    "name NULL": Kind("no-name", provider(OTHER, "name = NULL"), (OTHER,)),
    "generation NULL": Kind("no-generation", provider(OTHER, "generation = NULL"), (OTHER, site.PAIR)),
    "root NULL": Kind("no-root", provider(OTHER, "root_provider_id = NULL"), (OTHER,)),
    "root NULL of a child": Kind("no-root", provider(NUMA0, "root_provider_id = NULL"), IN_HOST),
    "aggregate's uuid NULL": Kind(
        "aggregate-without-uuid", "UPDATE placement_aggregates SET uuid = NULL", (OTHER, POOL)
    ),
    # Every reference to a row that is gone.
    "parent gone": Kind("unknown-parent", provider(OTHER, "parent_provider_id = 999999"), (OTHER,), is_repaired=False),
    "parent and root gone": Kind(
        "unknown-parent",
        provider(OTHER, "parent_provider_id = 999999, root_provider_id = 999999"),
        (OTHER,),
        is_repaired=False,
    ),
    "root gone": Kind("wrong-root", provider(OTHER, "root_provider_id = 999999"), (OTHER,)),
    "allocation without consumer": Kind("allocation-without-consumer", allocation(id_of(OTHER), GHOST), (OTHER, GHOST)),
    "allocation without provider": Kind(
        "allocation-without-provider", allocation("999999", site.PAIR), (site.PAIR,), is_repaired=False
    ),
    "allocation without class": Kind(
        "allocation-without-class", allocation(id_of(OTHER), site.PAIR, 999999), (OTHER, site.PAIR), is_repaired=False
    ),
    "allocation without inventory": Kind(
        "allocation-without-inventory", allocation(id_of(OTHER), site.PAIR, 2), (OTHER, site.PAIR), is_repaired=False
    ),
    "consumer without project": Kind("unknown-project", consumer("project_id = 999999"), (site.PAIR,)),
    "consumer without user": Kind("unknown-user", consumer("user_id = 999999"), (site.PAIR,)),
    "consumer of a type that is gone": Kind(
        "unknown-consumer-type", consumer("consumer_type_id = 999999"), (site.PAIR,)
    ),
    "consumer without allocations": Kind(
        "consumer-without-allocations", f"UPDATE consumers SET uuid = '{GHOST}' WHERE uuid = '{GHOST}'", (GHOST,)
    ),
    "inventory without provider": Kind("inventory-without-provider", inventory("999999", 0), ()),
    "inventory without class": Kind(
        "inventory-without-class", inventory(id_of(OTHER), 999999), (OTHER,), is_repaired=False
    ),
    "trait gone": Kind("dangling-trait", member("resource_provider_traits", "trait_id"), (OTHER,)),
    "aggregate gone": Kind("dangling-aggregate", member("resource_provider_aggregates", "aggregate_id"), (OTHER,)),
    # Trees that contradict themselves.
    "two roots in one tree": Kind(
        "wrong-root", provider(NUMA0, f"root_provider_id = {id_of(OTHER)}"), (*IN_HOST, OTHER)
    ),
    "cycle": Kind("cycle", provider(HOST, f"parent_provider_id = {id_of(NUMA0)}"), IN_HOST, is_repaired=False),
    # Numbers that the API refuses.
    "step_size 0": Kind("inventory-units", numbers("step_size = 0"), (OTHER,)),
    "step_size below 0": Kind("inventory-units", numbers("step_size = -2"), (OTHER,)),
    "min_unit 0": Kind("inventory-units", numbers("min_unit = 0"), (OTHER,)),
    "max_unit 0": Kind("inventory-units", numbers("max_unit = 0"), (OTHER,)),
    "reserved below 0": Kind("inventory-units", numbers("reserved = -5"), (OTHER,)),
    "total 0": Kind("inventory-capacity", numbers("total = 0"), (OTHER,), is_repaired=False),
    "total below 0": Kind("inventory-capacity", numbers("total = -4"), (OTHER,), is_repaired=False),
    "more reserved than there is": Kind("overcommitted", numbers("reserved = 999"), (OTHER,), is_repaired=False),
    "allocation_ratio below 0": Kind("overcommitted", numbers("allocation_ratio = -1"), (OTHER,), is_repaired=False),
    "the greatest total and a reserved below 0": Kind(
        "inventory-units", numbers("total = 2147483647, reserved = -5"), (OTHER,)
    ),
    "allocation of 0": Kind("allocation-amount", amount(0), (OTHER, site.PAIR), is_repaired=False),
    "allocation below 0": Kind("allocation-amount", amount(-3), (OTHER, site.PAIR), is_repaired=False),
    "two allocations of one place": Kind(
        "allocations-in-parts", allocation(id_of(OTHER), site.PAIR), (OTHER, site.PAIR)
    ),
}
EMPTY_CONSUMER = f"""INSERT INTO consumers (uuid, project_id, user_id, generation)
    SELECT '{GHOST}', project_id, user_id, 0 FROM consumers WHERE uuid = '{site.PAIR}'"""
FIRST = {"consumer without allocations": [EMPTY_CONSUMER]}


class Deployment:
    """The site in an adopted database, with a service that has run since before the fault."""

    def __init__(self, url: str, configuration: Path, ask: site.Ask) -> None:
        self.url, self.path, self.configuration, self.ask = url, configuration, str(configuration), ask
        self.store = Store(Database(url))
        self.tables = [table for table in metadata.sorted_tables if not table.name.startswith("stead_")]
        self.rows = self.read()
        self.right = self.answers()

    def read(self) -> dict[str, list[dict[str, Any]]]:
        with self.store.writer.connect() as connection:
            return {
                table.name: [dict(row._mapping) for row in connection.execute(sa.select(table))]
                for table in self.tables
            }

    def undo(self) -> None:
        """Put back the rows of the deployment as they were, and have the service load them."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(UNCHECKED[connection.dialect.name])
            connection.commit()
            if connection.dialect.name == "mysql":  # a resource class has id 0
                connection.exec_driver_sql("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'")
            for table in self.tables:
                connection.execute(sa.delete(table))
                if self.rows[table.name]:
                    connection.execute(sa.insert(table), self.rows[table.name])
            connection.commit()
        self.store.write(store.renew_epoch)

    def plant(self, name: str) -> None:
        plant(self.store, [*FIRST.get(name, []), KINDS[name].plant])
        self.store.write(touch_all)

    def answers(self) -> dict[str, Any]:
        requests = [
            *site.questions(NEWEST),
            Request("GET", f"/allocations/{GHOST}"),
            Request("GET", "/provider_trees", headers=OWN),
            Request("GET", "/consumers", headers=OWN),
            Request("GET", f"/consumers?in_tree={OTHER}", headers=OWN),
            Request("GET", "/headroom?resources=VCPU:1", headers=OWN),
            Request("GET", "/allocation_candidates/explain?resources=VCPU:60", headers=OWN),
        ]
        exchanges = [(request, self.ask(request)) for request in requests if request.version == NEWEST]
        failed = [(request.target, answer.status, answer.body) for request, answer in exchanges if answer.status > 499]
        assert failed == []
        # Answers of Stead's own have a token of their moment.
        return {request.target: dumps.answered(answer)[: 1 if request.headers else 2] for request, answer in exchanges}

    def command(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(["--json", *arguments, "--config-file", self.configuration])
        return code, json.loads(capsys.readouterr().out)

    def faults(self, capsys: pytest.CaptureFixture[str], *options: str) -> set[str]:
        return {finding["fault"] for finding in self.command(capsys, "audit", *options)[1]["findings"]}


OWN = (("OpenStack-API-Version", f"placement 1.{NEWEST}, stead 1.1"),)


def touch_all(tx: Transaction) -> None:
    """The next refresh reads these providers, and no others."""
    ids = tx.connection.scalars(sa.select(resource_providers.c.id)).all()
    tx.touch(ids)
    tx.touch_usage(ids)


@pytest.fixture(scope="module")
def deployment(database_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    directory = tmp_path_factory.mktemp("faulty")
    url = database_server.create()
    dumps.restore(database_server.kind, url, DUMPED[-1])
    configuration = released.configure(directory, url)
    assert run(["db", "upgrade", "--config-file", str(configuration)]) == 0
    with stead(directory) as door:
        deployment = Deployment(url, configuration, Side(door).ask)
        yield deployment
        deployment.store.close()
    database_server.drop(url)


@pytest.fixture
def right(deployment: Deployment) -> Iterator[Deployment]:
    yield deployment
    deployment.undo()


@pytest.mark.parametrize("name", KINDS)
def test_a_faulty_row_is_named_served_around_and_repaired_if_that_is_safe(
    right: Deployment, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    kind = KINDS[name]
    right.plant(name)
    by_refresh = right.answers()
    right.store.write(store.renew_epoch)
    assert right.answers() == by_refresh  # a load and a refresh read the same rows
    elsewhere = {target for target in by_refresh if about(target) and not about(target) & {*kind.affects}}
    assert {target: by_refresh[target] for target in elsewhere} == {target: right.right[target] for target in elsewhere}
    code, check = right.command(capsys, "db", "check")
    assert (code, check["objections"]) == (0, [])  # the service can start
    meaning, command = meaning_of(right, capsys, kind.fault)
    [named] = [warning for warning in check["warnings"] if warning.startswith(meaning)]
    assert named.endswith(command)
    assert "placement-manage" not in str(check)
    assert kind.fault in right.faults(capsys)
    after = right.faults(capsys, "--repair", "--yes")
    assert (kind.fault not in after) == kind.is_repaired
    right.answers()
    if kind.is_repaired:
        assert after == set()


def meaning_of(deployment: Deployment, capsys: pytest.CaptureFixture[str], fault: str) -> tuple[str, str]:
    """What an audit says of a fault, and the command that helps."""
    document = deployment.command(capsys, "audit")[1]
    is_repaired = any(row["repairable"] for row in document["findings"] if row["fault"] == fault)
    return document["faults"][fault]["meaning"], "run: stead audit --repair" if is_repaired else "run: stead audit"


def about(target: str) -> set[str]:
    """The provider or consumer of a question about only one."""
    parts = target.partition("?")[0].split("/")
    return {parts[2]} if len(parts) > 2 and parts[1] in ("resource_providers", "allocations") else set()


WRITES = {
    "a drain": ("POST", "/whatif", {"changes": [{"change": "drain", "provider": OTHER}], "ask": {}}, OWN),
    "a drain of the tree": ("POST", "/whatif", {"changes": [{"change": "drain", "provider": HOST}], "ask": {}}, OWN),
    "a claim": ("PUT", f"/allocations/{site.uuid('new')}", site.claim(NEWEST, {OTHER: {"VCPU": 1}}), ()),
    "a claim in the tree": ("PUT", f"/allocations/{site.uuid('other')}", site.claim(NEWEST, {NUMA0: {"VCPU": 1}}), ()),
    "traits": ("PUT", f"/resource_providers/{POOL}/traits", {"resource_provider_generation": 3, "traits": []}, ()),
    "a rename": ("PUT", f"/resource_providers/{OTHER}", {"name": "renamed"}, ()),
    "a child": ("POST", "/resource_providers", {"name": "child", "parent_provider_uuid": OTHER}, ()),
    "a release": ("DELETE", f"/allocations/{site.PAIR}", None, ()),
    "another release": ("DELETE", f"/allocations/{GHOST}", None, ()),
    "a deletion": ("DELETE", f"/resource_providers/{OTHER}", None, ()),
}


@pytest.mark.parametrize("name", KINDS)
def test_no_write_beside_a_faulty_row_fails_or_asks_for_a_retry(right: Deployment, name: str) -> None:
    right.plant(name)
    for write, (method, target, body, headers) in WRITES.items():
        answer = right.ask(Request(method, target, body=body, headers=headers))
        assert answer.status < 500, (write, answer.status, answer.body)
        assert b"retry" not in answer.body, (write, answer.body)
    right.answers()


def held(right: Deployment, consumer: str) -> dict[str, dict[str, int]]:
    answer = right.ask(Request("GET", f"/allocations/{consumer}"))
    return {uuid: each["resources"] for uuid, each in answer.json["allocations"].items()}


def used(right: Deployment) -> int:
    usages: int = right.ask(Request("GET", f"/resource_providers/{OTHER}/usages")).json["usages"]["VCPU"]
    return usages


def test_allocations_of_a_consumer_without_a_row_are_shown_moved_replaced_and_released(right: Deployment) -> None:
    def planted() -> None:
        right.undo()
        right.plant("allocation without consumer")

    planted()
    shown = right.ask(Request("GET", f"/allocations/{GHOST}")).json
    assert (shown["project_id"], shown["consumer_generation"], shown["consumer_type"]) == (NOBODY, None, "unknown")
    assert held(right, GHOST) == {OTHER: {"VCPU": 3}}
    assert used(right) == 8
    listed = right.ask(Request("GET", f"/consumers?in_tree={OTHER}", headers=OWN)).json["consumers"]
    assert {each["uuid"] for each in listed} == {GHOST, site.PAIR}
    everyone = right.ask(Request("GET", "/consumers?totals=true", headers=OWN)).json
    [ghost] = [each for each in everyone["consumers"] if each["uuid"] == GHOST]
    assert {name: ghost[name] for name in shown} == shown
    assert everyone["project_totals"][NOBODY] == {"consumer_count": 1, "usages": {"VCPU": 3}}
    assert GHOST in right.ask(Request("GET", f"/resource_providers/{OTHER}/allocations")).json["allocations"]
    body = {"changes": [{"change": "drain", "provider": OTHER}], "ask": {}}
    plan = right.ask(Request("POST", "/whatif", body=body, headers=OWN)).json
    [move] = [each for each in plan["moves"] if each["consumer_uuid"] == GHOST]
    put = {key: move[key] for key in ("project_id", "user_id", "consumer_generation")}
    allocations = {uuid: {"resources": each["resources"]} for uuid, each in move["allocations"].items()}
    written = right.ask(Request("PUT", f"/allocations/{GHOST}", 37, body={**put, "allocations": allocations}))
    assert (written.status, written.body) == (204, b"")
    assert (used(right), OTHER in held(right, GHOST)) == (5, False)
    for nothing_left in (
        Request("PUT", f"/allocations/{GHOST}", body=site.claim(NEWEST, {})),
        Request("DELETE", f"/allocations/{GHOST}"),
    ):
        planted()
        assert right.ask(nothing_left).status == 204
        assert (used(right), held(right, GHOST)) == (5, {})
    planted()
    assert (
        right.ask(Request("PUT", f"/allocations/{GHOST}", body=site.claim(NEWEST, {OTHER: {"VCPU": 1}}))).status == 204
    )
    assert (used(right), held(right, GHOST)) == (6, {OTHER: {"VCPU": 1}})


def test_two_rows_of_one_place_are_shown_as_their_sum(right: Deployment) -> None:
    right.plant("two allocations of one place")
    assert held(right, site.PAIR)[OTHER] == {"VCPU": 8}
    assert used(right) == 8
    of_provider = right.ask(Request("GET", f"/resource_providers/{OTHER}/allocations")).json["allocations"]
    assert of_provider[site.PAIR]["resources"] == {"VCPU": 8}


def test_what_a_repair_fills_in(right: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("name NULL", "generation NULL", "allocation without consumer", "consumer without project"):
        right.plant(name)
    assert right.faults(capsys, "--repair", "--yes") == set()
    shown = right.ask(Request("GET", f"/resource_providers/{OTHER}")).json
    assert (shown["name"], shown["generation"]) == (OTHER, 0)
    for consumer_uuid in (GHOST, site.PAIR):
        assert right.ask(Request("GET", f"/allocations/{consumer_uuid}")).json["project_id"] == NOBODY
    assert held(right, GHOST) == {OTHER: {"VCPU": 3}}


def test_a_server_starts_on_all_of_them_at_once(right: Deployment) -> None:
    together = [name for name in KINDS if name not in ("parent and root gone", "cycle", "root gone")]
    for name in together:
        right.plant(name)
    with ExitStack() as stack:
        url = stack.enter_context(serving(right.path, workers=1))
        ask = Side(stack.enter_context(opened_door(int(url.rpartition(":")[2])))).ask
        listed = ask(Request("GET", "/resource_providers"))
        assert listed.status == 200
        assert {HOST, POOL} <= {each["uuid"] for each in listed.json["resource_providers"]}
        assert ask(Request("GET", "/allocation_candidates", query=(("resources", "DISK_GB:1"),))).status == 200


def test_every_nullable_column_of_the_deployment_is_planted(right: Deployment) -> None:
    """Apart from the times, which are shown as 0, and the columns of which NULL is a value of the API."""
    with right.store.writer.connect() as connection:
        inspector = sa.inspect(connection)
        nullable = {
            (table.name, column["name"])
            for table in right.tables
            for column in inspector.get_columns(table.name)
            if column["nullable"] and not column["name"].endswith("_at")
        }
    planted = {(resource_providers.name, name) for name in ("name", "generation", "root_provider_id")}
    values = {(resource_providers.name, "parent_provider_id"), ("consumers", "consumer_type_id")}
    assert nullable == planted | values | {(placement_aggregates.name, "uuid")}
