"""Signing in to the web interface with a user and a password, or a token, of a real Keystone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stead import application
from stead.config import load
from tests.system.keystone.conftest import configure
from tests.system.keystone.identity import of_project
from tests.system.ui.wsgi_browser import Browser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.system.keystone.identity import Identity

pytestmark = [
    pytest.mark.timeout(900),  # Keystone may have to be installed first
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture
def browser(keystone: Identity, tmp_path: Path) -> Iterator[Browser]:
    settings = load([configure(tmp_path, keystone)])
    service = application.build_service(settings)
    yield Browser(application.assemble(service, settings))
    service.close()


def sign_in(browser: Browser, user: str, password: str, project: str) -> int:
    """The status of the answer; the browser keeps its cookie."""
    form = {"user": user, "password": password, "project": project, "domain": "Default"}
    page = browser.post("/ui/sign-in", form)
    assert password not in page.text
    browser.cookie = page.headers.get("set-cookie", "").partition(";")[0]
    return page.status


def test_a_user_signs_in_with_a_password(browser: Browser, keystone: Identity) -> None:
    assert 'name="password" type="password"' in browser.get("/ui/sign-in").text
    assert sign_in(browser, "alice", keystone.passwords["alice"], "mine") == 200
    page = browser.get("/ui/")
    assert page.status == 200
    assert "<h1>No hosts yet" in page.text


def test_a_wrong_password_begins_no_session(browser: Browser, keystone: Identity) -> None:
    page = browser.post("/ui/sign-in", {"user": "alice", "password": "wrong", "project": "mine", "domain": "Default"})
    assert page.status == 401
    assert "set-cookie" not in page.headers
    assert "Keystone does not accept this user, password and project." in page.text
    assert sign_in(browser, "alice", keystone.passwords["alice"], "no-such-project") == 401


def test_the_policy_is_that_of_the_roles(browser: Browser, keystone: Identity) -> None:
    assert sign_in(browser, "norm", keystone.passwords["norm"], "mine") == 200
    assert browser.get("/ui/").status == 403


def test_a_revoked_token_begins_no_session_that_reads(browser: Browser, keystone: Identity) -> None:
    token = keystone.token("alice", of_project("mine"))
    keystone.revoke(token)
    browser.sign_in(token)
    assert browser.get("/ui/").status == 303  # to the form for signing in
    assert browser.get("/ui/api/resource_classes").status == 401


def test_a_pasted_token_signs_in(browser: Browser, keystone: Identity) -> None:
    browser.sign_in(keystone.token("alice", of_project("mine")))
    assert browser.get("/ui/").status == 200


def test_no_secret_of_signing_in_is_logged(
    browser: Browser, keystone: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        assert sign_in(browser, "alice", keystone.passwords["alice"], "mine") == 200
        browser.get("/ui/")
    assert keystone.passwords["alice"] not in caplog.text
    assert browser.cookie.partition("=")[2] not in caplog.text
