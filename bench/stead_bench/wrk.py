"""The load generator ``wrk``: many kept connections in one C process, which needs less CPU than any Python server."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead_bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PATIENCE = 60
"""Seconds to wait for an answer."""

# A script without a function `request` costs wrk nothing per request.
_SCRIPT = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"requests": %d, "seconds": %.6f, "p50_ms": %.4f, "p99_ms": %.4f, "failed": %d, "refused": %d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
"""


@dataclass(frozen=True)
class Load:
    """The result of one run of the load generator.

    Attributes:
        failed: requests that had no answer: no connection, a broken one, or no answer within `PATIENCE`.
        refused: answers with a status of 400 or more.
    """

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    failed: int
    refused: int


class Wrk:
    """Sends the same GET request on several connections, the next one on each as soon as an answer is read."""

    def __init__(self, folder: Path) -> None:
        """Write the script into *folder*.

        Raises:
            BenchError: wrk is not installed.
        """
        program = shutil.which("wrk")
        if program is None:
            raise BenchError("the load generator wrk is not installed (Debian and Fedora: package wrk; macOS: brew)")
        self._program = program
        self._script = folder / "report.lua"
        self._script.write_text(_SCRIPT, encoding="ascii")

    def run(self, url: str, headers: Mapping[str, str], *, connections: int, seconds: int) -> Load:
        """Send requests for *seconds*.

        Raises:
            BenchError: no request was answered.
        """
        command = [self._program, "-t1", f"-c{connections}", f"-d{seconds}s", f"--timeout={PATIENCE}s"]
        command += [f"-H{name}: {value}" for name, value in headers.items()]
        ran = subprocess.run(
            [*command, "-s", str(self._script), url],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise BenchError(f"wrk failed: {(ran.stderr or ran.stdout).strip()}")
        load = Load(**json.loads(ran.stdout.strip().splitlines()[-1]))
        if load.requests == 0:
            raise BenchError(f"wrk got no answer from {url} in {seconds} s")
        return load
