"""Attempts to sign in: how many run at the same time, and how long a client waits after failures.

After some failures, the next attempt of the same address or for the same name from this address is refused for a while,
which doubles with each further failure. A refused attempt does not reach Keystone and holds no thread. Each process
counts for itself, so a client that meets all workers has as many attempts more.

Source: decision 56 (docs/decisions).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SignIn = Literal["accepted", "refused", "delayed", "unavailable"]
"""How an attempt ended; a label of the metric ``stead_sign_ins_total``."""

SIGN_INS: tuple[SignIn, ...] = get_args(SignIn)

MOST_UNDERWAY = 8
"""Attempts that may wait for Keystone at the same time. Under other servers than `stead serve`, each holds a thread."""

FREE_OF_NAME = 5
"""Failures of one address for one name without a delay: typing errors."""

FREE_OF_ADDRESS = 50
"""Failures of one address without a delay: users behind one proxy share its address."""

LONGEST_DELAY_SECONDS = 60.0

REMEMBERED_SECONDS = 900.0
"""After this time without a failure, the earlier ones no longer count."""

MOST_REMEMBERED = 10_000
"""Addresses, and pairs of an address and a name, whose failures are remembered."""

_log = logging.getLogger(__name__)


class TooManyAttempts(Exception):
    """The attempt was not made; another one may be made after ``seconds``."""

    def __init__(self, message: str, seconds: int) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(slots=True)
class _Failures:
    count: int = 0
    last: float = 0.0


class Attempt:
    """An attempt that runs. One that says nothing else has failed for a reason that is not the client's."""

    def __init__(self) -> None:
        self.outcome: SignIn = "unavailable"

    def accept(self) -> None:
        """The credential is valid."""
        self.outcome = "accepted"

    def refuse(self) -> None:
        """The credential is not valid."""
        self.outcome = "refused"


class Attempts:
    """The attempts of one process. Thread-safe."""

    def __init__(
        self, tell: Callable[[SignIn], None] = lambda _outcome: None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Call *tell* with the outcome of each attempt. *clock* is in seconds."""
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._underway = 0
        self._failures: OrderedDict[tuple[str, ...], _Failures] = OrderedDict()

    @contextmanager
    def attempt(self, address: str, name: str | None = None) -> Iterator[Attempt]:
        """A block that checks a credential from *address*, of the user *name* if it is a password, and says what it is.

        Raises:
            TooManyAttempts: the block does not run.
        """
        keys: dict[tuple[str, ...], int] = {(address,): FREE_OF_ADDRESS}
        if name is not None:
            keys[address, name] = FREE_OF_NAME
        self._begin(keys)
        attempt = Attempt()
        try:
            yield attempt
        finally:
            self._end(keys, attempt.outcome)

    def _begin(self, keys: dict[tuple[str, ...], int]) -> None:
        with self._lock:
            now = self._clock()
            seconds = max(self._delay(key, free, now) for key, free in keys.items())
            is_full = self._underway >= MOST_UNDERWAY
            if seconds <= 0 and not is_full:
                self._underway += 1
                return
        self._tell("delayed")
        if seconds > 0:
            raise TooManyAttempts(f"Too many failed attempts. Retry in {ceil(seconds)} s.", ceil(seconds))
        raise TooManyAttempts("Too many users sign in at the same time. Retry.", 1)

    def _end(self, keys: dict[tuple[str, ...], int], outcome: SignIn) -> None:
        (address,), *of_names = keys
        count = 0
        with self._lock:
            self._underway -= 1
            if outcome == "accepted":
                for key in of_names:
                    self._failures.pop(key, None)
            elif outcome == "refused":
                for key in keys:
                    self._fail(key)
                count = self._failures[(address,)].count
        self._tell(outcome)
        if outcome == "refused":
            # Neither the name, for which users type their password by mistake, nor anything else that they typed.
            _log.warning("sign-in refused: %s, failures from this address: %d", ascii(address)[1:-1], count)

    # The caller holds the lock.

    def _delay(self, key: tuple[str, ...], free: int, now: float) -> float:
        """Seconds until the next attempt may be made."""
        failures = self._failures.get(key)
        if failures is None or failures.count < free:
            return 0.0
        # The exponent is bounded, since a float has no 2 ** 5000.
        delay = min(2.0 ** min(failures.count - free, 10), LONGEST_DELAY_SECONDS)
        return failures.last + delay - now

    def _fail(self, key: tuple[str, ...]) -> None:
        now = self._clock()
        failures = self._failures.setdefault(key, _Failures())
        if now - failures.last > REMEMBERED_SECONDS:
            failures.count = 0
        failures.count += 1
        failures.last = now
        self._failures.move_to_end(key)
        if len(self._failures) > MOST_REMEMBERED:
            self._failures.popitem(last=False)
