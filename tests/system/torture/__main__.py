"""``python -m tests.system.torture MINUTES``: rounds on every database, with one and two services, until time is over.

A seed repeats what clients and faults choose, not how the threads of a run interleave.
"""

import argparse
import itertools
import secrets
import signal
import sys
import time

from tests.servers.programs import Unavailable
from tests.system.torture.checker import Undecided, Unexplained
from tests.system.torture.run import play
from tests.system.torture.site import site

ROUND_SECONDS = 15.0
ROUNDS_PER_SITE = 4
KINDS = ("sqlite", "postgresql", "mariadb")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make torture")
    parser.add_argument("minutes", type=float, nargs="?", default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="of the choices that are to be repeated")
    parser.add_argument("--database", choices=KINDS, action="append", help="only this; may be repeated")
    arguments = parser.parse_args()
    seed = secrets.randbelow(10**9) if arguments.seed is None else arguments.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends, too
    until = time.monotonic() + arguments.minutes * 60
    settings = itertools.cycle(itertools.product((1, 2), arguments.database or KINDS))
    undecided = 0
    for services, kind in settings:
        with site(kind, services=services, workers=3 - services) as tortured:
            for _ in range(ROUNDS_PER_SITE):
                if time.monotonic() > until:
                    say(f"every history is explained, but for {undecided} that could not be decided")
                    return 0
                say(f"SEED={seed} {kind}, {services} × stead serve")
                try:
                    played = play(tortured, seconds=min(ROUND_SECONDS, until - time.monotonic()), seed=seed)
                    say(f"  {len(played.operations)} requests, {played.most_situations} situations, {played.told()}")
                except Unexplained as unexplained:
                    say(str(unexplained))
                    return 1
                except Undecided as too_many:
                    undecided += 1
                    say(f"  undecided: {too_many}")
                seed += 1
    return 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unavailable as unavailable:
        say(f"NOT TORTURED: {unavailable}")
        sys.exit(1)
