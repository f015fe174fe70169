"""Another process with the library: opens a data directory and answers requests, one JSON line each.

python -m tests.system.library.elsewhere DIRECTORY
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import stead

if TYPE_CHECKING:
    from stead import Site


def answered(site: Site, method: str, path: str, body: Any) -> tuple[int | None, Any]:
    """Status and JSON as a client of HTTP gets them; no status if it is not known what happened."""
    try:
        return 200, site.request(method, path, body, stead="1.1")
    except stead.Refused as error:
        if isinstance(error, stead.Unavailable):
            return None, None
        return error.status, {"errors": [{"detail": error.detail, "code": error.code}]}


def main(directory: str) -> None:
    """Answer until the input ends."""
    with stead.open(directory) as site:
        for line in sys.stdin:
            print(json.dumps(answered(site, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
