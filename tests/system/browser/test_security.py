"""What pages of other origins, and readers, cannot do in a browser. The WSGI side of it is in tests/system/ui."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.system.browser.site import Api
from tests.system.browser.window import COOKIE, HTML, REBOUND

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.system.browser.window import Window

pytestmark = pytest.mark.timeout(180)  # a busy machine takes long to start a server and a browser

EVIL = "http://evil.invalid/"


@pytest.fixture
def evil(window: Window) -> Page:
    """A page of another site, in the browser of a user who has signed in."""
    window.context.route(f"{EVIL}**", lambda route: route.fulfill(body="<!doctype html><body>evil", headers=HTML))
    page = window.context.new_page()
    page.goto(EVIL)
    window.is_attacked = True
    return page


def cookies_sent(page: Page, url: str, act: str, argument: Any = None) -> list[str | None]:
    """The cookies of all requests to *url* that a script makes."""
    sent: list[str | None] = []
    page.on("request", lambda request: sent.append(request.all_headers().get("cookie")) if url in request.url else None)
    page.evaluate(act, argument)
    page.wait_for_timeout(500)  # ms; requests that are refused have no end to wait for
    assert sent, "the script has made no request"
    return sent


def test_another_site_can_neither_read_a_page_nor_send_the_cookie(window: Window, evil: Page) -> None:
    read = """async (url) => {
      for (const path of ["/ui/", "/ui/api/provider_trees", "/ui/api/changes?merged=true"])
        for (const mode of ["cors", "no-cors"])
          try {
            const answer = await fetch(url + path, { credentials: "include", mode });
            document.title += await answer.text();
          } catch {}
    }"""
    assert set(cookies_sent(evil, window.url, read, window.url)) == {None}
    assert evil.title() == ""


def test_no_script_reads_the_cookie(window: Window) -> None:
    page = window.open("/ui/")
    assert page.evaluate("document.cookie") == ""
    (cookie,) = [each for each in window.context.cookies() if each.get("name") == COOKIE]
    assert (cookie.get("httpOnly"), cookie.get("sameSite"), cookie.get("path")) == (True, "Strict", "/ui")


def test_a_form_of_another_site_changes_nothing(window: Window, evil: Page) -> None:
    with Api(window.url) as api:
        before = api.used()
        consumer = api.consumer("host-010")
        submit = """({ url, consumer }) => {
          const form = document.createElement("form");
          form.method = "post";
          form.action = `${url}/ui/consumers`;
          const field = document.createElement("input");
          [field.name, field.value] = ["consumer", consumer];
          form.append(field);
          document.body.append(form);
          form.submit();
        }"""
        sent = cookies_sent(evil, window.url, submit, {"url": window.url, "consumer": consumer})
        assert sent[0] is None
        assert api.used() == before


def test_no_page_is_shown_in_a_frame(window: Window, evil: Page) -> None:
    evil.evaluate(
        """(url) => new Promise((resolve) => {
          const frame = document.createElement("iframe");
          frame.onload = resolve;
          frame.src = `${url}/ui/sign-in`;
          document.body.append(frame);
        })""",
        window.url,
    )
    assert not any(frame.locator("input").count() for frame in evil.frames if frame is not evil.main_frame)


def test_a_name_that_is_rebound_to_the_server_gets_nothing(window: Window) -> None:
    window.is_attacked = True
    page = window.context.new_page()
    port = urlsplit(window.url).port
    for path in ("/ui/", "/ui/sign-in", "/docs", "/ui/api/provider_trees"):
        answer = page.goto(f"http://{REBOUND}:{port}{path}")
        assert answer is not None
        assert answer.status == 403
        assert "Unknown Host header" in answer.text()


def test_the_pages_of_a_reader_have_no_working_write(window: Window) -> None:
    with Api(window.url) as api:
        before = api.used()
        page = window.open("/ui/ask?resources=VCPU:1", is_live=False)
        assert page.get_by_role("button", name="Claim").count() == 0
        assert page.locator("form[method=post]").count() == 1  # signing out
        window.open("/ui/consumers", is_live=False)
        assert window.context.pages[-1].get_by_role("button", name="Release all of it").count() == 0
        write = """async ({ path, method, consumer }) => {
          const csrf = document.body.dataset.csrf;
          const body = method === "POST" ? new URLSearchParams({ csrf, consumer }) : undefined;
          return (await fetch(path, { method, body, headers: { "X-Stead-CSRF": csrf } })).status;
        }"""
        consumer = api.consumer("host-010")
        for method, path in (
            ("POST", "/ui/consumers"),
            ("POST", "/ui/ask"),
            ("DELETE", f"/ui/api/allocations/{consumer}"),
            ("PUT", "/ui/api/traits/CUSTOM_WRITTEN"),
        ):
            assert page.evaluate(write, {"path": path, "method": method, "consumer": consumer}) == 403
        assert api.used() == before
