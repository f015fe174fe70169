"""What ``make run`` does: Stead on the data of this checkout, with the sample site in it, until Ctrl-C.

It is embedded: SQLite in .stead, a token of its own, this machine only. A second run finds its data again. The server
ends with this process. This process ends with its terminal and its parent, unless SIGHUP is ignored, as by ``nohup``.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stead.cli.errors import CommandError
from stead.cli.server import Address, running

if TYPE_CHECKING:
    from types import FrameType

CHECKOUT = Path(__file__).parent.parent
SITE = Path("samples/site.yaml")
DATA = Path(".stead")
LOG = DATA / "serve.log"
DEFAULT_PORT = 8778

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP_SECONDS = 40  # the server gives requests under way 30
POLL_MILLISECONDS = 500
LAST_LINES = 20  # of the log, where the server ended by itself

WELCOME = """
  Stead listens on  {url}
  web interface     {web_interface}
  admin token in    {token}
  data directory    {data_dir}
  log               {log}

Try, in another terminal, in this directory:

  {stead} tree
  {stead} candidates \\
    '{query}'
  {stead} claim --project demo --user me \\
    '{query}'

Ctrl-C stops it.
"""

# A GPU, and cores and memory of its NUMA node. With its command, each line fits into 80 columns.
QUERY = "resources_C=PCPU:8,MEMORY_MB:16384&resources_G=PGPU:1&same_subtree=_C,_G"


class Stop(BaseException):
    """A signal says that it is over."""


def main() -> int:
    """The exit code: 0 after Ctrl-C and other signals that stop it."""
    os.chdir(CHECKOUT)
    os.environ.pop("STEAD_URL", None)
    os.environ.pop("STEAD_TOKEN", None)
    os.environ["STEAD_DATA_DIR"] = str(DATA.absolute())
    may_outlive = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    try:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, stop)
        if not may_outlive:
            end_with_parent()
        require_embedded()
        require_not_running()
        return serve(free_port(), None if may_outlive else terminal())
    except CommandError as error:
        print(f"make run: {error}", file=sys.stderr)
        return 1
    except Stop:
        return 0


def stop(number: int, _frame: FrameType | None) -> None:
    """Handle the first of the signals; more of them, as from a terminal that is closed, do not disturb the end."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGINT:
        with suppress(OSError):
            print("\nstopping ...", flush=True)
    raise Stop


def end_with_parent() -> None:
    """Get SIGTERM when the parent ends, though nothing could tell us (SIGKILL)."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def terminal() -> int | None:
    """A descriptor of the terminal that controls this process; None if none does."""
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None


def require_embedded() -> None:
    """Leave alone what this machine has configured: this is for trying Stead, on data of its own."""
    from stead.config import ConfigError, load

    try:
        embedded = load().embedded
    except ConfigError:
        embedded = False
    if not embedded:
        raise CommandError("this machine has a placement.conf, and make run is for trying Stead. Use `stead serve`")


def require_not_running() -> None:
    """Leave the log of a server that runs alone, and say which it is."""
    server = running(DATA)
    if server is not None:
        raise CommandError(
            f"Stead runs on {DATA} already: process {server.pid}, which listens on {server.url}. "
            f"Use it, or stop it first: kill {server.pid}"
        )


def free_port() -> int:
    """The port of ``PORT=``.

    Raises:
        CommandError: it is no port, or another process has it.
    """
    text = os.environ.get("PORT") or str(DEFAULT_PORT)
    if not (text.isascii() and text.isdecimal() and int(text) < 2**16):
        raise CommandError(f"PORT={text} is not a port. Use a number from 0 (any free port) to 65535")
    another = DEFAULT_PORT + 1 if int(text) == DEFAULT_PORT else DEFAULT_PORT
    advice = f"Stop that process, or use another port: make run PORT={another}"
    with Address("127.0.0.1", int(text)).bound(advice) as probe:
        return int(probe.getsockname()[1])


def serve(port: int, tty: int | None) -> int:
    """Start the server, load the sample, say what to try, and stay until the server ends or a signal comes."""
    stead = [str(Path(sys.executable).with_name("stead"))]
    DATA.mkdir(mode=0o700, exist_ok=True)
    server = None
    with os.fdopen(os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)) as log:
        try:
            server = subprocess.Popen(
                [*stead, "--json", "serve", "--port", str(port)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is ours; SIGHUP would make it reload
                preexec_fn=end_with_parent,  # noqa: PLW1509  # this process has no threads
            )
            return watch(server, stead, tty)
        finally:
            end(server)


def watch(server: subprocess.Popen[str], stead: list[str], tty: int | None) -> int:
    """Load the sample, say what to try, and stay until the server ends or the terminal *tty* is closed."""
    assert server.stdout is not None
    told = server.stdout.readline()
    if not told:
        return report_end(server)
    loaded = subprocess.run([*stead, "topology", "apply", str(SITE)], check=False)
    if loaded.returncode:
        print(f"make run: the sample site was not loaded; the log of the server is {LOG}", file=sys.stderr)
        return loaded.returncode
    facts = json.loads(told)
    print(
        WELCOME.format(
            **{"web_interface": "off", **facts},
            token=DATA / "admin-token",
            log=LOG,
            query=QUERY,
            stead=f".venv/bin/stead --data-dir {DATA}",
        ),
        flush=True,
    )
    wait(server, tty)
    return report_end(server)


def wait(server: subprocess.Popen[str], tty: int | None) -> None:
    """Wait until the server ends.

    The kernel sends SIGHUP for a closed terminal to the leader of the session only. That is a shell, which sends it on,
    or make itself, as in ``ssh -t HOST make run``, which does not.

    Raises:
        Stop: the terminal is closed.
    """
    poll = select.poll()
    if tty is not None:
        poll.register(tty, 0)  # a hang-up is always reported
    while server.poll() is None:
        if poll.poll(POLL_MILLISECONDS):
            raise Stop


def report_end(server: subprocess.Popen[str]) -> int:
    """Wait until the server ends by itself, and show the end of its log."""
    code = server.wait()
    for line in LOG.read_text(errors="replace").splitlines()[-LAST_LINES:]:
        print(line, file=sys.stderr)
    print(f"make run: the server ended by itself with exit code {code}; its log is {LOG}", file=sys.stderr)
    return code or 1


def end(server: subprocess.Popen[str] | None) -> None:
    """Stop the server, if it has been started and runs."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if server is None:
        return
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
