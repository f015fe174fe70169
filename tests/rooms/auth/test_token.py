"""Static tokens from a file."""

import json
import logging
from datetime import UTC, datetime, timedelta

import pytest

from stead.auth.tokens import digest, parse, render
from stead.config import ConfigError
from tests.rooms.auth.odd_files import KINDS, replace_with


def entry(token, **other):
    fields = {
        "name": token,
        "sha256": digest(token).hex(),
        "user": f"{token}-user",
        "project": "p1",
        "roles": ["admin"],
    }
    return fields | other


@pytest.fixture
def tokens(tmp_path):
    """Write the token file as a careful tool does: a new file in place of the old one."""
    path = tmp_path / "tokens.json"

    def write(*entries, text=None):
        draft = tmp_path / "draft"
        draft.write_text(json.dumps({"tokens": entries}) if text is None else text)
        draft.chmod(0o600)
        draft.replace(path)

    write.path = path
    return write


@pytest.fixture
def api(client, settings, tokens):
    """The application behind the ``token`` strategy; the file must have been written."""
    return lambda: client(settings(OS_API__AUTH_STRATEGY="token", OS_STEAD__TOKEN_FILE=tokens.path))


def test_a_token_of_the_file_stands_for_its_user_project_and_roles(api, tokens):
    tokens(entry("t1", roles=["admin", "service"]), entry("t2", user="bob", project="p2", roles=[]))
    client = api()
    assert client.get(X_Auth_Token="t1").status == 200
    assert (client.credentials.user_id, client.credentials.project_id) == ("t1-user", "p1")
    assert client.credentials.roles == ("admin", "service")
    client.get(X_Auth_Token="t2")
    assert (client.credentials.user_id, client.credentials.project_id, client.credentials.roles) == ("bob", "p2", ())


def test_only_a_credential_that_authenticated_has_a_share_of_the_threads(api, tokens):
    tokens(entry("t1"))
    client = api()
    for path in ("/", "", "/healthcheck", "/resource_providers"):
        client.get(path, X_Auth_Token="invented")
    client.get("/", X_Auth_Token="t1")
    assert client.accepted == 0
    client.get(X_Auth_Token="t1")
    assert client.accepted == 1


@pytest.mark.parametrize("token", ["", "t", "t1 ", "T1", digest("t1").hex(), "admin", "t\u00ff"])
def test_any_other_token_is_refused(api, tokens, token):
    tokens(entry("t1"))
    client = api()
    assert client.get(X_Auth_Token=token).status == 401
    assert client.reached is None


def test_no_token_is_in_a_log(api, tokens, caplog):
    caplog.set_level(logging.DEBUG)
    tokens(entry("s3cr3t", name="t1", user="bob"))
    client = api()
    assert [client.get(X_Auth_Token=token).status for token in ("s3cr3t", "s3cr3t-not", "\u00e9s3cr3t")] == [
        200,
        401,
        401,
    ]
    tokens(text='{"tokens": "s3cr3t"')
    assert client.get(X_Auth_Token="s3cr3t").status in (200, 401)
    assert "s3cr3t" not in caplog.text


def test_no_token_is_refused_but_for_the_open_paths(api, tokens):
    tokens(entry("t1"))
    client = api()
    assert [client.get(path).status for path in ("/resource_providers", "/", "", "/healthcheck")] == [
        401,
        200,
        200,
        200,
    ]


FORGED = {
    "X_User_Id": "root",
    "X_User": "root",
    "X_Project_Id": "theirs",
    "X_Tenant_Id": "theirs",
    "X_Tenant": "theirs",
    "X_Roles": "service",
    "X_Role": "service",
    "X_Domain_Id": "d",
    "X_User_Domain_Id": "d",
    "X_Is_Admin_Project": "false",
    "X_Service_Roles": "service",
    "X_Service_User_Id": "nova",
    "X_Identity_Status": "Confirmed",
    "OpenStack_System_Scope": "all",
}


def test_identity_headers_of_the_client_are_never_believed(api, tokens):
    tokens(entry("t1"))
    client = api()
    client.get(X_Auth_Token="t1")
    honest = client.credentials
    client.get(X_Auth_Token="t1", **FORGED)
    assert client.credentials == honest
    assert client.get(**FORGED).status == 401
    client.get("/", **FORGED)
    assert client.credentials.user_id is None
    assert client.credentials.roles == ()


def test_a_token_ends_when_it_expires(api, tokens):
    now = datetime.now(UTC)
    tokens(
        entry("past", expires=(now - timedelta(seconds=1)).isoformat()),
        entry("future", expires=(now + timedelta(hours=1)).isoformat()),
        entry("never", expires=None),
    )
    client = api()
    assert [client.get(X_Auth_Token=name).status for name in ("past", "future", "never")] == [401, 200, 200]


def test_the_file_is_read_again_when_it_changes(api, tokens):
    tokens(entry("t1"))
    client = api()
    tokens(entry("t2"))
    assert [client.get(X_Auth_Token=name).status for name in ("t1", "t2")] == [401, 200]


@pytest.mark.parametrize(
    ("mode", "said"),
    [(0o600, None), (0o400, None), (0o640, "can read it"), (0o604, "can read it"), (0o620, "can write to it")],
)
def test_a_file_that_others_may_use_is_warned_of_once(api, tokens, caplog, mode, said):
    tokens(entry("t1"))
    tokens.path.chmod(mode)
    client = api()
    assert client.get(X_Auth_Token="t1").status == 200
    tokens.path.write_text(tokens.path.read_text() + " ")  # of the same mode
    assert client.get(X_Auth_Token="t1").status == 200
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == (1 if said else 0)
    assert all(said in warning and str(tokens.path) in warning for warning in warnings)


def test_a_bad_file_at_run_time_leaves_the_last_good_one_and_one_warning(api, tokens, caplog):
    tokens(entry("t1"))
    client = api()
    tokens(text="{")
    assert [client.get(X_Auth_Token="t1").status for _ in range(3)] == [200, 200, 200]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    tokens(entry("t2"))
    assert [client.get(X_Auth_Token=name).status for name in ("t1", "t2")] == [401, 200]


@pytest.mark.parametrize("gone", ["the file", "its directory", "what a link leads to"])
def test_no_token_is_valid_while_there_is_no_file(api, tokens, caplog, gone):
    tokens(entry("t1"))
    if gone == "what a link leads to":
        tokens.path.rename(tokens.path.with_name("elsewhere"))
        tokens.path.symlink_to("elsewhere")
    client = api()
    assert client.get(X_Auth_Token="t1").status == 200
    if gone == "the file":
        tokens.path.unlink()
    elif gone == "its directory":
        tokens.path.parent.rename(tokens.path.parent.with_name("elsewhere"))
    else:
        tokens.path.with_name("elsewhere").unlink()
    assert [client.get(X_Auth_Token="t1").status for _ in range(3)] == [401, 401, 401]
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning == f"token file {tokens.path} does not exist: no token is valid until it does"
    if gone == "its directory":
        tokens.path.parent.with_name("elsewhere").rename(tokens.path.parent)
    else:
        tokens(entry("t1"))
    assert client.get(X_Auth_Token="t1").status == 200


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_in_the_place_of_the_token_file_stops_the_start(api, tokens, kind):
    replace_with(tokens.path, kind)
    with pytest.raises(ConfigError, match=f"tokens.json: it is {kind}, not a regular file"):
        api()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_at_run_time_stops_no_request(api, tokens, caplog, kind):
    tokens(entry("t1"))
    client = api()
    replace_with(tokens.path, kind)
    assert [client.get(X_Auth_Token=name).status for name in ("t1", "t1", "t2")] == [200, 200, 401]
    assert [record.getMessage() for record in caplog.records if kind in record.getMessage()] == [
        f"token file {tokens.path}: it is {kind}, not a regular file; the previous tokens stay valid"
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "Expecting value"),
        ("[]", "one key"),
        ('{"tokens": {}}', "one key"),
        ('{"tokens": [1]}', r"tokens\[0\] is not an object"),
        (json.dumps({"tokens": [entry("a"), {"name": "x"}]}), r"tokens\[1\] lacks project"),
        (json.dumps({"tokens": [entry("a", expire="2020-01-01T00:00:00Z")]}), "unknown keys: expire"),
        (json.dumps({"tokens": [entry("a", expires="2020-01-01")]}), "time with its zone"),
        (json.dumps({"tokens": [entry("a", expires=5)]}), "time with its zone"),
        (json.dumps({"tokens": [entry("a", sha256="abc")]}), "64 hexadecimal"),
        (json.dumps({"tokens": [entry("a", roles="admin")]}), "roles"),
        (json.dumps({"tokens": [entry("a", roles=["x,admin"])]}), "roles"),
        (json.dumps({"tokens": [entry("a", user="")]}), "user"),
        (json.dumps({"tokens": [entry("a", project="p\r\nX-Roles: admin")]}), "project"),
        (json.dumps({"tokens": [entry("a"), entry("b", name="a")]}), "same name"),
        (json.dumps({"tokens": [entry("a"), entry("a", name="b")]}), "same sha256"),
        ("\udcff", "decode"),
    ],
)
def test_a_malformed_file_stops_the_start_with_the_reason(api, tokens, text, hint):
    tokens.path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=hint):
        api()


def test_a_missing_file_stops_the_start(api, tokens):
    with pytest.raises(ConfigError, match=r"tokens\.json: No such file"):
        api()


def test_what_is_written_reads_back():
    tokens = parse(json.dumps({"tokens": [entry("a"), entry("b", expires="2031-05-06T07:08:09+02:00")]}))
    assert parse(render(tokens)) == tokens
