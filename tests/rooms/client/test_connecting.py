"""Tokens, URLs, deadlines, and Stead in the process on directories and databases."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

import stead
import stead.aio
from stead import Group, Node, Request, testing
from stead.client import calls
from stead.client.blocking import site as watching
from tests.conftest import write_configuration
from tests.servers.stead import started

ONE_CORE = Request(Group(VCPU=1))


class Closing:
    """A port that closes each connection at once, and counts them."""

    def __init__(self):
        self.number = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()

    def _accept(self):
        while True:
            try:
                self._socket.accept()[0].close()
            except OSError:
                return
            self.number += 1


def test_watching_a_server_that_is_away_pauses_between_its_requests_also_without_retries():
    with Closing() as server, stead.connect(server.url, retry=False) as site, pytest.raises(stead.Unavailable):
        list(watching.watch(site._calling, "token", 15, outage=0.5))  # the command line has such a limit
    assert 2 <= server.number <= 0.5 / watching.LEAST_SECONDS + 1


class Session:
    """What a session of keystoneauth1 has, as far as it is used."""

    def __init__(self, *tokens):
        self.tokens = list(tokens)

    def get_token(self):
        return self.tokens[0]

    def invalidate(self):
        self.tokens.pop(0)


def test_a_token_comes_from_a_text_a_function_or_a_session():
    with testing.placement() as url:
        for token in ("admin", lambda: "admin", Session("admin"), None):
            with stead.connect(url, token, project="lab") as site:
                assert site.usages() == {}


def test_a_session_of_keystoneauth_is_a_source_of_tokens():
    session = pytest.importorskip("keystoneauth1.session")
    plugin = pytest.importorskip("keystoneauth1.token_endpoint").Token("http://127.0.0.1:9", "somebody:lab")
    with testing.placement() as url, stead.connect(url, session.Session(auth=plugin), project="lab") as site:
        with pytest.raises(stead.NotAllowed) as refused:  # it is this user; no token is an administrator
            list(site.providers())
        assert refused.value.status == 403


def test_an_asynchronous_function_may_return_the_token():
    async def token():
        return "admin"

    async def use(url):
        async with stead.aio.connect(url, token, project="lab") as site:
            return await site.usages()

    with testing.placement() as url:
        assert asyncio.run(use(url)) == {}


def test_a_rejected_token_is_replaced_once():
    with testing.placement() as url:
        session = Session("expired", "admin")
        url.faults.fail_next(401)
        with stead.connect(url, session, project="lab") as site:
            assert site.usages() == {}
        assert session.tokens == ["admin"]
        url.faults.fail_next(401, times=2)
        with stead.connect(url, lambda: "admin", project="lab") as site, pytest.raises(stead.NotAllowed) as refused:
            site.usages()
        assert refused.value.status == 401


def test_a_token_that_no_header_can_carry_is_refused_before_anything_is_sent():
    with testing.placement() as url, pytest.raises(stead.InvalidRequest, match="characters"):
        stead.connect(url, "ad\nmin", project="lab").usages()


@pytest.mark.parametrize("url", ["placement.example", "ftp://placement", "http://", "http://[::1"])
def test_a_url_of_another_kind_is_refused(url):
    with pytest.raises(stead.InvalidRequest, match="must begin with"):
        stead.connect(url)


def test_a_password_of_the_url_is_not_shown():
    assert "secret" not in repr(stead.connect("http://me:secret@127.0.0.1:9/placement"))


def test_a_unix_socket_ends_where_the_path_goes_on(tmp_path):
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        read = calls.read(f"unix://{place}/placement")
        assert (read.socket, read.base) == (place, "http://localhost/placement")


def test_a_server_that_does_not_listen_is_unreachable_within_the_deadline():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        site = stead.connect(f"http://127.0.0.1:{unused.getsockname()[1]}", project="lab", timeout=0.3)
        with pytest.raises(stead.Unreachable, match="cannot reach"):
            site.usages()


def test_a_connection_is_kept_for_the_next_call():
    accepted = []
    with testing.placement() as url, url.site() as site:
        original = socket.socket.connect

        def connect(self, place):
            accepted.append(place)
            return original(self, place)

        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(socket.socket, "connect", connect)
            for _ in range(5):
                site.usages()
    assert len(accepted) <= 1


def test_what_was_claimed_in_the_process_is_there_when_the_directory_is_opened_again(tmp_path):
    with stead.open(tmp_path / "data", project="lab") as site:
        site.apply(Node("host", VCPU=4))
        claim = site.claim(ONE_CORE, "train-1")
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    with stead.open(tmp_path / "data") as site:
        assert site.find("train-1").allocations == claim.allocations


def test_claims_of_consumers_without_a_row_are_listed_moved_and_released(tmp_path):
    with stead.open(tmp_path / "data", project="lab") as site:
        site.apply(Node("host", VCPU=8))
        site.claim_all([ONE_CORE] * 3, "lost")
        with closing(sqlite3.connect(tmp_path / "data" / "stead.db")) as database, database:
            database.execute("DELETE FROM consumers")
        claims = list(site.claims())
        assert [(claim.generation, claim.type) for claim in claims] == [(None, "unknown")] * 3
        claims[0].move(ONE_CORE)
        assert site.find(claims[0].consumer).generation == claims[0].generation == 1
        claims[1].release()
        assert {claim.consumer for claim in site.claims()} == {claims[0].consumer, claims[2].consumer}


def test_the_asynchronous_open_is_the_same(tmp_path):
    async def use():
        opened = await stead.aio.open(tmp_path / "data", project="lab")
        await opened.apply(Node("host", VCPU=4))
        await opened.close()
        async with stead.aio.open(tmp_path / "data", project="lab") as site:
            claim = await site.claim(ONE_CORE, "train-1")
            await claim.release()
            return [provider.name async for provider in site.providers()]

    assert asyncio.run(use()) == ["host"]


def test_a_site_opens_on_every_kind_of_database(database_url):
    with stead.open(database_url, project="lab", upgrade=True) as site:
        site.apply(Node("host", VCPU=4))
        assert site.claim(ONE_CORE, "train-1").allocations
    assert "://" in repr(site)


def test_tables_of_a_server_database_are_created_only_on_request(tmp_path):
    with pytest.raises(stead.CannotOpen, match="stead db upgrade"):
        stead.open(f"sqlite:///{tmp_path}/stead.db", upgrade=False)


@pytest.mark.parametrize("database", [":memory:", "sqlite://", "sqlite:///:memory:"])
def test_a_site_in_memory_is_of_one_opening_and_leaves_nothing(tmp_path, monkeypatch, database):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stead.embedded._SHARED_MEMORY", tmp_path)
    with stead.open(database, project="lab") as site, stead.open(database) as another:
        site.apply(Node("host", VCPU=4))
        assert site.claim(ONE_CORE, "train-1").allocations
        assert not list(another.trees())
        assert ":memory:" in repr(site)
        assert not (tmp_path / ":memory:").exists()
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_a_database_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", "nosuch://host/database"):
        with pytest.raises(stead.CannotOpen, match="cannot open"):
            stead.open(place)


def test_the_configuration_of_the_machine_does_not_matter(tmp_path, monkeypatch):
    (tmp_path / "placement.conf").write_text("[nonsense\n")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "mysql://nobody@192.0.2.1/none")
    monkeypatch.setenv("OS_API__AUTH_STRATEGY", "keystone")
    with stead.open(tmp_path / "data") as site:
        assert list(site.providers()) == []


IN_ANOTHER_PROCESS = """
import sys, stead
with stead.open(sys.argv[1], project="lab") as site:
    print(site.claim(stead.Request(stead.Group(VCPU=1)), "theirs").providers[0])
    print(site.find("ours").providers[0])
"""


def test_processes_and_a_server_on_one_directory_see_each_others_claims_at_once(tmp_path):
    data = tmp_path / "data"
    with stead.open(data, project="lab") as site:
        host = site.apply(Node("host", VCPU=3)).uuids["host"]
        site.claim(ONE_CORE, "ours")
        command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(data)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        assert run.stdout.split() == [host, host]
        assert site.find("theirs")
        conf = write_configuration(tmp_path, f"sqlite:///{data}/stead.db")
        with started(conf, workers=1) as server, stead.connect(server.url, "admin", project="lab") as served:
            assert served.claim(ONE_CORE, "third").providers == (host,)
            assert site.find("third")
            with pytest.raises(stead.NothingFits):
                site.claim(ONE_CORE, "fourth")


def test_several_threads_share_one_site(tmp_path):
    failures = []
    with testing.site() as site:
        site.apply(Node("host", VCPU=64))

        def work(thread):
            try:
                for number in range(8):
                    site.claim(ONE_CORE, f"{thread}-{number}")
            except stead.Error as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert site.usages()["INSTANCE"].amounts == {"VCPU": 64}


def test_a_site_in_a_process_leaves_its_log_and_environment_alone(tmp_path):
    code = "import logging,stead; stead.open('data').close(); print(logging.getLogger().handlers)"
    environment = {**os.environ, "HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("[]", "")


def test_tasks_share_an_asynchronous_site_and_a_cancelled_watch_ends(tmp_path):
    async def use(site):
        async with site:
            await site.apply(Node("host", VCPU=30))
            claims = await asyncio.gather(*(site.claim(ONE_CORE, f"task-{number}") for number in range(30)))
            assert len({claim.consumer for claim in claims}) == 30
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(site.watch()), 0.2)
            return (await site.usages())["INSTANCE"].amounts

    async def opened():
        return await use(await stead.aio.open(tmp_path / "data", project="lab"))

    with testing.placement() as url:
        assert asyncio.run(use(stead.aio.connect(url, project="lab"))) == {"VCPU": 30}
    assert asyncio.run(opened()) == {"VCPU": 30}
