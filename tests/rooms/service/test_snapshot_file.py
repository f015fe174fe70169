"""A start with a snapshot file gives what a start without it gives, and a file that does not fit is ignored."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sqlalchemy as sa

from stead.api.answers import ProviderForm
from stead.candidates.engine import Enumeration
from stead.catalog import stored as snapshot_file
from stead.service import snapshot_keeper
from stead.service.service import Service
from stead.store.protocol import store
from stead.store.protocol.store import Store
from stead.store.sql.dialects import Database
from tests.rooms.store.books import Books, fresh_uuid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stead.catalog.snapshot import Snapshot

FORM = ProviderForm(('["', '"]'), tells_tree=True)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each service writes the file at its end, also if another one has just done it."""
    monkeypatch.setattr(snapshot_keeper, "JUST_WRITTEN_SECONDS", 0.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "snapshot"


def start(url: str, path: Path | None) -> Service:
    service = Service(Store(Database(url)), Enumeration(), snapshot_file=path)
    service.start()
    return service


def texts(snapshot: Snapshot) -> list[Any]:
    """What clients see of all providers, in the order of uuids."""
    slots = sorted(np.flatnonzero(snapshot.live).tolist(), key=snapshot.uuid)
    return [
        b"".join(FORM.texts(snapshot, np.array(slots, np.int64))),
        [(snapshot.inventories(slot), snapshot.traits(slot), snapshot.aggregates(slot)) for slot in slots],
        [[snapshot.uuid(member) for member in snapshot.forest.subtree(slot)] for slot in slots],
        [snapshot.service_states.cause(slot) is not None for slot in slots],
        snapshot.trait_names.rows,
        snapshot.class_names.rows,
    ]


def cold(url: str) -> list[Any]:
    """What a start without a file shows."""
    service = start(url, None)
    try:
        return texts(service.snapshot())
    finally:
        service.close()


@pytest.fixture
def outcome(path: Path, caplog: pytest.LogCaptureFixture) -> Callable[[Books], str]:
    """Starts with the file, compares with a start without it, and returns the line of the log."""
    caplog.set_level(logging.INFO, snapshot_keeper.__name__)

    def started(books: Books) -> str:
        caplog.clear()
        contents = path.read_bytes() if path.exists() else None
        service = start(books.url, path)
        try:
            assert texts(service.snapshot()) == cold(books.url)
            lines = [record.getMessage() for record in caplog.records if record.name == snapshot_keeper.__name__]
        finally:
            service.close()
        if contents is not None and os.access(path.parent, os.W_OK):
            path.write_bytes(contents)
        assert len(lines) <= 1
        return lines[0] if lines else ""

    return started


@pytest.fixture
def stored(books: Books, path: Path) -> Books:
    """A site with something of each kind, and a file of it."""
    root = books.provider(VCPU=8, MEMORY_MB=100)
    for _ in range(3):
        child = books.provider(parent=root, VCPU=4)
        books.claim(fresh_uuid(), {child: {"VCPU": 1}})
    start(books.url, path).close()
    return books


def test_a_start_with_the_file_shows_what_a_start_without_it_shows(
    stored: Books, outcome: Callable[[Books], str]
) -> None:
    assert "started from the snapshot file" in outcome(stored)
    root = stored.provider(VCPU=3)
    child, gone = stored.provider(parent=root, VCPU=2), stored.provider(VCPU=1)
    stored.claim(fresh_uuid(), {child: {"VCPU": 1}})
    stored.drop(gone)
    stored.rename(root, fresh_uuid())
    assert "started from the snapshot file" in outcome(stored)


def test_a_history_with_a_start_after_each_write(stored: Books, path: Path, outcome: Callable[[Books], str]) -> None:
    """Each file is made by a service that began with the file before."""
    provider = stored.provider(VCPU=8)
    for number in range(6):
        stored.claim(fresh_uuid(), {provider: {"VCPU": 1}})
        stored.provider(parent=provider, VCPU=number + 1)
        assert "started from the snapshot file" in outcome(stored)
        start(stored.url, path).close()


def test_the_file_is_for_its_user_alone_and_nothing_is_left_beside_it(stored: Books, path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_a_file_cut_anywhere_is_ignored(stored: Books, path: Path, outcome: Callable[[Books], str]) -> None:
    whole = path.read_bytes()
    for twentieth in range(20):
        path.write_bytes(whole[: len(whole) * twentieth // 20])
        assert "ignored" in outcome(stored), twentieth


def test_a_file_with_one_other_byte_is_ignored(stored: Books, path: Path, outcome: Callable[[Books], str]) -> None:
    whole = path.read_bytes()
    for place in [*range(0, len(whole), len(whole) // 10), len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert "ignored" in outcome(stored), place


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, tuple[str, bytes]]], None]) -> None:
    """Write the file with a changed header or sections, and with the right checksum."""
    stored = snapshot_file.read_file(path)
    header = dict(stored.header)
    sections = {name: (form, bytes(data)) for name, (form, data) in stored._sections.items()}
    change(header, sections)
    with snapshot_file.replacing(path) as writing:
        for name, (form, data) in sections.items():
            start = writing._begin()
            writing._write(data)
            writing._toc.append((name, form, start, len(data)))
        writing.end(header)


def numbers(dtype: str, change: Callable[[Any], object]) -> Callable[[tuple[str, bytes]], tuple[str, bytes]]:
    """Changes a section of numbers."""

    def changed(section: tuple[str, bytes]) -> tuple[str, bytes]:
        values = np.frombuffer(section[1], dtype).copy()
        change(values)
        return section[0], values.tobytes()

    return changed


def section(name: str, changed: Callable[[tuple[str, bytes]], tuple[str, bytes]]) -> Callable[..., object]:
    """A misfit with a changed section *name*."""
    return lambda _, sections: sections.update({name: changed(sections[name])})


MISFITS: dict[str, Callable[[dict[str, Any], dict[str, tuple[str, bytes]]], object]] = {
    "another version": lambda header, _: header.update({"made by": "stead 0"}),
    "no clock": lambda header, _: header.pop("moment"),
    "other server": lambda header, _: header["moment"].update(server="x"),
    "another epoch": lambda header, _: header["moment"].update(epoch="x"),
    "clock ahead": lambda header, _: header["moment"].update(ticks=[tick + 1 for tick in header["moment"]["ticks"]]),
    "other stamps": lambda header, _: header["moment"].update(stamps=[1] * 64),
    "fewer slots": lambda header, _: header["moment"].update(ticks=[0]),
    "another size": lambda header, _: header.update(size=header["size"] + 1),
    "other byte order": lambda _, sections: sections.update(ids=(">i8", sections["ids"][1])),
    "smaller numbers": lambda _, sections: sections.update(parent=("<i2", sections["parent"][1])),
    "missing section": lambda _, sections: sections.pop("uuid texts"),
    "missing list": lambda _, sections: sections.pop("shapes"),
    "a slot too far": lambda _, sections: sections.update(root=("<i4", b"\x7f" * len(sections["root"][1]))),
    "a set too far": lambda _, sections: sections.update({"traits of": ("<i4", b"\x7f" * len(sections["root"][1]))}),
    "other generations": lambda _, sections: sections.update(generations=("<i8", bytes(len(sections["ids"][1])))),
    "not JSON": lambda _, sections: sections.update(shapes=("json", b"[")),
    "no text": section("name texts", lambda section: (section[0], b"\xff" * len(section[1]))),
    "texts too short": section("name texts", lambda section: (section[0], section[1][:-1])),
    "ends in no order": section("name ends", numbers("<i4", lambda ends: ends.__setitem__(slice(None), ends[::-1]))),
    "a slot twice": section("uuid slots", numbers("<i4", lambda slots: slots.__setitem__(0, slots[1]))),
    "a slot too far in an index": section("name slots", numbers("<i4", lambda slots: slots.__setitem__(0, 9999))),
    "fewer hashes": section("name hashes", lambda section: (section[0], section[1][4:])),
    "other ids": section("id ids", numbers("<i8", lambda ids: ids.__iadd__(1))),
    "roots in no order": section("tree roots", numbers("<i4", lambda roots: roots.fill(0))),
    "an empty tree": section("tree ends", numbers("<i4", lambda ends: ends.__setitem__(0, 0))),
    "fewer members": section("tree members", lambda section: (section[0], section[1][4:])),
    "a member too far": section("tree members", numbers("<i4", lambda members: members.fill(9999))),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_file_that_does_not_fit_is_ignored(
    stored: Books, path: Path, outcome: Callable[[Books], str], misfit: str
) -> None:
    rewritten(path, MISFITS[misfit])  # type: ignore[arg-type]  # results do not matter
    assert "ignored" in outcome(stored)


def test_a_file_that_another_user_may_write_is_ignored(
    stored: Books, path: Path, outcome: Callable[[Books], str]
) -> None:
    path.chmod(0o660)
    assert "another user" in outcome(stored)


def test_a_link_is_ignored(stored: Books, path: Path, outcome: Callable[[Books], str]) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    assert "ignored" in outcome(stored)


def test_no_file_is_no_line(books: Books, outcome: Callable[[Books], str]) -> None:
    assert outcome(books) == ""


def test_an_older_epoch_is_ignored(stored: Books, outcome: Callable[[Books], str]) -> None:
    stored.execute("UPDATE resource_providers SET name = :name WHERE id = 1", name=fresh_uuid())
    stored.service.write(store.renew_epoch)
    assert "epoch" in outcome(stored)


def test_a_provider_that_another_service_changed_during_the_stop_is_seen(
    stored: Books, outcome: Callable[[Books], str]
) -> None:
    """It ticks no clock; the sums over all providers differ."""
    stored.execute("UPDATE resource_providers SET generation = generation + 1 WHERE parent_provider_id IS NULL")
    assert "ignored" in outcome(stored)


def test_removed_change_rows_are_noticed(stored: Books, outcome: Callable[[Books], str]) -> None:
    stored.execute("UPDATE stead_clock SET floor = tick + 1")
    try:
        assert "removed" in outcome(stored)
    finally:
        stored.execute("UPDATE stead_clock SET floor = 0")


def test_a_clock_that_was_set_back_and_advanced_again_is_noticed(
    stored: Books, path: Path, outcome: Callable[[Books], str]
) -> None:
    """As after a restore without a new epoch: the tick of the file has another stamp now."""
    slot, tick = (
        stored.scalar(f"SELECT {what} FROM stead_clock WHERE tick > 0") for what in ("max(slot)", "max(tick)")
    )
    stored.execute("UPDATE stead_clock SET tick = :tick WHERE slot = :slot", tick=tick, slot=slot)
    start(stored.url, path).close()
    stored.execute(
        "UPDATE stead_clock SET tick = :tick, stamp = 5, earlier = :earlier WHERE slot = :slot",
        tick=tick + 1,
        earlier=f"{tick}:12345,",
        slot=slot,
    )
    assert "set back" in outcome(stored)


@pytest.mark.one_database
def test_another_file_with_the_same_content_is_another_database(
    stored: Books, path: Path, tmp_path: Path, outcome: Callable[[Books], str]
) -> None:
    if not stored.url.startswith("sqlite"):
        pytest.skip("the database is one file with SQLite")
    copy = tmp_path / "copy.db"
    with sqlite3.connect(sa.make_url(stored.url).database or "") as database, sqlite3.connect(copy) as target:
        database.backup(target)
    other = Books(f"sqlite:///{copy}", upgrade=False)
    try:
        assert "server is another" in outcome(other)
    finally:
        other.close()


def test_two_workers_that_write_at_once_leave_one_whole_file(
    stored: Books, path: Path, outcome: Callable[[Books], str]
) -> None:
    services = [start(stored.url, path) for _ in range(2)]
    for _, following in pairwise(range(6)):
        stored.provider(VCPU=following)
        for service in services:
            service.snapshot()
        threads = [threading.Thread(target=service.store_snapshot) for service in services]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert snapshot_file.read_file(path)
        assert list(path.parent.iterdir()) == [path]
    for service in services:
        service.close()
    assert "started from the snapshot file" in outcome(stored)


def test_workers_that_start_together_load_once_and_map_one_file(
    books: Books, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = books.provider(VCPU=8)
    caplog.set_level(logging.INFO, snapshot_keeper.__name__)
    services: list[Service] = []
    threads = [threading.Thread(target=lambda: services.append(start(books.url, path))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([line for line in caplog.messages if "started from the snapshot file" in line]) == 2
    for service in services:
        ids = service.snapshot().identities.ids.whole
        assert not ids.flags.owndata, "the pages of the file, not a copy"
    books.claim(fresh_uuid(), {provider: {"VCPU": 1}})
    for service in services:
        assert texts(service.snapshot()) == cold(books.url), "a refresh does not need to write to the map"
        service.close()


def test_a_worker_that_hangs_while_it_starts_does_not_keep_others_from_it(
    stored: Books, path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Callable[[Books], str]
) -> None:
    monkeypatch.setattr(snapshot_keeper, "ALONE_SECONDS", 0.1)
    with snapshot_keeper._alone_in(path.parent):
        assert "started from the snapshot file" in outcome(stored)


@pytest.fixture
def unwritable(path: Path) -> Path:
    """A path in a directory that does not exist: not even root can write there."""
    return path.parent / "none" / path.name


def test_a_file_that_cannot_be_written_is_one_warning(
    books: Books, unwritable: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = start(books.url, unwritable)
    caplog.clear()
    service.store_snapshot()
    assert [record.getMessage() for record in caplog.records if "not written" in record.getMessage()]
    service.close()
