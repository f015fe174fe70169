"""What a new user does: follow the link that the server prints, find a free GPU near its network card, and claim it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkout import ROOT
from tests.servers.stead import STEAD
from tests.system.browser.window import connected, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.timeout(180)  # a busy machine takes long to start a server and a browser

PICTURES = os.environ.get("STEAD_TRIAL_PICTURES")
"""A folder for a picture of each step."""


@pytest.fixture
def link(tmp_path: Path) -> Iterator[str]:
    """The link that `stead serve` prints, on a data directory with the sample site; `make run` does the same."""
    command = [*STEAD, "--json", "--data-dir", str(tmp_path / "data")]
    with (tmp_path / "log").open("wb") as log:
        serve = [*command, "serve", "--port", "0"]
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            assert line, (tmp_path / "log").read_text()
            apply = [*command, "topology", "apply", str(ROOT / "samples/site.yaml")]
            subprocess.run(apply, check=True, capture_output=True)
            yield json.loads(line)["web_interface"]
        finally:
            server.terminate()
            server.stdout.close()
            server.wait(timeout=60)
    assert link_code(json.loads(line)["web_interface"]) not in (tmp_path / "log").read_text()


def link_code(link: str) -> str:
    return link.rpartition("code=")[2]


def step(page: Page, name: str) -> None:
    """Take a picture of a step, if pictures are wanted."""
    if PICTURES:
        page.wait_for_timeout(300)
        page.screenshot(path=Path(PICTURES, f"{name}.png"))


def test_a_new_user_claims_a_gpu_near_its_network_card(chromium: Browser, link: str) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.goto(link)
    page.get_by_role("heading", name="hosts").first.wait_for()
    connected(page)
    page.get_by_label("Class").select_option("PGPU")
    step(page, "1-site")

    page.get_by_role("combobox", name="Find hosts").fill("PGPU>=1")
    page.get_by_role("button", name="Find").first.click()
    page.locator("#trees").get_by_role("link", name="gpu1").first.wait_for()
    step(page, "2-free-gpus")

    page.get_by_role("link", name="Ask", exact=True).first.click()
    for number, amounts in enumerate(("PCPU:2", "PGPU:1", "SRIOV_NET_VF:1"), 1):  # the first is that of the NUMA node
        page.get_by_role("button", name="Add a group").click()
        page.get_by_label(f"Add amounts to group _{number}").fill(amounts)
        page.get_by_label(f"Add amounts to group _{number}").press("Enter")
    for near in page.get_by_label("near").all():
        near.check()
    page.get_by_role("button", name="Find candidates").click()
    page.get_by_text("Room for this request").wait_for()
    step(page, "3-candidates")

    watching = context.new_page()
    watching.goto(link.partition("/ui/")[0] + "/ui/activity")
    connected(watching)
    site = context.new_page()
    site.goto(link.partition("/ui/")[0] + "/ui/")
    connected(site)
    page.bring_to_front()
    page.get_by_text("Claim", exact=True).first.click()
    step(page, "4-claim")
    page.get_by_role("button", name="Claim").first.click()
    page.locator("th code").first.wait_for()
    consumer = page.locator("th code").first.inner_text()
    assert "1 GPU" in page.inner_text("main")
    step(page, "5-claimed")
    watching.bring_to_front()
    watching.locator("#activity .feed li").first.wait_for()
    step(watching, "6-activity")
    site.bring_to_front()
    free = "document.querySelector('#sums span[data-class=PGPU]').textContent"
    everything = int(site.evaluate("stead.live.site.whole('PGPU').capacity"))
    wait_for(site, f"{free} === '{everything - 1}'")

    page.bring_to_front()
    page.get_by_label("Select all").check()
    page.get_by_text("Release the selected consumers").click()
    page.get_by_role("button", name="Release all of it").click()
    page.get_by_text(f"Released all allocations of {consumer}.").wait_for()
    step(page, "7-released")
    site.bring_to_front()
    wait_for(site, f"{free} === '{everything}'")

    page.get_by_role("link", name="Ask", exact=True).first.click()
    page.get_by_label("Add amounts", exact=True).fill("PGPU:9")
    page.get_by_label("Add amounts", exact=True).press("Enter")
    page.get_by_role("button", name="Find candidates").click()
    page.get_by_role("heading", name="Why the request has 0 candidates").wait_for()
    step(page, "8-why")
    page.get_by_role("heading", name="Changes that have candidates").wait_for()
    page.goto(link)  # the code was for one time
    page.get_by_text("The code was used already").wait_for()
    context.close()
