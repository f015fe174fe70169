"""``stead-bench candidates``: the cost of a query for Stead, a peer, and a server that only returns the same bytes."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from stead_bench import bare, compare, filling, processes, servers
from stead_bench.claims import Claims
from stead_bench.compare import Answers
from stead_bench.errors import BenchError, Overdue
from stead_bench.measure import Side, in_turns
from stead_bench.results import Cost, Row, mib, ratio
from stead_bench.sites import roomy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead_bench.asking import Reply
    from stead_bench.filling import Watcher
    from stead_bench.peer import Peer
    from stead_bench.servers import Server, Serving
    from stead_bench.sites import Site
    from stead_bench.suites import Case

ADDED_BY_THE_SERVER = {"date", "server", "connection", "transfer-encoding"}

COMPARED = 3
"""Number of requests of a row whose answers are compared, if the first was not slow."""

SLOW = 2.0
"""Seconds."""


@dataclass
class Bench:
    """The parameters of all rows.

    Attributes:
        stead: a running server; None starts one per site, on a temporary SQLite database.
        seconds: per row and server.
    """

    serving: Serving
    seconds: float
    microversion: str
    watcher: Watcher
    stead: Server | None = None
    peer: Peer | None = None
    patience: float = 60.0
    salt: str = field(default_factory=lambda: uuid4().hex)

    def rows(self, suite: str, cases: Iterable[Case]) -> Iterator[Row]:
        """Measure *cases*; cases of the same site must be consecutive.

        Raises:
            BenchError: a server did not start, or could not be loaded.
        """
        for site, of_site in groupby(cases, key=lambda case: case.site):
            with _Rig.of(self, site) as rig:
                for case in of_site:
                    yield from _Rows(self, rig, suite, case).measured()


@dataclass
class _Rig:
    """The servers, loaded with one site."""

    site: Site
    stead: Server
    bare: Server
    bodies: Path
    providers: int
    roomy: Sequence[tuple[str, str]]
    peer_note: str | None
    kept: int = 0

    @classmethod
    @contextmanager
    def of(cls, bench: Bench, site: Site) -> Iterator[_Rig]:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stead-bench-")))
            bodies = folder / "bodies"
            bodies.mkdir()
            stead = bench.stead
            if stead is None:
                url = f"sqlite:///{folder}/stead.db"
                providers = filling.make(url, site, bench.watcher)
                stead = stack.enter_context(servers.stead(folder, url, bench.serving, durable=False))
                stead.patience = bench.patience
            else:
                filling.fill(stead, site, bench.watcher)
                providers = sum(1 for _ in site.descriptions())
            note = _fill_peer(bench.peer, site, bench.watcher)
            idle = stack.enter_context(servers.bare(folder, bodies, bench.serving))
            yield cls(site, stead, idle, bodies, providers, roomy(site), note)

    def keep(self, reply: Reply) -> str:
        """Make the bare application return Stead's answer; returns its path."""
        self.kept += 1
        sent = [pair for pair in reply.headers if pair[0].lower() not in ADDED_BY_THE_SERVER]
        return bare.keep(self.bodies, self.kept, sent, reply.body)


def _fill_peer(peer: Peer | None, site: Site, watcher: Watcher) -> str | None:
    """Why the peer cannot be measured with *site*; None if it can."""
    if peer is None or peer.is_loaded:
        return None
    if not peer.is_ready():
        return "not loaded, busy"
    try:
        filling.fill(peer.server, site, watcher)
    except Overdue:
        peer.gave_up()
        return "not loaded in time"
    return None


class _Rows:
    """The rows of one case, one per limit. The peer's unlimited answers are kept for the rows with a limit."""

    def __init__(self, bench: Bench, rig: _Rig, suite: str, case: Case) -> None:
        self._bench, self._rig, self._suite, self._case = bench, rig, suite, case
        self._unlimited: dict[int, Answers] = {}

    def measured(self) -> Iterator[Row]:
        for limit in self._case.limits:
            yield self._row(limit)

    def _row(self, limit: int | None) -> Row:
        bench, rig = self._bench, self._rig
        findings = _Findings()
        connection = rig.stead.connect(bench.microversion)
        try:
            first = connection.get(self._target(0, limit))
        except BenchError as error:
            return replace(self._row_of(limit), differences=[f"Stead: {error}"])
        finally:
            connection.close()
        answers = self._case.query.count(first.body)
        sides = [self._side(rig.stead, limit, answers, findings)]
        floor = self._bare_side(first, limit)
        note = rig.peer_note
        if bench.peer is not None and note is None:
            note = self._compare(bench.peer, limit, first, findings)
            if note is None:
                sides.append(self._side(bench.peer.server, limit, answers, findings))
        in_turns(sides, floor, seconds=bench.seconds)
        self._after([*sides, floor], findings)
        return self._finished(limit, first, [floor, *sides], note, findings)

    def _target(self, number: int, limit: int | None) -> str:
        return self._case.query.target(number, limit)

    def _side(self, server: Server, limit: int | None, answers: int, findings: _Findings) -> Side:
        claims = Claims(server.connect(), self._rig.roomy, f"{self._bench.salt}/{uuid4().hex}")

        def check(body: bytes) -> None:
            count = self._case.query.count(body)
            if count != answers:
                findings.differences.append(f"{server.name} gives {count:,} answers, and {answers:,} were expected")

        return Side(
            server.name,
            server.connect(self._bench.microversion),
            lambda number: self._target(number, limit),
            claims.turn,
            claims.release,
            server.processes(),
            check,
        )

    def _bare_side(self, first: Reply, limit: int | None) -> Side:
        path, server = self._rig.keep(first), self._rig.bare

        def target(number: int) -> str:
            return f"{path}?{self._target(number, limit).partition('?')[2]}"

        return Side(server.name, server.connect(self._bench.microversion), target, pids=server.processes())

    def _compare(self, peer: Peer, limit: int | None, first: Reply, findings: _Findings) -> str | None:
        """Compare Stead's answers with the peer's; returns why the peer is not measured, or None."""
        if not peer.is_ready():
            return "still busy"
        ours = self._rig.stead.connect(self._bench.microversion)
        theirs = peer.server.connect(self._bench.microversion)
        try:
            for number in range(COMPARED):
                reply = theirs.get(self._target(number, limit))
                stead = first if number == 0 else ours.get(self._target(number, limit))
                self._hold(number, limit, Answers.of(stead.body), Answers.of(reply.body), findings)
                if reply.seconds > SLOW:
                    break
        except Overdue:
            peer.gave_up()
            return f"> {peer.server.patience:g} s"
        except BenchError as error:
            findings.differences.append(f"the peer does not answer: {error}")
            return str(error)
        finally:
            ours.close()
            theirs.close()
        return None

    def _hold(self, number: int, limit: int | None, ours: Answers, theirs: Answers, findings: _Findings) -> None:
        if limit is None:
            findings.compared = "same set"
            findings.differences += compare.differences(ours, theirs)
            self._unlimited[number] = theirs
            return
        unlimited = self._unlimited.get(number)
        findings.compared = "same number" if unlimited is None else "same number, all known to the peer"
        findings.differences += compare.limited_differences(ours, theirs, unlimited)

    def _after(self, sides: Sequence[Side], findings: _Findings) -> None:
        """Release all claims. Errors during the measurement count as differences too, except timeouts."""
        for side in sides:
            overdue = side.failed is not None and side.failed.startswith(">")
            if side.failed is None:
                side.afterwards()
            elif not overdue or side.name == self._rig.stead.name:
                findings.differences.append(f"{side.name}: {side.failed}")
            elif self._bench.peer is not None:
                self._bench.peer.owed.append(side.afterwards)
                self._bench.peer.gave_up()
            side.connection.close()

    def _row_of(self, limit: int | None) -> Row:
        case, rig = self._case, self._rig
        return Row(self._suite, str(case.site), case.site.size, rig.providers, case.query.name, limit)

    def _finished(
        self, limit: int | None, first: Reply, sides: Sequence[Side], note: str | None, findings: _Findings
    ) -> Row:
        idle, stead, *others = (Cost.of(side) for side in sides)
        theirs = others[0] if others else None
        peer = self._bench.peer
        return replace(
            self._row_of(limit),
            answers=self._case.query.count(first.body),
            bytes=len(first.body),
            first_ms=round(first.seconds * 1e3, 3),
            stead=stead,
            bare=idle,
            peer=theirs,
            stead_memory_mib=_memory(self._rig.stead),
            peer_memory_mib=_memory(peer.server) if peer is not None else None,
            stead_to_bare=ratio(stead, idle, "median_ms"),
            peer_to_stead=ratio(theirs, stead, "median_ms"),
            peer_to_stead_cpu=ratio(theirs, stead, "cpu_ms"),
            peer_note=note or next((side.failed for side in sides[2:] if side.failed), None),
            compared="DIFFERENT" if findings.compared and findings.differences else findings.compared,
            differences=list(dict.fromkeys(findings.differences)),
        )


@dataclass
class _Findings:
    """The result of comparing one row."""

    compared: str | None = None
    differences: list[str] = field(default_factory=list)


def _memory(server: Server) -> float | None:
    return mib(processes.resident_bytes(server.processes()))
