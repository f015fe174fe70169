"""Debian's Chromium on the pages of a server. Needs the packages `chromium` and `npm`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import sync_playwright

from tests.conftest import write_configuration
from tests.servers import programs
from tests.servers.stead import started
from tests.system.browser.site import fill
from tests.system.browser.window import REBOUND, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.servers.stead import Serving

HERE = Path(__file__).parent


def _program(package: str, lock: Path) -> Path:
    """A program of Debian. The test is skipped without it, unless STEAD_TEST_REQUIRE names its package."""
    try:
        return programs.find_or_install(package, (package,), (), lock)
    except programs.Unavailable as why:
        if package in os.environ.get("STEAD_TEST_REQUIRE", "").split(","):
            pytest.fail(f"STEAD_TEST_REQUIRE asks for {package}: {why}", pytrace=False)
        pytest.skip(str(why))


@pytest.fixture(scope="session")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp().parent / "apt.lock"


@pytest.fixture(scope="session")
def node_modules(lock: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of package-lock.json, which `npm ci` checks against its hashes."""
    npm = _program("npm", lock)
    present = HERE / "node_modules"
    if present.is_dir():
        return present
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    done = subprocess.run([npm, "ci", "--ignore-scripts"], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return folder / "node_modules"


# Not for the whole session: Playwright runs an event loop in this thread, where later tests have loops of their own.
@pytest.fixture(scope="module")
def chromium(lock: Path) -> Iterator[Browser]:
    program = _program("chromium", lock)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(program),
            args=[
                "--no-sandbox",
                "--enable-precise-memory-info",
                "--js-flags=--expose-gc",
                f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
            ],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with a site of hosts, some of which have hostile names."""
    folder = tmp_path_factory.mktemp("browser")
    with started(write_configuration(folder, f"sqlite:///{folder}/placement.db"), workers=1) as server:
        fill(server.url)
        yield server


@pytest.fixture
def window(chromium: Browser, serving: Serving) -> Iterator[Window]:
    """A window of a browser on the server; no script failed and no rule of its content policy was broken in the end."""
    context = chromium.new_context()
    window = Window(context, serving.url)
    yield window
    context.close()
    assert window.is_attacked or window.faults == [], json.dumps(window.faults, indent=1)
