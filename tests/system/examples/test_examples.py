"""The worked examples of allocation candidates, against a server as operators run it, on every database."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import write_configuration
from tests.servers.stead import serving

CHECK = Path(__file__).with_name("check_examples.py")


@pytest.mark.timeout(300)  # starts servers, and sends each example to them
def test_two_workers_answer_every_example_of_every_microversion(database_url: str, tmp_path: Path) -> None:
    with serving(write_configuration(tmp_path, database_url), workers=2) as url:
        for more in ((), ("--beyond",)):
            done = subprocess.run([sys.executable, CHECK, url, "admin", *more], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            assert done.stdout.splitlines()[-1].endswith(" passed, 0 failed")
