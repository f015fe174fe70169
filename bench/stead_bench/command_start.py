"""What `stead --help` costs beyond Python itself: `python -m stead_bench.command_start`, in a checkout.

Builds a wheel, installs it into a new virtual environment with nothing else in it, and takes the processor time of both
commands in turns; the median of the differences is what counts. It ends with 1 if that is more than the bound. It
needs `pip` and whatever index that is configured for.
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
    """Processor time, of the user and of the system, of one run."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def installed(directory: Path) -> Path:
    """The `bin` of a new environment that has the wheel and what it requires, and nothing of ours."""
    wheels = directory / "wheels"
    quiet = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([sys.executable, *quiet, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
    venv.create(directory / "venv", with_pip=True)
    programs = directory / "venv" / "bin"
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([programs / "python", *quiet, "install", wheel], check=True)
    return programs


def main() -> None:
    """Measure, and write a line of JSON."""
    os.environ.pop("PYTHONPATH", None)  # which would bring a checkout in
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
