"""Tokens are what they were made of, and nothing else is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stead.store.feed.changes import NotAToken, Token
from stead.store.protocol.clock import SLOTS, Clock

numbers = st.integers(0, 2**63 - 1)
slots = st.lists(numbers, min_size=SLOTS, max_size=SLOTS).map(tuple)


def clock(ticks: tuple[int, ...], stamps: tuple[int, ...], epoch: str = "e") -> Clock:
    return Clock(epoch, ticks, stamps, (0,) * SLOTS)


@given(slots, slots, st.text())
def test_what_is_read_is_what_was_written(ticks: tuple[int, ...], stamps: tuple[int, ...], epoch: str) -> None:
    stamps = tuple(stamp if tick else 0 for stamp, tick in zip(stamps, ticks, strict=True))
    token = Token.of(clock(ticks, stamps, epoch))
    assert Token.read(token.text()) == token
    assert token.is_before(token)


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_what_is_no_token_is_refused_as_such(text: str) -> None:
    with pytest.raises(NotAToken):
        Token.read(text)


@given(slots, slots, st.integers(0, SLOTS - 1))
def test_a_clock_that_was_set_back_is_recognised(ticks: tuple[int, ...], stamps: tuple[int, ...], slot: int) -> None:
    ticks = tuple(tick + (tick == 0) for tick in ticks)
    now = Token.of(clock(ticks, stamps))
    back = list(ticks)
    back[slot] -= 1
    other = list(stamps)
    other[slot] ^= 1
    assert not now.is_before(Token.of(clock(tuple(back), stamps)))
    assert not now.is_before(Token.of(clock(ticks, tuple(other))))
    assert not now.is_before(Token.of(clock(ticks, stamps, "another")))
    on = list(ticks)
    on[slot] += 1
    assert now.is_before(Token.of(clock(tuple(on), tuple(other))))
