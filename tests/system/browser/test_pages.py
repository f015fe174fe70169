"""The live parts of the pages in a browser: what they show, by keyboard, for every reader, with hostile names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.browser.site import HOSTILE, Api, names
from tests.system.browser.test_scripts import AT_ONCE, STATIC, loaded
from tests.system.browser.window import Window, connected, used, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from tests.servers.stead import Serving


pytestmark = pytest.mark.timeout(180)  # a busy machine takes long to start a server and a browser

RULES = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}"""


PATHS = [
    "/ui/",
    "/ui/activity",
    "/ui/ask?resources=VCPU:65",
    "/ui/ask?resources=VCPU:1&resources_G=PGPU:1&group_policy=none&explain=1",
    "/ui/ask?flavor=m1.large",
    "/ui/consumers",
    "/ui/consumers?q=host-0",
    "/ui/ask?resources=PGPU:3&room=1",
    "provider",
    "drain",
    "drain?same_traits=true&same_aggregates=true",
    "/ui/style",
    "/ui/sign-in",
    "/docs",
]
"""Every page; `provider` and `drain` stand for those of hosts with hostile names. One drain has no place."""

CONTROLS = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1280, "light"), (1280, "dark"), (2560, "dark")])
@pytest.mark.parametrize("path", PATHS)
def test_every_reader_can_use_it(window: Window, node_modules: Path, path: str, width: int, scheme: str) -> None:
    if path == "provider":
        with Api(window.url) as api:
            path = f"/ui/providers/{api.uuid(HOSTILE[0])}"
    is_live = path.startswith(("/ui/providers", "/ui/activity")) or path == "/ui/"
    if path.startswith("drain"):
        with Api(window.url) as api:
            path = f"/ui/providers/{api.uuid(HOSTILE[4])}/{path}"
    page = window.open(path, width=width, scheme=scheme, is_live=is_live)
    if path == "/ui/":
        page.locator(".grid-view").press("Home")
        page.locator(".grid-view").press("Enter")
        page.locator("#drawer h2").wait_for()
    page.evaluate((node_modules / "axe-core/axe.min.js").read_text())
    assert page.evaluate(RULES) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("path", ["/ui/", "/ui/activity", "/ui/ask?resources=VCPU:1&limit=2", "/ui/consumers?user=x"])
def test_every_control_is_reached_by_keyboard_alone(window: Window, path: str) -> None:
    page = window.open(path, is_live=path in ("/ui/", "/ui/activity"))
    if path.startswith("/ui/ask"):
        page.get_by_role("textbox", name="Query").wait_for()  # the builder takes the place of the plain fields
    number = page.evaluate(
        """(controls) => {
          const all = [...document.querySelectorAll(controls)].filter((each) => each.checkVisibility());
          all.forEach((each) => each.addEventListener("focus", () => (each.isReached = true)));
          return all.length;
        }""",
        CONTROLS,
    )
    for _ in range(number + 1):
        page.keyboard.press("Tab")
    missed = page.evaluate(
        """(controls) => [...document.querySelectorAll(controls)]
          .filter((each) => each.checkVisibility() && !each.isReached).map((each) => each.outerHTML)""",
        CONTROLS,
    )
    assert missed == []


def test_a_request_is_asked_by_keyboard_alone(window: Window) -> None:
    page = window.open("/ui/", is_live=False)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Ask"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Ask for allocation candidates").wait_for()
    page.wait_for_load_state()  # keys that come before it are lost
    page.keyboard.press("Tab")
    wait_for(page, "document.activeElement.textContent === 'Skip to content'")
    page.keyboard.press("Enter")
    wait_for(page, "location.hash !== ''")
    page.keyboard.press("Tab")
    wait_for(page, "document.activeElement.name === 'flavor'")
    page.get_by_role("textbox", name="Query").wait_for()  # the builder takes the place of the plain fields
    for _ in range(15):  # the names of flavors are links
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('aria-label') === 'Add amounts'"):
            break
    page.keyboard.type("VCPU:65")
    page.keyboard.press("Enter")
    page.get_by_label("Amount of vCPUs").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="No candidates").wait_for()
    page.get_by_role("heading", name="Why the request has 0 candidates").wait_for()


def test_a_host_leads_to_its_drain_by_keyboard_alone(window: Window) -> None:
    with Api(window.url) as api:
        page = window.open(f"/ui/providers/{api.uuid(HOSTILE[4])}")
    page.get_by_role("link", name="What if this host is drained?").press("Enter")
    page.get_by_role("heading", name=f"What if {HOSTILE[4]} is drained?").wait_for()
    page.get_by_text("Its consumer has a place on another host.").wait_for()
    page.get_by_label("Only to providers with the same traits").press("Space")
    page.get_by_label("Only to hosts in one of its aggregates").press("Space")
    page.get_by_role("button", name="Plan again").press("Enter")
    page.get_by_text("1 of 1 consumer has no place on another host.").wait_for()
    assert page.locator("summary", has_text="Why").count() == 1


def test_a_flavor_is_asked_by_keyboard_alone(window: Window) -> None:
    page = window.open("/ui/ask", is_live=False)
    page.get_by_label("Flavor").focus()
    page.keyboard.type("m1.l")
    wait_for(page, "document.activeElement.value === 'm1.large'")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Room for this request").wait_for()
    assert "flavor=m1.large" in page.url


def test_a_request_is_built_of_rows_chips_and_groups_or_written_as_a_query(window: Window) -> None:
    page = window.open("/ui/ask", is_live=False)
    query = page.get_by_role("textbox", name="Query")
    page.get_by_label("Add amounts", exact=True).fill("8 vCPUs, 16 GiB memory")
    page.get_by_label("Add amounts", exact=True).press("Enter")
    assert query.input_value() == "resources=VCPU:8,MEMORY_MB:16384"
    page.get_by_label("More vCPUs").click()
    page.get_by_label("Unit of Memory").select_option("MiB")
    assert query.input_value() == "resources=VCPU:9,MEMORY_MB:16"
    page.get_by_label("Remove Memory").click()
    trait = page.get_by_label("Add a trait", exact=True)
    trait.focus()
    page.locator("#all-traits option", has_text="CUSTOM_SSD").wait_for(state="attached")
    trait.fill("!custom_ssd")
    trait.press("Enter")
    assert query.input_value() == "resources=VCPU:9&required=!CUSTOM_SSD"
    page.get_by_role("button", name="without CUSTOM_SSD").first.click()
    for number in (1, 2):
        page.get_by_role("button", name="Add a group").click()
        page.get_by_label(f"Add amounts to group _{number}").fill("PGPU")
        page.get_by_label(f"Add amounts to group _{number}").press("Enter")
    page.get_by_label("near").first.check()
    page.get_by_label("near").last.check()
    groups = "resources_1=PGPU:1&resources_2=PGPU:1&group_policy=none&same_subtree=_1,_2"
    assert query.input_value() == f"resources=VCPU:9&required=CUSTOM_SSD&{groups}"
    # The other way: the text is the state, and what the builder has no control for stays in it.
    query.fill("resources=DISK_GB:2048&required=in:A,B&limit=3&root_required=COMPUTE_NODE")
    assert page.get_by_label("Amount of Disk").input_value() == "2"
    assert page.get_by_label("Unit of Disk").input_value() == "TiB"
    page.get_by_label("More Disk").click()
    assert query.input_value() == "resources=DISK_GB:3072&required=in:A,B&limit=3&root_required=COMPUTE_NODE"
    query.fill("resources=VCPU:2")
    query.press("Enter")
    page.get_by_role("heading", name="Room for this request").wait_for()
    assert page.url.endswith("/ui/ask?resources=VCPU:2")


def test_the_form_works_without_scripts(chromium: Browser, serving: Serving) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = Window(context, serving.url).open("/ui/ask?resources=VCPU:65", is_live=False)
    assert page.locator(".sentence").inner_text().startswith("No enabled provider has 65 VCPU free")
    page.get_by_label("Amounts").first.fill("VCPU:64")
    page.get_by_role("button", name="Find candidates").click()
    page.get_by_role("heading", name="Room for this request").wait_for()
    context.close()


@pytest.mark.parametrize("locale", ["de-DE", "tr-TR"])
def test_numbers_mean_the_same_in_every_locale(chromium: Browser, serving: Serving, locale: str) -> None:
    context = chromium.new_context(locale=locale)
    window = Window(context, serving.url)
    page = window.open("/ui/ask?resources=VCPU:1", is_live=False)
    amount, query = page.get_by_label("Amount of vCPUs"), page.get_by_role("textbox", name="Query")
    for text in ("1.000", "1,5", "1e3", "-4", "0", ""):
        amount.fill(text)
        amount.press("Tab")
        assert query.input_value() == "resources=VCPU:1"
        assert not amount.evaluate("(field) => field.checkValidity()")
    amount.fill("1\u202f000")  # as the pages write it
    amount.press("Tab")
    assert query.input_value() == "resources=VCPU:1000"
    page.get_by_label("Add amounts", exact=True).fill("16 gib disk")
    page.get_by_label("Add amounts", exact=True).press("Enter")
    assert query.input_value() == "resources=VCPU:1000,DISK_GB:16"
    for path in ("/ui/", "/ui/consumers"):  # what the scripts write is what the server wrote
        text = window.open(path, is_live=path == "/ui/").locator("main").inner_text()
        assert not re.search(r"\d[.,]\d{3}\b", text), text
    assert window.faults == []
    context.close()


def test_the_table_of_trees_follows_the_site(window: Window, serving: Serving) -> None:
    page = window.open("/ui/")
    cell = "document.querySelector('#trees [data-tree=host-009][data-class=VCPU][data-of=free]')"
    bar = "document.querySelector('#trees svg[data-tree=host-009][data-class=VCPU] rect')"
    with Api(serving.url) as api:
        api.claim("host-009", 32)
        wait_for(page, f"{cell}.textContent === '32'")
        assert page.evaluate(f"{bar}.getAttribute('width')") == "50.00%"
        api.claim("host-009", 9)
        wait_for(page, f"{cell}.textContent === '55'")
        # A host that is created appears without another load of the page, and a host that is deleted vanishes.
        row = "document.querySelector('#trees').innerText.includes('a-new-host')"
        uuid = api.send("POST", "/resource_providers", {"name": "a-new-host"})["uuid"]
        wait_for(page, row)
        api.send("DELETE", f"/resource_providers/{uuid}")
        wait_for(page, f"!{row}")


def test_flavors_show_their_course_since_the_page_was_opened(window: Window, serving: Serving) -> None:
    page = window.open("/ui/")
    flavors = page.locator("#flavors")
    flavors.get_by_role("columnheader", name="Since the page was opened").first.wait_for()
    row = "document.querySelector('#flavors [data-flavor=\"m1.small\"]')"
    before = page.evaluate(f"Number({row}.dataset.least)")
    flat = page.evaluate(f"{row}.querySelector('polygon').getAttribute('points')")
    assert "±0" in page.evaluate(f"{row}.innerText")
    assert len({point.partition(",")[2] for point in flat.split()}) == 1
    with Api(serving.url) as api:
        api.claim("host-009", 32)
        wait_for(page, f"{row}.innerText.includes('−23')")
        assert page.evaluate(f"Number({row}.dataset.least)") == before - 23
        points = page.evaluate(f"{row}.querySelector('polygon').getAttribute('points')")
        assert len({point.partition(",")[2] for point in points.split()}) == 2
        api.claim("host-009", 9)
        wait_for(page, f"{row}.innerText.includes('±0')")
        api.send("PUT", "/flavors/a-new-one", {"query": "resources=VCPU:2"})
        wait_for(page, "document.querySelector('#flavors [data-flavor=a-new-one] polygon') !== null")
        api.send("DELETE", "/flavors/a-new-one")
        wait_for(page, "document.querySelector('#flavors [data-flavor=a-new-one]') === null")


def test_flavors_are_a_table_without_scripts(chromium: Browser, serving: Serving) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = Window(context, serving.url).open("/ui/", is_live=False)
    row = page.locator("#flavors tr", has_text="whole-rack")
    assert row.inner_text().split("\t") == ["whole-rack\nfits nowhere", "0", "nothing fits"]
    assert page.get_by_role("columnheader", name="Since the page was opened").count() == 0
    context.close()


def test_the_counts_of_activity_follow(window: Window, serving: Serving) -> None:
    page = window.open("/ui/activity")
    written = "document.querySelector('#counts dl dd + dt + dd').textContent"
    before = int(page.evaluate(written).replace(",", ""))
    with Api(serving.url) as api:
        api.claim("host-011", 12)
        api.claim("host-011", 11)
    wait_for(page, f"Number({written}.replaceAll(',', '')) === {before + 2}")


def test_the_grid_by_keyboard_alone(window: Window) -> None:
    page = window.open("/ui/")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "grid-view":
            break
    page.keyboard.press("Home")
    page.get_by_text("host-000: VCPU 0 of 64 (0 %) used").wait_for()
    page.keyboard.press("ArrowRight")
    page.get_by_text("host-001: VCPU 1 of 64 (2 %) used").wait_for()
    page.keyboard.press("End")
    page.keyboard.press("Home")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    drawer = page.locator("#drawer")
    drawer.get_by_role("heading", name="host-004").wait_for()
    drawer.get_by_role("link", name="gpu").wait_for()
    with Api(window.url) as api:
        link = drawer.get_by_role("link", name="Open page")
        assert link.get_attribute("href") == f"/ui/providers/{api.uuid('host-004')}"
    assert page.evaluate("document.activeElement.id") == "drawer-name"
    assert page.url.endswith("?host=host-004")
    page.keyboard.press("Escape")
    wait_for(page, "document.activeElement.className === 'grid-view' && !location.search")
    before = page.evaluate("grid.layout.cell")
    page.locator(".grid-view").press("-")
    assert page.evaluate("grid.layout.cell") < before


def test_searches_find_hosts(window: Window) -> None:
    page = window.open("/ui/")
    number = len(names())
    for query, found in (
        ("host-00", 10),
        ("trait:custom_ssd", number - number // 3),
        ("disabled", 1),
        ("VCPU>=64", 2),
        ("aggregate:7f1f0d5e-0000-4000-8000-000000000002", number // 2),
        ("host-00 VCPU>=60", 5),
        ("no-such-host", 0),
    ):
        page.get_by_role("combobox", name="Find hosts").fill(query)
        page.get_by_text(f"{found} of {number} hosts found").wait_for()


def test_groups_and_classes(window: Window) -> None:
    page = window.open("/ui/")
    page.get_by_label("Group by").select_option("aggregate")
    assert page.evaluate("grid.layout.groups.map((group) => group.hosts.length)") == [len(names()) // 2] * 2
    page.get_by_label("Group by").select_option("traits")
    assert page.evaluate("grid.layout.groups.length") == 3  # the disabled host has a trait of its own
    page.get_by_label("Group by").select_option("prefix")
    assert "host-" in page.evaluate("grid.layout.groups.map((group) => group.label)")
    page.get_by_label("Class").select_option("PGPU")
    page.get_by_text("PGPU: 0 of 34 (0 %) used").wait_for()


def test_colours_follow_the_fill(window: Window) -> None:
    page = window.open("/ui/")
    page.locator(".grid-view").press("+")

    def color(host: int) -> list[int]:
        """The pixel in the upper left corner of a cell."""
        found: list[int] = page.evaluate(
            """(host) => { grid.draw(); const { x, y } = grid.layout.placeOf(host);
               return [...grid.context.getImageData(x + 2, y + 2, 1, 1).data].slice(0, 3); }""",
            host,
        )
        return found

    empty, half, full = color(0), color(32), color(59)
    assert empty == [228, 234, 244]
    assert empty != half != full
    page.get_by_role("combobox", name="Find hosts").fill("host-000")
    page.get_by_text("1 of 66 hosts found").wait_for()
    assert color(0) == empty
    assert sum(color(59)) > sum(full)  # faded


def test_hostile_names_are_texts(window: Window) -> None:
    page = window.open("/ui/")
    for name in HOSTILE:
        page.evaluate("(name) => grid.chosen(stead.live.site.numberOf(name))", name)
        wait_for(page, "(name) => document.querySelector('#drawer-name')?.textContent === name", name)
    assert "owned" not in page.title()
    assert page.locator("#drawer img, #drawer script").count() == 0
    page.evaluate("grid.chosen(stead.live.site.numberOf('host-007'))")
    page.locator("#drawer").get_by_text("Disabled: <b>broken</b> fan").wait_for()


def test_a_claim_appears_in_all_pages(window: Window, serving: Serving) -> None:
    pages: dict[str, Page] = {path: window.open(path) for path in ("/ui/", "/ui/activity", "/ui/table")}
    with Api(serving.url) as api:
        api.claim("host-001", 17)
        pages["/ui/"].bring_to_front()
        for path in ("/ui/", "/ui/table"):
            wait_for(pages[path], "stead.live.site.sums.VCPU.used[1] === 17")
        wait_for(pages["/ui/"], "grid.levels[1] === 27")
        pages["/ui/activity"].get_by_role("link", name="host-001").first.wait_for()
        wait_for(pages["/ui/table"], "document.querySelector('[data-tree]').textContent === '17'")
        api.claim("host-001", 1)
        for path in ("/ui/", "/ui/table"):
            wait_for(pages[path], "stead.live.site.sums.VCPU.used[1] === 1")
            assert used(pages[path]) == api.used()
        assert pages["/ui/activity"].evaluate("stead.live.site === null")  # it does not read all hosts


def test_the_page_of_a_provider_follows_its_tree(window: Window, serving: Serving) -> None:
    with Api(serving.url) as api:
        page = window.open(f"/ui/providers/{api.uuid('host-004')}")
        api.claim("host-004", 61)
        used = "document.querySelector('main td.n').innerText"  # uuids and times may have the same digits
        wait_for(page, f"{used} === '61'")
        api.claim("host-004", 4)
        wait_for(page, f"{used} === '4'")


def test_a_part_of_a_host_says_whose_it_is_and_marks_all_of_it(window: Window) -> None:
    with Api(window.url) as api:
        page = window.open(f"/ui/providers/{api.uuid('host-017')}")
        consumer = api.consumer("host-017")
    page.locator(".machine rect").first.hover()
    page.locator(".hint", has_text=f"17: consumer {consumer}, project p").wait_for()
    assert page.locator("tr.pointed").get_attribute("data-holder") == consumer
    page.locator(".machine rect").first.click()
    page.wait_for_url(f"**?holder={consumer}")
    page.locator("tr.marked").wait_for()
    connected(page)
    page.keyboard.press("l")
    page.locator(".tree").wait_for()
    page.keyboard.press("l")
    page.locator(".tree").wait_for(state="hidden")


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_page_loads_the_scripts_that_are_counted(window: Window, name: str) -> None:
    with Api(window.url) as api:
        paths = {"site": "/ui/", "provider": f"/ui/providers/{api.uuid('host-003')}"}
    page = window.open(paths.get(name, f"/ui/{name}"), is_live=False)
    page.wait_for_load_state("networkidle" if name in ("ask", "consumers") else "load")
    if name in ("site", "provider", "activity"):
        connected(page)
    urls = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    scripts = {url.partition("/static/")[2].partition("/")[2] for url in urls if url.endswith(".js")}
    assert scripts <= {str(script.relative_to(STATIC)) for script in loaded("stead.js", *AT_ONCE[name], "reread.js")}


def test_groups_are_blocks_side_by_side_that_do_not_overlap(window: Window) -> None:
    page = window.open("/ui/")
    for grouping in ("prefix", "aggregate", "traits"):
        page.get_by_label("Group by").select_option(grouping)
        boxes = page.evaluate(
            """grid.layout.groups.map(({ left, top, width, cellsTop, rows }) =>
               [left, top, left + width, cellsTop + rows * grid.layout.tall])"""
        )
        width = page.evaluate("grid.view.clientWidth")
        assert all(right <= width for _, _, right, _ in boxes)
        for place, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[:place]:
                assert left >= other[2] or top >= other[3] or other[0] >= right or other[1] >= bottom
        # Each host is where it is drawn.
        assert page.evaluate(
            """stead.live.site.names.every((_, host) => { const { x, y } = grid.layout.placeOf(host);
               return grid.layout.hostAt(x + 1, y + 1) === host; })"""
        )
    assert len({left for left, *_ in boxes}) > 1


def test_hosts_are_selected_by_a_lasso_and_by_keyboard(window: Window) -> None:
    page = window.open("/ui/")
    box = page.locator(".grid-view").bounding_box()
    assert box is not None
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + page.evaluate("grid.layout.cell") * 2.5, box["y"] + 8)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.locator(".selection").get_by_text("3 hosts").wait_for()
    page.locator(".selection").get_by_text("VCPU 3 of 192 (2 %)").wait_for()  # host-000 to host-002
    page.locator(".selection").get_by_role("button", name="Clear").click()
    page.locator(".grid-view").press("Home")
    page.locator(".grid-view").press("Shift+ArrowRight")
    page.locator(".selection").get_by_text("2 hosts").wait_for()
    page.locator(".grid-view").press("Escape")
    wait_for(page, "document.querySelector('.selection') === null")


def test_colours_show_where_a_flavor_fits_and_what_it_strands(window: Window) -> None:
    page = window.open("/ui/")
    page.get_by_label("Colour").select_option("fit")
    flavor = page.locator(".grid-tools label", has_text=re.compile("^Flavor")).locator("select")
    flavor.locator("option[value='m1.large']").wait_for(state="attached")
    flavor.select_option("m1.large")
    # host-000 is empty and fits eight times, host-059 has 5 VCPU left, and host-007 is disabled.
    wait_for(page, "[0, 59, 7].map((host) => grid.textOf(host)).join() === '8 ×,0 ×,0 ×'")
    assert page.evaluate("[0, 59, 7].map((host) => grid.levels[host])") == [0, 100, 100]
    page.get_by_label("Colour").select_option("stranded")
    wait_for(page, "[0, 59].map((host) => grid.levels[host]).join() === '0,8'")
    page.get_by_label("Colour").select_option("age")
    wait_for(page, "grid.levels[0] > 50")


def test_suggestions_finish_the_last_word_of_a_search(window: Window) -> None:
    page = window.open("/ui/")
    field = page.get_by_role("combobox", name="Find hosts")
    for text, first in (
        ("VC", "VCPU>="),
        ("host-00 trait:ssd", "host-00 trait:CUSTOM_SSD"),
        ("dis", "disabled"),
        ("ost-03", "host-030"),
    ):
        field.fill(text)
        assert page.evaluate("document.querySelector('#suggestions option').value") == first


def test_a_search_becomes_conditions_that_can_be_removed(window: Window) -> None:
    page = window.open("/ui/")
    page.get_by_role("combobox", name="Find hosts").fill("host-00 VCPU>=60")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="5 of 66 hosts match").wait_for()
    connected(page)
    wait_for(page, "grid.found?.reduce((sum, one) => sum + one, 0) === 5")  # the map fades the others
    page.get_by_role("link", name="Remove VCPU>=60").click()
    page.get_by_role("heading", name="10 of 66 hosts match").wait_for()


@pytest.mark.parametrize(("path", "width"), [("/ui/", 1280), ("/ui/", 400), ("/ui/?host=host-004", 1280)])
def test_nothing_jumps_while_the_page_loads(window: Window, path: str, width: int) -> None:
    window.context.add_init_script(
        """globalThis.shifts = 0;
        new PerformanceObserver((list) => { for (const entry of list.getEntries()) shifts += entry.value; })
          .observe({ type: "layout-shift", buffered: true });"""
    )
    page = window.open(path, width=width)
    page.locator("#flavors .course").first.wait_for(state="attached")
    wait_for(page, "globalThis.grid?.times.length > 0")
    assert page.evaluate("shifts") <= 0.02


def test_the_palette_leads_to_hosts_flavors_and_pages_by_keyboard_alone(window: Window) -> None:
    page = window.open("/ui/")
    for text, name, address in (
        ("host-012", "host-012 host", "/ui/?host=host-012"),
        ("m1.l", "m1.large flavor: ask", "/ui/ask?flavor=m1.large"),
        ("activ", "Activity page", "/ui/activity"),
    ):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Find", exact=True).fill(text)
        page.get_by_role("option", name=name, exact=True, selected=True).wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url, end=address: url.endswith(end))
        wait_for(page, "globalThis.stead !== undefined")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_a_small_site_shows_what_is_inside_its_hosts(chromium: Browser, tmp_path: Path) -> None:
    with started(write_configuration(tmp_path, f"sqlite:///{tmp_path}/placement.db"), workers=1) as server:
        with Api(server.url) as api:
            for number in range(10):
                name = f"host-{number}"
                parts = [{"name": name}]
                for node in range(2):
                    inventories = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 1024}}
                    numa = {"name": f"{name}_NUMA{node}", "parent_provider_uuid": f"name:{name}"}
                    parts.append({**numa, "inventories": inventories})
                body = {"provider_trees": [{"providers": parts}], "create_names": True}
                api.send("PUT", "/provider_trees", body)
        context = chromium.new_context()
        window = Window(context, server.url)
        for width, columns in ((1280, 5), (400, 2), (2560, 8)):
            page = window.open("/ui/", width=width)
            wait_for(page, "globalThis.grid?.hasParts")
            assert page.evaluate("grid.layout.groups[0].columns") == columns
            # The map is as high as its tiles: nothing below them is empty.
            assert page.evaluate("grid.view.clientHeight - grid.layout.height") <= 4
            box = page.evaluate("grid.view.getBoundingClientRect().width")
            assert page.evaluate("grid.layout.cell * grid.layout.groups[0].columns") >= box - 4
        context.close()
        assert window.faults == []
