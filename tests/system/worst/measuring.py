"""What one request does: its processor time, its units of work, and its slices.

The application runs in the calling thread. The work and the slices are those of its own functions, which the profiler
of the interpreter reports, so that nothing is replaced.
"""

from __future__ import annotations

import gc
import io
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID
from wsgiref.util import setup_testing_defaults

import pytest

from stead import embedded
from stead.candidates.work import Work
from stead.observe.log import silenced
from stead.process import runtime
from stead.process.runtime import Slices
from stead.service.claims import PendingClaims
from tests.system.api.client import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from wsgiref.types import WSGIApplication

    from tests.system.worst.questions import Case, SiteShape

_MEMORY = Path("/dev/shm")  # a file system in memory; absent outside of Linux
_template: list[bytes] = []
"""A database with tables and standard names, for all sites after the first one."""

_BUDGET = Work.__init__.__code__
with PendingClaims().turn() as _in_turn:
    # A claim in its turn gives way only after a time, which differs from run to run. So its wish counts as well.
    _GIVE_WAY = {Slices.give_way.__code__, _in_turn.__code__}


@dataclass
class Answer:
    """The answer to one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_marked(self) -> bool:
        """Whether it says that its work has ended."""
        if self.headers.get("stead-incomplete") == "work":
            return True
        return b'"complete": false' in self.body or b'"complete":false' in self.body or b"nothing_found" in self.body


@dataclass
class Counts:
    """What one request did, without a clock.

    Attributes:
        budgets: of the request, in the order of their creation.
        calls: of functions, in all.
        longest: calls in its longest slice.
        slices: how often other requests could run.
    """

    answer: Answer
    budgets: list[Work] = field(default_factory=list)
    calls: int = 0
    longest: int = 0
    slices: int = 0

    @property
    def units(self) -> int:
        """Units of all budgets."""
        return sum(budget.spent for budget in self.budgets)


@dataclass(frozen=True)
class Times:
    """Processor time of one request and of its longest slice, in seconds."""

    answer: Answer
    seconds: float
    longest: float


class Site:
    """A service in this process, with a small budget of work."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application
        self._changes = 0

    def ask(self, method: str, path: str, query: str = "", body: Any = None, text: bytes = b"") -> Answer:
        """The answer to one request of the administrator, with a JSON value or a text as its body."""
        if body is not None:
            text = json.dumps(body).encode()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(text)),
            "CONTENT_TYPE": "application/json" if text else "",
            "HTTP_X_AUTH_TOKEN": "admin",
            "HTTP_X_ROLES": "admin,service",
            "HTTP_OPENSTACK_API_VERSION": f"placement {NEWEST}, stead 1.1",
            "wsgi.input": io.BytesIO(text),
        }
        setup_testing_defaults(environ)
        began: list[Any] = []
        pieces = self._application(environ, lambda status, headers, *_: began.extend((status, headers)) or bytes)  # type: ignore[func-returns-value, arg-type, return-value]  # a `start_response` in one expression
        answer = b"".join(pieces)
        return Answer(int(began[0][:3]), {name.lower(): value for name, value in began[1]}, answer)

    def require(self, method: str, path: str, body: Any) -> None:
        """Write something.

        Raises:
            AssertionError: it is refused.
        """
        answer = self.ask(method, path, "", body)
        assert answer.status < 400, answer.body

    def fill(self, shape: SiteShape) -> None:
        """Make the providers and the consumers of *shape*."""
        rng = Random(shape.seed)
        self.require("PUT", "/provider_trees", shape.document(rng))
        owner = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
        for number in range(shape.consumers):
            query = f"resources=VCPU:{rng.randint(1, 3)},MEMORY_MB:1"
            claim = {"consumer_uuid": str(UUID(int=(8 << 64) + number)), "query": query, **owner}
            self.ask("POST", "/claims", "", {"claims": [claim]})

    def prepare(self, case: Case) -> None:
        """Make the flavors of a mix, and let no answer be a cached one."""
        if case.question == "mix":
            for name, query in case.flavors().items():
                self.ask("PUT", f"/flavors/{name}", "", {"query": query})
        self._changes += 1
        self.require("PUT", f"/traits/CUSTOM_CHANGE_{self._changes}", None)
        self.ask("GET", "/resource_providers", "name=nothing")  # reads the change

    def counted(self, case: Case) -> Counts:
        """Answer *case*, and count."""
        self.prepare(case)
        counts = self.counted_of(*case.request())
        self._undo(case)
        return counts

    def counted_of(self, method: str, path: str, query: str = "", body: Any = None) -> Counts:
        """Answer a request, and count."""
        counts = Counts(Answer(0, {}, b""))
        current = 0

        def event(frame: FrameType, kind: str, _argument: object) -> None:
            nonlocal current
            if kind in ("call", "c_call"):
                counts.calls += 1
                current += 1
                if kind == "call" and frame.f_code in _GIVE_WAY:
                    counts.slices += 1
                    counts.longest = max(counts.longest, current)
                    current = 0
            elif kind == "return" and frame.f_code is _BUDGET:
                counts.budgets.append(frame.f_locals["self"])

        before = sys.getprofile()
        sys.setprofile(event)
        try:
            counts.answer = self.ask(method, path, query, body)
        finally:
            sys.setprofile(before)
        counts.longest = max(counts.longest, current)
        return counts

    def timed(self, case: Case) -> Times:
        """Answer *case*, and measure."""
        self.prepare(case)
        looks: list[float] = []
        clock = runtime._of_process._clock

        def noting() -> float:
            looks.append(time.thread_time())
            return clock()

        runtime._of_process._clock = noting
        gc.collect()
        gc.freeze()  # as a worker does: the objects of this process are not those of the request
        try:
            began = time.thread_time()
            answer = self.ask(*case.request())
            ended = time.thread_time()
        finally:
            runtime._of_process._clock = clock
            gc.unfreeze()
        times = [began, *looks, ended]
        self._undo(case)
        longest = max(after - before for before, after in pairwise(times))
        return Times(answer, ended - began, longest)

    def _undo(self, case: Case) -> None:
        """Release what a gang has claimed."""
        if case.question == "gang":
            for number in range(2):
                self.ask("DELETE", f"/allocations/{UUID(int=(9 << 64) + number)}")


@contextmanager
def site(work: int, *, longest_body: int = 1 << 24) -> Iterator[Site]:
    """An empty site whose queries may do *work* units, and whose bodies may have this number of bytes."""
    with tempfile.TemporaryDirectory(prefix="worst-", dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        database = Path(directory) / "stead.db"
        if _template:
            database.write_bytes(_template[0])
        with pytest.MonkeyPatch.context() as environment, silenced("stead.store.sql.dialects"):
            environment.setenv("OS_STEAD__MAX_CANDIDATE_WORK", str(work))
            environment.setenv("OS_STEAD__MAX_BODY_SIZE", str(longest_body))
            opened = embedded.start(directory, is_durable=False)
        try:
            if not _template:
                with closing(sqlite3.connect(database)) as connection:
                    _template.append(connection.serialize())
            yield Site(opened.application)
        finally:
            opened.close()
