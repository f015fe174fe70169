"""``python -m tests.system.hostile [SECONDS]``: every attack at full strength for so many seconds, and what it did."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

from lanes_testing.pieces import KINDS
from tests.system.hostile.attacks import ATTACKS, unread_answers
from tests.system.hostile.runs import LARGEST_QUERY, WORK_OF_100_MB, WorkerEnded, victim
from wsgi_lanes.bounds import KIB, MIB

LONG_ATTACKS = {name: (attack, count, "") for name, (attack, _, count) in ATTACKS.items()} | {
    "unread answers of 100 MB": (unread_answers, 100, f"max_candidate_work = {WORK_OF_100_MB}\n"),
}
"""By name: the attack, how many clients, and options of the server. By default, an answer is cut before 100 MB."""


CONNECTIONS = 6000
PROMISED = 64 * MIB + CONNECTIONS * 32 * KIB
"""Bytes that so many connections may take with the default options (docs/deployment.md)."""

KEPT = 64 * MIB
"""Bytes that a worker may keep after their end: what the C library has free, between what is still in use."""


def _is_memory_bad(kind: str) -> bool:
    """Whether connections that send one kind of bytes take more memory than the docs promise. Prints a line."""
    with tempfile.TemporaryDirectory() as directory, victim(Path(directory)) as attacked:
        at_rest = attacked.memory()
        try:
            with_them, after = attacked.memory_with(kind, CONNECTIONS)
        except WorkerEnded as ended:
            print(f"BAD {CONNECTIONS:6} {kind}: {ended}", flush=True)
            return True
    bad = with_them - at_rest > PROMISED or after - at_rest > KEPT
    print(
        f"{'BAD' if bad else 'ok '} {CONNECTIONS:6} {kind}: memory + {(with_them - at_rest) // MIB} MiB of "
        f"{PROMISED // MIB}, + {(after - at_rest) // MIB} MiB after their end",
        flush=True,
    )
    return bad


def main() -> int:
    """Print a line for each attack; 1 if one of them did more than it may."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    names = sys.argv[2:] or [*LONG_ATTACKS, *KINDS]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    is_bad = False
    for name in names:
        if name in KINDS:
            is_bad = _is_memory_bad(name) or is_bad
            continue
        attack, count, options = LONG_ATTACKS[name]
        with (
            tempfile.TemporaryDirectory() as directory,
            victim(Path(directory), options, LARGEST_QUERY) as attacked,
        ):
            report = attacked.attacked(attack(attacked.target, count), seconds)
        bad = (
            bool(report.failures)
            or max(report.health) > 1.0
            or max(report.query) > 2.0
            or report.memory > 512_000_000
            or report.recovered > 5.0
        )
        is_bad = is_bad or bad
        print(f"{'BAD' if bad else 'ok '} {count:6} {name}: {report}", flush=True)
        for failure in report.failures[:3]:
            print(f"      {failure}")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
