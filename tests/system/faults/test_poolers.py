"""PgBouncer before PostgreSQL: in session mode the service works, in transaction mode it refuses to start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from stead import application
from stead.config import load
from stead.store.sql.dialects import UrlUnusable
from tests.conftest import write_configuration
from tests.servers.stead import serving
from tests.servers.throwaway import Home, wait_for
from tests.system.api.client import Api, fresh_uuid, http_door
from tests.system.deploy.servers import program
from tests.system.faults.test_database_settings import is_refused_alike, postgresql, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.system.faults.conftest import Victim

__all__ = ["postgresql"]  # a fixture

pytestmark = pytest.mark.timeout(180)  # starts a database server, and makes the tables several times


@pytest.fixture
def pooler(postgresql: Victim) -> Iterator[Callable[..., str]]:
    """Starts PgBouncer before a new database; returns the database's URL through it."""
    name = postgresql.name
    postgresql.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"CREATE DATABASE {name} TEMPLATE template0")
    with ExitStack() as ends:

        def start(mode: str, *more: str) -> str:
            home = Home.of("pgbouncer", "postgres")
            lines = (
                f"[databases]\n* = host={postgresql.running.home.path} user=stead",
                f"[pgbouncer]\npool_mode = {mode}\nlisten_addr =\nunix_socket_dir = {home.path}\nauth_type = any",
                f"logfile = {home.path}/pgbouncer.log\npidfile = {home.path}/pid\ndefault_pool_size = 60",
                *more,
            )
            (home.path / "ini").write_text("\n".join(lines) + "\n")
            process = home.start(program("pgbouncer", "pgbouncer"), home.path / "ini")
            ends.callback(process.wait)
            ends.callback(process.kill)
            url = sa.make_url(f"postgresql+psycopg://stead@/{name}?host={quote(str(home.path))}&port=6432")
            wait_for(url.render_as_string(hide_password=False), process, home)
            return url.render_as_string(hide_password=False)

        yield start


def test_session_mode(pooler: Callable[..., str], tmp_path: Path) -> None:
    statuses = serve(tmp_path, pooler("session"))
    assert [status for status in statuses if status[1] >= 500] == []


def test_several_workers_in_session_mode(pooler: Callable[..., str], tmp_path: Path) -> None:
    with serving(write_configuration(tmp_path, pooler("session")), workers=2) as url:
        api = Api(http_door(url))
        hosts = [api.create_provider() for _ in range(4)]
        for host in hosts:
            api.set_inventories(host, {"VCPU": 1000})

        def use(number: int) -> list[int]:
            host = hosts[number % len(hosts)]
            return [
                status
                for _ in range(20)
                for consumer in (fresh_uuid(),)
                for status in (
                    api.put(f"/allocations/{consumer}", allocation(host.uuid)).status,
                    api.get("/allocation_candidates?resources=VCPU:1").status,
                    api.delete(f"/allocations/{consumer}").status,
                )
            ]

        with ThreadPoolExecutor(8) as pool:
            statuses = {status for answers in pool.map(use, range(8)) for status in answers}
    assert statuses <= {200, 204}


def allocation(host: str) -> dict[str, object]:
    return {
        "allocations": {host: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }


@pytest.mark.parametrize("more", ["", "server_round_robin = 1"])
def test_transaction_mode_is_refused(
    pooler: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    is_refused_alike(tmp_path, pooler("transaction", more), "pool_mode = session", capsys)


@pytest.mark.parametrize("more", ["", "server_round_robin = 1"])
def test_transaction_mode_beside_other_clients_is_refused(
    pooler: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str
) -> None:
    url = pooler("transaction", more)
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with ExitStack() as ends:
        connections = [ends.enter_context(engine.connect()) for _ in range(6)]
        for connection in connections:
            connection.execute(sa.text("SELECT 1"))  # in a transaction, so each has a session of its own
        for connection in connections[::2]:
            connection.rollback()  # sessions that are free
        is_refused_alike(tmp_path, url, "pool_mode = session", capsys)


@pytest.mark.parametrize("threshold", ["0", "5", "None"])
def test_prepared_statements_can_be_set_in_the_url(postgresql: Victim, tmp_path: Path, threshold: str) -> None:
    url = sa.make_url(postgresql.url).update_query_dict({"prepare_threshold": threshold})
    settings = load([write_configuration(tmp_path, url.render_as_string(hide_password=False))])
    with closing(application.build_service(settings)) as service:
        assert service.snapshot() is not None


def test_another_threshold_is_named(postgresql: Victim, tmp_path: Path) -> None:
    url = sa.make_url(postgresql.url).update_query_dict({"prepare_threshold": "often"})
    with pytest.raises(UrlUnusable, match="prepare_threshold is 'often'"):
        application.build_service(load([write_configuration(tmp_path, url.render_as_string(hide_password=False))]))
