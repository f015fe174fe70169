"""The databases the tests run on: SQLite, PostgreSQL and MariaDB, each test on all it asks for.

`database_url` gives a test an empty database of its own, and `ready_database_url` one with tables. The servers are
those named by STEAD_TEST_POSTGRESQL_URL and STEAD_TEST_MYSQL_URL (users that may create databases), else throw-away
ones, started when the first selected test needs them and shared by all workers of a run. A database that cannot be had
is skipped, loudly, or fails the run if STEAD_TEST_REQUIRE names it (``sqlite,postgresql,mariadb``).
"""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from tests.configuration import write_configuration
from tests.servers.throwaway import roomy_memory
from tests.waiting import TimedOut, wait_until

GIVEN = {"postgresql": "STEAD_TEST_POSTGRESQL_URL", "mariadb": "STEAD_TEST_MYSQL_URL"}
KINDS = ("sqlite", *GIVEN)
MYSQL = f"mysql+{os.environ.get('STEAD_TEST_MYSQL_DRIVER', 'pymysql')}"
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": MYSQL, "mariadb": MYSQL}
PLACE = "STEAD_TEST_SERVERS_AT"  # where the workers of one run meet
PATIENCE_SECONDS = 900.0  # an installation with apt takes long


@dataclass(frozen=True)
class Server:
    """Where databases of one kind are made: a directory or a server; or, of kind ``url``, a service to be tested."""

    kind: str
    place: str

    def create(self, *, template: str = "") -> str:
        """The URL of a new, empty database; with *template*, of a copy of that one, which PostgreSQL makes."""
        if self.kind == "url":
            pytest.skip("for a service of its own")
        name = f"stead_test_{uuid4().hex[:16]}"
        if self.kind == "sqlite":
            return f"sqlite:///{self.place}/{name}.db"
        self._run(f"CREATE DATABASE {name}{template and f' TEMPLATE {template}'}")
        url = sa.make_url(self.place)
        return url.set(drivername=DRIVERS[self.kind], database=name).render_as_string(hide_password=False)

    def create_with_tables(self) -> str:
        """The URL of a new database as a service that has started once leaves it, in an epoch of its own.

        It is copied: to create the tables step by step takes half a second of each test.
        """
        if self.kind == "url":
            pytest.skip("for a service of its own")
        if self not in _templates:
            _templates[self] = self.create()
            _start_service_on(_templates[self])
        template = sa.make_url(_templates[self]).database or ""
        url = self.create(template=template) if self.kind == "postgresql" else self.create()
        name = sa.make_url(url).database or ""
        if self.kind == "sqlite":
            assert not list(Path(self.place).glob(f"{Path(template).name}-*")), "the service has not written everything"
            shutil.copyfile(template, name)
        elif self.kind == "mariadb":
            self._copy_tables(template, name)
        self._begin_epoch(url)
        return url

    def _begin_epoch(self, url: str) -> None:
        statement, name = f"UPDATE stead_epoch SET epoch = '{uuid4()}'", sa.make_url(url).database or ""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(name)) as connection, connection:
                connection.execute(statement)
        elif self.kind == "mariadb":
            self._run(statement.replace("stead_epoch", f"{name}.stead_epoch"))
        else:  # without an engine, which would ask several questions first
            with psycopg.connect(url.replace("+psycopg", "", 1)) as connection:
                connection.execute(statement)

    def _copy_tables(self, template: str, name: str) -> None:
        """Copy all tables of a database of MariaDB, which has no templates."""
        # The first standard class has the id 0, which is otherwise replaced by the next number.
        mode = "SET sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
        self._run("SET foreign_key_checks = 0", mode, f"USE {name}", *_copying(self, template))

    def drop(self, url: str) -> None:
        name = sa.make_url(url).database or ""
        if self.kind == "sqlite":
            for file in Path(self.place).glob(f"{Path(name).name}*"):
                file.unlink()
        else:
            self._run(f"DROP DATABASE {name}" + (" WITH (FORCE)" if self.kind == "postgresql" else ""))

    def _run(self, *statements: str) -> None:
        with closing(_administration(self).raw_connection()) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)


@cache
def _administration(server: Server) -> sa.Engine:
    """An engine whose one connection makes all databases of this process: to connect takes longer than to make one."""
    return sa.create_engine(server.place, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=0)


@cache
def _copying(server: Server, template: str) -> tuple[str, ...]:
    """The statements that copy the tables of *template* into the database in use, and what is in them."""
    statements = []
    with closing(_administration(server).raw_connection()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SHOW TABLES FROM {template}")
        for (table,) in cursor.fetchall():
            cursor.execute(f"SHOW CREATE TABLE {template}.{table}")
            statements.append(cursor.fetchone()[1])
            cursor.execute(f"SELECT 1 FROM {template}.{table} LIMIT 1")
            if cursor.fetchone():
                statements.append(f"INSERT INTO {table} SELECT * FROM {template}.{table}")
    return tuple(statements)


_templates: dict[Server, str] = {}
"""The databases that this process copies, by their servers; they end with them."""


def _start_service_on(url: str) -> None:
    """Start a service once on an empty database, which creates its tables and standard names."""
    from stead import application
    from stead.config import load

    with tempfile.TemporaryDirectory() as directory:
        application.build_service(load([write_configuration(Path(directory), url)])).close()


_place: list[Path] = []


def place() -> Path:
    """The directory in which the processes of this run meet; made when the first server is asked for."""
    return _place[0]


def owner() -> int:
    """The process of the whole run: its end is the end of the servers."""
    return int(place().name.split("-")[-2])


def ask_for(kind: str) -> None:
    """Have the server of this kind started, if nobody has yet; do not wait for it."""
    if kind not in GIVEN or os.environ.get(GIVEN[kind]):
        return
    place().mkdir(mode=0o700, exist_ok=True)
    with (place() / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (place() / f"{kind}.keeper").exists():
            return
        with (place() / f"{kind}.log").open("wb") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.keeper", kind, str(place()), str(owner())],
                cwd=Path(__file__).parent.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (place() / f"{kind}.keeper").write_text(str(keeper.pid))
        keeper.returncode = 0  # it is not waited for here: the run ends it


def settled(kind: str) -> bool:
    """Whether the server of this kind answers, or cannot be had."""
    return any((place() / f"{kind}.{state}").exists() for state in ("url", "failed"))


def url_of(kind: str) -> str:
    """The URL of the server of this kind; skips the test if it cannot be had."""
    given = os.environ.get(GIVEN[kind])
    if given:
        url = sa.make_url(given)
        return url.set(drivername=DRIVERS.get(url.drivername, url.drivername)).render_as_string(hide_password=False)
    ask_for(kind)
    if not settled(kind):
        pytest.fail(f"{kind} was not ready in time: {(place() / f'{kind}.log').read_text()}", pytrace=False)
    failed = place() / f"{kind}.failed"
    if failed.exists():
        reason = failed.read_text()
        if kind in required():
            pytest.fail(f"STEAD_TEST_REQUIRE asks for {kind}: {reason}", pytrace=False)
        pytest.skip(f"no {kind}: {reason}")
    return (place() / f"{kind}.url").read_text()


def required() -> set[str]:
    return {kind.strip() for kind in os.environ.get("STEAD_TEST_REQUIRE", "").split(",")}


@pytest.fixture(scope="session")
def database_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each of the servers in turn."""
    kind = request.param
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="stead-sqlite-", dir=roomy_memory()) as directory:
            yield Server(kind, directory)
        return
    server = Server(kind, request.config.getoption("--api-url") if kind == "url" else url_of(kind))
    yield server
    if kind in GIVEN:
        _administration(server).dispose()


@pytest.fixture
def database_url(database_server: Server) -> Iterator[str]:
    """An empty database for this test alone."""
    url = database_server.create()
    yield url
    database_server.drop(url)


@pytest.fixture
def ready_database_url(database_server: Server) -> Iterator[str]:
    """A database for this test alone, with the tables of this release and nothing but the standard names."""
    url = database_server.create_with_tables()
    yield url
    database_server.drop(url)


@pytest.fixture(scope="module")
def module_database_url(database_server: Server) -> Iterator[str]:
    """An empty database for the tests of one module."""
    url = database_server.create()
    yield url
    database_server.drop(url)


@pytest.fixture(scope="module")
def module_ready_database_url(database_server: Server) -> Iterator[str]:
    """A database for the tests of one module, with the tables of this release."""
    url = database_server.create_with_tables()
    yield url
    database_server.drop(url)


def kind_of(item: pytest.Item) -> str | None:
    """On which database *item* runs; None if on none."""
    callspec = getattr(item, "callspec", None)
    kind = callspec.params.get("database_server") if callspec else None
    return kind if isinstance(kind, str) else None


def is_worker(config: pytest.Config) -> bool:
    """Is this a process of pytest-xdist that runs tests for another?"""
    return hasattr(config, "workerinput")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database_server" in metafunc.fixturenames:
        kinds = KINDS if metafunc.definition.get_closest_marker("one_database") is None else KINDS[:1]
        if metafunc.config.getoption("--api-url"):
            kinds = ("url",)
        metafunc.parametrize("database_server", kinds, indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_database: nothing in this test depends on the kind of database")
    if not is_worker(config):
        os.environ[PLACE] = f"{tempfile.gettempdir()}/stead-servers-{os.getpid()}-{uuid4().hex[:8]}"
    _place.append(Path(os.environ[PLACE]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start what the selected tests need, side by side, while the first tests run on SQLite."""
    if not session.config.option.collectonly:
        for kind in sorted(GIVEN.keys() & {kind_of(item) for item in session.items}):
            ask_for(kind)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Wait for the server that *item* needs before the time of *item* counts: it may have to be installed."""
    kind = kind_of(item)
    if kind in GIVEN and not os.environ.get(GIVEN[kind]):
        ask_for(kind)
        with suppress(TimedOut):  # `url_of` says so
            wait_until(lambda: settled(kind), seconds=PATIENCE_SECONDS)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """After everything else: which databases were not tested."""
    yield
    for failed in sorted(place().glob("*.failed")):
        kind, reason = failed.stem, failed.read_text()
        terminalreporter.write_line(
            f"NOT TESTED ON {kind.upper()}: {reason} (or give a server in {GIVEN[kind]})", red=True, bold=True
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    if is_worker(config):
        return
    keepers = [int(file.read_text()) for file in place().glob("*.keeper")]
    for keeper in keepers:
        with suppress(ProcessLookupError):
            os.kill(keeper, signal.SIGTERM)
    with suppress(TimedOut):
        wait_until(lambda: not any(_lives(keeper) for keeper in keepers))
    shutil.rmtree(place(), ignore_errors=True)


def _lives(pid: int) -> bool:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # without xdist it is our child, and a zombie would look alive
    return Path(f"/proc/{pid}").exists()
