"""What short commands cost beyond Python itself: `python -m stead_bench.command_start`, in a checkout.

Builds a wheel, installs it into a new, otherwise empty virtual environment, and starts a server with one host in a data
directory. It measures the processor time of each command and of `python -c pass` in turns. The result is the median of
the ratios. The exit code is 1 if one exceeds its bound. Requires `pip` and a configured package index.

It also measures what `stead run` adds to a command, with a server and without one.

`--here` measures the environment that runs this module, without an installation.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
TURNS = 15
BOUNDS = {
    "--help": 12,
    "tree --help": 12,
    "tree": 15,
    "tree with --data-dir": 15,
    "provider list with --data-dir": 15,
    "completion bash --line 'stead tr'": 12,
}
"""The CPU time of each command, in times of `python -c pass`. Without `--data-dir` it has the URL and the token."""


def cpu_seconds(*command: str | Path, **environment: str) -> float:
    """Processor time of one run, user and system."""
    process = subprocess.Popen(
        command, cwd="/", env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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


@contextmanager
def served(stead: Path, directory: Path) -> Iterator[dict[str, str]]:
    """The address and the token of a server on *directory*, with one host."""
    command = [str(stead), "--data-dir", str(directory), "--json", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            create = ["provider", "create", "host", "--inventory", "VCPU=64", "--inventory", "MEMORY_MB=262144"]
            subprocess.run([stead, "--data-dir", directory, *create], check=True, stdout=subprocess.DEVNULL)
            yield {"STEAD_URL": url, "STEAD_TOKEN": (directory / "admin-token").read_text().strip()}
        finally:
            server.terminate()


def ratios(python: Path, stead: Path, directory: Path, address: dict[str, str]) -> dict[str, float]:
    """The median ratio of each command of :data:`BOUNDS`."""
    medians = {}
    for name in BOUNDS:
        words, _, _ = name.partition(" with --data-dir")
        is_local = name != words
        arguments = ["completion", "bash", "--line", "stead tr"] if "--line" in words else words.split()
        environment = {} if is_local else address
        before = ["--data-dir", str(directory)] if is_local else []
        cpu_seconds(stead, *before, *arguments, **environment)  # writes the compiled files
        turns = [
            (cpu_seconds(python, "-c", "pass"), cpu_seconds(stead, *before, *arguments, **environment))
            for _ in range(TURNS)
        ]
        medians[name] = round(statistics.median(ours / bare for bare, ours in turns), 1)
    return medians


def run_costs(stead: Path, directory: Path, address: dict[str, str]) -> dict[str, dict[str, float]]:
    """What `stead run … true` adds to `true`, in seconds of CPU and of time: with a server, and in its own process."""
    claimed = ["run", "-r", "VCPU:1", "--host", "host", "true"]
    alone = directory.with_name("alone")
    create = ["topology", "apply", str(directory.with_name("host.yaml"))]
    Path(create[-1]).write_text("providers: [{name: host, inventories: {VCPU: 64}}]\n", encoding="utf-8")
    subprocess.run([stead, "--data-dir", alone, *create], check=True, stdout=subprocess.DEVNULL)
    costs = {}
    for name, before, environment in [
        ("with a server", [], address),
        ("without a server", ["--data-dir", str(alone)], {}),
    ]:
        cpu_seconds(stead, *before, *claimed, **environment)
        turns = []
        for _ in range(TURNS):
            start = time.perf_counter()
            bare = cpu_seconds("true")
            middle = time.perf_counter()
            ours = cpu_seconds(stead, *before, *claimed, **environment)
            turns.append((ours - bare, time.perf_counter() - middle - (middle - start)))
        cpu, elapsed = (round(statistics.median(column), 3) for column in zip(*turns, strict=True))
        costs[name] = {"cpu_seconds": cpu, "seconds": elapsed}
    return costs


def main() -> None:
    """Measure, and print a line of JSON."""
    os.environ.pop("PYTHONPATH", None)  # it could point to a checkout
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        programs = Path(sys.executable).parent if "--here" in sys.argv[1:] else installed(directory)
        with served(programs / "stead", directory / "data") as address:
            measured = ratios(programs / "python", programs / "stead", directory / "data", address)
            runs = run_costs(programs / "stead", directory / "data", address)
    exceeded = [name for name, ratio in measured.items() if ratio > BOUNDS[name]]
    print(
        json.dumps(
            {"times_python": measured, "run_true_adds": runs, "bounds": BOUNDS, "turns": TURNS, "cores": os.cpu_count()}
        )
    )
    sys.exit(bool(exceeded))


if __name__ == "__main__":
    main()
