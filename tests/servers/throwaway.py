"""Throw-away database servers: a data directory of their own, a unix socket, no port, nothing kept.

The socket lies in a directory that only its owner may enter, so nobody else on the machine can connect. As root a
server runs under its package's own user, as the servers themselves demand; else as ourselves. They keep the durable
settings but do not wait for the disk: a test's data need not survive a power cut.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from tests.servers.programs import Unavailable, find_or_install
from tests.waiting import TimedOut, wait_until

START_SECONDS = 60.0

MEMORY = Path("/dev/shm")  # a file system in memory; absent outside of Linux
ROOM_BYTES = 3 * 2**30


def roomy_memory() -> Path | None:
    """Where files lie in memory and have room for the databases of a run; None: the disk must do.

    A database of PostgreSQL is 300 files: on many disks it takes ten times as long to make as in memory.
    """
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES else None


@dataclass(frozen=True)
class Running:
    """A server that answers at *url*; `stop` leaves nothing of it."""

    url: str
    process: subprocess.Popen[bytes]
    home: "Home"
    command: tuple[str | Path, ...]

    def stop(self) -> None:
        self.crash()
        shutil.rmtree(self.home.path, ignore_errors=True)

    def crash(self) -> None:
        """End it at once; its data stay."""
        self.process.kill() if self.url.startswith("mysql") else self.process.send_signal(3)  # "immediate shutdown"
        self.process.wait()

    def start_again(self, *more: str) -> "Running":
        """The same server with its data, when it answers; *more* are arguments of this start."""
        process = self.home.start(*self.command, *more)
        wait_for(self.url, process, self.home)
        return replace(self, process=process)


@dataclass(frozen=True)
class Home:
    """A new directory, and the user whose it is."""

    path: Path
    user: str | None

    @classmethod
    def of(cls, kind: str, user: str) -> "Home":
        """For *user* if we are root (``nobody`` where that user does not exist), else for ourselves."""
        path = Path(tempfile.mkdtemp(prefix=f"stead-{kind}-", dir=roomy_memory()))
        if os.geteuid() != 0:
            return cls(path, None)
        try:
            owner = pwd.getpwnam(user)
        except KeyError:
            owner = pwd.getpwnam("nobody")
        os.chown(path, owner.pw_uid, owner.pw_gid)
        return cls(path, owner.pw_name)

    def start(self, *command: str | Path) -> subprocess.Popen[bytes]:
        with (self.path / "log").open("ab") as log:
            return subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.path,
                env={
                    "PATH": os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin",
                    "HOME": str(self.path),
                    "TMPDIR": str(self.path),  # where others start, MariaDB removes what it takes for left by itself
                },
                start_new_session=True,  # Ctrl-C is for the tests; who started it stops it
                user=self.user,
                group=None if self.user is None else pwd.getpwnam(self.user).pw_gid,
                extra_groups=None if self.user is None else [],
            )

    def run(self, *command: str | Path) -> None:
        process = self.start(*command)
        try:
            status = process.wait(timeout=START_SECONDS)
        finally:
            process.kill()  # to no effect once it has ended
        if status:
            raise Unavailable(f"{command[0]} failed: {self.last_words()}")

    def last_words(self) -> str:
        return ((self.path / "log").read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]


def start_postgresql(lock: Path) -> Running:
    program = find_or_install(
        "postgresql", ("postgres",), ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"), lock
    ).resolve()
    home = Home.of("postgresql", "postgres")
    return _started(
        home, lambda: _postgresql(program, home), f"postgresql+psycopg://stead@/postgres?host={quote(str(home.path))}"
    )


def _postgresql(program: Path, home: Home) -> tuple[str | Path, ...]:
    data = home.path / "data"
    home.run(
        program.parent / "initdb", "--pgdata", data, "--username=stead", "--auth=trust", "--encoding=UTF8",
        "--locale=C", "--no-sync",
    )  # fmt: skip
    settings = ("listen_addresses=", f"unix_socket_directories={home.path}", "fsync=off", "max_connections=200")
    return (program, "-D", data, *(part for setting in settings for part in ("-c", setting)))


def start_mariadb(lock: Path) -> Running:
    places = ("/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/bin")
    program = find_or_install("mariadb-server", ("mariadbd",), places, lock).resolve()
    home = Home.of("mariadb", "mysql")
    socket = quote(str(home.path / "socket"))
    url = f"mysql+pymysql://root@localhost/mysql?unix_socket={socket}&charset=utf8mb4"
    return _started(home, lambda: _mariadb(program, home), url)


def _mariadb(program: Path, home: Home) -> tuple[str | Path, ...]:
    data = home.path / "data"
    home.run(
        find_or_install("mariadb-server", ("mariadb-install-db",), ("/usr/bin",), home.path / "lock"), "--no-defaults",
        f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
    )  # fmt: skip
    return (
        program, "--no-defaults", f"--datadir={data}", f"--socket={home.path}/socket", "--skip-networking",
        f"--pid-file={home.path}/pid", "--innodb-flush-method=nosync", "--character-set-server=utf8mb4",
        "--max-connections=200", "--skip-name-resolve",
    )  # fmt: skip


def _started(home: Home, prepare: Callable[[], tuple[str | Path, ...]], url: str) -> Running:
    """The server, when it answers; if it does not, nothing of it is left."""
    process: subprocess.Popen[bytes] | None = None
    try:
        command = prepare()
        process = home.start(*command)
        wait_for(url, process, home)
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(home.path, ignore_errors=True)
        raise
    return Running(url, process, home, command)


def wait_for(url: str, process: subprocess.Popen[bytes], home: Home) -> None:
    late = f"the server did not answer in {START_SECONDS:.0f} seconds"
    try:
        wait_until(
            lambda: process.poll() is not None or refusal_of(url) is None,
            lambda: f"{late}: {refusal_of(url)}",
            seconds=START_SECONDS,
        )
    except TimedOut as error:
        raise Unavailable(str(error)) from None
    if process.poll() is not None:
        raise Unavailable(f"the server ended at once: {home.last_words()}")


def refusal_of(url: str) -> str | None:
    """Why the server at *url* cannot be used, in one line; None if it can."""
    import sqlalchemy as sa

    try:
        with sa.create_engine(url, poolclass=sa.NullPool).connect():
            return None
    except ImportError as error:
        raise Unavailable(f"its driver is not installed: {error}") from error
    except sa.exc.SQLAlchemyError as error:
        return " ".join(str(error).split("\n")[:2])


STARTERS: dict[str, Callable[[Path], Running]] = {"postgresql": start_postgresql, "mariadb": start_mariadb}
