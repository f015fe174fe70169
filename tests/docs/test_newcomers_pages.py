"""The tutorials from their first command on: Stead is installed in a virtual environment, and started."""

from __future__ import annotations

import re
import shutil
import sysconfig
from typing import TYPE_CHECKING

import pytest

from tests.docs.clean_checkout import NEEDED, make_checkout, plain_environment
from tests.docs.console import Command, commands_of, run
from tests.docs.test_readme import serving
from tests.docs.test_worked_examples import DOCS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.timeout(300),  # builds and installs Stead, and runs what the pages show
    NEEDED,
    pytest.mark.skipif(not shutil.which("curl"), reason="a page uses curl"),
]

ADDRESS = "http://127.0.0.1:8778"


def reader(directory: Path) -> tuple[Path, dict[str, str]]:
    """A clean checkout, and an environment in which pip installs without the network.

    The packages of these tests are those that pip would fetch; Stead itself is built and installed. In its environment
    pip reads the 0 as the value of ``build_isolation``.
    """
    packages = sysconfig.get_path("purelib")
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PYTHONPATH": packages}
    checkout = make_checkout(directory / "checkout")
    return checkout, plain_environment(**offline, PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_QUIET="1")


def test_who_gets_started_gets_as_far_as_the_page_says(tmp_path: Path) -> None:
    checkout, environment = reader(tmp_path)
    commands = commands_of(DOCS / "getting-started.md")
    place = next(number for number, command in enumerate(commands) if command.text == "stead serve\n")
    first, serve, second = commands[:place], commands[place], commands[place + 1 :]
    assert (len(first), first[0].text) == (4, "python3 -m venv venv\n")
    assert len(second) > 10
    installed = run([*first, Command("which stead")], environment, checkout)
    assert installed[-1].strip() == str(checkout / "venv" / "bin" / "stead"), installed
    serve.text = f"{'; '.join(command.text.strip() for command in first[2:])}; exec stead serve --port 0"
    with serving(serve, checkout, environment) as said:
        (url,) = re.findall(r"http://[\d.:]+", said)
        for command in second:
            command.text = command.text.replace(ADDRESS, url)
        for command, output in zip(second, run(second, environment, checkout), strict=True):
            assert command.prints(output), f"$ {command.text}{output}"


def test_the_library_is_installed_as_its_page_says(tmp_path: Path) -> None:
    """The last command is the prompt, at which test_library types what the page shows."""
    checkout, environment = reader(tmp_path)
    commands = commands_of(DOCS / "library.md")
    assert commands[-1].text == "venv/bin/python\n"
    commands[-1].text = "venv/bin/python <<< 'import stead; print(stead.__file__)'\n"
    *_, imported = run(commands, environment, checkout)
    assert imported.strip().startswith(str(checkout / "venv" / "lib")), imported
