"""The cost of `stead --help` beyond Python itself: `python -m stead_bench.command_start`, in a checkout.

Builds a wheel, installs it into a new, otherwise empty virtual environment, and alternately measures the processor time
of both commands. The result is the median of the differences. The exit code is 1 if it exceeds the bound. Requires
`pip` and a configured package index.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
BOUND_SECONDS = 0.3
TURNS = 15


def cpu_seconds(*command: str | Path) -> float:
    """Processor time of one run, user and system."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def installed(directory: Path) -> Path:
    """The `bin` of a new environment with the wheel and its dependencies only."""
    wheels = directory / "wheels"
    quiet = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, *quiet, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
    venv.create(directory / "venv", with_pip=True)
    programs = directory / "venv" / "bin"
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([programs / "python", *quiet, "install", wheel], check=True)
    return programs


def main() -> None:
    """Measure, and print a line of JSON."""
    os.environ.pop("PYTHONPATH", None)  # it could point to a checkout
    with tempfile.TemporaryDirectory() as directory:
        programs = installed(Path(directory))
        python, stead = programs / "python", programs / "stead"
        cpu_seconds(stead, "--help")  # writes the compiled files
        pairs = [(cpu_seconds(python, "-c", "pass"), cpu_seconds(stead, "--help")) for _ in range(TURNS)]
    beyond = statistics.median(ours - bare for bare, ours in pairs)
    print(
        json.dumps(
            {
                "python_cpu_ms": round(statistics.median(bare for bare, _ in pairs) * 1e3, 1),
                "stead_help_cpu_ms": round(statistics.median(ours for _, ours in pairs) * 1e3, 1),
                "beyond_python_ms": round(beyond * 1e3, 1),
                "bound_ms": BOUND_SECONDS * 1e3,
                "turns": TURNS,
                "cores": os.cpu_count(),
            }
        )
    )
    sys.exit(beyond > BOUND_SECONDS)


if __name__ == "__main__":
    main()
