"""stead token: what is made works at once, what is revoked does not, and nothing of it can be read from the file."""

import json
import os
import threading
from datetime import UTC, datetime, timedelta

import pytest

from stead.auth.tokens import TokenFile, parse
from stead.cli.app import run


@pytest.fixture
def token(tmp_path, monkeypatch, capsys):
    """``token("create", …)`` on the token file of a placement.conf."""
    monkeypatch.delenv("OS_PLACEMENT_DATABASE__CONNECTION", raising=False)
    conf = tmp_path / "placement.conf"
    conf.write_text(
        "[placement_database]\nconnection = sqlite://\n[api]\nauth_strategy = token\n"
        f"[stead]\ntoken_file = {tmp_path / 'tokens.json'}\n"
    )

    def call(command, *arguments):
        code = run(["token", command, "--config-file", str(conf), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    call.file = tmp_path / "tokens.json"
    call.conf = conf
    return call


def made(token, *arguments):
    code, out, err = token("create", *arguments)
    assert (code, err) == (0, ""), err
    return out.strip()


def test_a_token_works_from_the_request_after_it_was_made_until_it_is_revoked(token):
    first = made(token, "nova", "--role", "service", "--role", "reader", "--user", "u1", "--project", "p1")
    service = TokenFile(token.file)  # as one that runs
    assert service.find(first).roles == ("service", "reader")
    second = made(token, "ci", "--role", "admin")
    stored = service.find(second)
    assert (stored.user, stored.project, stored.expires) == ("ci", "ci", None)
    assert token("revoke", "nova") == (0, "revoked nova\n", "")
    assert service.find(first) is None
    assert service.find(second) == stored


def test_the_file_has_no_token_in_it_and_only_its_owner_may_read_it(token):
    made_ = [made(token, name, "--role", "admin") for name in ("a", "b")]
    assert len({*made_}) == 2
    assert all(text not in token.file.read_text() for text in made_)
    assert token.file.stat().st_mode & 0o777 == 0o600


def test_a_list_warns_of_a_file_that_others_may_use(token):
    made(token, "a", "--role", "admin")
    assert token("list")[2] == ""
    token.file.chmod(0o644)
    code, out, err = token("list", "--json")
    assert (code, len(json.loads(out)["tokens"])) == (0, 1)
    assert err.startswith(f"stead: warning: token file {token.file}: other users can read it")


def test_who_could_read_the_file_still_can(token):
    made(token, "a", "--role", "admin")
    token.file.chmod(0o640)
    group = token.file.stat().st_gid
    if os.geteuid() == 0:  # as root, for a service with a user of its own
        os.chown(token.file, 12345, 12346)
        group = 12346
    made(token, "b", "--role", "admin")
    token("revoke", "a")
    after = token.file.stat()
    assert (after.st_mode & 0o777, after.st_gid) == (0o640, group)


def test_a_link_to_the_file_stays_a_link(token, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "tokens.json").write_text('{"tokens": []}')
    token.file.symlink_to(tmp_path / "real" / "tokens.json")
    made(token, "a", "--role", "admin")
    assert token.file.is_symlink()
    assert len(parse((tmp_path / "real" / "tokens.json").read_text())) == 1


def test_the_list_says_whom_tokens_stand_for_and_until_when(token):
    assert token("list") == (0, "no tokens\n", "")
    made(token, "nova", "--role", "service", "--role", "admin", "--project", "p1")
    made(token, "ci", "--role", "admin", "--expires", "2131-01-01T02:00:00+02:00")
    code, out, _ = token("list")
    assert code == 0
    assert out.splitlines() == [
        "name  user  project  roles           expires",
        "nova  nova  p1       service, admin  never",
        "ci    ci    ci       admin           2131-01-01 00:00:00 UTC",
    ]


def test_the_commands_speak_json(token):
    code, out, _ = token("create", "nova", "--role", "service", "--expires", "2131-01-01T00:00:00Z", "--json")
    answer = json.loads(out)
    assert code == 0
    assert TokenFile(token.file).find(answer.pop("token")).name == "nova"
    assert answer == {
        "name": "nova",
        "user": "nova",
        "project": "nova",
        "roles": ["service"],
        "expires": "2131-01-01T00:00:00+00:00",
    }
    assert json.loads(token("list", "--json")[1]) == {"tokens": [answer | {"expired": False}]}
    assert json.loads(token("revoke", "nova", "--json")[1]) == {"revoked": ["nova"]}


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("12h", 43200), ("90d", 7776000)])
def test_a_token_may_end_some_time_from_now(token, text, seconds):
    made(token, "t", "--role", "admin", "--expires", text)
    (entry,) = parse(token.file.read_text())
    assert abs(entry.expires - datetime.now(UTC) - timedelta(seconds=seconds)) < timedelta(seconds=60)


def test_an_expired_token_is_shown_as_such(token):
    made(token, "t", "--role", "admin")
    text = token.file.read_text().replace("null", '"2001-01-01T00:00:00+00:00"')
    token.file.write_text(text)
    assert "2001-01-01 00:00:00 UTC (it has)" in token("list")[1]
    assert json.loads(token("list", "--json")[1])["tokens"][0]["expired"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["t"], "--role"),
        (["t", "--role", "a,b", "--any-role"], "roles"),
        (["t", "--role", "", "--any-role"], "roles"),
        (["t", "--role", "a,b"], "unknown role 'a,b'"),
        (["t", "--role", ""], "unknown role ''"),
        (["t\n", "--role", "admin"], "name"),
        (["t", "--role", "admin", "--user", ""], "user"),
        (["old", "--role", "admin"], "there is a token old already"),
        (["t", "--role", "admin", "--expires", "soon"], "neither 30m"),
        (["t", "--role", "admin", "--expires", "9999-12-31T23:59:59-01:00"], "neither 30m"),
        (["t", "--role", "admin", "--expires", "2131-01-01"], "neither 30m"),
        (["t", "--role", "admin", "--expires", "2001-01-01T00:00:00Z"], "this time has passed"),
        (["t", "--role", "admin", "--expires", "0m"], "this time has passed"),
        (["t", "--role", "admin", "--expires", "00d"], "this time has passed"),
    ],
)
def test_what_can_not_be_is_refused_and_changes_nothing(token, arguments, complaint):
    made(token, "old", "--role", "admin")
    before = token.file.read_text()
    code, out, err = token("create", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert token.file.read_text() == before


@pytest.mark.parametrize(
    ("role", "complaint"),
    [
        ("servic", "unknown role 'servic'. Did you mean service? The rules of the policy name admin, reader, service;"),
        ("Admni", "unknown role 'Admni'. Did you mean admin? The"),
        ("xyz", "unknown role 'xyz'. The rules"),
        ("role:admin", "unknown role 'role:admin'. Did you mean admin?"),
        ("admin ", "unknown role 'admin '. Did you mean admin?"),
    ],
)
def test_a_role_that_no_rule_names_is_refused_with_the_nearest(token, role, complaint):
    code, out, err = token("create", "a", "--role", "admin", "--role", role)
    assert (code, out) == (2, "")
    assert err.startswith(f"stead: {complaint}")
    assert "--any-role" in err
    assert not token.file.exists()


def test_a_role_is_known_whatever_its_case_or_if_the_operator_says_so(token):
    first = made(token, "a", "--role", "Admin", "--role", "READER")
    second = made(token, "b", "--role", "servic", "--any-role")
    assert [TokenFile(token.file).find(text).roles for text in (first, second)] == [("Admin", "READER"), ("servic",)]


def test_a_role_that_a_rule_of_the_operator_names_is_known(token):
    (token.conf.parent / "policy.yaml").write_text(
        '"placement:traits:list": "role:auditor or (role:member and not role:guest) or role:%(name)s"\n'
    )
    for role in ("auditor", "member", "guest", "service"):
        made(token, role, "--role", role)
    assert token("create", "a", "--role", "%")[0] == 2
    assert "Did you mean auditor?" in token("create", "a", "--role", "audito")[2]
    (token.conf.parent / "policy.yaml").write_text("nonsense: [\n")
    assert token("create", "a", "--role", "auditor")[2].startswith("stead: policy: ")


def test_revoking_is_all_or_nothing(token):
    made(token, "a", "--role", "admin")
    assert token("revoke", "a", "b") == (1, "", "stead: there is no token b\n")
    assert len(parse(token.file.read_text())) == 1


@pytest.mark.parametrize("command", [["create", "t", "--role", "admin"], ["list"], ["revoke", "t"]])
def test_a_malformed_file_is_named_and_kept(token, command):
    token.file.write_text("{")
    code, out, err = token(*command)
    assert (code, out) == (2, "")
    assert str(token.file) in err
    assert token.file.read_text() == "{"


def test_where_another_strategy_is_chosen_it_says_so(token):
    token.conf.write_text("[placement_database]\nconnection = sqlite://\n")
    code, _, err = token("list")
    assert code == 2
    assert "auth_strategy is `keystone`" in err


def test_commands_at_the_same_time_do_not_lose_each_others_tokens(token):
    from stead.auth.tokens import create

    def make(number):
        create(token.file, f"t{number}", user="u", project="p", roles=["admin"])

    makers = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert {entry.name for entry in parse(token.file.read_text())} == {f"t{number}" for number in range(8)}


def test_the_embedded_service_has_one_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [*os.environ]:
        if name.startswith(("OS_", "STEAD_CONFIG")):
            monkeypatch.delenv(name)
    data = tmp_path / "data"
    assert run(["--data-dir", str(data), "token", "create", "ci", "--role", "admin"]) == 0
    assert TokenFile(data / "tokens.json").find(capsys.readouterr().out.strip()).name == "ci"
    assert data.stat().st_mode & 0o777 == 0o700
