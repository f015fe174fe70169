"""The lock of a data directory: one server at a time, whatever becomes of the one before."""

import json
import os
import signal
from contextlib import ExitStack

import pytest

from stead.cli.errors import CommandError
from stead.cli.server import LOCK, NotServed, occupied, running
from tests.rooms.cli.server.occupant import occupant, start

URL = "http://127.0.0.1:1"


def refusal(directory):
    with pytest.raises(NotServed) as refused, occupied(directory):
        pass
    return str(refused.value)


@pytest.mark.parametrize("until", ["listens", "starts"])
def test_a_second_server_is_refused_and_told_which_the_first_is(tmp_path, until):
    with occupant(tmp_path, URL, until) as first:
        assert f"in use by process {first.pid}, which listens on {URL}" in refusal(tmp_path)
    with occupied(tmp_path):
        pass


def test_of_many_that_start_at_once_one_has_it_and_its_note_is_the_one_found(tmp_path):
    with ExitStack() as stack:
        starting = [stack.enter_context(start(tmp_path, f"http://127.0.0.1:{port}")) for port in range(1, 9)]
        for each in starting:
            stack.callback(each.kill)
        told = [each.stdout.readline() for each in starting]
        (first,) = (each for each, line in zip(starting, told, strict=True) if line == "occupied\n")
        assert [line for line in told if line.startswith("refused:")] == [
            line for line in told if f"process {first.pid}" in line
        ]
        assert running(tmp_path).pid == first.pid
        assert running(tmp_path).url == f"http://127.0.0.1:{starting.index(first) + 1}"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_ends_without_a_word_leaves_nothing_locked(tmp_path, number):
    with occupant(tmp_path) as first:
        os.kill(first.pid, number)
        first.wait()
        assert running(tmp_path) is None
        with occupied(tmp_path):
            assert not (tmp_path / "server.json").exists()


def test_a_process_that_it_forked_does_not_keep_it(tmp_path):
    with occupant(tmp_path, until="forks") as first:
        child = int(first.told)
        try:
            first.kill()
            first.wait()
            with occupied(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_second_leaves_the_note_of_the_first(tmp_path):
    with occupant(tmp_path) as first:
        refusal(tmp_path)
        assert json.loads((tmp_path / "server.json").read_text())["pid"] == first.pid
        assert running(tmp_path).pid == first.pid


def test_what_it_wrote_is_removed_when_it_stops_but_never_the_lock(tmp_path):
    with occupant(tmp_path) as first:
        first.stdin.close()
        first.wait()
    assert [each.name for each in tmp_path.iterdir()] == [LOCK]
    assert running(tmp_path) is None


def test_both_files_are_for_their_owner_only(tmp_path):
    with occupant(tmp_path):
        assert {each.stat().st_mode & 0o077 for each in tmp_path.iterdir()} == {0}


class TestALockThatIsNotOurs:
    """What stands there is left as it is."""

    def test_is_not_followed_out_of_the_directory(self, tmp_path):
        (tmp_path / "data").mkdir()
        (tmp_path / "precious").write_text("precious")
        (tmp_path / "data" / LOCK).symlink_to(tmp_path / "precious")
        assert "cannot lock" in refusal(tmp_path / "data")
        assert (tmp_path / "precious").read_text() == "precious"

    def test_may_be_a_directory(self, tmp_path):
        (tmp_path / LOCK).mkdir()
        assert "cannot lock" in refusal(tmp_path)

    def test_may_be_a_pipe_on_which_nobody_waits(self, tmp_path):
        os.mkfifo(tmp_path / LOCK)
        assert "not a regular file" in refusal(tmp_path)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_may_be_somebody_else_s(self, tmp_path):
        (tmp_path / LOCK).touch(mode=0)
        assert "Permission denied" in refusal(tmp_path)
        with pytest.raises(CommandError, match="Permission denied"):
            running(tmp_path)
