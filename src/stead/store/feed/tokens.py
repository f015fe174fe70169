"""Tokens: a moment of the commit clock as text, for clients that request changes since that moment.

A token has the tick and a part of the stamp of every slot, so that it detects a clock that was set back. It is valid in
every process, and survives restarts.

Source: "GET /changes", docs/api.md.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stead.store.protocol.clock import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.store.protocol.clock import Clock

_FORM = b"\x01"
_EPOCH_BYTES, _STAMP_BYTES = 8, 2
_LONGEST = 2048
_MOST_BYTES = 10  # of a tick: 64 bits, 7 per byte


class NotAToken(ValueError):
    """The text is not a token of this service."""


@dataclass(frozen=True, slots=True)
class Token:
    """The stored part of a clock: a digest of the epoch, and for each slot the tick and a part of the stamp."""

    epoch: bytes
    ticks: tuple[int, ...]
    stamps: tuple[int, ...]

    @classmethod
    def of(cls, clock: Clock) -> Token:
        """The token of a moment."""
        epoch = hashlib.sha256(clock.epoch.encode()).digest()[:_EPOCH_BYTES]
        return cls(epoch, clock.ticks, tuple([stamp & 0xFFFF for stamp in clock.stamps]))

    def is_before(self, now: Token) -> bool:
        """Whether the clock of *now* can have advanced from this token: it was not set back."""
        return self.epoch == now.epoch and all(
            tick < tick_now or (tick == tick_now and stamp == stamp_now)
            for tick, tick_now, stamp, stamp_now in zip(self.ticks, now.ticks, self.stamps, now.stamps, strict=True)
        )

    def text(self) -> str:
        """The text for clients: letters, digits, hyphens and underscores."""
        parts = [_FORM, self.epoch]
        for tick, stamp in zip(self.ticks, self.stamps, strict=True):
            # The stamp of a slot that never ticked is 0 in every database, so the token omits it.
            parts += [_number(tick), stamp.to_bytes(_STAMP_BYTES) if tick else b""]
        return base64.urlsafe_b64encode(b"".join(parts)).rstrip(b"=").decode()

    @classmethod
    def read(cls, text: str) -> Token:
        """Parse a token.

        Raises:
            NotAToken
        """
        try:
            decoded = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error) as error:
            raise NotAToken(text) from error
        if len(text) > _LONGEST or not decoded.startswith(_FORM):
            raise NotAToken(text)
        epoch, rest = decoded[1 : 1 + _EPOCH_BYTES], iter(decoded[1 + _EPOCH_BYTES :])
        ticks, stamps = [], []
        try:
            for _ in range(SLOTS):
                ticks.append(_read_number(rest))
                # A list: from a generator, the StopIteration of a short token would be a RuntimeError.
                stamps.append(int.from_bytes([next(rest) for _ in range(_STAMP_BYTES)]) if ticks[-1] else 0)
        except (StopIteration, OverflowError) as error:
            raise NotAToken(text) from error
        if next(rest, None) is not None:
            raise NotAToken(text)
        return cls(epoch, tuple(ticks), tuple(stamps))


def _number(value: int) -> bytes:
    """7 bits per byte, the low ones first; all bytes but the last have the high bit set."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_number(stream: Iterator[int]) -> int:
    value = 0
    for place in range(_MOST_BYTES):
        byte = next(stream)
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            # The column is a signed 64-bit integer, so the database would refuse a greater tick.
            if value >= 2**63:
                break
            return value
    raise OverflowError
