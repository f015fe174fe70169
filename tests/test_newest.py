"""A test that means the newest microversion says `NEWEST`, so that the next microversion changes one line."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.api.client import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent

MAY_NAME_IT = {
    "system/api/client.py": "the one place that says which it is",
    "rooms/api/test_versions.py": "requires that it is the newest of the application",
    "rooms/api/test_negotiation.py": "which header agrees on which version",
    "system/api/test_negotiation.py": "likewise, over HTTP",
    "rooms/api/query/queries.py": "the text of an error: since when a form of `required` exists",
    "system/microversions/rows.py": "likewise",
    "system/microversions/test_history.py": "what each version changed",
    "system/microversions/test_pitfalls.py": "what happens before and after the version that changed it",
    "system/microversions/test_openapi.py": "the text of an error: which version Stead's own ones need",
    "system/clients/test_allocation_commands.py": "the text of an error: which version an option of a command needs",
    "system/clients/test_provider_commands.py": "likewise",
    "system/differential/queries.py": "version headers, valid and invalid, for both services",
    "system/fuzz/requests.py": "version headers, valid and invalid",
    "system/examples/check_examples.py": "imports nothing of ours",
}
"""Files in which the number of the newest microversion may stand, each with the reason."""


def literals(source: str) -> Iterator[int]:
    """The lines on which a text or bytes of *source* has the number of the newest microversion; no docstrings."""
    number = re.compile(rf"(?<![\d.]){re.escape(NEWEST)}(?!\.?\d)")
    tree = ast.parse(source)
    documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node not in documentation:
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(text, str) and number.search(text):
                yield node.lineno


def test_the_number_of_the_newest_microversion_stands_where_it_is_the_subject_only() -> None:
    lines = {
        f"{path.relative_to(HERE)}:{line}"
        for path in HERE.rglob("*.py")
        if str(path.relative_to(HERE)) not in MAY_NAME_IT
        for line in literals(path.read_text())
    }
    assert not lines, "say NEWEST of tests.system.api.client instead"


def test_each_file_that_may_name_it_does() -> None:
    assert [name for name in MAY_NAME_IT if not list(literals((HERE / name).read_text()))] == []


@pytest.mark.parametrize("text", ['"{0}"', '"placement {0}, stead 1.0"', 'b"placement {0}"', 'f"{{x}} since {0}."'])
def test_every_form_of_it_is_found(text: str) -> None:
    assert list(literals(text.format(NEWEST).join(("x = ", "\n")))) == [1]


@pytest.mark.parametrize("text", ['"""Since {0}."""', "# {0}", '"{0}0"', '"1{0}"', '"{0}.1"', '"127.0.{0}"', "{0}"])
def test_other_numbers_and_comments_are_not(text: str) -> None:
    assert list(literals(text.format(NEWEST))) == []
