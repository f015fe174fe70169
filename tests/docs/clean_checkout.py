"""A clean checkout of this one, in which ``make run`` works without installing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from typing import TYPE_CHECKING

import pytest

from tests.checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

NEEDED = pytest.mark.skipif(not (shutil.which("make") and shutil.which("git")), reason="needs make and git")


def make_checkout(place: Path) -> Path:
    """The files of this checkout that git knows or would add, as they are now, in *place*.

    Its virtual environment is ready, as after ``pip install``: the packages are those of this one, Stead is the copy.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists() and not name.startswith("tests/"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    environment = place / ".venv"
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/*/site-packages")
    (packages / "stead.pth").write_text(
        f"{place / 'src'}\n{place / 'distributions/wsgi-lanes/src'}\n{sysconfig.get_path('purelib')}\n"
    )
    program = environment / "bin" / "stead"
    program.write_text(
        f'#!{environment}/bin/python\nfrom stead.cli import main\n\nif __name__ == "__main__":\n    main()\n'
    )
    program.chmod(0o755)
    (environment / "for-use").touch()
    return place


def plain_environment(**more: str) -> dict[str, str]:
    """That of these tests, without what configures Stead or make."""
    left_out = ("OS_", "STEAD_", "MAKE", "MFLAGS", "PORT")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)} | more
