"""The page of packages and modules, docs/packages.md, from the docstrings of both."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
STEAD = ROOT / "src" / "stead"
SERVER = ROOT / "distributions" / "wsgi-lanes" / "src" / "wsgi_lanes"

START = """\
# Packages and modules

This page is for developers who look for the place of a change. After it you know which module has a subject.
[Architecture](architecture.md) has the order of the packages, and the reasons for some of them:
[the store](decisions/0014-the-packages-of-the-store.md),
[the command line](decisions/0071-commands-call-typed-methods.md),
[statements](decisions/0023-statements-past-the-compiler.md) and
[the HTTP server](decisions/0068-the-http-server-is-a-distribution.md). `make docs` generates this page from the
docstrings.

Three other distributions stand beside Stead. `distributions/wsgi-lanes/` has the HTTP server of `stead serve`: the
package `wsgi_lanes`, which is also in the wheel of Stead. `bench/` has `stead-bench`, which measures servers over HTTP.
`distributions/stead-placement/` has the names by which deployment tools load `wsgi.py` and run `cli/placement/`
([decision 13](decisions/0013-the-names-of-placement-are-a-distribution.md)).
"""

NOT_LISTED = {"migrations", "blocking", "templates", "static"}


def page() -> str:
    """The whole page, in Markdown."""
    return START + "".join([*_sections(STEAD), *_sections(SERVER)])


def _sections(folder: Path) -> Iterator[str]:
    root = next(root for root in (STEAD, SERVER) if folder.is_relative_to(root))
    name = folder.relative_to(root.parent).as_posix()
    rows = [f"| `{module.stem}` | {_subject(module)} |\n" for module in sorted(folder.glob("[a-z]*.py"))]
    about = _subject(folder / "__init__.py")
    yield f"\n## {name}/\n\n{about}\n"
    if rows:
        yield f"\n| module | subject |\n|---|---|\n{''.join(rows)}"
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").exists() and inner.name not in NOT_LISTED:
            yield from _sections(inner)


def _subject(module: Path) -> str:
    """The first paragraph of the docstring of *module*."""
    documented = ast.get_docstring(ast.parse(module.read_text())) or ""
    paragraph = " ".join(documented.split("\n\n")[0].split())
    without_roles = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", paragraph.replace("``", "`"))
    return without_roles.replace("|", "\\|")
