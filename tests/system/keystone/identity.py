"""A Keystone, and the people of a small site in it."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

INSIDE = Path(__file__).with_name("inside.py")
DEFAULT = {"id": "default"}
SYSTEM = {"system": {"all": True}}
DOMAIN = {"domain": DEFAULT}


def of_project(name: str) -> dict[str, Any]:
    return {"project": {"name": name, "domain": DEFAULT}}


@dataclass
class Identity:
    """Where it listens; the tokens of ``short_url`` live for seconds."""

    url: str
    short_url: str
    passwords: dict[str, str]
    """Of each user."""
    projects: dict[str, str] = field(default_factory=dict)
    """The id of each project."""
    issued: list[str] = field(default_factory=list)
    """All tokens that there have been."""

    def token(self, user: str, scope: dict[str, Any] | None, *, short: bool = False) -> str:
        """A token of *user*, as a password gives it."""
        who = {"name": user, "domain": DEFAULT, "password": self.passwords[user]}
        auth: dict[str, Any] = {"identity": {"methods": ["password"], "password": {"user": who}}}
        auth["scope"] = "unscoped" if scope is None else scope
        answer = httpx2.post(f"{self.short_url if short else self.url}/auth/tokens", json={"auth": auth}, timeout=60)
        assert answer.status_code == 201, answer.text
        self.issued.append(answer.headers["x-subject-token"])
        return self.issued[-1]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """What it answers to its administrator."""
        headers["X-Auth-Token"] = self.issued[0]
        answer = httpx2.request(method, self.url + path, json=body, headers=headers, timeout=60)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def revoke(self, token: str) -> None:
        self.ask("DELETE", "/auth/tokens", **{"X-Subject-Token": token})


@contextmanager
def running(environment: Path, place: Path) -> Iterator[Identity]:
    """The Keystone of *environment*, with everything of it in *place*, and with the people of the site."""
    with bootstrapped(environment, place) as identity:
        populate(identity)
        yield identity


@contextmanager
def bootstrapped(environment: Path, place: Path) -> Iterator[Identity]:
    """The Keystone of *environment*, with its administrator only."""
    passwords = {"admin": secrets.token_hex(12)}
    log = place / "keystone.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [environment / "bin" / "python", INSIDE, place, passwords["admin"]],
            cwd=place,
            env={"PATH": "/usr/bin:/bin", "HOME": str(place), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:  # closes its stdin, which ends it, and waits
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, log.read_text()[-2000:]
        yield Identity(**json.loads(said), passwords=passwords)


def populate(identity: Identity) -> None:
    """Projects, and users with a role each. The roles admin, member, reader and service are Keystone's own."""
    identity.token("admin", of_project("admin"))
    for project in ("service", "mine", "yours"):
        made = identity.ask("POST", "/projects", {"project": {"name": project, "domain_id": "default"}})
        identity.projects[project] = made["project"]["id"]
    identity.ask("POST", "/roles", {"role": {"name": "nothing"}})
    roles = {role["name"]: role["id"] for role in identity.ask("GET", "/roles")["roles"]}

    def join(user: str, role: str, project: str, *others: str) -> None:
        identity.passwords[user] = secrets.token_hex(12)
        about = {"name": user, "domain_id": "default", "password": identity.passwords[user]}
        made = identity.ask("POST", "/users", {"user": about})["user"]["id"]
        for where in (f"/projects/{identity.projects[project]}", *others):
            identity.ask("PUT", f"{where}/users/{made}/roles/{roles[role]}")

    join("placement", "service", "service")  # as whom Stead logs in
    join("nova", "service", "service")
    join("alice", "admin", "mine", "/system", "/domains/default")
    join("ron", "reader", "mine")
    join("norm", "nothing", "mine")


def advertise(identity: Identity, url: str) -> None:
    """Put Stead in the catalog, where clients look for it."""
    service = identity.ask("POST", "/services", {"service": {"type": "placement", "name": "placement"}})["service"][
        "id"
    ]
    endpoint = {"interface": "public", "service_id": service, "url": url}
    identity.ask("POST", "/endpoints", {"endpoint": endpoint})
