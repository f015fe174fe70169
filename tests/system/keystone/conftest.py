"""A Keystone and a Stead that believes it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.servers.stead import serving
from tests.system.api.client import Api, http_door, wsgi_door
from tests.system.keystone.environment import KEYSTONE
from tests.system.keystone.identity import Identity, advertise, running


@pytest.fixture(scope="session")
def keystone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identity]:
    with running(KEYSTONE.required_for("a real Keystone"), tmp_path_factory.mktemp("keystone")) as identity:
        yield identity


def configure(directory: Path, keystone: Identity, *policy: str) -> Path:
    """A placement.conf as docs/authentication.md has it, on an empty SQLite, with lines of ``[oslo_policy]``."""
    file = directory / "placement.conf"
    lines = [
        "[DEFAULT]",
        "debug = true",
        "default_log_levels =",
        "[placement_database]",
        f"connection = sqlite:///{directory}/placement.db",
        "sync_on_startup = true",
        "[keystone_authtoken]",
        "www_authenticate_uri = http://keystone.example/",
        f"auth_url = {keystone.url}",
        "auth_type = password",
        "username = placement",
        f"password = {keystone.passwords['placement']}",
        "user_domain_name = Default",
        "project_name = service",
        "project_domain_name = Default",
        "[oslo_policy]",
        *policy,
    ]
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="session")
def configuration(keystone: Identity, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return configure(tmp_path_factory.mktemp("stead"), keystone)


@pytest.fixture(scope="session")
def url(keystone: Identity, configuration: Path) -> Iterator[str]:
    """A Stead that serves; its address is in Keystone's catalog."""
    with serving(configuration, workers=1) as url:
        advertise(keystone, url)
        yield url


@pytest.fixture
def api(url: str) -> Callable[[str | None], Api]:
    """What Stead answers to a token. Each call claims to have roles, too, which nobody shall believe."""
    return lambda token: Api(http_door(url), token=token, roles="admin,service")  # type: ignore[arg-type]  # None: no header


@pytest.fixture
def in_process(keystone: Identity, tmp_path: Path) -> Iterator[Callable[..., Callable[[str | None], Api]]]:
    """The same as ``api``, from an application in this process, with lines of ``[oslo_policy]``."""
    from stead import application
    from stead.config import load

    with ExitStack() as closing:

        def make(*policy: str) -> Callable[[str | None], Api]:
            settings = load([configure(tmp_path, keystone, *policy)])
            service = application.build_service(settings)
            closing.callback(service.close)
            door = wsgi_door(application.assemble(service, settings))
            return lambda token: Api(door, token=token)  # type: ignore[arg-type]  # None: no header

        yield make
