"""Virtual environments for what must not live beside Stead's own packages: made on demand, kept for the next run."""

import fcntl
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checkout import ROOT

PATIENCE_SECONDS = 600


class Unavailable(Exception):
    """What is wanted cannot be installed here; the text says why, in one line."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in the checkout, with the packages of a requirements or lock file.

    ``given`` is the environment variable that names one which has them already.
    """

    name: str
    requirements: Path
    given: str

    def installed(self) -> Path:
        """Where it is; made first, if there is none with these requirements.

        Raises:
            Unavailable
        """
        if os.environ.get(self.given):
            return Path(os.environ[self.given])
        place = ROOT / self.name
        done = place / "requirements.txt"
        place.mkdir(exist_ok=True)
        with (place / "lock").open("w") as lock:  # of several test processes one installs
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists() or done.read_text() != self.requirements.read_text():
                self._install(place)
                done.write_text(self.requirements.read_text())
        return place

    def required_for(self, what: str) -> Path:
        """Where it is. What is not there skips the test, whose subject is *what*; in CI that is a failure."""
        try:
            return self.installed()
        except Unavailable as unavailable:
            text = f"NOT TRIED: {what}: {unavailable} (or give a virtual environment in {self.given})"
            if os.environ.get("CI"):
                pytest.fail(text, pytrace=False)
            pytest.skip(text)

    def _install(self, place: Path) -> None:
        python = str(place / "bin" / "python")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip.append("--no-compile")  # a third of the time: most modules are never imported, the others compile then
        # uv takes a tenth of the time. It reads no configuration of pip, which may be what reaches an index here.
        uv = Path(sys.executable).with_name("uv")
        ways = [([str(uv), "pip", "install", "--quiet", "--python", python], False)] if uv.exists() else []
        for install, with_pip in [*ways, (pip, True)]:
            try:
                venv.create(place, with_pip=with_pip)
                made = subprocess.run(
                    [*install, "-r", str(self.requirements)], capture_output=True, text=True, timeout=PATIENCE_SECONDS
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise Unavailable(str(error).splitlines()[0]) from error
            if made.returncode == 0:
                return
        raise Unavailable(f"pip failed: {(made.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
