"""``python -m tests.system.segments``: every request of this folder, cut at every boundary, at every kind of server."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.servers.certificates import certified_for_localhost
from tests.system.segments.runs import DOORS, WORKERS, opened, send_all


def main() -> int:
    """Print a line for each server; 1 if a connection closed unannounced or an answer was wrong."""
    failures = 0
    with tempfile.TemporaryDirectory() as place:
        certificate = certified_for_localhost(Path(place))
        servers = [(kind, workers) for kind in DOORS for workers in WORKERS]
        for number, (kind, workers) in enumerate(servers):
            with (
                tempfile.TemporaryDirectory() as directory,
                opened(kind, workers, Path(directory), certificate) as door,
            ):
                began = time.monotonic()
                try:
                    client = send_all(door, number, complete=True)
                except AssertionError as error:
                    failures += 1
                    print(f"BAD {error}", flush=True)
                else:
                    print(
                        f"ok  {door.name}: {client.sent} requests on {client.connections_made} connections, "
                        f"{client.announced_ends} announced ends, {time.monotonic() - began:.0f} s",
                        flush=True,
                    )
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
