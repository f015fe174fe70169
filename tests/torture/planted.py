"""``stead serve`` with a bug in it: ``STEAD_PLANTED=NAME python -m tests.torture.planted serve …``.

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
    from stead.store.protocol.transaction import Transaction

    def lock(_self: Transaction, *_args: Any, **_kwargs: Any) -> None: ...

    Transaction.lock = lock  # type: ignore[method-assign]  # that is the bug
    Transaction.require_count = staticmethod(lambda _changed, _expected: None)  # type: ignore[method-assign]  # that is the bug


def without_consumer_generations() -> None:
    """A client's knowledge of its consumer may be as old as it likes."""
    from stead.store import consumers

    consumers.require_expected = lambda _claims, _present: None


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


BUGS: dict[str, Callable[[], None]] = {
    bug.__name__: bug for bug in (without_locks_and_swaps, without_consumer_generations, with_the_clock_read_last)
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

    main_process.TARGET = "tests.torture.planted:application"
    main()
