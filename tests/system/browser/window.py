"""A window of a browser: opens the pages, and waits for what they show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import stead
from tests.system.browser.site import HEADERS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

UI = Path(stead.__file__).parent / "ui"
COOKIE = "stead-session"
REBOUND = "rebound.invalid"
"""A name that the browser finds at 127.0.0.1."""
HTML = {"Content-Type": "text/html; charset=utf-8"}
PATIENCE = 15_000
"""Milliseconds until a state must be there."""

TABLE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Table</title>
<script type="module" src="/ui/static/stead.js"></script></head><body data-api="/ui/api" data-root="">
<p><span data-class="VCPU">0</span> <span data-class="VCPU" data-tree="host-001">0</span></p></body></html>"""
"""A page with numbers that scripts keep current, and nothing else."""


class Window:
    """A window with the administrator's token.

    ``faults`` has the errors of its pages. With ``is_attacked``, these are expected: they are what protects the pages.
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.url = url
        self.faults: list[str] = []
        self.is_attacked = False
        context.set_default_timeout(PATIENCE)
        context.route("**/ui/table", lambda route: route.fulfill(body=TABLE, headers=HTML))
        self.sign_in()
        context.on("weberror", lambda error: self.faults.append(str(error.error)))
        context.on("console", self._hear)

    def _hear(self, message: Any) -> None:
        # A browser logs failed requests as errors. The scripts handle them.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def sign_in(self) -> None:
        """Begin a session with the administrator's token, as the form does."""
        form = {"token": HEADERS["X-Auth-Token"], "next": "/ui/"}
        answered = self.context.request.post(f"{self.url}/ui/sign-in", form=form, headers={"Origin": self.url})
        assert answered.ok, answered.text()

    def open(
        self, path: str, *, width: int = 1280, height: int = 800, scheme: Any = "light", is_live: bool = True
    ) -> Page:
        """A page; if it is live, it is connected."""
        page = self.context.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        page.goto(self.url + path)
        if is_live:
            connected(page)
        return page


def connected(page: Page) -> None:
    """Wait until changes arrive as a stream."""
    wait_for(page, "globalThis.stead?.live.status.value === 'live'")


def wait_for(page: Page, expression: str, argument: object = None) -> None:
    """Wait until *expression*, of JavaScript, is true.

    Playwright's own wait evaluates in the page, which the content policy forbids.
    """
    wait_until(lambda: page.evaluate(expression, argument))


def used(page: Page) -> dict[str, dict[str, int]]:
    """By class the use of every host, as the page has it."""
    found: dict[str, dict[str, int]] = page.evaluate(
        """() => {
          const { names, sums } = stead.live.site;
          return Object.fromEntries(Object.entries(sums).map(([name, { used, provider_count: having }]) =>
            [name, Object.fromEntries(names.flatMap((host, at) => having[at] ? [[host, used[at]]] : []))]));
        }"""
    )
    return found
