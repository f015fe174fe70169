"""What all fault tests look for, and how they wait for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.api.client import Answer, Api

PATIENCE_SECONDS = 60.0


def unavailable(answer: Answer) -> bool:
    """Whether it is 503 in the form of the contract."""
    return answer.refused(503) and answer.header("retry-after") == "1"


def when_back(ask: Callable[[], Answer]) -> Answer:
    """The first answer that is not 503; what comes before it is 503 in the form of the contract."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (answer := ask()).status == 503:
        assert unavailable(answer)
        assert time.monotonic() < until, "it does not recover"
    return answer


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def candidates_of(api: Api) -> list[str]:
    """The providers that could give a VCPU."""
    answer = api.get("/allocation_candidates", {"resources": "VCPU:1"}).expect(200)
    return sorted(answer.json["provider_summaries"])


def workers_of(configuration: Path) -> list[str]:
    """The processes that the server with this configuration started."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
            if f"--config-file\0{configuration}" in command:
                return (process / "task" / process.name / "children").read_text().split()
        except OSError:
            continue
    raise AssertionError("there is no such server")
