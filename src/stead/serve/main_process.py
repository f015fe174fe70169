"""The main process of ``stead serve``: owns the listening socket, and starts, monitors and replaces workers.

The socket outlives the workers, so connections wait in its backlog while workers are replaced. Workers are new
processes, not forks: they inherit no thread, lock or connection of this process.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from stead.serve import worker
from stead.serve.orders import Orders
from stead.serve.tls import UnusableFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.serve.tls import TlsFiles

TARGET = "stead.wsgi:application"

DRAIN_SECONDS = 2.0
"""Time for which an ending worker continues to serve its open connections."""

STOP_SECONDS = 35.0
"""Time after which the main process kills a worker that it told to end."""

RESTART_SECONDS = 5.0
"""If a second worker ends by itself within this time, the service ends."""

ENDING_TOGETHER_SECONDS = 1.0
"""Time within which a service manager signals all processes of the service."""

PING = b"GET /healthcheck/live HTTP/1.1\r\nHost: worker\r\n\r\n"
PING_SECONDS = 2.0
STACKS_SECONDS = 1.0

_POLL_SECONDS = 0.05
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

_log = logging.getLogger(__name__)


class WorkersFailed(Exception):
    """A worker ended by itself; the message says when."""


@dataclass(eq=False)
class Worker:
    """One worker process. Times are of ``time.monotonic``."""

    process: subprocess.Popen[bytes]
    door: socket.socket
    stacks: IO[bytes]
    has_loaded: bool = False
    asked: float | None = None
    answered: float = field(default_factory=time.monotonic)

    def look(self, now: float) -> None:
        """Send it a health request at intervals, and read its answers."""
        with suppress(BlockingIOError, OSError):
            while self.door.recv(65536):
                self.has_loaded = True
                self.answered = now
                self.asked = None
        if self.asked is None and (not self.has_loaded or now - self.answered > PING_SECONDS):
            with suppress(OSError):
                self.door.send(PING)
                self.asked = now

    def silence(self, now: float) -> float:
        """Seconds since its oldest unanswered health request, after it has loaded."""
        return now - self.asked if self.has_loaded and self.asked is not None else 0.0

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal, if the process still exists."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def show_stacks(self) -> str:
        """Make it write the stacks of its threads, and return them."""
        self.signal(worker.SHOW_STACKS)
        time.sleep(STACKS_SECONDS)
        self.stacks.seek(0)
        return self.stacks.read().decode(errors="replace")

    def close(self) -> None:
        """Close the connections to it; the process has ended."""
        self.door.close()
        self.stacks.close()


class MainProcess:
    """Starts a number of workers and keeps them running until a signal ends the service."""

    def __init__(
        self,
        listening: socket.socket,
        *,
        workers: int,
        threads: int,
        tls: TlsFiles | None,
        unresponsive: float,
        when_listening: Callable[[], None],
    ) -> None:
        """Start nothing yet."""
        self._listening = listening
        self._count = workers
        self._threads = threads
        self._tls = tls
        self._unresponsive = unresponsive
        self._when_listening = when_listening
        self._workers: list[Worker] = []
        self._ending: list[tuple[Worker, float]] = []  # each with the time at which it is killed
        self._successor: Worker | None = None
        self._to_replace: list[Worker] = []  # at a reload, the oldest first
        self._has_listened = False
        self._last_failure = float("-inf")
        self._is_stopping = False
        self._signals: deque[int] = deque()

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises:
            WorkersFailed
        """
        # Handlers instead of blocked signals: a thread that a library has started may receive a signal.
        before = {number: signal.signal(number, self._note_signal) for number in _SIGNALS}
        try:
            for _ in range(self._count):
                self._workers.append(self._start())
            while not self._is_stopping:
                self._take_signal(_POLL_SECONDS)
                self._look()
            self._stop()
        finally:
            for each in [*self._workers, *(ending for ending, _ in self._ending)]:
                each.signal(signal.SIGKILL)
                each.process.wait()
                each.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note_signal(self, number: int, _frame: object) -> None:
        self._signals.append(number)

    def _take_signal(self, seconds: float) -> int | None:
        """Act on the next signal. Returns None if none arrives within *seconds*."""
        until = time.monotonic() + seconds
        while not self._signals:
            if time.monotonic() >= until:
                return None
            # In short pieces: after a signal handler, Python continues a sleep to its end.
            time.sleep(min(_POLL_SECONDS, seconds))
        number = self._signals.popleft()
        if number == signal.SIGHUP:
            self._reload()
        else:
            self._is_stopping = True
        return number

    def _look(self) -> None:
        now = time.monotonic()
        for each in list(self._workers):
            each.look(now)
            if not each.is_alive:
                self._replace_dead(each, now)
            elif self._unresponsive and each.silence(now) > self._unresponsive:
                self._replace_silent(each)
        if not self._has_listened and any(each.has_loaded for each in self._workers):
            self._has_listened = True
            self._when_listening()
        self._go_on_with_reload(now)
        self._end(now)

    # Workers that fail.

    def _replace_dead(self, dead: Worker, now: float) -> None:
        if self._is_ending_with(dead):
            return
        self._workers.remove(dead)
        dead.close()
        if dead in self._to_replace:
            self._to_replace.remove(dead)
        was_just_so = now - self._last_failure < RESTART_SECONDS
        self._last_failure = now
        if not self._has_listened or was_just_so:
            raise WorkersFailed("a worker ended by itself; see its output above")
        _log.error("worker %d ended by itself (status %s) and is replaced", dead.process.pid, dead.process.returncode)
        if self._successor is not None:
            self._workers.append(self._successor)  # replaces the dead worker instead of the one it was started for
            self._successor = None
        else:
            self._workers.append(self._start())

    def _is_ending_with(self, dead: Worker) -> bool:
        """Whether the service manager told this worker and this process to end, and the worker ended first."""
        if dead.process.returncode in (0, -worker.END):
            self._take_signal(ENDING_TOGETHER_SECONDS)
        return self._is_stopping

    def _replace_silent(self, silent: Worker) -> None:
        _log.error(
            "worker %d has not answered its own health check for %d s, and is replaced; its threads were at:\n%s",
            silent.process.pid, self._unresponsive, silent.show_stacks(),
        )  # fmt: skip
        silent.signal(signal.SIGKILL)
        silent.process.wait()
        silent.close()
        self._workers.remove(silent)
        if silent in self._to_replace:
            self._to_replace.remove(silent)
        self._workers.append(self._start())

    # Reloads.

    def _reload(self) -> None:
        """Replace all present workers, one after the other.

        This includes a successor of a reload under way: it may have read the configuration before the last change.
        """
        if self._has_listened:
            self._to_replace = [*self._workers, *([self._successor] if self._successor else [])]

    def _go_on_with_reload(self, now: float) -> None:
        if not self._to_replace:
            return
        if self._successor is None:
            if self._ending:
                return  # one after the other, to bound the memory too
            try:
                if self._tls is not None:
                    self._tls.context()  # check here: a worker with unusable files would end the service
            except UnusableFiles as error:
                self._give_up_reload(str(error))
                return
            self._successor = self._start()
            return
        self._successor.look(now)
        if self._successor.has_loaded:
            old = self._to_replace.pop(0)
            self._workers[self._workers.index(old)] = self._successor
            self._successor = None
            # Only now: its successor accepts connections already, so the reload costs no capacity.
            old.signal(worker.DRAIN)
            self._ending.append((old, now + STOP_SECONDS))
        elif not self._successor.is_alive:
            self._successor.close()
            self._successor = None
            self._give_up_reload("a new worker did not start; see its output above")

    def _give_up_reload(self, reason: str) -> None:
        done = sum(each not in self._to_replace for each in self._workers)
        what = f"only {done} of {self._count} workers are reloaded" if done else "nothing is reloaded"
        _log.error("%s: %s", what, reason)
        self._to_replace = []

    # The end.

    def _end(self, now: float) -> None:
        """Wait for the workers that were told to end, and kill those that are late."""
        for each, until in list(self._ending):
            if each.is_alive and now > until:
                _log.warning("worker %d did not end in %d s and is killed", each.process.pid, STOP_SECONDS)
                each.signal(signal.SIGKILL)
                each.process.wait()
            if not each.is_alive:
                each.close()
                self._ending.remove((each, until))

    def _stop(self) -> None:
        self._listening.close()  # with the workers' copies closed too, the kernel refuses clients at once
        now = time.monotonic()
        workers = [*self._workers, *([self._successor] if self._successor else [])]
        for each in [*workers, *(ending for ending, _ in self._ending)]:
            each.signal(worker.END)
        self._workers, self._successor = [], None
        self._ending += [(each, now + STOP_SECONDS) for each in workers]
        while self._ending:
            if self._take_signal(_POLL_SECONDS) not in (None, signal.SIGHUP):
                for each, _ in self._ending:
                    each.signal(worker.END_AT_ONCE)
            self._end(time.monotonic())

    def _start(self) -> Worker:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        stacks = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the worker
        orders = Orders(
            target=TARGET,
            threads=self._threads,
            listening=self._listening.fileno(),
            door=theirs.fileno(),
            stacks=stacks.fileno(),
            drain=DRAIN_SECONDS,
            certificate=str(self._tls.certificate) if self._tls else None,
            key=str(self._tls.key) if self._tls else None,
            clients=str(self._tls.clients) if self._tls and self._tls.clients else None,
        )
        # Blocked until the new process ignores the signals that are not for it, such as SIGINT of a terminal.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "stead.serve.worker", orders.as_argument()],
                env=os.environ | {"STEAD_MAIN_PROCESS": str(os.getpid())},
                stdin=subprocess.DEVNULL,
                pass_fds=orders.descriptors,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()
        return Worker(process, ours, stacks)
