"""One package alone distinguishes kinds of databases."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import stead

pytestmark = pytest.mark.one_database

PACKAGE = Path(stead.__file__).parent
PRODUCTS = ("postgres", "psycopg", "mysql", "mariadb", "sqlite")

EXCEPTIONS = (
    "store/sql",
    # Revisions name the storage engine of a table and whether it has row ids, by arguments of SQLAlchemy's tables.
    "store/schema/migrations",
    # Operators name a product in the URL of a database, and two options have one in their names.
    "config",
    "application.py",
    # A program names the database that it opens by a URL, and its files are on SQLite, as is a Placement for tests.
    "embedded.py",
    "testing",
)


def documentation(tree: ast.Module) -> set[ast.Constant]:
    """Texts beside the code, which say something and do nothing."""
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def named_products(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    said = documentation(tree)
    words = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in said]
    words += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    words += [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    words += [alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    words += [str(node.arg) for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    return {product for word in words for product in PRODUCTS if isinstance(word, str) and product in word.lower()}


def test_the_name_of_a_product_occurs_where_databases_are_told_apart_only() -> None:
    expected = [PACKAGE / exception for exception in EXCEPTIONS]
    files = [file for file in PACKAGE.rglob("*.py") if not any(file.is_relative_to(place) for place in expected)]
    assert len(files) > 100
    assert {str(file): products for file in files if (products := named_products(file))} == {}
