"""Pages that stay open: servers that restart, pages in the background, servers without streams, memory."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.browser.site import Api, fill
from tests.system.browser.window import Window, connected, used, wait_for
from tests.waiting import stays

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Route

    from tests.servers.stead import Serving

pytestmark = pytest.mark.timeout(180)  # a busy machine takes long to start servers and a browser

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_pages_are_right_again_after_a_restart(chromium: Browser, tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    with ExitStack() as stack:
        with started(configuration, workers=1, options=("--port", port)) as server:
            fill(server.url)
            windows = [Window(stack.enter_context(chromium.new_context()), server.url) for _ in range(2)]
            pages = [window.open("/ui/") for window in windows]
            server.kill()
        for page in pages:
            wait_for(page, "stead.live.status.value === 'reconnecting'")
        with started(configuration, workers=1, options=("--port", port)) as server, Api(server.url) as api:
            api.claim("host-002", 40)
            api.claim("host-003", 0)
            for page in pages:
                connected(page)
                wait_for(page, "stead.live.site.sums.VCPU.used[2] === 40")
            fresh = windows[0].open("/ui/")
            assert used(pages[0]) == used(pages[1]) == used(fresh) == api.used()
            # A created host requires a reload of the site.
            api.send("POST", "/resource_providers", {"name": "host-new"})
            for page in pages:
                wait_for(page, "stead.live.site.numberOf('host-new') !== undefined")
        assert windows[0].faults == windows[1].faults == []


def test_a_site_of_nothing_and_a_host_with_10000_traits(chromium: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(
            started(write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db"), workers=1)
        )
        api = stack.enter_context(Api(server.url))
        window = Window(stack.enter_context(chromium.new_context()), server.url)
        pages = {path: window.open(path) for path in ("/ui/", "/ui/activity")}
        pages["/ui/"].get_by_role("heading", name="No hosts yet").wait_for()
        pages["/ui/"].get_by_text("This site has no providers yet").wait_for()
        for path in ("/ui/ask?resources=VCPU:1", "/ui/consumers"):
            assert window.open(path, is_live=False).get_by_role("heading", level=1).is_visible()
        traits = [f"CUSTOM_{number:05}_{'T' * 200}" for number in range(10_000)]
        host = {"name": "host", "inventories": {"VCPU": {"total": 8}}, "traits": traits}
        api.send("PUT", "/provider_trees", {"provider_trees": [{"providers": [host]}], "create_names": True})
        pages["/ui/"].locator(".grid-view").wait_for()  # the page has loaded again
        wait_for(pages["/ui/"], "globalThis.grid?.site?.size === 1")
        pages["/ui/"].get_by_label("Group by").select_option("traits")
        pages["/ui/"].locator(".grid-view").press("Home")
        pages["/ui/"].locator(".grid-view").press("Enter")
        pages["/ui/"].locator("#drawer").get_by_text("and 9\u202f980 more").wait_for()
        pages["/ui/"].keyboard.press("Escape")
        pages["/ui/"].mouse.move(0, 0)
        pages["/ui/"].evaluate("grid.calls.focused(-1)")
        pages["/ui/"].get_by_role("combobox", name="Find hosts").fill("trait:custom_09999")
        pages["/ui/"].get_by_text("1 of 1 hosts found").wait_for()
        provider = window.open(f"/ui/providers/{api.uuid('host')}", width=360)
        provider.get_by_text("Of this site (10\u202f000)").wait_for()
        provider.get_by_text("Of this site (10\u202f000)").click()
        provider.get_by_text(traits[-1]).wait_for()
        assert provider.evaluate("document.documentElement.scrollWidth") <= 360
        assert window.faults == []


def test_a_page_in_the_background_requests_nothing(window: Window, serving: Serving) -> None:
    page = window.open("/ui/")
    requests: list[str] = []
    with Api(serving.url) as api:
        page.evaluate(HIDE, True)
        wait_for(page, "stead.live.status.value === 'paused'")
        page.on("request", lambda request: requests.append(request.url))
        api.claim("host-005", 50)
        assert stays(lambda: page.evaluate("stead.live.site.sums.VCPU.used[5] === 5"), 1.5)
        assert requests == []
        page.evaluate(HIDE, False)
        wait_for(page, "stead.live.site.sums.VCPU.used[5] === 50")
        assert not any("provider_trees" in url for url in requests)  # only the changes were read
        api.claim("host-005", 5)
        wait_for(page, "stead.live.site.sums.VCPU.used[5] === 5")


def test_a_server_without_streams_is_polled(window: Window, serving: Serving) -> None:
    def refuse_streams(route: Route) -> None:
        if route.request.headers["accept"] == "text/event-stream":
            route.fulfill(status=503)
        else:
            route.continue_()

    window.context.route("**/changes?**", refuse_streams)
    page = window.context.new_page()
    page.goto(f"{serving.url}/ui/")
    wait_for(page, "globalThis.stead?.live.status.value === 'polling'")
    with Api(serving.url) as api:
        api.claim("host-006", 60)
        wait_for(page, "stead.live.site.sums.VCPU.used[6] === 60")
        api.claim("host-006", 6)
        wait_for(page, "stead.live.site.sums.VCPU.used[6] === 6")


@pytest.mark.parametrize("path", ["/ui/", "/ui/activity"])
def test_memory_does_not_grow_with_changes(window: Window, path: str) -> None:
    page = window.open(path)
    grown = page.evaluate(
        """async () => {
          const { live } = stead;
          const message = (turn) => ({ token: live.token, reload: false, provider_count: 5, consumer_count: 5,
            trees: { name: ["host-001", "host-002"], used: { VCPU: [turn % 60, 3] } } });
          const run = async (turns) => {
            for (let turn = 0; turn < turns; turn++) {
              await live.take(message(turn), live.connection.signal);
              if (turn % 20 === 0) await new Promise(requestAnimationFrame);
            }
            gc();
            await new Promise((resolve) => setTimeout(resolve, 50));
            gc();
            return performance.memory.usedJSHeapSize;
          };
          const before = await run(300);
          return (await run(1800)) - before;
        }"""
    )
    assert grown < 1_000_000  # bytes; 1,800 messages are half an hour


def test_activity_has_what_happened_before_it_was_opened_and_follows(window: Window, serving: Serving) -> None:
    with Api(serving.url) as api:
        api.claim("host-012", 13)
        page = window.open("/ui/activity")
        page.locator(".feed").get_by_role("link", name="host-012").first.wait_for()
        page.evaluate(HIDE, True)
        wait_for(page, "stead.live.status.value === 'paused'")
        before = page.locator(".feed").inner_html()
        api.claim("host-013", 14)
        assert stays(lambda: page.locator(".feed").inner_html() == before, 1.5)
        page.evaluate(HIDE, False)
        connected(page)
        page.locator(".feed .new").get_by_role("link", name="host-013").wait_for()  # the change meanwhile
        for name, amount in (("host-012", 12), ("host-013", 13)):
            api.claim(name, amount)
