"""Every SQL statement of Stead that runs on one kind of database runs on each: a complete run lists the others.

A statement is identified by the place in `stead.store` that executes it. Statements of the servers that tests start are
not seen; the tests of the store execute them too. The dialects of the databases have statements of their own.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

import stead
from tests.databases import KINDS, is_worker, place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

STORE = f"{Path(stead.__file__).parent}/store/"
SQL = f"{STORE}sql/"
DIALECTS = f"{SQL}dialects/"

ON_SOME_KINDS = {"protocol/store.py:Transaction.lock": "SQLite has no locks of rows"}
"""Functions with statements that only some kinds of databases have, each with the reason."""

_kinds_of: defaultdict[str, set[str]] = defaultdict(set)
"""The kinds of databases on which each place has executed a statement: ``allocations.py:settle:304``."""


def _note(connection: sa.Connection, *_: Any) -> None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(DIALECTS):
            return
        if code.co_filename.startswith(STORE) and not code.co_filename.startswith(SQL):
            place = f"{code.co_filename.removeprefix(STORE)}:{code.co_qualname}:{frame.f_lineno}"
            _kinds_of[place].add("mariadb" if connection.dialect.name == "mysql" else connection.dialect.name)
            return
        frame = frame.f_back


def lacking(kinds_of: Mapping[str, set[str]]) -> list[str]:
    """A line for each place that has executed statements on some kinds of databases, but not on all."""
    return [
        f"{place}: only on {', '.join(sorted(kinds))}"
        for place, kinds in sorted(kinds_of.items())
        if kinds < set(KINDS) and place.rpartition(":")[0] not in ON_SOME_KINDS
    ]


def _is_complete(config: pytest.Config) -> bool:
    """Whether all tests run, and on all kinds of databases."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    return is_whole and not config.getoption("--api-url") and not any(place().glob("*.failed"))


def pytest_configure() -> None:
    sa.event.listen(sa.Engine, "before_cursor_execute", _note)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for executed_at, kinds in getattr(node, "workeroutput", {}).get("statements", {}).items():
        _kinds_of[executed_at].update(kinds)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if is_worker(session.config):
        session.config.workeroutput["statements"] = {at: sorted(kinds) for at, kinds in _kinds_of.items()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _is_complete(config) and (lines := lacking(_kinds_of)):
        terminalreporter.section("SQL statements that did not run on every kind of database", red=True)
        for line in lines:
            terminalreporter.write_line(line)
