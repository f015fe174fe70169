"""Write those parts of docs/ that are made of the code: `python -m scripts.docs`, or `make docs`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from stead.api.app import NOBODY, routes
from stead.api.gates import Allowed, JsonAnswer, JsonBody, Since, gates_of
from stead.api.limits import Limits
from stead.api.openapi import document
from stead.api.routing import Router
from stead.api.shapes import Owner
from stead.api.versions import Microversion, SteadVersion, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS = Path(__file__).parent.parent / "docs"

CHECKS = {Since: "version", JsonAnswer: "accept", JsonBody: "content-type", Allowed: "policy"}


def versions_table(versions: type[Step], what: str) -> str:
    """A row for each of *versions*, with what it brought."""
    rows = "".join(f"| {version} | {version.meaning} |\n" for version in versions)
    return f"| {what} | brought |\n|---|---|\n{rows}"


def the_routes() -> dict[str, object]:
    """Every path and what stands there, with nothing behind it."""
    return routes(None, Owner(NOBODY, NOBODY), Limits())  # type: ignore[arg-type]  # nothing is called


def routes_table() -> str:
    """A row for each method of each path, with the gates before its handler."""
    return "| route | since | checks | policy rule |\n|---|---|---|---|\n" + "".join(_route_rows())


def _route_rows() -> Iterator[str]:
    router = Router()
    for path, resource in the_routes().items():
        router.add_route(path, resource)
        for method, handler in sorted(router.routes[path].items()):
            gates = gates_of(handler)
            checks = ", ".join(CHECKS[type(gate)] for gate in gates)
            rule = "".join(f"`{gate.rule}`" for gate in gates if isinstance(gate, Allowed))
            yield f"| {method} `{path}` | {_first(resource, gates)} | {checks} | {rule} |\n"


def _first(resource: object, gates: tuple[object, ...]) -> str:
    own = getattr(resource, "stead_since", None)
    if own is not None:
        return f"stead {own}"
    since = next((gate for gate in gates if isinstance(gate, Since)), None)
    if since is None:
        return "1.0"
    return f"{since.first}" if since.otherwise == 404 else f"{since.first} ({since.otherwise})"


PARTS: dict[str, Callable[[], str]] = {
    "microversions": lambda: versions_table(Microversion, "microversion"),
    "stead versions": lambda: versions_table(SteadVersion, "`stead`"),
    "routes": routes_table,
}
"""What stands between ``<!-- NAME: made by … -->`` and ``<!-- end -->``, by name."""


def with_parts(text: str) -> str:
    """*text* with its marked parts made anew."""

    def made(match: re.Match[str]) -> str:
        return f"{match[1]}{PARTS[match[2]]()}{match[3]}"

    return re.sub(r"(<!-- ([a-z ]+): made by `make docs` -->\n).*?(<!-- end -->)", made, text, flags=re.DOTALL)


def files() -> dict[Path, str]:
    """Every file that has such parts, or is made whole, and what shall be in it."""
    reference = DOCS / "api.md"
    machines = json.dumps(document(the_routes()), indent=1, ensure_ascii=False) + "\n"
    return {reference: with_parts(reference.read_text()), DOCS / "openapi.json": machines}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
