"""A throw-away MariaDB Galera cluster on loopback: real nodes with data directories and ports of their own.

A node that is killed comes back as an operator's service manager brings it back: InnoDB recovers, says up to which
write-set it has everything (``--wsrep-recover``), and the others send what it missed from their caches (IST). Where
they can not, the node gets everything anew by rsync (SST).

As the other throw-away servers, nodes do not wait for the disk: what they hold need not survive a power cut.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tests.servers import programs
from tests.servers.programs import Unavailable, find_or_install
from tests.servers.throwaway import Home
from tests.waiting import TimedOut, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

PROVIDERS = ("/usr/lib/galera", "/usr/lib/galera-4", "/usr/lib64/galera-4", "/usr/lib64/galera")
PROVIDER = "libgalera_smm.so"
PATIENCE_SECONDS = 90.0
HOST = "127.0.0.1"

TIMES = ";".join(
    [
        "evs.keepalive_period=PT0.5S",
        "evs.inactive_check_period=PT0.5S",
        "evs.suspect_timeout=PT3S",  # a node that is gone stops the others for so long
        "evs.inactive_timeout=PT6S",
        "evs.install_timeout=PT6S",
        "gmcast.peer_timeout=PT2S",
    ]
)

SYNCED = {"wsrep_ready": "ON", "wsrep_cluster_status": "Primary", "wsrep_local_state_comment": "Synced"}
SIZE = "wsrep_cluster_size"


class NotSynced(Exception):
    """A node did not become a synced member in time."""


class Node:
    """One member: *url* speaks with its database server."""

    def __init__(self, number: int, home: Home, ports: list[int]) -> None:
        self.number = number
        self.home = home
        self.port, self.group_port, self._ist_port, self._sst_port = ports
        self.url = f"mysql+pymysql://root@{HOST}:{self.port}/mysql?charset=utf8mb4"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, server: tuple[str | Path, ...], members: str, *more: str) -> None:
        """Start the process; it may not answer yet."""
        options = (
            f"gmcast.listen_addr=tcp://{HOST}:{self.group_port};ist.recv_addr={HOST}:{self._ist_port};"
            f"gcache.size=32M;gcache.recover=yes;{TIMES}"
        )
        self.process = self.home.start(
            *server, f"--datadir={self.home.path}/data", f"--socket={self.home.path}/socket",
            f"--pid-file={self.home.path}/pid", f"--port={self.port}", f"--wsrep-cluster-address={members}",
            f"--wsrep-node-name=node{self.number}", f"--wsrep-node-address={HOST}:{self.group_port}",
            f"--wsrep-sst-receive-address={HOST}:{self._sst_port}", f"--wsrep-provider-options={options}", *more,
        )  # fmt: skip

    def recovered_position(self, server: tuple[str | Path, ...]) -> str:
        """Up to which write-set InnoDB has everything, as ``uuid:number``."""
        log = self.home.path / "recovery.err"
        self.home.run(
            *server, f"--datadir={self.home.path}/data", f"--socket={self.home.path}/socket",
            f"--pid-file={self.home.path}/pid", f"--log-error={log}", "--wsrep-recover", "--skip-networking",
            "--wsrep-cluster-address=gcomm://",
        )  # fmt: skip
        positions = re.findall(r"Recovered position: *(\S+:-?\d+)", log.read_text(errors="replace"))
        log.unlink()
        if not positions:
            raise Unavailable(f"node {self.number} does not say where it stood")
        return str(positions[-1])

    def status(self) -> dict[str, str]:
        """What it says of itself as a member, by name; nothing if it does not answer."""
        names = ", ".join(f"'{name}'" for name in SYNCED)
        return dict(map(tuple, self.rows(f"SHOW STATUS WHERE Variable_name IN ({names}, '{SIZE}')")))

    def rows(self, statement: str) -> list[Any]:
        """The rows of one statement; none if it does not answer."""
        engine = sa.create_engine(self.url, poolclass=sa.NullPool, connect_args={"connect_timeout": 5})
        with suppress(sa.exc.SQLAlchemyError), engine.connect() as connection:
            return list(connection.exec_driver_sql(statement).all())
        return []

    def is_synced(self, members: int) -> bool:
        """Whether it takes part, with so many members altogether, and has all they have."""
        return self.status() == {**SYNCED, SIZE: str(members)}

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It stands still, as a machine that swaps does, and does not know it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """SIGKILL; its data stay."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """Nodes of which some may be down; methods return when what they are for is so."""

    def __init__(self, nodes: list[Node], server: tuple[str | Path, ...]) -> None:
        self.nodes = nodes
        self._server = server
        self._members = "gcomm://" + ",".join(f"{HOST}:{node.group_port}" for node in nodes)

    def bootstrap(self) -> None:
        """Start the first node alone, then let the others join."""
        first, *others = self.nodes
        first.start(self._server, self._members, "--wsrep-new-cluster")
        self._wait(lambda: first.is_synced(1), first)
        for size, node in enumerate(others, start=2):
            node.start(self._server, self._members)
            self._wait(lambda node=node, size=size: node.is_synced(size), node)  # type: ignore[misc]  # defaults bind them

    def kill(self, node: Node) -> None:
        """SIGKILL a node; returns at once, while the others still wait for it."""
        node.end()

    def rejoin(self, node: Node) -> None:
        """Start a node that was killed, on its own data, and wait until it has what it missed."""
        position = node.recovered_position(self._server)
        node.start(self._server, self._members, f"--wsrep-start-position={position}")
        self.wait_until_synced(node)

    def wait_until_synced(self, *nodes: Node) -> None:
        """Wait until *nodes*, or all, are members of a whole cluster and have all there is.

        Raises:
            NotSynced
        """
        for node in nodes or self.nodes:
            self._wait(lambda node=node: node.is_synced(len(self.nodes)), node)  # type: ignore[misc]  # defaults bind them

    def _wait(self, condition: Callable[[], bool], node: Node) -> None:
        process = node.process
        assert process is not None
        try:
            wait_until(lambda: process.poll() is not None or condition(), seconds=PATIENCE_SECONDS)
        except TimedOut:
            raise NotSynced(f"node {node.number} says {node.status()}: {node.home.last_words()}") from None
        if process.poll() is not None:
            raise NotSynced(f"node {node.number} ended: {node.home.last_words()}")

    def close(self) -> None:
        """End all nodes; nothing is left of them."""
        for node in self.nodes:
            node.end()
            shutil.rmtree(node.home.path, ignore_errors=True)


@contextmanager
def cluster(lock: Path, *, size: int = 3) -> Iterator[Cluster]:
    """A cluster that is whole and synced; *lock*: one apt at a time.

    Raises:
        Unavailable: the programs cannot be had here, or do not start.
    """
    server = find_or_install("mariadb-server", ("mariadbd",), ("/usr/sbin",), lock)
    find_or_install("rsync", ("rsync",), ("/usr/bin",), lock)
    provider = _provider()
    with ExitStack() as ends:
        homes = []
        for number in range(size):
            homes.append(Home.of(f"galera{number}", "mysql"))
            ends.callback(shutil.rmtree, homes[-1].path, ignore_errors=True)
        _install_data(homes, lock)
        ports = iter(_free_ports(4 * size))
        nodes = [Node(number, home, [next(ports) for _ in range(4)]) for number, home in enumerate(homes)]
        whole = Cluster(
            nodes,
            (
                server, "--no-defaults", f"--bind-address={HOST}", "--skip-name-resolve", "--max-connections=200",
                "--character-set-server=utf8mb4", "--innodb-flush-method=nosync", "--binlog-format=ROW",
                "--innodb-autoinc-lock-mode=2", "--wsrep-on=ON", f"--wsrep-provider={provider}",
                "--wsrep-sst-method=rsync", "--wsrep-slave-threads=4", "--wsrep-cluster-name=stead-tests",
            ),
        )  # fmt: skip
        ends.callback(whole.close)
        try:
            whole.bootstrap()
        except NotSynced as error:
            raise Unavailable(str(error)) from error
        yield whole


def _provider() -> Path:
    """The library that makes a server a node; it is no program, so it is looked for by itself."""
    for attempt in range(2):
        for place in PROVIDERS:
            if (Path(place) / PROVIDER).exists():
                return Path(place) / PROVIDER
        if not attempt:
            programs.install("galera-4")
    raise Unavailable(f"the package galera-4 brought no {PROVIDER}")


def _install_data(homes: list[Home], lock: Path) -> None:
    """The same first data for all nodes, so that nobody has to send them around."""
    first, *others = homes
    first.run(
        find_or_install("mariadb-server", ("mariadb-install-db",), ("/usr/bin",), lock), "--no-defaults",
        f"--datadir={first.path}/data", "--auth-root-authentication-method=normal", "--skip-test-db",
        "--skip-name-resolve",
    )  # fmt: skip
    for home in others:
        home.run("cp", "-r", first.path / "data", home.path / "data")


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for bound in sockets:
            bound.bind((HOST, 0))
        return [bound.getsockname()[1] for bound in sockets]
