"""Which tokens are believed, and that none of them is in a log."""

import logging
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.system.api.client import Api
from tests.system.keystone.identity import Identity, of_project
from tests.waiting import wait_until

# The library and what it imports use parts of the standard library that are on their way out.
pytestmark = [
    pytest.mark.timeout(900),  # Keystone may have to be installed first
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

Caller = Callable[[str | None], Api]
MINE = of_project("mine")


def status(api: Api, service: str | None = None) -> int:
    return api.get("/traits", headers={"X-Service-Token": service}).status


def forged(token: str) -> str:
    """The same but for some characters in its middle."""
    return token[:60] + token[59:30:-1] + token[89:]


def expired(keystone: Identity, api: Caller, user: str) -> str:
    """A token that was good and is not any more; the service has it in its cache, unless this machine was too slow."""
    token = keystone.token(user, MINE, short=True)
    wait_until(lambda: status(api(token)) != 200, "the token never expires")
    return token


def test_who_is_not_known_is_told_where_to_become_it(keystone: Identity, api: Caller) -> None:
    for token in (None, "", "admin", "gAAAAAB", forged(keystone.token("alice", MINE))):
        answer = api(token).get("/traits")
        assert answer.status == 401
        assert answer.header("www-authenticate") == 'Keystone uri="http://keystone.example/"'
        assert answer.header("openstack-api-version") is None
        assert (answer.json["error"]["code"], answer.json["error"]["title"]) == (401, "Unauthorized")


def test_a_revoked_token_is_refused_where_it_was_not_seen_before(keystone: Identity, api: Caller) -> None:
    token = keystone.token("alice", MINE)
    keystone.revoke(token)
    assert status(api(token)) == 401


def test_what_is_open_needs_no_token_and_looks_at_none(url: str) -> None:
    for headers in ({}, {"X-Auth-Token": "forged"}):
        assert httpx2.get(f"{url}/", headers=headers).json()["versions"][0]["id"] == "v1.0"
        assert httpx2.get(f"{url}/healthcheck", headers=headers).status_code != 401


def test_an_expired_token_is_refused_unless_a_service_vouches_for_it(keystone: Identity, api: Caller) -> None:
    old = expired(keystone, api, "alice")
    service = keystone.token("nova", of_project("service"))
    assert api(old).get("/traits").header("www-authenticate")
    assert status(api(old), service) == 200
    assert status(api(old), keystone.token("norm", MINE)) == 401  # it has no role that vouches
    assert status(api(old), forged(service)) == 401
    assert status(api(None), service) == 401


def test_a_service_that_vouches_gives_nobody_its_roles(keystone: Identity, api: Caller) -> None:
    service = keystone.token("nova", of_project("service"))
    assert status(api(keystone.token("norm", MINE)), service) == 403


def test_no_token_and_no_password_is_in_a_log(
    keystone: Identity, in_process: Callable[..., Caller], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    api = in_process()
    good, service = keystone.token("alice", MINE), keystone.token("nova", of_project("service"))
    old = expired(keystone, api, "alice")
    bad = [forged(good), "s3cr3t-nonsense"]
    assert [status(api(token)) for token in (good, service, old, *bad)] == [200, 200, 401, 401, 401]
    assert [status(api(token), service) for token in (good, old, *bad)] == [200, 200, 401, 401]
    assert status(api(good), bad[0]) == 401
    # httpx2 is the test's own, with which it gets tokens
    said = [record for record in caplog.records if not record.name.startswith("http")]
    text = "".join(f"{record.getMessage()} {vars(record)}\n" for record in said)
    assert {"keystonemiddleware", "keystoneauth"} <= {record.name.partition(".")[0] for record in said}
    assert leaked(keystone, text) == []
    assert not any(token in text for token in bad)


def test_the_log_of_the_service_has_none_either(keystone: Identity, api: Caller, configuration: Path) -> None:
    assert status(api(keystone.token("alice", MINE))) == 200
    assert status(api(forged(keystone.issued[-1]))) == 401
    assert leaked(keystone, configuration.with_suffix(".log").read_text()) == []


def leaked(keystone: Identity, text: str) -> list[str]:
    """Secrets in *text*: those of Keystone's tests, and whatever looks like a token that the service itself got."""
    known = [*keystone.issued, *keystone.passwords.values()]
    return [secret for secret in [*known, "gAAAA"] if secret in text]
