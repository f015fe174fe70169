"""``python -m tests.system.differential N``: compare with the released service over N steps, silent if all is well."""

import argparse
import secrets
import signal
import sys
import time

from tests.servers.environment import Unavailable
from tests.system.differential.machine import Difference
from tests.system.differential.pair import pair
from tests.system.differential.runs import STEPS_PER_HISTORY, Tally, run

HISTORIES_AT_ONCE = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="make differential")
    parser.add_argument("steps", type=int, nargs="?", default=20_000, help="how many requests to compare")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the run that is to be repeated")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends, too
    tally, started = Tally(say), time.monotonic()
    try:
        with pair() as both:
            while both.steps < arguments.steps:
                try:
                    left = (arguments.steps - both.steps) // STEPS_PER_HISTORY + 1
                    run(both, min(left, HISTORIES_AT_ONCE), tally, seed=seed)
                except Difference as difference:
                    say(f"SEED={seed}: {difference}")
                    return 1
                seed += 1
            say(f"{both.steps} steps in {time.monotonic() - started:.0f} s, and no difference but the known ones:")
    except Unavailable as unavailable:
        say(f"NOT COMPARED with the released service: {unavailable}")
        return 1
    for name, number in tally.differences.most_common():
        say(f"{number:7} {name}")
    return 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
