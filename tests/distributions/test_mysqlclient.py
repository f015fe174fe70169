"""Stead with mysqlclient, the C driver for MariaDB and MySQL: what depends on a driver does the same with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.databases import GIVEN, Server, place, required
from tests.distributions.wheels import project
from tests.servers.programs import Unavailable, look_or_install

pytestmark = pytest.mark.timeout(600)  # compiles the driver, then runs tests on MariaDB beside those of the whole run

ROOMS = "tests/rooms/store"
PARTS = (
    "feed/test_loading.py",
    "protocol/test_failures.py",
    "protocol/test_rules.py",
    "test_values.py",
    "test_spellings.py",
)
"""Tests of what a driver does itself: converting values, errors and their codes, waiting for locks, comparing texts."""


def mariadb_config() -> Path | None:
    """The program that tells a compiler where the header files are."""
    program = shutil.which("mariadb_config") or shutil.which("mysql_config")
    return Path(program) if program else None


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the driver, as the extra installs it."""
    place().mkdir(mode=0o700, exist_ok=True)
    try:
        look_or_install(mariadb_config, ("libmariadb-dev", "pkg-config"), place() / "apt.lock")
    except Unavailable as reason:
        if "mariadb" in required():
            pytest.fail(f"STEAD_TEST_REQUIRE asks for mariadb: {reason}", pytrace=False)
        pytest.skip(str(reason))
    target = tmp_path_factory.mktemp("mysqlclient")
    (requirement,) = project(ROOT)["optional-dependencies"]["mysqlclient"]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    done = subprocess.run([*pip, "--target", str(target), requirement], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_what_depends_on_the_driver_passes_with_mysqlclient(
    database_server: Server, request: pytest.FixtureRequest
) -> None:
    if database_server.kind != "mariadb":
        pytest.skip("the driver is for MariaDB and MySQL")
    driver: Path = request.getfixturevalue("driver")  # which installs programs
    environment = os.environ | {
        "PYTHONPATH": str(driver),
        "STEAD_TEST_MYSQL_DRIVER": "mysqldb",
        GIVEN["mariadb"]: database_server.place,
    }
    environment = {name: value for name, value in environment.items() if not name.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-k", "mariadb", "-p", "no:cacheprovider", "-p", "no:randomly"]
    parts = [f"{ROOMS}/{part}" for part in PARTS]
    done = subprocess.run([*command, *parts], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
