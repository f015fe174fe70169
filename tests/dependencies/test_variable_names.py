"""A variable is named after what it holds, so these words are no names for arguments and local variables."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import stead
import stead_bench
from tests.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = ROOT / "tests"
PACKAGES = [Path(stead.__file__).parent, Path(stead_bench.__file__).parent, TESTS]

LATER = [TESTS / "rooms" / "candidates", TESTS / "system"]
"""Folders of tests that still have such names."""

VAGUE = {"found", "some", "one", "left", "wanted", "of", "kept", "held", "known"}


def bindings(source: str) -> Iterator[tuple[str, int]]:
    """The names that functions bind, each with its line. Names of functions, classes and attributes are not meant."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, node.lineno
                elif isinstance(node, ast.arg):
                    yield node.arg, node.lineno


def test_no_variable_has_a_vague_name() -> None:
    vague = {
        f"{file.relative_to(package.parent)}:{line} {name}"
        for package in PACKAGES
        for file in package.rglob("*.py")
        if not any(file.is_relative_to(folder) for folder in LATER)
        for name, line in bindings(file.read_text())
        if name in VAGUE
    }
    assert not vague


def test_each_kind_of_binding_is_seen() -> None:
    source = """
def bind(of, *some, held=1):
    found, (left, *rest) = rows
    for kept in [one for one in rows if (wanted := one)]:
        with rows as known:
            pass
    return lambda each: each
"""
    assert {name for name, _ in bindings(source)} == VAGUE | {"rest", "each"}
