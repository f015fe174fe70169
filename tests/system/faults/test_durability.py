"""What the service says of a server that may forget, and of one that takes no writes, before it starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.config import load
from stead.store.sql.dialects import NotDurable
from tests.conftest import write_configuration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.system.faults.conftest import Victim

pytestmark = [
    pytest.mark.timeout(180),  # starts database servers
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PyMySQL, when nobody answers it
]

LOGGER = "stead.store.sql.dialects"


@pytest.fixture
def warnings_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    # Directly, since a server in another thread of this process may configure the handlers of the root.
    monkeypatch.setattr(logging.getLogger(LOGGER), "handlers", [caplog.handler])
    monkeypatch.setattr(logging.getLogger(LOGGER), "propagate", False)
    monkeypatch.setattr(logging.getLogger(LOGGER), "disabled", False)

    def start(url: str, more: str = "") -> list[str]:
        file = write_configuration(tmp_path, url)
        file.write_text(file.read_text().replace("[api]", f"{more}\n[api]"))
        caplog.clear()
        application.build_service(load([file])).close()
        return [record.getMessage() for record in caplog.records if record.name == LOGGER]

    return start


REQUIRED = "[stead]\nrequire_durable_commits = true"


def test_a_server_that_forgets(victim: Victim, warnings_at_start: Callable[..., list[str]]) -> None:
    if victim.kind == "mariadb":
        assert warnings_at_start(victim.url, REQUIRED) == []
        victim.start_again_with("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")
        setting = "innodb_flush_log_at_trx_commit is 2, not 1"
        assert len(warnings_at_start(victim.url)) == 1  # there is no binary log
        victim.start_again_with("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0", "--log-bin=changes")
        expected = 2
    else:
        victim.start_again_with("-c", "fsync=on")
        assert warnings_at_start(victim.url, REQUIRED) == []
        victim.start_again_with("-c", "synchronous_commit=off", "-c", "full_page_writes=off")
        setting = "synchronous_commit is off, not on"
        expected = 3  # with fsync, which the tests' servers do without
    said = warnings_at_start(victim.url)
    assert len(said) == expected
    assert any(f"{setting}: a crash may lose claims that were acknowledged" in line for line in said)
    with pytest.raises(NotDurable, match=setting):
        warnings_at_start(victim.url, REQUIRED)


def test_sqlite(tmp_path: Path, warnings_at_start: Callable[..., list[str]]) -> None:
    url = f"sqlite:///{tmp_path}/books.db"
    assert warnings_at_start(url, REQUIRED) == []
    (said,) = warnings_at_start(url, "sqlite_synchronous = false")
    assert "synchronous is OFF, not FULL: a crash may lose claims that were acknowledged" in said
    with pytest.raises(NotDurable, match="synchronous is OFF"):
        warnings_at_start(url, f"sqlite_synchronous = false\n{REQUIRED}")
