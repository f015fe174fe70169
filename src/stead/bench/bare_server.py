"""``python -m stead.bench.bare_server HOST PORT WORKERS THREADS``: the bare application, served as Stead itself is.

It writes its URL as a line to stdout when it listens.
"""

from __future__ import annotations

import sys

from stead.cli import granian_server
from stead.cli.addresses import Address


def main() -> None:
    """Serve until SIGTERM."""
    host, *numbers = sys.argv[1:]
    port, workers, threads = map(int, numbers)
    granian_server.TARGET = "stead.bench.bare:application"
    address = Address(host, port)

    def announce() -> None:
        print(address.url, flush=True)

    granian_server.serve(address, workers=workers, threads=threads, when_listening=announce)


if __name__ == "__main__":
    main()
