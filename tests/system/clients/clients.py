"""The clients as a test sees them: a command and what it said, a call and what it returned."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

INSIDE = Path(__file__).with_name("inside.py")


class Inside:
    """The process in the clients' virtual environment."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, log: Path) -> None:
        self._process = process
        self._log = log
        self.url = url
        self.facts = self.ask("facts")

    def ask(self, what: str, **details: Any) -> Any:
        """Its reply.

        Raises:
            RuntimeError: it ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"what": what, **details}) + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise RuntimeError(f"the clients' process ended: {self._log.read_text()[-2000:]}")
        return json.loads(reply)


@contextmanager
def running(environment: Path, url: str, home: Path) -> Iterator[Inside]:
    """The clients of *environment*, speaking to the server at *url*; they know nothing of who runs the tests."""
    log = home / "clients.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [environment / "bin" / "python", INSIDE, url],
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:  # closes its stdin, which ends it, and waits
        yield Inside(process, url, log)


@dataclass(frozen=True)
class Said:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def refused(self, *texts: str) -> bool:
        """Did it fail, saying nothing on stdout, with all *texts* in the last line of what it complained about?"""
        last = (self.err.strip().splitlines() or [""])[-1]
        return self.code == 1 and not self.out and all(text in last for text in texts)


@dataclass(frozen=True)
class OpenStack:
    """The ``openstack`` command at one microversion of Placement; ``None`` is what the plugin takes by itself."""

    inside: Inside
    version: str | None
    ran: set[tuple[str, str | None]] = field(default_factory=set, compare=False)
    """Which commands ended well, and at which microversion."""

    def at(self, version: str) -> "OpenStack":
        return replace(self, version=version)

    def knows(self, version: str) -> bool:
        """Is the microversion that is used *version* or newer?"""
        used = self.version or self.inside.facts["negotiated"]
        return [int(part) for part in used.split(".")] >= [int(part) for part in version.split(".")]

    def argv(self, command: str, arguments: str) -> list[str]:
        of_placement = [] if self.version is None else ["--os-placement-api-version", self.version]
        common = ["--os-auth-type", "admin_token", "--os-endpoint", self.inside.url, "--os-token", "admin"]
        return [*common, *of_placement, *command.split(), *shlex.split(arguments)]

    def run(self, command: str, arguments: str = "") -> Said:
        """Type ``openstack COMMAND ARGUMENTS``."""
        said = Said(**self.inside.ask("command", argv=self.argv(command, arguments)))
        assert "Traceback" not in said.err, said.err
        if said.code == 0:
            self.ran.add((command, self.version))
        return said

    def do(self, command: str, arguments: str = "") -> None:
        """Run a command that says nothing when it ends well."""
        said = self.run(command, arguments)
        assert (said.code, said.out) == (0, ""), said

    def tell(self, command: str, arguments: str = "") -> Any:
        """Run a command with ``-f json``, and read what it says."""
        said = self.run(command, f"{arguments} -f json")
        assert said.code == 0, said
        return said.json


@dataclass(eq=False)
class Raised(Exception):
    """The exception of a client, told across the process boundary."""

    kinds: list[str]
    """The names of its classes, the most special first."""
    status: int | None
    text: str
    response: dict[str, Any] | None

    @property
    def error(self) -> dict[str, Any]:
        """The error that the server sent."""
        assert self.response is not None, self
        (only,) = self.response["body"]["errors"]
        return dict(only)


@dataclass(frozen=True)
class Held:
    """A resource of the SDK that lives in the other process; its fields are attributes."""

    number: int
    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.fields:
            raise AttributeError(name)
        return self.fields[name]


@dataclass(frozen=True)
class Caller:
    """``caller.method(…)`` calls that method of an SDK proxy or a keystoneauth1 adapter, made with *connect*."""

    inside: Inside
    what: str
    connect: dict[str, Any] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set, compare=False)
    """Which methods returned."""

    def made_with(self, **connect: Any) -> "Caller":
        return replace(self, connect={**self.connect, **connect})

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*arguments: Any, **options: Any) -> Any:
            reply = self.inside.ask(
                self.what,
                connect=self.connect,
                method=method,
                arguments=[_told(argument) for argument in arguments],
                options={name: _told(option) for name, option in options.items()},
            )
            if "raised" in reply:
                raise Raised(reply["raised"], reply["status"], reply["text"], reply["response"])
            self.ran.add(method)
            return _heard(reply["returned"])

        return call


def _told(value: Any) -> Any:
    return {"held": value.number} if isinstance(value, Held) else value


def _heard(value: Any) -> Any:
    if isinstance(value, list):
        return [_heard(item) for item in value]
    if isinstance(value, dict) and value.keys() == {"held", "fields"}:
        return Held(value["held"], value["fields"])
    return value
