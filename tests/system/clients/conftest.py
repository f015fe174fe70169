"""One server and one process of clients for all tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import write_configuration
from tests.servers.stead import serving
from tests.system.api.client import Api, http_door
from tests.system.clients.clients import Caller, Inside, OpenStack, running
from tests.system.clients.environment import CLIENTS


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "runs(*names): the commands or methods of the client that this test must run")


@pytest.fixture(scope="session")
def client_environment() -> Path:
    """Where the clients are installed; skips if they cannot be, but not in CI."""
    return CLIENTS.required_for("OpenStack's clients")


@pytest.fixture(scope="session")
def url(
    request: pytest.FixtureRequest, client_environment: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A Stead that serves (nothing here depends on the kind of its database), or the server of ``--api-url``."""
    given = request.config.getoption("--api-url")
    if given:
        yield given.rstrip("/")
        return
    place = tmp_path_factory.mktemp("served")
    with serving(write_configuration(place, f"sqlite:///{place}/placement.db"), workers=1) as url:
        yield url


@pytest.fixture(scope="session")
def inside(client_environment: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with running(client_environment, url, tmp_path_factory.mktemp("home")) as clients:
        yield clients


@pytest.fixture
def api(url: str) -> Api:
    """What Stead says itself, at its newest microversion: to look at what a client has done."""
    return Api(http_door(url))


@pytest.fixture
def promise(request: pytest.FixtureRequest) -> Iterator[set[str]]:
    """Holds a test to its mark ``runs``: all that it names must be in this set in the end, if nothing else failed."""
    ran: set[str] = set()
    failed = request.session.testsfailed
    yield ran
    if request.session.testsfailed == failed:
        promised = {name for mark in request.node.iter_markers("runs") for name in mark.args}
        assert promised <= ran, "the mark `runs` of this test names what it has not run"


@pytest.fixture(params=["default", "newest"])
def openstack(request: pytest.FixtureRequest, inside: Inside, promise: set[str]) -> Iterator[OpenStack]:
    """The command as it comes, and at the newest microversion that the plugin knows."""
    newest = inside.facts["microversions"][-1]
    command = OpenStack(inside, None if request.param == "default" else newest)
    yield command
    promise.update(name for name, version in command.ran if version == command.version)


@pytest.fixture
def old(inside: Inside) -> OpenStack:
    """The command at the first microversion; ``old.at("1.7")`` for others."""
    return OpenStack(inside, "1.0")


@pytest.fixture
def sdk(inside: Inside, promise: set[str]) -> Caller:
    """The placement proxy of openstacksdk, at the microversions that it chooses."""
    return Caller(inside, "sdk", ran=promise)


@pytest.fixture
def adapter(inside: Inside) -> Caller:
    """A keystoneauth1 adapter, with which services call each other."""
    return Caller(inside, "adapter")
