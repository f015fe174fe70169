"""Which workers must be alive after what befell them: a model, and two worlds that are compared with it.

One world is the supervisor alone with a clock of its own, in which hours pass at once. The other one is `stead serve`
with its processes. Both are told the same sequences: workers are killed, crash on a request or hang, in batches beside
reloads, while a new worker can start or not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from stead.serve import supervisor
from stead.serve.supervisor import Step, Supervisor
from tests.waiting import stays, wait_until

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

GOOD = "good"
BAD = ("refused", "crash", "slow crash", "hang")
"""What may be wrong with a new worker: its configuration is refused, it crashes at once or late, or it never loads."""

SETTLING_SECONDS = 120.0
"""For real processes, on a machine that is busy with other tests."""


@dataclass
class Batch:
    """What happens at the same time.

    Attributes:
        victims: the number of serving workers that are lost, each in one of the ways of `lost_by`.
        lost_by: `kill`, `hang`, or `request`, with which a worker crashes.
        reload: where a reload stands among the losses; None: there is none.
        loading: what becomes of new workers from now on. It changes before the rest.
    """

    victims: int
    lost_by: Sequence[str]
    reload: int | None
    loading: str

    @classmethod
    def drawn(cls, choices: random.Random, workers: int) -> Batch:
        """A random one."""
        victims = choices.choice([0, 1, 1, 1, 2, workers])
        return cls(
            victims,
            [choices.choice(("kill", "kill", "request", "hang")) for _ in range(victims)],
            choices.choice([None, None, choices.randint(0, victims)]),
            GOOD if choices.random() < 0.5 else choices.choice(BAD),
        )


@dataclass
class Expected:
    """What must be so when all has settled.

    Attributes:
        survivors: workers that serve still.
        gone: workers that serve no more.
        serving: the number of all that serve.
        reload_fails: the service gives up a reload before.
        is_over: the service has ended, since no worker was left.
    """

    survivors: AbstractSet[int]
    serving: int
    gone: AbstractSet[int] = frozenset()
    reload_fails: bool = False
    is_over: bool = False


@dataclass
class Model:
    """The rules, in a few lines: who serves, and what a new worker does."""

    count: int
    serving: AbstractSet[int] = field(default_factory=frozenset)

    def after(self, batch: Batch, victims: AbstractSet[int]) -> Expected:
        """What *batch* leads to, if it befalls *victims*."""
        survivors = self.serving - victims
        is_reloaded = batch.reload is not None
        if batch.loading != GOOD:
            return Expected(survivors, len(survivors), victims, is_reloaded and bool(survivors), not survivors)
        return Expected(frozenset() if is_reloaded else survivors, self.count, self.serving if is_reloaded else victims)


class World(Protocol):
    """Workers that can be lost and reloaded."""

    def set_loading(self, loading: str) -> None: ...
    def serving(self) -> AbstractSet[int]: ...
    def lose(self, worker: int, how: str) -> None: ...
    def reload(self) -> None: ...
    def settles(self, expected: Expected) -> None: ...


def live(world: World, count: int, batches: Sequence[Batch], choices: random.Random) -> None:
    """Let *batches* happen in *world*, and compare each outcome with the model. A service that is over ends it."""
    model = Model(count)
    world.settles(Expected(frozenset(), count))
    for batch in batches:
        world.set_loading(batch.loading)
        if batch.loading == GOOD:  # what was missing comes back by itself
            world.settles(Expected(world.serving(), count))
        model.serving = world.serving()
        victims = choices.sample(sorted(model.serving), min(batch.victims, len(model.serving)))
        for position, (victim, how) in enumerate(zip(victims, batch.lost_by, strict=False)):
            if batch.reload == position:
                world.reload()
            world.lose(victim, how)
        if batch.reload is not None and batch.reload >= len(victims):
            world.reload()
        expected = model.after(batch, frozenset(victims))
        world.settles(expected)
        if expected.is_over:
            return


class Simulated:
    """The supervisor with a clock of its own. Checks at each step what must never happen."""

    TICK = 0.5

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.supervisor = Supervisor(count, self.now)
        self.count = count
        self.loading = GOOD
        self.events: list[tuple[float, int, str]] = []  # when, worker, what
        self.alive: set[int] = set()
        self.has_served: set[int] = set()
        self.hung: set[int] = set()
        self.told: dict[int, float] = {}  # when to end
        self.excused: set[int] = set()  # those that may be told to end
        self.starts: list[float] = []
        self._step()

    def set_loading(self, loading: str) -> None:
        self.loading = loading

    def serving(self) -> AbstractSet[int]:
        return frozenset(self.has_served & self.alive - set(self.told) - self.hung)

    def lose(self, worker: int, how: str) -> None:
        if worker not in self.alive:
            return
        if how == "hang":
            self.hung.add(worker)
            self.events.append((self.now + 30, worker, "unresponsive"))
        else:
            self._end(worker)
        self._step()

    def reload(self) -> None:
        self.excused |= self.alive
        self.supervisor.reload(self.now)
        self._step()

    def settles(self, expected: Expected) -> None:
        end = self.now + 2 * supervisor.START_SECONDS
        stable_for = 3 * supervisor.LONGEST_PAUSE_SECONDS
        since: float | None = None
        while self.now < end + stable_for:
            if not self._is_as(expected):
                assert since is None or self.now < end, "it did not stay"
                since = None
            elif since is None:
                since = self.now
            if since is not None and self.now - since > (0 if expected.is_over else stable_for):
                return
            self.now += self.TICK
            self._step()
        raise AssertionError(f"{sorted(self.serving())} serve, expected {expected}; {self.supervisor.failure}")

    def _is_as(self, expected: Expected) -> bool:
        if expected.is_over:
            return self.supervisor.is_over and self.supervisor.failure is not None
        serving = self.serving()
        assert not self.supervisor.is_stopping, self.supervisor.failure
        if not expected.survivors <= serving:
            raise AssertionError(f"{sorted(expected.survivors - serving)} had to survive")
        counted = self.supervisor.siblings().states["serving"]
        return len(serving) == expected.serving == counted and not self.told and not serving & expected.gone

    def _step(self) -> None:
        due = sorted(event for event in self.events if event[0] <= self.now)
        self.events = [event for event in self.events if event[0] > self.now]
        for _, worker, what in due:
            if worker not in self.alive:
                continue
            if what == "served":
                self.has_served.add(worker)
                self.supervisor.served(worker, self.now)
            elif what == "unresponsive":
                self.excused.add(worker)
                self.supervisor.unresponsive(worker, f"worker {worker} hangs", self.now)
            else:
                self._end(worker)
        for order in self.supervisor.decide(self.now):
            self._obey(order.step, order.worker)

    def _end(self, worker: int) -> None:
        self.alive.discard(worker)
        self.told.pop(worker, None)
        self.supervisor.ended(worker, f"worker {worker} ended", self.now)

    def _obey(self, step: Step, worker: int) -> None:
        if step is Step.START:
            self._started(worker)
            return
        has_served = worker in self.has_served
        if step is Step.KILL:
            if has_served:
                assert self.now - self.told[worker] >= supervisor.STOP_SECONDS, "a request may be cut"
            self.told.setdefault(worker, self.now)
            self.events.append((self.now, worker, "ended"))
            return
        assert not has_served or worker in self.excused or self.supervisor.is_stopping, "nothing ends this worker"
        if step is Step.DRAIN:
            untold = self.has_served & self.alive - set(self.told)  # with those that hang, which nobody has noticed yet
            assert len(untold) > self.count, "its successor does not serve yet"
        self.told.setdefault(worker, self.now)
        if worker not in self.hung:
            self.events.append((self.now + 1, worker, "ended"))

    def _started(self, worker: int) -> None:
        starting = self.alive - self.has_served - set(self.told)
        assert len(self.starts) < self.count or not starting, "two start at a time"
        self.starts.append(self.now)
        self.alive.add(worker)
        self.excused |= {worker} if self.loading == "hang" else set()
        outcome = {GOOD: (1, "served"), "slow crash": (20, "ended"), "hang": None}.get(self.loading, (0.5, "ended"))
        if outcome is not None:
            self.events.append((self.now + outcome[0], worker, outcome[1]))


APPLICATION = """
import json, os, pathlib, time

loading = pathlib.Path("loading").read_text()
if loading == "crash":
    os._exit(7)
if loading == "slow crash":
    time.sleep(2)
    raise RuntimeError("cannot be loaded")
while loading == "hang":
    time.sleep(1)
pathlib.Path(f"loaded-{os.getpid()}").touch()

def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == f"/crash/{os.getpid()}":
        os._exit(9)
    if path.startswith("/slow/"):
        name = path.removeprefix("/slow/")
        pathlib.Path(f"began-{name}").write_text(str(os.getpid()))
        while not pathlib.Path(f"may-end-{name}").exists():
            time.sleep(0.01)
    body = json.dumps(os.getpid()).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
"""

COMMAND = """
import sys
from stead.cli import main
from stead.serve import main_process, supervisor

main_process.TARGET = "supervised_application:application"
main_process.DRAIN_SECONDS = 0.2
supervisor.STOP_SECONDS = 5.0
supervisor.START_SECONDS = float(sys.argv.pop(1))
supervisor.LONGEST_PAUSE_SECONDS = 1.0
main()
"""


class Processes:
    """`stead serve` with a small application."""

    def __init__(self, home: Path, process: subprocess.Popen[str], url: str, count: int) -> None:
        self._home = home
        self._process = process
        self._url = urlsplit(url)
        self._count = count
        self.log = home / "log"
        self._hung: set[int] = set()
        self._failed_reloads = 0

    def set_loading(self, loading: str) -> None:
        (self._home / "loading").write_text(loading)
        mistake = "[stead]\nmax_queue = many\n" if loading == "refused" else ""
        (self._home / "service.conf").write_text(_configuration(self._home) + mistake)

    def children(self) -> AbstractSet[int]:
        """The workers, whatever their state."""
        pid = self._process.pid
        return frozenset(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def serving(self) -> AbstractSet[int]:
        loaded = {worker for worker in self.children() if (self._home / f"loaded-{worker}").exists()}
        return frozenset(loaded - self._hung)

    def lose(self, worker: int, how: str) -> None:
        self._hung |= {worker} if how == "hang" else set()
        if how == "request":
            wait_until(lambda: self._crashes(worker), seconds=SETTLING_SECONDS)
        else:
            os.kill(worker, signal.SIGKILL if how == "kill" else signal.SIGSTOP)

    def reload(self) -> None:
        self._process.send_signal(signal.SIGHUP)

    def settles(self, expected: Expected) -> None:
        if expected.is_over:
            assert self._process.wait(timeout=SETTLING_SECONDS) == 1
            assert "no worker is left, and none can start" in self.log.read_text()
            return
        self._failed_reloads += expected.reload_fails
        wait_until(
            # For a while, since a reload may replace another worker: it has always one that starts, except for moments.
            lambda: self._is_as(expected) and stays(lambda: self._is_as(expected), 0.5),
            lambda: self._difference(expected),
            seconds=SETTLING_SECONDS,
        )

    def stop(self) -> int:
        """End it; its exit code. No worker remains."""
        workers = self.children()
        self._process.terminate()
        code = self._process.wait(timeout=SETTLING_SECONDS)
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
        return code

    @contextmanager
    def claiming(self, name: str) -> Iterator[int]:
        """A request in one worker, whose process id this is, that lasts until the block ends. It must be answered."""
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(self.asked(f"/slow/{name}")))
        asking.start()
        began = self._home / f"began-{name}"
        wait_until(lambda: began.exists() and began.read_text(), seconds=SETTLING_SECONDS)
        try:
            yield int(began.read_text())
        finally:
            (self._home / f"may-end-{name}").touch()
            asking.join()
        assert answers == [int(began.read_text())]

    def asked(self, path: str) -> int:
        """The worker that answers."""
        connection = HTTPConnection(self._url.hostname or "", self._url.port, timeout=SETTLING_SECONDS)
        try:
            connection.request("GET", path)
            return int(json.loads(connection.getresponse().read()))
        finally:
            connection.close()

    def _crashes(self, worker: int) -> bool:
        with suppress(OSError, ValueError):
            self.asked(f"/crash/{worker}")
        return not Path(f"/proc/{worker}").exists() or worker not in self.children()

    def _is_as(self, expected: Expected) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        serving = self.serving()
        assert expected.survivors <= serving, self._difference(expected)
        if len(serving) != expected.serving or serving & expected.gone:
            return False
        if expected.serving == self._count:
            return serving == self.children()
        return self.log.read_text().count("reloaded: ") >= self._failed_reloads

    def _difference(self, expected: Expected) -> str:
        return f"{sorted(self.serving())} serve, expected {expected}\n{self.log.read_text()}"


def _configuration(home: Path) -> str:
    return (
        f"[placement_database]\nconnection = sqlite:///{home}/placement.db\nsync_on_startup = true\n"
        "[api]\nauth_strategy = noauth2\n[stead]\nworker_timeout = 4\n"
    )


@contextmanager
def processes(home: Path, count: int, *options: str, start_seconds: float = 20.0) -> Iterator[Processes]:
    """`stead serve` with *count* workers, which have *start_seconds* to load."""
    (home / "supervised_application.py").write_text(APPLICATION)
    (home / "command.py").write_text(COMMAND)
    (home / "loading").write_text(GOOD)
    (home / "service.conf").write_text(_configuration(home))
    arguments = ["--json", "serve", "--port", "0", "--workers", str(count), "--config-file", "service.conf", *options]
    path = os.pathsep.join([str(home), *filter(None, sys.path)])
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "command.py", str(start_seconds), *arguments],
            cwd=home,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, (home / "log").read_text()
        yield Processes(home, process, json.loads(line)["url"], count)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
