"""Write those parts of docs/ that are made of the code: `python -m scripts.docs`, or `make docs`."""

from __future__ import annotations

import json
import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from scripts import commands, library, packages, reference
from scripts.diagrams import DIAGRAMS
from stead.api.app import NOBODY, routes
from stead.api.bodies import Owner
from stead.api.openapi import document
from stead.api.request import Allowed, JsonAnswer, JsonBody, Router, Since, gates_of, stead_since
from stead.api.versions import Microversion, SteadVersion, Step, name_of
from stead.auth.policy import BASE_RULES, list_rules
from stead.config import list_opts
from stead.domain.limits import RequestLimits
from stead.observe.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oslo_config import cfg
    from oslo_policy.policy import RuleDefault

DOCS = Path(__file__).parent.parent / "docs"

PAGES = ("api.md", "authentication.md", "configuration.md", "operations.md", "stead-api.md")
"""Those that have parts."""

KINDS = {
    "StrOpt": "text",
    "BoolOpt": "yes or no",
    "IntOpt": "integer",
    "FloatOpt": "number",
    "ListOpt": "list",
    "DictOpt": "name:value, …",
}

CHECKS = {Since: "version", JsonAnswer: "accept", JsonBody: "content-type", Allowed: "policy"}


def versions_table(versions: type[Step], what: str) -> str:
    """A row for each of *versions*, with what it brought."""
    rows = "".join(f"| {version} | {version.meaning} |\n" for version in versions)
    return f"| {what} | brought |\n|---|---|\n{rows}"


def the_routes() -> dict[str, object]:
    """Every path and what stands there, with nothing behind it."""
    return routes(None, Owner(NOBODY, NOBODY), RequestLimits())  # type: ignore[arg-type]  # nothing is called


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
    own = stead_since(resource)
    if own is not None:
        return name_of(own)
    since = next((gate for gate in gates if isinstance(gate, Since)), None)
    if since is None:
        return "1.0"
    return f"{since.first}" if since.otherwise == 404 else f"{since.first} ({since.otherwise})"


def rules_tables() -> str:
    """The base rules with their old defaults, then for each default the rules of the routes that have it."""
    base = "".join(
        f"| `{rule.name}` | `{rule.check_str}` | {_old_default(rule)} | {rule.description} |\n" for rule in BASE_RULES
    )
    of_routes = "".join(
        f"| `{rule.name}` | `{rule.check_str}` | {'<br>'.join(_route(route) for route in rule.operations)} |\n"
        for rule in list_rules()
        if rule not in BASE_RULES
    )
    return (
        f"| base rule | default | old default | meaning |\n|---|---|---|---|\n{base}\n"
        f"| rule | default | routes |\n|---|---|---|\n{of_routes}"
    )


def _old_default(rule: RuleDefault) -> str:
    return f"`{rule.deprecated_rule.check_str}`" if rule.deprecated_rule else ""


def _route(operation: dict[str, str]) -> str:
    return f"{operation['method']} `{operation['path']}`"


def options_tables() -> str:
    """For each group its options: name, type, default, meaning."""
    return "\n".join(
        f"### [{group}]\n\n| option | type | default | meaning |\n|---|---|---|---|\n{''.join(map(_option_row, opts))}"
        for group, opts in list_opts()
    )


def _option_row(option: cfg.Opt) -> str:
    bounds = [f"{name} {value}" for name in ("min", "max") if (value := getattr(option.type, name, None)) is not None]
    default = option.sample_default if option.sample_default is not None else option.default
    old = "".join(f" Also read from `[{one.group}]`, which is deprecated." for one in option.deprecated_opts)
    cells = [f"`{option.name}`", ", ".join([KINDS[type(option).__name__], *bounds])]
    cells += [_default(default), f"{option.help}{_choices(option)}{old}"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(default: object) -> str:
    if default is None or default == "":
        return ""
    shown = str(default).lower() if isinstance(default, bool) else default
    return f"`{','.join(shown) if isinstance(shown, list) else shown}`"


def _choices(option: cfg.Opt) -> str:
    found = getattr(option.type, "choices", None) or {}
    return "".join(f"<br>`{name}`: {meaning}" for name, meaning in found.items())


def metrics_table() -> str:
    """A row for each metric."""
    rows = "".join(
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |\n"
        for metric in METRICS
    )
    return f"| metric | kind | labels | what it says |\n|---|---|---|---|\n{rows}"


PARTS: dict[str, Callable[[], str]] = {
    "microversions": lambda: versions_table(Microversion, "microversion"),
    "stead versions": lambda: versions_table(SteadVersion, "`stead`"),
    "routes": routes_table,
    "options": options_tables,
    "metrics": metrics_table,
    "policy rules": rules_tables,
}
"""What stands between ``<!-- NAME: made by … -->`` and ``<!-- end -->``, by name."""


def with_parts(text: str) -> str:
    """*text* with its marked parts made anew."""

    def made(match: re.Match[str]) -> str:
        return f"{match[1]}{PARTS[match[2]]()}{match[3]}"

    return re.sub(r"(<!-- ([a-z ]+): made by `make docs` -->\n).*?(<!-- end -->)", made, text, flags=re.DOTALL)


@cache
def described() -> dict[str, object]:
    """The OpenAPI document."""
    return json.loads(json.dumps(document(the_routes())))  # type: ignore[no-any-return]  # of JSON


def files() -> dict[Path, Callable[[], str]]:
    """Every file that has such parts, or is made whole, and the function that makes its text."""
    pages = {page: partial(_with_parts_of, page) for page in (DOCS / name for name in PAGES)}
    drawn = {DOCS / "diagrams" / f"{name}.svg": draw for name, draw in DIAGRAMS.items()}
    whole: dict[str, Callable[[], str]] = {
        "openapi.json": lambda: json.dumps(described(), indent=1, ensure_ascii=False) + "\n",
        "reference.md": lambda: reference.page(described()),
        "commands.md": commands.page,
        "library-reference.md": library.page,
        "packages.md": packages.page,
    }
    return {**pages, **drawn, **{DOCS / name: make for name, make in whole.items()}}


def _with_parts_of(page: Path) -> str:
    return with_parts(page.read_text())


if __name__ == "__main__":
    for path, make in files().items():
        path.write_text(make())
