"""OpenStack's command line logs in with a password, finds Stead in Keystone's catalog, and uses it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.clients.clients import Inside, Said, running
from tests.system.clients.environment import CLIENTS
from tests.system.keystone.identity import Identity

pytestmark = pytest.mark.timeout(900)  # Keystone and the clients may have to be installed first

Command = Callable[..., Said]


@pytest.fixture(scope="session")
def clients(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    with running(CLIENTS.required_for("OpenStack's clients"), url, tmp_path_factory.mktemp("home")) as inside:
        yield inside


@pytest.fixture
def openstack(keystone: Identity, clients: Inside) -> Command:
    """``openstack("resource provider list", user="alice", project="mine")``, with that user's password."""

    def run(command: str, *, user: str, project: str, password: str | None = None) -> Said:
        options = {
            "auth-type": "password",
            "auth-url": keystone.url,
            "username": user,
            "password": password or keystone.passwords[user],
            "user-domain-name": "Default",
            "project-name": project,
            "project-domain-name": "Default",
        }
        argv = [f"--os-{name}={value}" for name, value in options.items()]
        return Said(**clients.ask("command", argv=[*argv, *command.split()]))

    return run


def test_an_admin_logs_in_and_works(openstack: Command) -> None:
    made = openstack("resource provider create a-host -f json", user="alice", project="mine")
    assert made.code == 0, made.err
    listed = openstack("resource provider list -f json", user="nova", project="service")
    assert [provider["uuid"] for provider in listed.json] == [made.json["uuid"]]


def test_who_has_no_role_for_it_is_told_so(openstack: Command) -> None:
    assert openstack("resource provider list", user="norm", project="mine").refused("403")


def test_a_wrong_password_gets_nowhere(openstack: Command) -> None:
    assert openstack("resource provider list", user="alice", project="mine", password="wrong").refused("401")


def test_a_reader_sees_what_the_own_project_uses(openstack: Command, keystone: Identity) -> None:
    ask = f"--os-placement-api-version 1.9 resource usage show -f json {keystone.projects['mine']}"
    assert openstack(ask, user="ron", project="mine").json == []
    other = ask.replace(keystone.projects["mine"], keystone.projects["yours"])
    assert openstack(other, user="ron", project="mine").refused("403")


def test_the_password_is_not_in_the_log_of_the_service(
    openstack: Command, keystone: Identity, configuration: Path
) -> None:
    openstack("resource provider list", user="alice", project="mine")
    log = configuration.with_suffix(".log").read_text()
    assert not any(password in log for password in keystone.passwords.values())
