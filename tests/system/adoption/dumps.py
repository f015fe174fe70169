"""Databases that releases made, kept as text: `python -m tests.system.adoption.dumps [RELEASE …]` makes them anew.

For each release it runs that release's ``placement-manage db sync`` on an empty database of each kind, starts the
release on it, makes the site of `tests.system.adoption.site` over HTTP, and keeps

* ``dumps/RELEASE/KIND.sql``, as ``pg_dump``, ``mariadb-dump`` and Python's ``sqlite3`` write it, but for comments and
  settings of the session, and
* ``dumps/RELEASE/answers.json``, what the release answered to the questions about the site.

The releases are installed from the package index, as `tests.system.adoption.releases` says.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tests.databases import KINDS, Server
from tests.servers.throwaway import STARTERS
from tests.system.adoption import site
from tests.system.adoption.releases import DUMPED, environment
from tests.system.differential import released
from tests.system.differential.comparison import canonical
from tests.system.differential.pair import Side, opened_door

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.system.api.client import Answer

DUMPS = Path(__file__).with_name("dumps")

SESSION = re.compile(r"--|/\*|\\|SET |SELECT pg_catalog\.set_config")  # how lines begin that are not of the database

MARIADB_RESTORES = "SET foreign_key_checks = 0, sql_mode = 'NO_AUTO_VALUE_ON_ZERO';\n"

Answers = dict[str, Any]
"""By question, what was answered: status and body, without the order of lists."""


def recorded(ask: site.Ask, version: int) -> Answers:
    """What a service answers to all questions about the site up to a microversion, but for those at which it fails.

    6.0.0 fails at one on PostgreSQL.
    """
    asked = {f"{request.target} at 1.{request.version}": ask(request) for request in site.questions(version)}
    return {question: answered(answer) for question, answer in asked.items() if answer.status < 500}


def answered(answer: Answer) -> list[Any]:
    body = json.loads(json.dumps(canonical(answer.json, ("links",)))) if answer.status < 400 else None
    return [answer.status, body]


def dump(kind: str, url: str) -> str:
    """The database as statements."""
    found = sa.make_url(url)
    if kind == "sqlite":
        with closing(sqlite3.connect(str(found.database))) as connection:
            return "\n".join(connection.iterdump()) + "\n"
    if kind == "postgresql":
        command = ["pg_dump", "--inserts", "--rows-per-insert=500", "--no-owner", "--no-privileges"]
        command += [f"--host={found.query['host']}", f"--username={found.username}", str(found.database)]
    else:
        command = ["mariadb-dump", "--no-defaults", "--skip-comments", "--compact", f"--user={found.username}"]
        command += [f"--socket={found.query['unix_socket']}", str(found.database)]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    lines = [line for line in text.splitlines() if line and not SESSION.match(line)]
    return "\n".join(lines) + "\n"


def restore(kind: str, url: str, release: str) -> None:
    """Make the empty database at *url* the one that *release* made."""
    text = (DUMPS / release / f"{kind}.sql").read_text()
    if kind == "sqlite":
        with closing(sqlite3.connect(str(sa.make_url(url).database))) as connection:
            connection.executescript(text)
        return
    # The tables come in the order of their names, and a resource class has id 0.
    run_script(url, f"{MARIADB_RESTORES}{text}" if kind == "mariadb" else text)


def run_script(url: str, text: str) -> None:
    """Run several statements at once, as a server's own command line would."""
    if sa.make_url(url).get_backend_name() == "mysql":
        url += "&client_flag=65536"  # CLIENT_MULTI_STATEMENTS
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        cursor: Any = connection.connection.cursor()
        cursor.execute(text)
        while cursor.nextset():
            pass
        cursor.close()


def answers(release: str) -> Answers:
    """What *release* answered about the site in its database."""
    found: Answers = json.loads((DUMPS / release / "answers.json").read_text())
    return found


def build(release: str, url: str, directory: Path) -> Answers:
    """Have *release* make its tables and the site in the empty database at *url*; returns what it answers then.

    Raises:
        Unavailable: it can not be installed or run here.
    """
    place = environment(release).installed()
    configuration = released.configure(directory, released.connection_of(url))
    with configuration.open("a") as file:
        # For some releases an administrator had to be one of the whole system, as `noauth2` makes none.
        file.write("[oslo_policy]\nenforce_scope = false\nenforce_new_defaults = false\n")
    assert released.run(place, directory, "placement-manage", "db", "sync")[0] == 0
    with released.serving(directory, place) as port, opened_door(port) as door:
        ask = Side(door).ask
        site.fill(ask)
        return recorded(ask, site.newest(ask))


@contextmanager
def servers() -> Iterator[dict[str, Server]]:
    """A server of each kind."""
    with TemporaryDirectory() as name:
        running = {kind: STARTERS[kind](Path(name, kind)) for kind in KINDS if kind in STARTERS}
        try:
            yield {"sqlite": Server("sqlite", name), **{kind: Server(kind, of.url) for kind, of in running.items()}}
        finally:
            for of in running.values():
                of.stop()


def main(releases: list[str]) -> None:
    with servers() as found:
        for release in releases or DUMPED:
            said: Answers = {}
            (DUMPS / release).mkdir(parents=True, exist_ok=True)
            for kind, server in found.items():
                with TemporaryDirectory() as name:
                    url = server.create()
                    answers_here = build(release, url, Path(name))
                    (DUMPS / release / f"{kind}.sql").write_text(dump(kind, url))
                differing = [
                    question for question in answers_here if said.get(question) not in (None, answers_here[question])
                ]
                assert not differing, f"{release} answers otherwise on {kind}: {differing}"
                said |= answers_here
            lines = (f"{json.dumps(question)}: {json.dumps(said[question])}" for question in sorted(said))
            (DUMPS / release / "answers.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
            print(f"made {release}")


if __name__ == "__main__":
    main(sys.argv[1:])
