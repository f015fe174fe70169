"""``python -m stead_bench.bare_server HOST PORT WORKERS THREADS``: serves the bare application with Stead's own server.

It prints its URL as a line on stdout when it listens.
"""

from __future__ import annotations

import sys

from stead.cli.server import Address
from stead.serve import main_process

APPLICATION = "stead_bench.bare:application"


def main() -> None:
    """Serve until SIGTERM."""
    host, *numbers = sys.argv[1:]
    port, workers, threads = map(int, numbers)
    main_process.TARGET = APPLICATION
    sock = Address(host, port).bound()
    address = Address(host, port).at(sock)
    sock.listen(1024)

    def announce() -> None:
        print(address.url, flush=True)

    main_process.MainProcess(
        sock, workers=workers, threads=threads, tls=None, unresponsive=0, when_listening=announce
    ).run()


if __name__ == "__main__":
    main()
