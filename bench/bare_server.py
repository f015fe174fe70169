"""``python -m bench.bare_server HOST PORT WORKERS THREADS``: the bare application, served as Stead itself is."""

from __future__ import annotations

import sys

from stead.cli import granian_server


def main() -> None:
    host, *numbers = sys.argv[1:]
    port, workers, threads = map(int, numbers)
    granian_server.TARGET = "bench.bare:application"
    address = granian_server.Address(host, port)
    granian_server.serve(address, workers=workers, threads=threads, when_listening=lambda: None)


if __name__ == "__main__":
    main()
