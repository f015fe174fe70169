"""The main process of ``stead serve``: owns the listening socket, and starts, monitors and replaces workers.

The socket outlives the workers, so connections wait in its backlog while workers are replaced. Workers are new
processes, not forks: they inherit no thread, lock or connection of this process. ``supervisor`` decides; this module
observes the processes and carries out its orders.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stead.printing import one_line
from stead.process import siblings
from stead.serve import supervisor, worker
from stead.serve.supervisor import Order, Step, Supervisor
from stead.serve.worker import Orders, UnusableFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from stead.process.siblings import Siblings
    from stead.serve.worker import TlsFiles

TARGET = "stead.wsgi:application"

DRAIN_SECONDS = 2.0
"""Time for which an ending worker continues to serve its open connections."""

ENDING_TOGETHER_SECONDS = 1.0
"""Time within which a service manager signals all processes of the service."""

PING = b"GET /healthcheck/live HTTP/1.1\r\nHost: worker\r\n\r\n"
PING_SECONDS = 2.0
STACKS_SECONDS = 1.0

_POLL_SECONDS = 0.05
_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_SIGNAL_OF = {
    Step.DRAIN: worker.DRAIN,
    Step.END: worker.END,
    Step.END_AT_ONCE: worker.END_AT_ONCE,
    Step.KILL: signal.SIGKILL,
}

_log = logging.getLogger(__name__)


class WorkersFailed(Exception):
    """No worker is left, and none can start; the message says why."""


@dataclass(eq=False)
class Worker:
    """One worker process. Times are of ``time.monotonic``."""

    process: subprocess.Popen[bytes]
    door: socket.socket
    report: int
    has_loaded: bool = False
    asked: float | None = None
    answered: float = field(default_factory=time.monotonic)
    ended: float | None = None
    is_unresponsive: bool = False

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
        if self.ended is None and self.process.poll() is not None:
            self.ended = now

    def silence(self, now: float) -> float:
        """Seconds since its oldest unanswered health request, after it has loaded."""
        return now - self.asked if self.has_loaded and self.asked is not None else 0.0

    def signal(self, number: int) -> None:
        """Send a signal, if the process still exists."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def stacks(self) -> str:
        """Make it write the stacks of its threads, and return them, each once."""
        before = os.fstat(self.report).st_size
        self.signal(worker.SHOW_STACKS)
        time.sleep(STACKS_SECONDS)
        return _each_once(self.reported(before))

    def reported(self, after: int = 0) -> str:
        """What it has written for this process: stacks, or why it could not start."""
        return os.pread(self.report, os.fstat(self.report).st_size, after).decode(errors="replace")

    def how_it_ended(self) -> str:
        """Which process ended, and how, in one line."""
        status = self.process.returncode
        if self.has_loaded:
            return f"worker {self.process.pid} ended by itself ({_words_of(status)})"
        why = one_line(self.reported()) if status == worker.CANNOT_START else _words_of(status)
        return f"new worker {self.process.pid} did not start: {why}"

    def close(self) -> None:
        """Close the connections to it; the process has ended."""
        self.door.close()
        os.close(self.report)


def _each_once(stacks: str) -> str:
    """Threads with equal stacks as one.

    Most threads of a worker wait in the same place. All their stacks are more than a pipe takes that nothing reads, as
    stderr can be: then this process would wait, and no worker would be replaced.
    """
    threads_at: dict[str, list[str]] = {}
    for text in stacks.strip().split("\n\n"):
        thread, _, frames = text.partition("\n")
        threads_at.setdefault(frames, []).append(thread)
    return "\n\n".join(
        f"{first}{f', and {len(others)} other threads' if others else ''}\n{frames}"
        for frames, (first, *others) in threads_at.items()
    )


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
        self._workers: dict[int, Worker] = {}  # by the supervisor's numbers
        self._has_listened = False
        self._signals: deque[int] = deque()
        self._siblings = os.memfd_create("stead-siblings")
        self._written: Siblings | None = None

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises:
            WorkersFailed
        """
        # Handlers instead of blocked signals: a thread that a library has started may receive a signal.
        before = {number: signal.signal(number, self._note_signal) for number in _SIGNALS}
        supervised = Supervisor(self._count, time.monotonic())
        try:
            while not supervised.is_over:
                self._take_signals(supervised)
                self._observe(supervised)
                self._obey(supervised)
                if not self._signals:
                    time.sleep(_POLL_SECONDS)
        finally:
            self._end_all()  # none is left, unless this process fails
            os.close(self._siblings)
            for number, handler in before.items():
                signal.signal(number, handler)
        if supervised.failure is not None:
            raise WorkersFailed(supervised.failure)

    def _note_signal(self, number: int, _frame: object) -> None:
        self._signals.append(number)

    def _take_signals(self, supervised: Supervisor) -> None:
        while self._signals:
            number = self._signals.popleft()
            if number == signal.SIGHUP:
                supervised.reload(time.monotonic())
            else:
                supervised.stop(time.monotonic(), at_once=supervised.is_stopping)

    def _observe(self, supervised: Supervisor) -> None:
        """Report to the supervisor what became of the workers."""
        for number, each in list(self._workers.items()):
            now = time.monotonic()
            had_loaded = each.has_loaded
            each.look(now)
            if each.has_loaded and not had_loaded:
                supervised.served(number, now)
            if each.ended is not None:
                if not self._may_end_together(each, supervised, now):
                    supervised.ended(number, each.how_it_ended(), now)
                    each.close()
                    del self._workers[number]
            elif self._unresponsive and each.silence(now) > self._unresponsive and not each.is_unresponsive:
                each.is_unresponsive = True
                reason = (
                    f"worker {each.process.pid} has not answered its own health check for {self._unresponsive:.0f} s"
                )
                _log.error("%s; its threads were at:\n%s", reason, each.stacks())
                supervised.unresponsive(number, reason, now)
        if not self._has_listened and any(each.has_loaded for each in self._workers.values()):
            self._has_listened = True
            self._when_listening()
        state = supervised.siblings()
        if state != self._written:
            siblings.write(self._siblings, state)
            self._written = state

    def _may_end_together(self, dead: Worker, supervised: Supervisor, now: float) -> bool:
        """Whether the service manager may have told all processes to end, and this worker ended first."""
        return (
            not supervised.is_stopping
            and dead.process.returncode in (0, -worker.END)
            and now - (dead.ended or now) < ENDING_TOGETHER_SECONDS
        )

    def _obey(self, supervised: Supervisor) -> None:
        """Carry out what the supervisor decides."""
        for order in supervised.decide(time.monotonic()):
            if order.step is Step.START:
                self._start(order.worker, supervised)
            elif order.worker in self._workers:
                self._signal(order)
        if supervised.is_stopping:
            self._listening.close()  # with the workers' copies closed too, the kernel refuses clients at once

    def _signal(self, order: Order) -> None:
        told = self._workers[order.worker]
        if order.step is Step.KILL:
            _log.warning(
                "worker %d is too late and is killed; its threads were at:\n%s", told.process.pid, told.stacks()
            )
        told.signal(_SIGNAL_OF[order.step])

    def _end_all(self) -> None:
        for each in self._workers.values():
            each.signal(worker.END)
        until = time.monotonic() + supervisor.STOP_SECONDS
        for each in self._workers.values():
            with suppress(subprocess.TimeoutExpired):
                each.process.wait(max(0.0, until - time.monotonic()))
            each.signal(signal.SIGKILL)
            each.process.wait()
            each.close()

    def _start(self, number: int, supervised: Supervisor) -> None:
        try:
            if self._tls is not None:
                self._tls.context()  # check here: the reason is then in the log without a process for it
            self._workers[number] = self._new_worker()
        except (UnusableFiles, OSError) as error:  # OSError: no memory, process or descriptor for it
            supervised.ended(number, f"a new worker did not start: {error}", time.monotonic())

    def _new_worker(self) -> Worker:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        report = os.memfd_create("stead-report")
        orders = Orders(
            target=TARGET,
            threads=self._threads,
            listening=self._listening.fileno(),
            door=theirs.fileno(),
            report=report,
            siblings=self._siblings,
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
        except OSError:
            ours.close()
            os.close(report)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        return Worker(process, ours, report)


def _words_of(status: int) -> str:
    """How a process ended, from its return code."""
    if status >= 0:
        return f"exit status {status}; see its output above"
    with suppress(ValueError):
        return f"signal {-status}, {signal.Signals(-status).name}"
    return f"signal {-status}"
