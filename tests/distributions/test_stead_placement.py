"""The distribution stead-placement: the names that deployment tools load, alone in their environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import stead
from tests.distributions.wheels import NAMES, ROOT, build, install, installed_files, project
from tests.system.api.client import NEWEST

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # builds distributions and installs them

COMMANDS = {"placement-manage", "placement-status"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(NAMES, tmp_path_factory.mktemp("names") / "wheel")


@pytest.fixture
def environment(wheel: Path, tmp_path: Path) -> Path:
    """A virtual environment with the wheel; of Stead and its dependencies it finds those of the tests."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    install(wheel, python=place / "bin" / "python")
    own = [path for path in sys.path if Path(path).is_dir() and not Path(path).is_relative_to(sys.base_prefix)]
    (packages(place) / "tests.pth").write_text("".join(f"{path}\n" for path in own if Path(path) != ROOT))
    (tmp_path / "placement.conf").write_text(
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/placement.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n"
    )
    return place


def packages(place: Path) -> Path:
    (directory,) = place.glob("lib/python3.*/site-packages")
    return directory


def install_openstack_placement(place: Path) -> None:
    """What pip leaves of it where its modules were overwritten: the record that it is installed."""
    record = packages(place) / "openstack_placement-16.0.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: openstack-placement\nVersion: 16.0.0\n")


def run(place: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment, with the configuration beside it."""
    return subprocess.run(
        [place / "bin" / program, *arguments],
        capture_output=True,
        text=True,
        cwd=place,
        env={"PATH": os.environ["PATH"], "OS_PLACEMENT_CONFIG_DIR": str(place.parent)},
    )


ASK = """
import runpy, sys
from wsgiref.util import setup_testing_defaults

def start_response(status, headers, exc_info=None):
    print(status)

environ = {"PATH_INFO": "/"}
setup_testing_defaults(environ)
{load}
print(b"".join(application(environ, start_response)).decode())
"""
LOAD_FILE = 'application = runpy.run_path(sys.argv[1], run_name="wsgi_file")["application"]'


def test_the_wheel_contains_the_names_that_tools_use_and_nothing_else(wheel: Path) -> None:
    assert installed_files(wheel) == {
        "placement/__init__.py",
        "placement/sole_provider.py",
        "placement/wsgi/__init__.py",
        "placement/wsgi/api.py",
        "bin/placement-api",
        *(f"bin/{command}" for command in COMMANDS),
    }


def test_the_two_distributions_install_no_file_of_the_same_name(wheel: Path, tmp_path: Path) -> None:
    of_stead = installed_files(build(ROOT, tmp_path / "wheel"))
    assert "bin/stead" in of_stead
    assert of_stead & installed_files(wheel) == set()


def test_it_needs_stead_of_its_own_version() -> None:
    names = project(NAMES)
    assert names["version"] == stead.__version__
    assert names["dependencies"] == [f"stead=={stead.__version__}"]
    assert names["requires-python"] == project(ROOT)["requires-python"]


def test_its_extras_are_those_of_stead_for_a_service() -> None:
    extras = project(NAMES)["optional-dependencies"]
    of_tests = {"dev", "docs", "test"}
    assert set(extras) == set(project(ROOT)["optional-dependencies"]) - of_tests
    required = {name: [Requirement(text) for text in requirements] for name, requirements in extras.items()}
    assert all(
        [(requirement.name, requirement.extras) for requirement in required[name]] == [("stead", {name})]
        for name in required
    )


def test_it_has_the_license_of_stead() -> None:
    assert (NAMES / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("load", ["module", "program", "copied module"])
def test_the_application_is_loaded_in_each_way_that_tools_have(environment: Path, tmp_path: Path, load: str) -> None:
    copied = tmp_path / "elsewhere.wsgi"
    shutil.copy(packages(environment) / "placement" / "wsgi" / "api.py", copied)
    by, path = {
        "module": ("from placement.wsgi.api import application", ""),
        "program": (LOAD_FILE, str(environment / "bin" / "placement-api")),
        "copied module": (LOAD_FILE, str(copied)),
    }[load]
    asked = run(environment, "python", "-c", ASK.replace("{load}", by), path)
    assert asked.stdout.startswith("200 OK\n"), asked.stderr
    assert f'"max_version": "{NEWEST}"' in asked.stdout or f'"max_version":"{NEWEST}"' in asked.stdout


@pytest.mark.parametrize("load", ["import placement", "import placement.wsgi.api"])
def test_it_refuses_to_be_imported_beside_openstack_placement(environment: Path, load: str) -> None:
    install_openstack_placement(environment)
    refused = run(environment, "python", "-c", load)
    assert refused.returncode == 1
    message = refused.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: openstack-placement is installed in {packages(environment)}")
    assert "Run: pip uninstall --yes openstack-placement; then: pip install --force-reinstall" in message
    assert not (environment.parent / "placement.db").exists()


@pytest.mark.parametrize("file", ["bin/placement-api", "a copy of api.py"])
def test_a_wsgi_file_refuses_although_the_other_package_was_installed_last(environment: Path, file: str) -> None:
    """Then ``placement/__init__.py`` is the other one, which checks nothing."""
    copied = environment.parent / "elsewhere.wsgi"
    shutil.copy(packages(environment) / "placement" / "wsgi" / "api.py", copied)
    install_openstack_placement(environment)
    (packages(environment) / "placement" / "__init__.py").write_text("")
    path = environment / file if file.startswith("bin/") else copied
    refused = run(environment, "python", "-c", ASK.replace("{load}", LOAD_FILE), str(path))
    assert "ImportError: openstack-placement is installed in" in refused.stderr
    assert not (environment.parent / "placement.db").exists()


def test_placement_api_run_as_a_program_says_how_to_serve(environment: Path) -> None:
    told = run(environment, "placement-api", "--port", "8000")
    assert (told.returncode, told.stdout) == (1, "")
    assert "Run: stead serve --port 8778" in told.stderr
    assert f"--wsgi-file {environment}/bin/placement-api" in told.stderr
    assert not (environment.parent / "placement.db").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["placement-manage", "db", "sync"], ""), (["placement-status", "upgrade", "check"], "Upgrade Check Results")],
    ids=sorted(COMMANDS),
)
def test_the_commands_work_on_the_database_of_the_deployment(
    environment: Path, arguments: list[str], says: str
) -> None:
    configured = ("--config-file", str(environment.parent / "placement.conf"))
    assert run(environment, "placement-manage", *configured, "db", "sync").returncode == 0
    done = run(environment, arguments[0], *configured, *arguments[1:])
    assert done.returncode == 0, done.stdout + done.stderr
    assert says in done.stdout
    assert (environment.parent / "placement.db").exists()
