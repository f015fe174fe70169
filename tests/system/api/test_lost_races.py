"""What a client is told when other writers are faster, until the service's patience is over.

Source: "Writing allocations", "Errors", docs/api.md.
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from stead.store.protocol.store import RaceLost, Store
from tests.conftest import open_door
from tests.system.api.client import CONCURRENT_UPDATE, Api, Provider, fresh_uuid, holding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.api.client import Answer, Door

SHORT, FOR_EVER = "0.1", "100000"
AGAIN = "Another thread concurrently updated the resource provider data. Please retry your update"
CHANGED = f"Inventory and/or allocations changed while attempting to allocate: {AGAIN}"


def put_one(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1})))


def post_several(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.post("/allocations", {fresh_uuid(): holding((host, {"VCPU": 1})) for _ in range(2)})


def reshape(api: Api, host: Provider, _consumer: str) -> Answer:
    wanted = {"resource_provider_generation": generation(api, host), "inventories": {"VCPU": {"total": 9}}}
    return api.post("/reshaper", {"inventories": {host.uuid: wanted}, "allocations": {}})


def add_inventory(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.post(host.inventories, {"resource_class": "MEMORY_MB", "total": 1})


def replace_inventories(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.put(host.inventories, generation=generation(api, host), inventories={"VCPU": {"total": 9}})


def replace_inventory(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.put(host.inventory("VCPU"), generation=generation(api, host), total=9)


def delete_inventories(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.delete(host.inventories)


def delete_inventory(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.delete(host.inventory("VCPU"))


def replace_traits(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.put(host.traits, generation=generation(api, host), traits=["HW_NUMA_ROOT"])


def clear_traits(api: Api, host: Provider, _consumer: str) -> Answer:
    return api.delete(host.traits)


def release(api: Api, _host: Provider, consumer: str) -> Answer:
    return api.delete(f"/allocations/{consumer}")


def create_provider(api: Api, _host: Provider, _consumer: str) -> Answer:
    return api.post("/resource_providers", {"name": fresh_uuid()})


CLAIMS: dict[Any, str] = {put_one: CHANGED, post_several: CHANGED, reshape: f"update conflict: {AGAIN}"}
OTHERS: dict[Any, str] = {
    add_inventory: f"Update conflict: {AGAIN}",
    replace_inventories: f"update conflict: {AGAIN}",
    replace_inventory: f"update conflict: {AGAIN}",
    delete_inventories: AGAIN,
    delete_inventory: AGAIN,
    replace_traits: AGAIN,
    clear_traits: AGAIN,
}
WITHOUT_WORDS: tuple[Any, ...] = (release, create_provider)


def generation(api: Api, host: Provider) -> int:
    return int(api.get(host.path).json["generation"])


class Patience:
    """Opens the API with some options, on a database of its own, where a host and a consumer exist."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._monkeypatch = monkeypatch
        self._doors = ExitStack()
        # With the patience of every server: a busy machine may take longer than a short one for a single write.
        with self._opened() as door:
            api = Api(door)
            self._host = api.create_provider(inventories={"VCPU": 8}, traits=["COMPUTE_NODE"])
            self._consumer = api.claim((self._host, {"VCPU": 1}))

    def ends(self, ask: Any, error: Exception, **options: str) -> Answer:
        """The answer with these options, where every attempt ends with *error*."""
        for name, value in options.items():
            self._monkeypatch.setenv(f"OS_STEAD__{name.upper()}", value)
        api = Api(self._doors.enter_context(self._opened()))

        def fail(*_: object, **__: object) -> None:
            raise error

        self._monkeypatch.setattr(Store, "_attempt", fail)
        return ask(api, self._host, self._consumer)

    def close(self) -> None:
        self._doors.close()

    def _opened(self) -> AbstractContextManager[Door]:
        return open_door(self._directory, f"sqlite:///{self._directory}/stead.db")


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Patience]:
    patience = Patience(tmp_path, monkeypatch)
    yield patience
    patience.close()


BUSY = sqlite3.OperationalError("database is locked")
BUSY.sqlite_errorcode = sqlite3.SQLITE_BUSY
TAKEN = sqlite3.IntegrityError("UNIQUE constraint failed")
TAKEN.sqlite_errorcode = sqlite3.SQLITE_CONSTRAINT_UNIQUE
LOST = (RaceLost("resource_providers"), sa.exc.IntegrityError("INSERT", {}, TAKEN))
WAITED = sa.exc.OperationalError("BEGIN IMMEDIATE", {}, BUSY)


@pytest.mark.parametrize("lost", LOST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("ask", CLAIMS)
def test_a_claim_whose_races_are_lost_until_claim_timeout_is_a_conflict(
    patience: Patience, ask: Any, lost: Exception
) -> None:
    answer = patience.ends(ask, lost, claim_timeout=SHORT, write_timeout=FOR_EVER)
    assert answer.refused(409, CLAIMS[ask], code=CONCURRENT_UPDATE)
    assert answer.header("retry-after") is None


@pytest.mark.parametrize("ask", OTHERS)
def test_another_write_whose_races_are_lost_until_write_timeout_is_a_conflict_too(patience: Patience, ask: Any) -> None:
    answer = patience.ends(ask, LOST[0], claim_timeout=FOR_EVER, write_timeout=SHORT)
    assert answer.refused(409, OTHERS[ask], code=CONCURRENT_UPDATE)


@pytest.mark.parametrize("ask", WITHOUT_WORDS)
def test_where_a_conflict_would_mean_something_else_the_service_is_busy(patience: Patience, ask: Any) -> None:
    answer = patience.ends(ask, LOST[0], write_timeout=SHORT)
    assert answer.refused(503)
    assert answer.header("retry-after") == "1"


@pytest.mark.parametrize("ask", [*CLAIMS, *OTHERS, *WITHOUT_WORDS])
def test_a_database_that_lets_everybody_wait_is_no_conflict(patience: Patience, ask: Any) -> None:
    answer = patience.ends(ask, WAITED, claim_timeout=SHORT, write_timeout=SHORT)
    assert answer.refused(503)
    assert answer.header("retry-after") == "1"
