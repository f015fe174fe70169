"""Which server a command asks, and which token it sends there."""

import json
import os
import signal
import socket
import threading
from contextlib import contextmanager

import pytest

from stead.cli.app import run
from stead.cli.arguments import Options, use_options
from stead.cli.server import Endpoint, connect, open_site
from stead.client.errors import InvalidRequest, Unreachable
from tests.rooms.cli.conftest import canned_server
from tests.rooms.cli.server.occupant import occupant

DEAD_PID = 2**22 + 1  # above the kernel's largest
READ = "GET /resource_providers"


@pytest.fixture
def data(tmp_path):
    """A data directory with an admin token, on which nothing runs."""
    directory = tmp_path / "data"
    directory.mkdir()
    return prepared(directory)


def prepared(directory):
    (directory / "admin-token").write_text("embedded-secret\n")
    return directory


@pytest.fixture
def embedded(data):
    """A server that runs on it."""
    with canned_server() as canned, occupant(data, canned.url):
        canned.can("GET /x", {})
        yield canned


@pytest.fixture
def other(server):
    server.can("GET /x", {})
    return server


def asked_with(*servers):
    """Per server: the tokens of what it was asked; None for a request without one."""
    return [[asked.headers.get("x-auth-token") for asked in server.asked] for server in servers]


@pytest.fixture
def ask(monkeypatch):
    """Call GET /x as a command with these arguments would, in this environment."""

    def ask(*arguments, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        code = run([*map(str, arguments), "watch", "--help"])  # reads the options, calls nothing
        assert code == 0
        with connect() as api:
            api.request("GET", "/x")

    monkeypatch.delenv("STEAD_DATA_DIR")
    return ask


def test_the_server_of_a_data_directory_is_found_and_gets_its_admin_token(embedded, data, ask):
    ask("--data-dir", data)
    assert asked_with(embedded) == [["embedded-secret"]]


@pytest.mark.parametrize("place", ["relative", "home"])
def test_a_data_directory_is_read_as_the_server_reads_it(embedded, data, ask, place, monkeypatch):
    monkeypatch.chdir(data.parent)
    monkeypatch.setenv("HOME", str(data.parent))
    ask("--data-dir", {"relative": "data", "home": "~/data"}[place])
    assert asked_with(embedded) == [["embedded-secret"]]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A data directory and its server, for tests that change neither."""
    directory = prepared(tmp_path_factory.mktemp("data"))
    with canned_server() as canned, occupant(directory, canned.url):
        canned.can("GET /x", {})
        yield directory, canned


class TestPrecedence:
    """The embedded server E of the data directory D, and another one at U with token T."""

    @pytest.fixture
    def data(self, shared):
        return shared[0]

    @pytest.fixture
    def embedded(self, shared):
        shared[1].asked.clear()
        return shared[1]

    @pytest.mark.parametrize(
        ("arguments", "environment", "tokens"),
        [
            ("--url U", "", ([], [None])),
            ("--url U", "STEAD_DATA_DIR=D", ([], [None])),
            ("--url U --data-dir D", "", ([], [None])),
            ("--url U", "STEAD_TOKEN=T STEAD_DATA_DIR=D", ([], ["T"])),
            ("--url U --token T", "STEAD_TOKEN=X", ([], ["T"])),
            ("", "STEAD_URL=U", ([], [None])),
            ("", "STEAD_URL=U STEAD_DATA_DIR=D", ([], [None])),
            ("", "STEAD_URL=U STEAD_TOKEN=T STEAD_DATA_DIR=D", ([], ["T"])),
            ("", "STEAD_DATA_DIR=D", (["embedded-secret"], [])),
            ("", "STEAD_DATA_DIR=D STEAD_TOKEN=T", (["T"], [])),
            ("--data-dir D", "STEAD_TOKEN=T", (["T"], [])),
            ("--data-dir D --token T", "", (["T"], [])),
            ("--data-dir D", "STEAD_URL=U", (["embedded-secret"], [])),
            ("--data-dir D", "STEAD_URL=U STEAD_TOKEN=T", (["embedded-secret"], [])),
            ("--data-dir D --token X", "STEAD_URL=U STEAD_TOKEN=T", (["X"], [])),
            ("--url E", "STEAD_DATA_DIR=D", (["embedded-secret"], [])),
            ("--url E/", "STEAD_DATA_DIR=D", (["embedded-secret"], [])),
            ("--url E", "", ([None], [])),
        ],
    )
    def test_one_server_is_asked_with_the_token_for_it(
        self, embedded, other, data, ask, arguments, environment, tokens
    ):
        names = {"U": other.url, "D": str(data), "E": embedded.url, "E/": f"{embedded.url}/"}
        pairs = dict(pair.split("=") for pair in environment.split())
        ask(
            *(names.get(word, word) for word in arguments.split()),
            **{name: names.get(value, value) for name, value in pairs.items()},
        )
        assert asked_with(embedded, other) == list(tokens)

    def test_options_after_the_command_s_name_count_as_those_before_it(
        self, embedded, other, data, monkeypatch, capsys
    ):
        embedded.can(READ, {"resource_providers": []})
        monkeypatch.setenv("STEAD_URL", other.url)
        monkeypatch.setenv("STEAD_TOKEN", "T")
        assert run(["tree", "--data-dir", str(data)]) == 0
        assert [set(tokens) for tokens in asked_with(embedded, other)] == [{"embedded-secret"}, set()]


class TestNoServerRuns:
    """There may be a note, a token, and something else at the port: nothing is sent anywhere."""

    @pytest.fixture(params=[None, os.getpid(), DEAD_PID, "x"], ids=["no note", "living", "dead", "spoiled"])
    def stale(self, request, data, other):
        if request.param is not None:
            note = {"url": other.url, "pid": request.param}
            (data / "server.json").write_text(json.dumps(note))
        return data

    @pytest.mark.parametrize("lock", [None, "", '{"url": "http://127.0.0.1:1"}'], ids=["no lock", "empty", "left"])
    @pytest.mark.parametrize("token", [[], ["--token", "T"]], ids=["", "with a token"])
    def test_nothing_is_sent_and_the_command_that_starts_one_is_named(self, stale, other, lock, token, capsys):
        if lock is not None:
            (stale / "server.lock").write_text(lock)
        assert run([*token, "--data-dir", str(stale), "topology", "dump"]) == 2
        complaint = capsys.readouterr().err
        assert complaint == (
            f"stead: no server runs on data directory {stale}. Start one: stead --data-dir {stale} serve\n"
        )
        assert other.asked == []

    @pytest.mark.parametrize("note", ["", "[]", "{}", '{"url": 1}', "null"])
    def test_a_note_of_no_form_is_as_none(self, data, note, capsys):
        (data / "server.json").write_text(note)
        assert run(["--data-dir", str(data), "tree"]) == 2
        assert "no server runs on" in capsys.readouterr().err

    def test_a_directory_that_does_not_exist_is_as_one_without_a_server(self, tmp_path, capsys):
        assert run(["--data-dir", str(tmp_path / "a b"), "tree"]) == 2
        assert f"Start one: stead --data-dir '{tmp_path}/a b' serve" in capsys.readouterr().err
        assert not (tmp_path / "a b").exists()

    def test_nothing_goes_to_what_took_the_port_of_a_server_that_was_killed(self, data, other, capsys):
        with occupant(data, other.url) as server:
            use_options(Options(data_dir=data))
            with connect() as api:
                assert api.url == other.url
            server.send_signal(signal.SIGKILL)
            server.wait()
        assert json.loads((data / "server.json").read_text())["url"] == other.url
        assert run(["--data-dir", str(data), "tree"]) == 2
        assert run(["--url", other.url, "--data-dir", str(data), "tree"]) != 0
        assert [set(tokens) for tokens in asked_with(other)] == [{None}]

    def test_a_server_that_starts_after_a_killed_one_is_not_taken_for_it(self, data, other, capsys):
        (data / "server.json").write_text(json.dumps({"url": other.url, "pid": os.getpid()}))
        with occupant(data, other.url, until="starts") as server:
            assert run(["--data-dir", str(data), "tree"]) == 2
            assert f"process {server.pid}) does not listen yet; retry" in capsys.readouterr().err
        assert other.asked == []

    def test_a_server_of_another_host_with_the_same_home_is_not_looked_for_here(self, data, embedded, capsys):
        note = data / "server.json"
        note.write_text(json.dumps(json.loads(note.read_text()) | {"network": "elsewhere net:[1]"}))
        assert run(["--data-dir", str(data), "tree"]) == 2
        assert "another host or container (elsewhere)" in capsys.readouterr().err
        assert embedded.asked == []

    def test_without_any_name_nothing_is_guessed(self, tmp_path, monkeypatch, capsys):
        monkeypatch.delenv("STEAD_DATA_DIR")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        monkeypatch.setenv("STEAD_TOKEN", "secret")
        assert run(["tree"]) == 2
        complaint = capsys.readouterr().err
        assert f"no server is named, and none runs on the data directory {tmp_path}/stead" in complaint
        assert "STEAD_URL" in complaint
        assert "stead serve" in complaint

    @pytest.mark.parametrize("option", ["--url", "--token"])
    def test_an_empty_option_is_not_one_that_was_left_out(self, embedded, data, option, capsys):
        assert run(["--data-dir", str(data), option, "", "tree"]) == 2
        assert f"the value of {option} is empty" in capsys.readouterr().err
        assert embedded.asked == []


@contextmanager
def eavesdropper():
    """A proxy that keeps the first line and headers of what it is sent, and hangs up."""
    heard = []

    def listen():
        while True:
            connection, _ = door.accept()
            with connection:
                heard.append(connection.recv(65536))
                if not heard[-1]:
                    return

    with socket.create_server(("127.0.0.1", 0)) as door:
        thread = threading.Thread(target=listen)
        thread.start()
        yield f"http://127.0.0.1:{door.getsockname()[1]}", heard
        socket.create_connection(door.getsockname()).close()
        thread.join()


class TestProxies:
    """Of the environment, as a company's login scripts set them."""

    @pytest.fixture
    def heard(self, monkeypatch):
        with eavesdropper() as (url, heard):
            for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                monkeypatch.setenv(name, url)
            for name in ("no_proxy", "NO_PROXY"):
                monkeypatch.delenv(name, raising=False)
            yield heard

    @pytest.mark.parametrize(
        "url",
        ["http://127.0.0.1:1", "http://127.1.2.3:1", "http://[::1]:1", "http://localhost:1", "https://127.0.0.2:1",
         "http://placement.invalid", "http://placement.invalid:8778/placement"],
    )  # fmt: skip
    def test_see_no_token_that_is_sent_to_this_machine_or_in_plain_text(self, heard, url):
        with open_site(Endpoint(url, "secret")) as api, pytest.raises(Unreachable):
            api.request("GET", "/x")
        assert heard == []

    def test_see_of_tls_to_another_machine_only_where_it_goes(self, heard):
        with open_site(Endpoint("https://placement.invalid", "secret")) as api, pytest.raises(Unreachable):
            api.request("GET", "/x")
        assert heard[0].startswith(b"CONNECT placement.invalid:443 ")
        assert b"secret" not in b"".join(heard)

    @pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "nonsense://127.0.0.1:1", "http://proxy:port"])
    def test_that_cannot_be_used_are_one_line(self, monkeypatch, proxy):
        monkeypatch.setenv("ALL_PROXY", proxy)
        with pytest.raises(InvalidRequest, match="proxy"):
            open_site(Endpoint("https://placement.invalid", "secret"))
