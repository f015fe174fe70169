"""A disk gets full under a running service: reads go on, writes get 503, nothing is half written, and it goes on."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

import pytest
import sqlalchemy as sa

from stead.store.protocol import store
from stead.store.tables import allocations
from tests.conftest import open_door, write_configuration
from tests.servers.stead import serving
from tests.system.api.client import Api, fresh_uuid, holding, http_door
from tests.system.faults.conftest import Victim, processes_of, started
from tests.system.faults.disks import no_file_longer_than, small_disk
from tests.system.faults.waiting import RECOVERY_SECONDS, candidates_of, unavailable, when_back, workers_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.system.api.client import Answer, Provider

    Full = Callable[[], AbstractContextManager[None]]
    """In the context, the disk is full."""

pytestmark = [
    pytest.mark.timeout(300),  # database servers are started, stopped and found again
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]

ROOM = 100_000
MOST_CLAIMS = 2000
"""On the space that pages have left so many rows find room, and more: then one must fail."""
FILE_LIMIT = 16 * 2**20
"""As long as the files of PostgreSQL's log: those are written in place."""


class Way(Protocol):
    """A way to a full disk for one kind of database; skips the test where it is not open."""

    def __call__(self, place: Path, ends: ExitStack) -> tuple[str, Full]:
        """The URL of an empty database, and how its disk gets full once there are tables."""
        ...


def sqlite_with_few_pages(place: Path, ends: ExitStack) -> tuple[str, Full]:
    most = [2**32 - 2]

    def limit(connection: sa.engine.interfaces.DBAPIConnection, *_: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count = {most[0]}")  # not below what there is

    sa.event.listen(sa.Pool, "checkout", limit)
    ends.callback(sa.event.remove, sa.Pool, "checkout", limit)

    @contextmanager
    def full() -> Iterator[None]:
        before, most[0] = most[0], 1
        yield
        most[0] = before

    return f"sqlite:///{place}/books.db", full


def sqlite_on_a_small_disk(place: Path, ends: ExitStack) -> tuple[str, Full]:
    disk = ends.enter_context(small_disk(place / "disk", megabytes=16))
    return f"sqlite:///{disk.at}/books.db", disk.full


def postgresql_with_short_files(place: Path, ends: ExitStack) -> tuple[str, Full]:
    victim = a_server("postgresql", place, ends)

    @contextmanager
    def full() -> Iterator[None]:
        engine = sa.create_engine(victim.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            size = sa.select(sa.func.pg_relation_size(allocations.name))
            while connection.execute(size).scalar_one() < FILE_LIMIT:
                connection.exec_driver_sql(
                    "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used)"
                    " SELECT 0, 'filler', 0, 1 FROM generate_series(1, 50000)"
                )
        with no_file_longer_than(FILE_LIMIT, processes_of(victim.running), victim.running.home.user):
            yield

    return victim.url, full


def postgresql_on_a_small_disk(place: Path, ends: ExitStack) -> tuple[str, Full]:
    victim = a_server("postgresql", place, ends)
    home = victim.running.home.path
    disk = ends.enter_context(small_disk(home / "disk", megabytes=32, owner=home))
    victim.execute(f"CREATE TABLESPACE small LOCATION '{disk.at}'")
    victim.execute(f"ALTER DATABASE {victim.name} SET TABLESPACE small")
    return victim.url, disk.full


def mariadb_with_a_fixed_tablespace(place: Path, ends: ExitStack) -> tuple[str, Full]:
    """Where nothing is left, nothing can be dropped either: it gets another file."""
    victim = a_server("mariadb", place, ends)
    files = "--innodb-data-file-path=ibdata1:12M;ibdata2:16M"
    victim.start_again_with(files, "--innodb-file-per-table=0")

    @contextmanager
    def full() -> Iterator[None]:
        filler = f"{victim.name}.filler"
        victim.execute(f"CREATE TABLE {filler} (what LONGBLOB) ENGINE=InnoDB")
        for size in (2**18, 2**14, 2**10):
            with suppress(sa.exc.OperationalError):  # 1114, the table is full
                while True:
                    victim.execute(f"INSERT INTO {filler} VALUES (REPEAT('x', {size}))")
        yield
        victim.start_again_with(f"{files};ibdata3:16M", "--innodb-file-per-table=0")

    return victim.url, full


def mariadb_on_a_small_disk(place: Path, ends: ExitStack) -> tuple[str, Full]:
    victim = a_server("mariadb", place, ends)
    data = victim.running.home.path / "data"
    disk = ends.enter_context(small_disk(data / victim.name, megabytes=32, owner=data))
    return victim.url, disk.full


def a_server(kind: str, place: Path, ends: ExitStack) -> Victim:
    running = started(kind, place)
    ends.callback(running.stop)
    victim = Victim(kind, running)
    ends.callback(lambda: victim.running.stop())  # it may have been started again
    return victim


WAYS: tuple[Way, ...] = (
    sqlite_with_few_pages,
    sqlite_on_a_small_disk,
    postgresql_with_short_files,
    postgresql_on_a_small_disk,
    mariadb_with_a_fixed_tablespace,
    mariadb_on_a_small_disk,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_full_disk(way: Way, tmp_path: Path) -> None:
    with ExitStack() as ends:
        url, full = way(tmp_path, ends)
        api = Api(ends.enter_context(open_door(tmp_path, url)))
        host = api.create_provider(inventories={"VCPU": ROOM})
        claims = Claims(api, host)
        claims.make().expect(204)
        with full():
            wait_until(lambda: claims.make().status == 503, seconds=RECOVERY_SECONDS)
            assert unavailable(claims.last)
            assert claims.last.refused(503, "The disk of the database is full.")
            assert api.get(host.path).status == 200
            assert candidates_of(api) == [host.uuid]
            assert claims.are_what_is_told()
            assert health(api) == (503, "unavailable")
        assert when_back(claims.make).status == 204
        assert claims.are_what_is_told()
        assert health(api) == (200, "ok")


def health(api: Api) -> tuple[int, str]:
    status, _, body = api.door("GET", "/healthcheck", [], None)
    return status, json.loads(body)["status"]


@pytest.mark.parametrize(
    "way", [way for way in WAYS if "small_disk" in way.__name__], ids=lambda way: way.__name__
)  # elsewhere the rows of a probe have room
def test_a_full_disk_is_noticed_without_a_client_that_writes(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "TRUSTED_SECONDS", 0.0)  # each probe of health is one of the database
    monkeypatch.setattr(store, "PAUSE_SECONDS", 0.0)
    with ExitStack() as ends:
        url, full = way(tmp_path, ends)
        api = Api(ends.enter_context(open_door(tmp_path, url)))
        assert health(api) == (200, "ok")
        with full():
            wait_until(lambda: health(api) == (503, "unavailable"))
        wait_until(lambda: health(api) == (200, "ok"))


class Claims:
    """New consumers claim one VCPU each; those that were refused hold nothing."""

    def __init__(self, api: Api, host: Provider) -> None:
        self._api = api
        self._host = host
        self._acknowledged: list[str] = []
        self._refused: list[str] = []
        self.last: Answer

    def make(self) -> Answer:
        consumer = fresh_uuid()
        self.last = self._api.put(f"/allocations/{consumer}", holding((self._host, {"VCPU": 1})))
        assert self.last.status in (204, 503), self.last
        (self._acknowledged if self.last.status == 204 else self._refused).append(consumer)
        assert len(self._acknowledged) < MOST_CLAIMS, "the disk is not full"
        return self.last

    def are_what_is_told(self) -> bool:
        """By memory, by the sum that is kept, and by the rows."""
        (summary,) = (
            self._api.get("/allocation_candidates", {"resources": "VCPU:1"}).json["provider_summaries"].values()
        )
        rows = self._api.get(self._host.allocations).expect(200).json["allocations"]
        number = len(self._acknowledged)
        return (
            summary["resources"]["VCPU"]["used"] == number
            and self._api.used(self._host) == {"VCPU": number}
            and sorted(rows) == sorted(self._acknowledged)
            and not any(self._api.held(consumer) for consumer in self._refused)
        )


def test_no_worker_dies_of_a_full_disk(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/books.db")
    with serving(configuration) as url:
        api = Api(http_door(url))
        host = api.create_provider(inventories={"VCPU": ROOM})
        claims = Claims(api, host)
        workers = workers_of(configuration)
        with no_file_longer_than(2**16, map(int, workers)):
            wait_until(lambda: claims.make().status == 503, seconds=RECOVERY_SECONDS)
            assert unavailable(claims.last)
            assert api.get(host.path).status == 200
        assert when_back(claims.make).status == 204
        assert claims.are_what_is_told()
        assert workers_of(configuration) == workers
