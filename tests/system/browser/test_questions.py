"""Ten questions that people bring: each is answered within two actions, and without scrolling at 1,280 x 800."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.system.browser.site import AGGREGATES, HOSTILE, Api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from playwright.sync_api import Locator, Page

    from tests.servers.stead import Serving
    from tests.system.browser.window import Window

pytestmark = pytest.mark.timeout(180)  # a busy machine takes long to start a server and a browser

WIDTH, HEIGHT = 1280, 800
MOST_ACTIONS = 2


class Reader:
    """A reader of a page, whose actions are counted. Typing a text and pressing Enter is one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.actions = 0

    def clicks(self, target: Locator) -> None:
        self.sees(target)
        self.actions += 1
        target.click()

    def types(self, target: Locator, text: str) -> None:
        self.sees(target)
        self.actions += 1
        target.fill(text)
        target.press("Enter")

    def chooses(self, target: Locator, option: str) -> None:
        self.sees(target)
        self.actions += 1
        target.select_option(option)

    def reads(self, *texts: str) -> None:
        """The page shows *texts* in the window, as it was loaded."""
        for text in texts:
            self.sees(self.page.get_by_text(text).locator("visible=true").first)
        assert self.actions <= MOST_ACTIONS

    def sees(self, target: Locator) -> None:
        """*target* is in the window, as the page was loaded."""
        target.wait_for()
        assert self.page.evaluate("scrollY") == 0
        box = target.bounding_box()
        assert box is not None
        assert 0 <= box["y"] <= box["y"] + box["height"] <= HEIGHT, box


@pytest.fixture
def reader(window: Window) -> Callable[[str], Reader]:
    def opens(path: str) -> Reader:
        is_live = path == "/ui/" or path.startswith(("/ui/providers", "/ui/activity"))
        return Reader(window.open(path, width=WIDTH, height=HEIGHT, is_live=is_live))

    return opens


@contextmanager
def held(api: Api, consumer: str, amounts: Mapping[str, Mapping[str, int]], project: str) -> Iterator[None]:
    """A consumer that holds *amounts*, by name of the provider, as long as the block lasts."""
    owner = {"project_id": project, "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": None}
    allocations = {api.uuid(name): {"resources": of} for name, of in amounts.items()}
    api.send("PUT", f"/allocations/{consumer}", {"allocations": allocations, **owner})
    try:
        yield
    finally:
        api.send("DELETE", f"/allocations/{consumer}")


CONSUMER = "0dd0ffee-0000-4000-8000-000000000001"


def test_which_hosts_hold_project_p(reader: Callable[[str], Reader], serving: Serving) -> None:
    with Api(serving.url) as api, held(api, CONSUMER, {"host-001": {"VCPU": 2}, "host-002": {"VCPU": 3}}, "zebra"):
        visit = reader("/ui/")
        visit.clicks(visit.page.get_by_role("link", name="Consumers", exact=True).first)
        visit.types(visit.page.get_by_label("Find consumers"), "zebra")
        visit.reads("1 consumer", "5 vCPUs", "host-001", "host-002", "on 2 hosts")


def test_why_this_flavor_does_not_fit(reader: Callable[[str], Reader]) -> None:
    visit = reader("/ui/ask")
    visit.chooses(visit.page.get_by_label("Flavor"), "whole-rack")
    visit.clicks(visit.page.get_by_role("button", name="Find candidates"))
    visit.reads("No enabled provider has 65 VCPU free; the largest has 64.", "with resources=VCPU:64", "are enabled")


def test_where_a_gpu_could_be_freed(reader: Callable[[str], Reader], serving: Serving) -> None:
    with Api(serving.url) as api, held(api, CONSUMER, {"host-012_gpu": {"PGPU": 1}}, "zebra"):
        visit = reader("/ui/ask")
        visit.types(visit.page.get_by_role("textbox", name="Query"), f"resources=PGPU:2&in_tree={api.uuid('host-012')}")
        visit.clicks(visit.page.get_by_role("link", name="Where can room be made?"))
        visit.reads("It fits after this move", CONSUMER[:8], "host-012_gpu")


def test_what_changed_in_the_last_ten_minutes(reader: Callable[[str], Reader], serving: Serving) -> None:
    with Api(serving.url) as api, held(api, CONSUMER, {"host-003": {"VCPU": 2}}, "zebra"):
        visit = reader("/ui/")
        visit.clicks(visit.page.get_by_role("link", name="Activity", exact=True).first)
        visit.clicks(visit.page.get_by_role("link", name="Last 10 minutes"))
        visit.page.wait_for_url("**?within=600")
        visit.reads("zebra", "host-003")


def test_which_hosts_are_disabled_and_why(reader: Callable[[str], Reader]) -> None:
    visit = reader("/ui/activity")
    visit.clicks(visit.page.get_by_role("link", name="Hosts"))
    visit.reads("disabled: <b>broken</b> fan")
    visit.clicks(visit.page.locator("li", has_text="disabled: <b>broken</b> fan").get_by_role("link"))
    visit.page.get_by_role("heading", name="host-007").wait_for()


def test_what_a_host_looks_like_inside(reader: Callable[[str], Reader]) -> None:
    visit = reader("/ui/consumers")
    visit.types(visit.page.get_by_label("Find consumers"), "host-004")
    visit.clicks(visit.page.locator("tbody").get_by_role("link", name="host-004").first)
    visit.reads("Inside", "of 64", "of 2")


def test_who_holds_a_gpu(reader: Callable[[str], Reader], serving: Serving) -> None:
    with Api(serving.url) as api, held(api, CONSUMER, {"host-008_gpu": {"PGPU": 1}}, "zebra"):
        visit = reader("/ui/consumers")
        visit.types(visit.page.get_by_label("Find consumers"), "host-008_gpu")
        visit.reads(CONSUMER[:8], "zebra", "1 GPU")


def test_what_draining_a_host_would_do(reader: Callable[[str], Reader], serving: Serving) -> None:
    with Api(serving.url) as api:
        visit = reader(f"/ui/providers/{api.uuid('host-040')}")
    visit.clicks(visit.page.get_by_role("link", name="What if this host is drained?"))
    visit.reads("What if host-040 is drained?", "Its consumer has a place on another host", "Free after")


def test_how_many_more_of_a_flavor_fit(reader: Callable[[str], Reader]) -> None:
    visit = reader("/ui/ask")
    visit.chooses(visit.page.get_by_label("Flavor"), "m1.large")
    visit.clicks(visit.page.get_by_role("button", name="Find candidates"))
    visit.reads("Room for this request", "Runs out first")


def test_how_full_a_zone_is(reader: Callable[[str], Reader]) -> None:
    visit = reader("/ui/")
    visit.types(visit.page.get_by_role("combobox", name="Find hosts"), f"aggregate:{AGGREGATES[1]}")
    visit.reads("33 of 66 hosts match", "vCPUs")
    visit.sees(visit.page.locator("#sums").get_by_text("%").first)


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_changes_no_layout_and_runs_nothing(window: Window, name: str, width: int) -> None:
    consumer = "0dd0ffee-0000-4000-8000-00000000000f"
    with Api(window.url) as api:
        uuid = api.uuid(name)
        with held(api, consumer, {name: {"MEMORY_MB": 1}, "host-001": {"VCPU": 1}}, name):
            for path in (
                "/ui/activity",
                f"/ui/consumers?consumer={consumer}",
                f"/ui/providers/{uuid}?holder={consumer}",
                f"/ui/providers/{uuid}/drain",
                f"/ui/ask?resources=MEMORY_MB:1&in_tree={uuid}",
            ):
                page = window.open(path, width=width, is_live=False)
                assert name in page.locator("main").evaluate("(main) => main.textContent"), path
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
                # No element of the page ends outside the window, except in a part that scrolls by itself.
                outside = page.evaluate(
                    """(width) => [...document.querySelectorAll("main *")].filter((each) => {
                      const { right, width: own } = each.getBoundingClientRect();
                      const isInside = !each.checkVisibility() || each.closest(".scroll, svg, .unseen");
                      return own && right > width + 1 && !isInside;
                    }).map((each) => each.outerHTML.slice(0, 200))""",
                    width,
                )
                assert outside == [], path
                assert page.title() != "owned"
                assert page.locator("main img, main script").count() == 0
                page.close()
    assert window.faults == []
