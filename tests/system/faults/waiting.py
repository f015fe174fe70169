"""What all fault tests look for, and how they wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.system.api.client import Answer, Api

RECOVERY_SECONDS = 100.0
"""A deadline for a database that starts again and a service that finds it; each test here has a longer timeout."""


def unavailable(answer: Answer) -> bool:
    """Whether it is 503 in the form of the contract."""
    return answer.refused(503) and answer.header("retry-after") == "1"


def when_back(ask: Callable[[], Answer]) -> Answer:
    """The first answer that is not 503; what comes before it is 503 in the form of the contract."""

    def other_than_503() -> Answer | None:
        answer = ask()
        if answer.status != 503:
            return answer
        assert unavailable(answer)
        return None

    answer = wait_until(other_than_503, "it does not recover", seconds=RECOVERY_SECONDS)
    assert answer is not None
    return answer


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
