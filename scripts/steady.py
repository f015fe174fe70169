"""Run all tests several times beside busy processes: ``python -m scripts.steady [RUNS [PYTEST ARGUMENTS]]``.

A suite is steady if a busy machine does not change its result. Each run leaves its output in build/steady/.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "build" / "steady"
BUSY_PROCESSES = 2
JOBS = 2
BUSY = "import os\nmain = os.getppid()\nwhile os.getppid() == main: sum(range(100_000))"  # ends with its parent

_CLOSING_LINE = re.compile(r"^(?:=+ )?(?P<counts>\d+ (?:passed|failed|error).* in [\d.]+s.*?)(?: =+)?$", re.MULTILINE)
_FAILURE = re.compile(r"^(FAILED|ERROR) .*$", re.MULTILINE)


@contextmanager
def busy_machine() -> Iterator[None]:
    """Meanwhile processes take all the processor time that they can get."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(BUSY_PROCESSES)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(number: int) -> bool:
    """Run all tests once, print a line about it, and return whether all passed."""
    output = OUTPUT / f"{number}.log"
    began = time.monotonic()
    with output.open("wb") as file, busy_machine():
        tests = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-n", str(JOBS), *sys.argv[2:]],
            check=False,
            cwd=ROOT,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    said = output.read_text(errors="replace")
    closing = _CLOSING_LINE.search(said)
    minutes = (time.monotonic() - began) / 60
    print(f"run {number}: {closing['counts'] if closing else 'no closing line'}; {minutes:.0f} minutes", flush=True)
    for failure in _FAILURE.finditer(said):
        print(f"  {failure[0]}", flush=True)
    return tests.returncode == 0


def main() -> int:
    """1 if a run failed."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    OUTPUT.mkdir(parents=True, exist_ok=True)
    passed = sum(run(number) for number in range(1, runs + 1))
    print(f"{passed} of {runs} runs passed")
    return int(passed < runs)


if __name__ == "__main__":
    sys.exit(main())
