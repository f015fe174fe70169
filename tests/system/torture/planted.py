"""``stead serve`` with a bug in it: ``STEAD_PLANTED=NAME python -m tests.system.torture.planted serve …``.

Its workers load the application from this module, which plants the bug in them first.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stead.serve import main_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VARIABLE = "STEAD_PLANTED"


def without_locks_and_swaps() -> None:
    """Nobody waits for anybody, and nobody looks whether what he changes is what he read."""
    from stead.store.protocol.store import Transaction

    def lock(_self: Transaction, *_args: Any, **_kwargs: Any) -> None: ...

    Transaction.lock = lock  # type: ignore[method-assign]  # that is the bug
    Transaction.require_count = staticmethod(lambda _changed, _expected: None)  # type: ignore[method-assign]  # that is the bug


def without_consumer_generations() -> None:
    """A client's knowledge of its consumer may be as old as it likes."""
    from stead.store import allocations

    allocations.require_expected = lambda _claims, _present: None


def with_the_clock_read_last() -> None:
    """A refresh dates the state it read by a clock that it read afterwards."""
    from stead.store.feed.refresh_source import ChangeSource, _Moment
    from stead.store.protocol.clock import read_clock

    original = ChangeSource.changes

    def changes(self: ChangeSource, since: Any) -> Iterator[Any]:
        read = list(original(self, since))
        commits = self._commits_seen()
        with self._store.reader.begin() as connection:
            now = _Moment(read_clock(connection), commits)
        for some in read:
            yield replace(some, moment=now)

    ChangeSource.changes = changes  # type: ignore[method-assign]  # that is the bug


def with_a_plan_of_trees_before_the_locks() -> None:
    """A document is written as it was planned in memory, whatever has been claimed since."""
    from stead.store import provider_trees

    original = provider_trees.plan_trees

    def plan_trees(document: Any, current: Any) -> Any:
        plan = original(replace(document, providers=list(map(_unchecked, document.providers))), current)
        return replace(plan, overcommitted=())

    provider_trees.plan_trees = plan_trees


def _unchecked(described: Any) -> Any:
    return replace(described, generation=None)


def with_disabled_providers_in_claims() -> None:
    """No candidate has a disabled provider, but a claim of one is granted."""
    from stead.store import allocations

    def require_enabled(*_args: Any, **_kwargs: Any) -> None: ...

    allocations.require_enabled = require_enabled


def with_own_writes_whatever_came_between() -> None:
    """All write with one slot, and a refresh takes its own writes for all that there were."""
    from stead.store.protocol import clock
    from stead.store.protocol.clock import OwnSlots

    OwnSlots.mine = lambda _self: 0  # type: ignore[method-assign]  # otherwise two processes seldom share one
    clock.is_complete = lambda notes, *_: bool(notes)


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__: bug
    for bug in (
        without_locks_and_swaps,
        without_consumer_generations,
        with_the_clock_read_last,
        with_a_plan_of_trees_before_the_locks,
        with_disabled_providers_in_claims,
        with_own_writes_whatever_came_between,
    )
}


def __getattr__(name: str) -> Any:
    """The application, with the bug: only a worker asks this module for it."""
    if name != "application":
        raise AttributeError(name)
    BUGS[os.environ[VARIABLE]]()
    from stead.wsgi import application

    return application


if __name__ == "__main__":
    from stead.cli import main

    main_process.TARGET = "tests.system.torture.planted:application"
    main()
