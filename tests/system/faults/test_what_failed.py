"""What the service says of a database that fails: which failure it is, once, and when it is over."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from oslo_log.formatters import ContextFormatter

from stead import application
from stead.config import load
from stead.domain.errors import Unavailable, Unusable
from stead.observe.log import Masking
from tests.conftest import open_door, write_configuration
from tests.system.api.client import Api
from tests.system.faults.waiting import when_back
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(300),  # database servers are started and stopped
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]

SECRET = "a secret"


def refusal(directory: Path, url: str) -> Unavailable:
    """Why no application starts on this database. It may not wait: the next attempt would be in an hour."""
    file = write_configuration(directory, url)
    with file.open("a") as configuration:
        configuration.write("[placement_database]\nmax_retries = -1\nretry_interval = 3600\n")
    with pytest.raises(Unusable) as refused:
        application.open_store(load([file]).database)
    return refused.value


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may open every file, so it is another user meanwhile."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


class TestAStart:
    def test_names_a_missing_database(self, tmp_path: Path, victim: Victim) -> None:
        for owner, words in ((victim.running.url, "The database does not exist on its server: "), (victim.url, "")):
            url = sa.make_url(owner).set(database="elsewhere")
            said = str(refusal(tmp_path, url.render_as_string(hide_password=False)))
            assert said.startswith(words or "The database does not exist")
            assert "elsewhere" in said

    @pytest.mark.parametrize("user", ["with another password", "unknown"])
    def test_names_a_user_who_is_refused(self, tmp_path: Path, victim: Victim, user: str) -> None:
        name = f"user_{len(user)}"
        if victim.kind == "mariadb":
            if user != "unknown":
                victim.execute(f"CREATE USER {name}@localhost IDENTIFIED BY 'right'")
        else:
            access = victim.running.home.path / "data" / "pg_hba.conf"
            if user != "unknown":
                victim.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'right'")
                access.write_text(f"local all {name} scram-sha-256\n{access.read_text()}")
                victim.execute("SELECT pg_reload_conf()")
        url = sa.make_url(victim.url).set(username=name, password=SECRET).render_as_string(hide_password=False)
        said = str(refusal(tmp_path, url))
        assert said.startswith("The database refuses the user or the password: ")
        assert name in said
        assert SECRET not in said

    @pytest.mark.parametrize(
        ("prepare", "reason"),
        [
            (lambda path: None, "no such directory"),
            (lambda path: path.mkdir(parents=True), "it is a directory"),
            (lambda path: _write(path, b"this is a text, and long enough for a header"), "file is not a database"),
        ],
        ids=["no directory", "a directory", "another file"],
    )
    def test_names_a_file_that_cannot_be_used(
        self, tmp_path: Path, prepare: Callable[[Path], None], reason: str
    ) -> None:
        path = tmp_path / "of the service" / "placement.db"
        prepare(path)
        said = str(refusal(tmp_path, f"sqlite:///{path}"))
        assert re.match(r"The file of the database (cannot be opened|is damaged, or is no database): ", said)
        assert f"{path}: {reason}" in said

    def test_names_a_file_that_cannot_be_written(self, tmp_path: Path) -> None:
        path = tmp_path / "placement.db"
        sqlite3.connect(path).close()
        said = str(refusal(tmp_path, f"sqlite:///file:{quote(str(path))}?mode=ro&uri=true"))
        assert said.startswith("The database is read-only: ")
        assert str(path) in said

    @pytest.mark.parametrize("place", ["closed/placement.db", "closed/below/placement.db"])
    def test_names_a_file_without_permission(self, place: str) -> None:
        with TemporaryDirectory() as home:
            Path(home).chmod(0o755)
            Path(home, "closed").mkdir(mode=0o500)
            url = f"sqlite:///{home}/{place}"
            Path(home, place).parent.mkdir(exist_ok=True)
            Path(home, "closed").chmod(0o500 if "below" not in place else 0)
            file = write_configuration(Path(home), url)
            settings = load([file]).database
            with as_an_ordinary_user(), pytest.raises(Unusable, match=r"Permission denied, for user \d+"):
                application.open_store(settings)
            Path(home, "closed").chmod(0o700)

    def test_waits_for_a_server_and_says_for_how_long(
        self, tmp_path: Path, victim: Victim, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        file = write_configuration(tmp_path, victim.url)
        with file.open("a") as configuration:
            configuration.write("[placement_database]\nretry_interval = 1\nmax_retries = -1\n")
        victim.crash()
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(application.open_store, load([file]).database)
            wait_until(lambda: "next attempt in 1 s" in caplog.text)
            victim.start_again()
            opening.result().close()
        lines = [record.getMessage() for record in caplog.records if record.name == "stead.application"]
        assert re.fullmatch(r"The database does not answer: .*; next attempt in \d+ s", lines[0])
        assert re.fullmatch(r"the database answers, after \d+ s", lines[-1])


def test_an_outage_is_two_lines_of_the_log_however_many_requests_fail(
    tmp_path: Path, victim: Victim, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="stead.store.protocol.store")
    with open_door(tmp_path, victim.url) as door:
        api = Api(door)
        api.create_trait()
        victim.crash()
        for _ in range(5):
            answer = api.get("/traits")
            assert answer.refused(503, "The database does not answer.")
        victim.start_again()
        when_back(lambda: api.get("/traits"))
        wait_until(lambda: "answers again" in caplog.text)
        when_back(lambda: api.put("/traits/CUSTOM_OUTAGE"))
    lines = [line.getMessage() for line in caplog.records if line.name == "stead.store.protocol.store"]
    lines = [line for line in lines if "fsync" not in line]  # which the test's own server does without
    reads = [line for line in lines if "accepts writes" not in line]
    assert re.match("The database does not answer: ", reads[0])
    assert re.fullmatch(r"the database answers again, after \d+ s", reads[-1])
    assert len(lines) <= 4  # two of reads, and two of writes


def test_a_read_only_database_is_called_so(tmp_path: Path, victim: Victim) -> None:
    with open_door(tmp_path, victim.url) as door:
        api = Api(door)
        api.create_trait()
        victim.set_read_only(True)
        try:
            answer = wait_until(lambda: (tried := api.put("/traits/CUSTOM_READ_ONLY")).status == 503 and tried)
            assert answer.refused(503, "The database is read-only.")
        finally:
            victim.set_read_only(False)
        when_back(lambda: api.put("/traits/CUSTOM_READ_ONLY"))


def test_a_line_of_the_log_has_no_sentence_twice(tmp_path: Path) -> None:
    """oslo.log appends the error that is being handled to a warning, which mostly names it already."""
    conf = load([write_configuration(tmp_path, "sqlite://")]).conf
    formatter = Masking(ContextFormatter(config=conf, version="1"), lambda text: text)

    def line(message: str) -> str:
        return formatter.format(logging.LogRecord("stead", logging.WARNING, "", 0, message, None, None))

    try:
        raise Unavailable("no such file")
    except Unavailable:
        assert line("no such file; next attempt in 1 s").endswith(" no such file; next attempt in 1 s")
        assert line("it failed").endswith(" it failed: stead.domain.errors.Unavailable: no such file")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
