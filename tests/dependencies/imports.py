"""What this project's source takes from its dependencies, as the syntax trees tell."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import sys
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from tests.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OURS = {"stead", "stead_bench", "wsgi_lanes", "tests", "lanes_testing", "scripts"}
FOLDERS = ("bench", "distributions/wsgi-lanes", "scripts", "src", "tests")

# Names with an underscore that are public all the same.
PUBLIC = {
    "_SubParsersAction",
    "_asdict",
    "_current_frames",
    "_exit",
    "_fields",
    "_getframe",
    "_make",
    "_mapping",
    "_replace",
    "_value_",
}


def source_files() -> Iterator[Path]:
    """All files that run in the project's own environment; a folder with requirements of its own has another."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            folders = (parent for parent in file.parents if parent.is_relative_to(ROOT))
            if not any(list(parent.glob("requirements*.txt")) for parent in folders):
                yield file


@cache
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each source file."""
    return {file: ast.parse(file.read_text()) for file in source_files()}


def is_private(name: str) -> bool:
    """Whether *name* begins with one underscore, and has not been promised."""
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def imported(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Of each name that a module imports from elsewhere: what it is called here, the module, and the name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname or alias.name.partition(".")[0], alias.name, "")
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield (alias.asname or alias.name, str(node.module), alias.name)


def imported_packages(tree: ast.Module) -> set[str]:
    """The packages outside of the standard library and of this project that a module imports."""
    tops = {module.partition(".")[0] for _, module, _ in imported(tree)}
    return tops - OURS - set(sys.stdlib_module_names)


def own_names(modules: dict[Path, ast.Module]) -> set[str]:
    """Every name that this project defines or assigns anywhere."""
    names = set()
    for tree in modules.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names


def has(owner: object, name: str) -> bool:
    """Whether *owner* has the attribute *name*; if it is a class, whether it or its objects have it."""
    if hasattr(owner, name):
        return True
    return inspect.isclass(owner) and any(name in _assigned(base) for base in owner.__mro__)


@cache
def _assigned(cls: type) -> set[str]:
    """The attributes that the methods of *cls* set on ``self``."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):  # built in, or compiled
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def private_names(modules: dict[Path, ast.Module]) -> dict[str, set[Path]]:
    """Private names of dependencies, with the files that use them.

    These are imported modules and names, attributes that this project defines nowhere, and attributes that a class
    shares with its base class in a dependency.
    """
    ours = own_names(modules)
    used: dict[str, set[Path]] = {}
    for file, tree in modules.items():
        names = {
            part
            for _, module, name in imported(tree)
            if module.partition(".")[0] not in OURS
            for part in [*module.split("."), name]
        }
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr not in ours}
        names |= _shared_with_bases(tree)
        for name in filter(is_private, names):
            used.setdefault(name, set()).add(file)
    return used


def _shared_with_bases(tree: ast.Module) -> set[str]:
    origins = {here: (module, name) for here, module, name in imported(tree) if module.partition(".")[0] not in OURS}
    shared = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [base for written in node.bases if (base := _resolved(written, origins)) is not None]
            names = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            names |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
            shared |= {name for name in names if is_private(name) and any(has(base, name) for base in bases)}
    return shared


def _resolved(written: ast.expr, origins: dict[str, tuple[str, str]]) -> object | None:
    """The base class that an expression names; None if it is ours or of the standard library."""
    path = ast.unparse(written.value if isinstance(written, ast.Subscript) else written).split(".")
    if path[0] not in origins or origins[path[0]][0].partition(".")[0] in sys.stdlib_module_names:
        return None
    module, name = origins[path[0]]
    base: object = pkgutil.resolve_name(".".join([module, *filter(None, [name]), *path[1:]]))
    return base
