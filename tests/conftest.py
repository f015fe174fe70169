"""What all tests share: the databases they run on, the application, and the `api` they speak to."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from scripts import twins
from tests.configuration import write_configuration
from tests.servers.throwaway import roomy_memory
from tests.system.api.client import Api, Door, http_door, wsgi_door

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.databases import Server

pytest_plugins = [
    "tests.databases",
    "tests.logs",
    "tests.selection",
    "tests.signals",
    "tests.statements",
    "tests.timeouts",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stead")
    group.addoption("--api-url", help="Run the API tests over HTTP against this server (noauth2, user admin).")
    group.addoption(
        "--api-released",
        action="store_true",
        help="The server at --api-url is the released service: tests marked `differs` must fail on it.",
    )


def pytest_configure(config: pytest.Config) -> None:
    if memory := roomy_memory():  # databases of SQLite wait for the disk at each commit
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    if not hasattr(config, "workerinput"):  # once, before the processes of pytest-xdist
        twins.write()
    config.addinivalue_line(
        "markers", "torture: random faults in a cluster of live servers; `make torture-galera` runs them, CI does not"
    )
    config.addinivalue_line(
        "markers", "releases: installs and runs every release of the service; `make releases` runs them, CI does not"
    )
    config.addinivalue_line(
        "markers", "clients: generates and compiles clients in other languages; `make clients` runs them, CI does not"
    )
    config.addinivalue_line(
        "markers", "differs(reason, sometimes=False): where the released service does not do what the contract asks for"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--api-released"):
        for item in items:
            for differs in item.iter_markers("differs"):
                strict = not differs.kwargs.get("sometimes", False)
                item.add_marker(pytest.mark.xfail(reason=differs.args[0], strict=strict))


@contextmanager
def open_door(directory: Path, database_url: str) -> Iterator[Door]:
    """The application on this database, in this process; its connections are closed in the end."""
    from stead import application
    from stead.config import load

    settings = load([write_configuration(directory, database_url)])
    service = application.build_service(settings)
    yield wsgi_door(application.assemble(service, settings))
    service.close()


@pytest.fixture(scope="session")
def door(database_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One application per kind of database, for all tests: each test names its own things freshly."""
    if database_server.kind == "url":
        yield http_door(database_server.place)
        return
    url = database_server.create_with_tables()
    with open_door(tmp_path_factory.mktemp("conf"), url) as opened:
        yield opened
    database_server.drop(url)


@pytest.fixture
def api(door: Door) -> Api:
    """The API as an admin sees it, at the newest microversion; there may be things of other tests."""
    return Api(door)


@pytest.fixture
def empty_api(ready_database_url: str, tmp_path: Path) -> Iterator[Api]:
    """The API of a service that has nothing yet."""
    with open_door(tmp_path, ready_database_url) as opened:
        yield Api(opened)


@pytest.fixture
def in_process(database_server: Server) -> None:
    """For what no HTTP server lets through to the application."""
    if database_server.kind == "url":
        pytest.skip("a server between refuses this by itself")
