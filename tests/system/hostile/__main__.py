"""``python -m tests.system.hostile [SECONDS]``: every attack at full strength for so many seconds, and what it did."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path

from tests.system.hostile.attacks import ATTACKS, unread_answers
from tests.system.hostile.runs import LARGEST_QUERY, WORK_OF_100_MB, victim

LONG_ATTACKS = {name: (attack, count, "") for name, (attack, _, count) in ATTACKS.items()} | {
    "unread answers of 100 MB": (unread_answers, 100, f"max_candidate_work = {WORK_OF_100_MB}\n"),
}
"""By name: the attack, how many clients, and options of the server. By default, an answer is cut before 100 MB."""


def main() -> int:
    """Print a line for each attack; 1 if one of them did more than it may."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    names = sys.argv[2:] or list(LONG_ATTACKS)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    is_bad = False
    for name in names:
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
