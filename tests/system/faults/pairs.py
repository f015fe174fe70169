"""A server that takes the writes and a replica that has all of them, behind one address that can be turned.

What was acknowledged is on the replica: PostgreSQL replicates synchronously, MariaDB semi-synchronously.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import sqlalchemy as sa

from tests.servers.throwaway import Home, Running, wait_for
from tests.system.faults.conftest import started
from tests.system.faults.waiting import RECOVERY_SECONDS
from tests.system.torture.proxy import Proxy
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack


@dataclass(frozen=True)
class Pair:
    """Two servers, and an empty database behind the address that is the first one's until it is turned."""

    url: str
    primary: Running
    replica: Running
    socket: str
    address: Proxy
    promote: Callable[[], None]
    """Let the replica take the writes, with all that it was sent."""

    def turn(self) -> None:
        """Let the address be the replica's."""
        self.address.turn(self.replica.home.path / self.socket)


def postgresql(place: Path, ends: ExitStack) -> Pair:
    primary = started("postgresql", place)
    ends.callback(primary.stop)
    home = Home.of("postgresql", "postgres")
    program, here, there = Path(primary.command[0]), str(primary.home.path), str(home.path)
    home.run(
        program.with_name("pg_basebackup"), f"--pgdata={there}/data", f"--host={here}", "--username=stead",
        "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
    )  # fmt: skip
    command = tuple(str(part).replace(here, there) for part in primary.command)
    replica = Running(primary.url.replace(quote(here), quote(there)), home.start(*command), home, command)
    ends.callback(replica.stop)
    wait_for(replica.url, replica.process, home)
    execute(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
    wait_until(
        lambda: execute(primary, "SELECT sync_state FROM pg_stat_replication") == [{"sync_state": "sync"}],
        seconds=RECOVERY_SECONDS,
    )
    return _behind_an_address(
        place, ends, ".s.PGSQL.5432", primary, replica, lambda: execute(replica, "SELECT pg_promote()")
    )


def mariadb(place: Path, ends: ExitStack) -> Pair:
    primary, replica = _numbered(1, place, ends), _numbered(2, place, ends)
    network = Proxy(("127.0.0.1", 0), primary.home.path / "socket")  # a replica knows no unix sockets
    ends.callback(network.close)
    execute(
        primary,
        "CREATE USER replica@localhost IDENTIFIED BY 'replica'",
        "GRANT REPLICATION SLAVE ON *.* TO replica@localhost",
        "CREATE USER stead@localhost",
        "GRANT ALL ON `stead%%`.* TO stead@localhost",
        "SET GLOBAL rpl_semi_sync_master_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",  # from now on it waits for the replica
    )
    execute(
        replica,
        "SET GLOBAL rpl_semi_sync_slave_enabled = ON",
        "SET GLOBAL read_only = ON",
        f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {network.port}, MASTER_USER = 'replica',"
        " MASTER_PASSWORD = 'replica', MASTER_USE_GTID = slave_pos",
        "START SLAVE",
    )
    semi_sync = "SHOW STATUS WHERE Variable_name = 'Rpl_semi_sync_master_clients' AND Value = '1'"
    wait_until(lambda: bool(execute(primary, semi_sync)), seconds=RECOVERY_SECONDS)

    def promote() -> None:
        (standing,) = execute(replica, "STOP SLAVE IO_THREAD", "SHOW SLAVE STATUS")
        (waited,) = execute(replica, f"SELECT MASTER_GTID_WAIT('{standing['Gtid_IO_Pos']}', 60) AS result")
        assert waited["result"] == 0
        execute(replica, "STOP SLAVE", "SET GLOBAL read_only = OFF")

    return _behind_an_address(place, ends, "socket", primary, replica, promote)


PAIRS: dict[str, Callable[[Path, ExitStack], Pair]] = {"postgresql": postgresql, "mariadb": mariadb}


def execute(server: Running, *statements: str) -> list[dict[str, Any]]:
    """Run them; returns the rows of the last."""
    engine = sa.create_engine(server.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            result = connection.exec_driver_sql(statement)
        return [dict(row) for row in result.mappings()] if result.returns_rows else []


def _numbered(number: int, place: Path, ends: ExitStack) -> Running:
    server = started("mariadb", place)
    ends.callback(server.stop)
    server.crash()
    again = server.start_again(f"--server-id={number}", "--log-bin=changes")
    ends.callback(again.stop)
    return again


def _behind_an_address(
    place: Path, ends: ExitStack, socket: str, primary: Running, replica: Running, promote: Callable[[], object]
) -> Pair:
    address = Proxy(place / socket, primary.home.path / socket)
    ends.callback(address.close)
    name = f"stead_{uuid4().hex[:12]}"
    execute(primary, f"CREATE DATABASE {name}")
    # Not as root, who may write to a replica of MariaDB.
    url = sa.make_url(primary.url).set(database=name, username="stead").render_as_string(hide_password=False)
    for spelling in (quote(str(primary.home.path), safe=""), str(primary.home.path)):
        url = url.replace(spelling, quote(str(place)))
    return Pair(url, primary, replica, socket, address, promote)
