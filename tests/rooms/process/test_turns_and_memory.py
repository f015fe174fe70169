"""What a refresh does to the whole process, and undoes: who reads beside it waits neither for a turn nor for memory."""

from __future__ import annotations

import gc
import sys
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from stead.process import runtime
from stead.process.runtime import collector_paused, release

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_turns_are_short_until_the_last_who_asked_for_it_has_ended() -> None:
    runtime.share()
    first, second = runtime.short(), runtime.short()
    with second:
        with suppress(KeyError), first:
            raise KeyError
        assert sys.getswitchinterval() == pytest.approx(runtime.SHORT_SECONDS)
    assert sys.getswitchinterval() == pytest.approx(runtime.SECONDS)


def test_whoever_embeds_stead_keeps_their_own_turns() -> None:
    sys.setswitchinterval(0.02)
    with runtime.short():
        pass
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_the_collector_runs_again_whatever_happens() -> None:
    with suppress(KeyError), collector_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


class Thing:
    """Something whose end can be seen."""

    def __init__(self, *inner: object) -> None:
        self.inner = inner


def test_what_nobody_else_holds_is_freed_and_nothing_else_is_touched() -> None:
    shared, own = Thing(), Thing()
    whole = [Thing({"own": own, "shared": shared, "texts": {str(n): [n] for n in range(10)}}, (shared,))]
    ended = [weakref.ref(own), weakref.ref(whole[0])]
    del own
    release(whole)  # type: ignore[arg-type]  # a list of anything
    assert whole == []
    assert [end() for end in ended] == [None, None]
    assert shared.inner == ()


def test_nothing_large_is_freed_in_one_turn() -> None:
    """Each of many parts is freed by itself, after whatever holds it."""
    order: list[str] = []

    class Part:
        def __init__(self, name: str, *inner: object) -> None:
            self.inner = inner
            weakref.finalize(self, order.append, name)

    release([Part("whole", [Part(f"part {n}", {n: [n]}) for n in range(3)])])
    assert order[0] == "whole"
    assert sorted(order[1:]) == ["part 0", "part 1", "part 2"]
