"""The token an embedded service makes at its first start."""

import json
import subprocess
import sys

import pytest

from stead.auth.tokens import digest, ensure_admin_token, parse
from stead.config import ConfigError, load
from tests.rooms.auth.odd_files import KINDS, replace_with


def mode(path):
    return path.stat().st_mode & 0o777


def test_the_first_start_makes_a_token_only_its_owner_can_read(tmp_path):
    data = tmp_path / "a" / "data"
    token = ensure_admin_token(data)
    assert len(token) >= 43  # 256 bits
    assert (data / "admin-token").read_text() == token + "\n"
    assert token not in (data / "tokens.json").read_text()
    assert (mode(data), mode(data / "admin-token"), mode(data / "tokens.json")) == (0o700, 0o600, 0o600)
    (entry,) = parse((data / "tokens.json").read_text())
    assert (entry.name, set(entry.roles), entry.expires) == ("admin", {"admin", "service"}, None)
    assert {path.name for path in data.iterdir()} == {"admin-token", "tokens.json", "tokens.lock"}


def test_later_starts_find_it_again(tmp_path):
    assert ensure_admin_token(tmp_path) == ensure_admin_token(tmp_path)


def test_two_data_directories_have_different_tokens(tmp_path):
    assert ensure_admin_token(tmp_path / "a") != ensure_admin_token(tmp_path / "b")


def test_other_tokens_stay(tmp_path):
    ensure_admin_token(tmp_path)
    document = json.loads((tmp_path / "tokens.json").read_text())
    other = {"name": "ci", "sha256": digest("ci").hex(), "user": "ci", "project": "ci", "roles": []}
    (tmp_path / "tokens.json").write_text(json.dumps({"tokens": [*document["tokens"], other]}))
    (tmp_path / "admin-token").unlink()
    ensure_admin_token(tmp_path)
    assert [token.name for token in parse((tmp_path / "tokens.json").read_text())] == ["admin", "ci"]


@pytest.mark.parametrize("lost", ["admin-token", "tokens.json"])
def test_after_a_loss_the_old_token_is_replaced(tmp_path, lost):
    old = ensure_admin_token(tmp_path)
    (tmp_path / lost).unlink()
    new = ensure_admin_token(tmp_path)
    assert new != old
    assert [token.digest for token in parse((tmp_path / "tokens.json").read_text())] == [digest(new)]


def test_processes_that_start_at_once_agree(tmp_path):
    start, data = tmp_path / "start", tmp_path / "data"
    code = f"""
from pathlib import Path
from stead.auth.tokens import ensure_admin_token
print("ready", flush=True)
while not Path({str(start)!r}).exists():
    pass
print(ensure_admin_token(Path({str(data)!r})))
"""
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        process.stdout.readline()
    start.touch()
    printed = {process.communicate(timeout=60)[0].strip() for process in started}
    assert printed == {ensure_admin_token(data)}


@pytest.mark.parametrize("wrong", [0o777, 0o775, 0o770, 0o755, 0o750, 0o2775, 0o711, 0o707])
def test_a_directory_that_others_may_use_is_refused_with_what_to_do(tmp_path, wrong):
    data = tmp_path / "my data"
    token = ensure_admin_token(data)
    data.chmod(wrong)
    with pytest.raises(ConfigError, match=f"mode {wrong:04o}.*chmod 700") as refused:
        ensure_admin_token(data)
    assert f"'{data}'" in str(refused.value)
    data.chmod(0o700)
    assert ensure_admin_token(data) == token


def test_an_empty_directory_is_made_private(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o775)
    ensure_admin_token(data)
    assert mode(data) == 0o700


@pytest.mark.parametrize("name", ["tokens.json", "admin-token"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_in_the_place_of_one_is_a_clear_error(tmp_path, name, kind):
    ensure_admin_token(tmp_path)
    replace_with(tmp_path / name, kind)
    with pytest.raises(ConfigError, match=f"{name}: it is {kind}, not a regular file"):
        ensure_admin_token(tmp_path)


def test_a_malformed_token_file_is_refused_and_kept(tmp_path):
    (tmp_path / "tokens.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokens\.json"):
        ensure_admin_token(tmp_path)
    assert (tmp_path / "tokens.json").read_text() == "{"


def test_a_file_in_the_place_of_the_directory_is_a_clear_error(tmp_path):
    (tmp_path / "data").write_text("")
    with pytest.raises(ConfigError, match="data directory"):
        ensure_admin_token(tmp_path / "data")


def test_an_embedded_service_accepts_its_admin_token_from_the_start(tmp_path, client):
    embedded = client(load(data_dir=tmp_path / "data"))
    assert embedded.get(X_Auth_Token="admin").status == 401
    assert embedded.get(X_Auth_Token=ensure_admin_token(tmp_path / "data")).status == 200
    assert set(embedded.credentials.roles) == {"admin", "service"}
