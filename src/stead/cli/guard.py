"""The process of a command that has a place: it never outlives its claim.

The guard is forked before the place is claimed, while this process has one thread, and waits at a pipe. So it can ask
the kernel to tell it when this process ends: after SIGKILL of ``stead run``, nothing runs on a place whose lease ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead import Held

CANNOT_EXECUTE, BY_SIGNAL = 126, 128
"""Exit codes as a shell has them; the number of the signal is added to the second."""

_BY_KERNEL = 128  # si_code of signals that a terminal sends, to this process and to the command. Source: sigaction(2)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LONGEST_STEP = 86_400.0  # seconds


class Guard:
    """A guard process: it starts the command after the claim, and ends shortly after this process.

    It is forked while this process has one thread. The kernel tells it when this process ends, also by SIGKILL. Then,
    and when the command has ended, it kills what the command has started: all of it would use a place of another run.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid = pid
        self._pipe: int | None = pipe
        self._is_running = False

    @classmethod
    @contextmanager
    def forked(cls) -> Iterator[Guard]:
        """A guard that waits for a command; it has ended after the block, and with it all that the command started.

        Signals are blocked in the block, also in the threads that it starts: :meth:`wait` and :meth:`interrupted`
        take them.
        """
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if not pid:
            try:
                os.close(writing)
                _guard(reading, parent)
            finally:
                os._exit(CANNOT_EXECUTE)
        os.close(reading)
        guard = cls(pid, writing)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            yield guard
        finally:
            guard._abandon()
            while signal.sigtimedwait(_WATCHED, 0) is not None:  # they were for the command, which has ended
                pass
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    @staticmethod
    def interrupted() -> int | None:
        """The signal that has arrived, if one did."""
        info = signal.sigtimedwait(_FORWARDED, 0)
        return None if info is None else info.si_signo

    def start(self, words: Sequence[str], variables: Mapping[str, str], cpus: set[int] | None) -> None:
        """Execute a command with more variables, on these CPUs; None: on all."""
        if self._pipe is None:
            return
        with os.fdopen(self._pipe, "wb") as pipe:
            self._pipe = None
            text = json.dumps([list(words), dict(variables), None if cpus is None else sorted(cpus)])
            pipe.write(text.encode("utf-8", "surrogateescape"))
        self._is_running = True

    def _abandon(self) -> None:
        """End it if it never got a command, or if this process ends with an error."""
        if self._pipe is not None:
            os.close(self._pipe)
            os.waitpid(self._pid, 0)
        elif self._is_running:
            os.kill(self._pid, _END_ALL)
            os.waitpid(self._pid, 0)

    def wait(self, claim: Held, grace: float, *, keep_running: bool) -> tuple[int, bool]:
        """The exit code of the command, and whether it was ended because the lease was lost.

        Signals that this process gets meanwhile are sent to the command. Those of the terminal reach it anyway.
        """
        threading.Thread(target=_tell, args=(claim, threading.get_ident()), name="lost", daemon=True).start()
        end_at: float | None = None
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._is_running = False
                code = os.waitstatus_to_exitcode(status)
                return (code if code >= 0 else BY_SIGNAL - code), end_at is not None
            if end_at is None and claim.lost.is_set() and not keep_running:
                end_at = time.monotonic() + grace
                words = f"the claim was lost, so the command gets SIGTERM, and SIGKILL after {grace:g} s"
                print(f"stead: {words}", file=sys.stderr, flush=True)
                os.kill(self._pid, signal.SIGTERM)
            remaining = _LONGEST_STEP if end_at is None else end_at - time.monotonic()
            if remaining <= 0:
                os.kill(self._pid, _END_ALL)
                remaining = 1.0
            info = signal.sigtimedwait(_WATCHED, remaining)
            if info is not None and info.si_signo in _FORWARDED and info.si_code != _BY_KERNEL:
                os.kill(self._pid, info.si_signo)


def _tell(claim: Held, thread: int) -> None:
    """Wake a thread that waits for signals when the claim is lost."""
    claim.lost.wait()
    with suppress(OSError):  # it has ended
        signal.pthread_kill(thread, signal.SIGCHLD)


_FORWARDED = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_WATCHED = {*_FORWARDED, signal.SIGCHLD}
_END_ALL = signal.SIGRTMIN
"""Tells a guard to kill everything; the kernel sends it when the parent of the guard ends."""


def _guard(pipe: int, parent: int) -> None:
    """Wait for a command, run it, and end as it does. Returns if there is none."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_WATCHED, _END_ALL})
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, _END_ALL, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans of the command stay below this process
    with os.fdopen(pipe, "rb") as file:
        text = file.read()
    if not text or os.getppid() != parent:  # the parent ended before the kernel knew that it should tell
        return
    words, variables, cpus = json.loads(text.decode("utf-8", "surrogateescape"))
    guard = os.getpid()
    command = os.fork()
    if not command:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == guard:
            _become(words, variables, cpus, mask)
        os._exit(CANNOT_EXECUTE)
    status = None
    while status is None:
        info = signal.sigtimedwait({*_WATCHED, _END_ALL}, _LONGEST_STEP)
        if info is not None and info.si_signo == _END_ALL:
            _kill_descendants()
            os._exit(BY_SIGNAL + signal.SIGKILL)
        if info is not None and info.si_signo in _FORWARDED and info.si_code != _BY_KERNEL:
            os.kill(command, info.si_signo)
        status = _reaped(command)
    _kill_descendants()
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else BY_SIGNAL - code)


def _become(words: list[str], variables: Mapping[str, str], cpus: list[int] | None, mask: set[int]) -> None:
    """Execute the command. Returns if that fails."""
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # Python handles the first and ignores the others
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        os.execvpe(words[0], words, {**os.environ, **variables})
    except OSError as error:
        print(f"stead: {words[0]}: {error.strerror}", file=sys.stderr, flush=True)


def _reaped(command: int) -> int | None:
    """Reap children that have ended; the status of the command if it is one of them."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == command:
                return status
            if not pid:
                break
    return None


def _kill_descendants() -> None:
    """Kill the processes below this one until there are none."""
    while True:
        for pid in _descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)


def _descendants(pid: int) -> Iterator[int]:
    """The processes below *pid*."""
    waiting = [pid]
    while waiting:
        here = waiting.pop()
        with suppress(OSError, ValueError):
            path = Path(f"/proc/{here}/task/{here}/children")
            children = list(map(int, path.read_text(encoding="ascii").split()))
            yield from children
            waiting += children
