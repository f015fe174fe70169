"""Make the pictures of the web interface in docs/: ``python -m scripts.screenshots [FOLDER]`` (two minutes).

Needs Playwright and Chromium. It starts a server on a temporary database with a site of 2,000 hosts, some of which
have allocations, and opens the pages. The contact sheet has every page in three widths and both schemes.
With ``--all FOLDER``, each of its pictures is written in full, too.
"""

from __future__ import annotations

import shutil
from argparse import ArgumentParser
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.conftest import write_configuration
from tests.servers.stead import started
from tests.system.browser.site import Api
from tests.system.browser.window import Window, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

FOLDER = Path(__file__).parents[1] / "docs/pictures"
HOSTS = 2000
RACK = 250
SIZE = {"width": 1280, "height": 860}
SIZES = {400: 860, 1280: 860, 2560: 1440}
"""Width and height of the pages in the contact sheet."""

PAGES = {
    "Site": "/ui/",
    "Search": "/ui/?search=rack-1+VCPU>=40",
    "Drawer": "/ui/?host=gpu-07",
    "Host": "/ui/providers/{uuid}",
    "Drain": "/ui/providers/{uuid}/drain",
    "Ask": "/ui/ask?resources=VCPU:8,MEMORY_MB:16384&limit=4",
    "Ask, nothing fits": "/ui/ask?resources=VCPU:200,PGPU:1&required=HW_CPU_X86_AVX2",
    "Consumers": "/ui/consumers",
    "Activity": "/ui/activity",
    "Components": "/ui/style",
    "Reference": "/docs",
    "Sign in": "/ui/sign-in",
}
THUMB = 200
"""Height of each page in the contact sheet, in pixels."""

SHEET = """body { font: 600 14px system-ui; margin: 16px; background: #d9dde3; }
h2 { font-size: 14px; margin: 14px 0 6px; }
div { display: flex; gap: 8px; } img { border-radius: 4px; }"""
MACHINE = "gpu-07"
FLAVORS = {
    "m1.small": "resources=VCPU:1,MEMORY_MB:2048,DISK_GB:20",
    "m1.large": "resources=VCPU:8,MEMORY_MB:16384,DISK_GB:100",
    "m1.xlarge": "resources=VCPU:16,MEMORY_MB:65536,DISK_GB:200",
    "g1.two": "resources=VCPU:4&resources_G=PGPU:2&group_policy=none",
}
CLASSES = {"VCPU": 64, "MEMORY_MB": 262_144, "DISK_GB": 2000}


def main() -> None:
    """Make all pictures."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--all", type=Path, help="also write each page of the contact sheet, to this folder")
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as directory, ExitStack() as stack:
        place = Path(directory)
        configuration = write_configuration(place, f"sqlite:///{place}/placement.db")
        server = stack.enter_context(started(configuration, workers=1))
        api = stack.enter_context(Api(server.url))
        make(api)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        window = Window(browser.new_context(), server.url)
        for scheme in ("light", "dark"):
            site(window, scheme).screenshot(path=folder / f"site-{scheme}.png")
        provider = window.open(f"/ui/providers/{api.uuid(MACHINE)}", **SIZE)
        provider.screenshot(path=folder / "provider.png")
        ask = window.context.new_page()
        ask.set_viewport_size(SIZE)  # type: ignore[arg-type]  # a dictionary of its two keys
        ask.goto(f"{server.url}/ui/ask?resources=VCPU:200,PGPU:1&required=HW_CPU_X86_AVX2")
        ask.screenshot(path=folder / "ask.png")
        activity = window.open("/ui/activity", **SIZE)
        rng = Random(2)
        for _ in range(60):
            claim(api, f"rack-{rng.randrange(8)}-host-{rng.randrange(RACK):03}", rng.randint(1, 40))
        activity.wait_for_timeout(2000)
        activity.screenshot(path=folder / "activity.png")
        pictures = options.all or place / "pages"
        pictures.mkdir(parents=True, exist_ok=True)
        contact_sheet(window, api, pictures, folder / "contact-sheet.jpg")
        browser.close()


def contact_sheet(window: Window, api: Api, pictures: Path, file: Path) -> None:
    """Every page in each width and scheme, in one picture."""
    paths = {name: path.format(uuid=api.uuid(MACHINE)) for name, path in PAGES.items()}
    cells = []
    for name, path in paths.items():
        for scheme in ("light", "dark"):
            for width, height in SIZES.items():
                page = window.open(path, width=width, height=height, scheme=scheme, is_live=path == "/ui/")
                page.wait_for_timeout(600)
                picture = pictures / f"{name}-{scheme}-{width}.png"
                page.screenshot(path=picture)
                page.close()
                data = b64encode(picture.read_bytes()).decode()
                shown = round(THUMB * width / height)
                cells.append(f'<img width="{shown}" height="{THUMB}" src="data:image/png;base64,{data}">')
    rows = [cells[start : start + 2 * len(SIZES)] for start in range(0, len(cells), 2 * len(SIZES))]
    lines = [f"<h2>{name}</h2><div>{''.join(row)}</div>" for name, row in zip(paths, rows, strict=True)]
    page = window.context.new_page()
    page.set_viewport_size({"width": 1600, "height": 400})
    page.set_content(f"<style>{SHEET}</style>{''.join(lines)}")
    page.wait_for_timeout(500)
    page.screenshot(path=file, full_page=True, type="jpeg", quality=70)


def make(api: Api) -> None:
    """The site: racks as aggregates, GPUs in every fourth host, three disabled hosts."""
    rng = Random(1)
    names = [f"rack-{number // RACK}-host-{number % RACK:03}" for number in range(HOSTS)]
    for start in range(0, HOSTS, 500):
        trees = [{"providers": tree(number, names[number])} for number in range(start, start + 500)]
        api.send("PUT", "/provider_trees", {"provider_trees": trees, "create_names": True})
    for rack in range(HOSTS // RACK):
        share = rng.random()
        some = [name for name in names[rack * RACK :][:RACK] if rng.random() < 0.9]
        amounts = {name: min(64, max(1, int(rng.gauss(64 * share, 12)))) for name in some}
        api.send("POST", "/allocations", {api.consumer(name): holding(api, name, amounts[name]) for name in some})
    for name, query in FLAVORS.items():
        api.send("PUT", f"/flavors/{name}", {"query": query})
    for name in rng.sample(names, 3):
        api.send("PATCH", f"/provider_trees/{api.uuid(name)}", {"disabled": {"reason": "replace the fan"}})
    machine(api)


def machine(api: Api) -> None:
    """A host with two NUMA nodes and eight GPUs, and four consumers on it."""
    api.send(
        "PUT", "/provider_trees", {"provider_trees": [{"providers": list(parts_of_machine())}], "create_names": True}
    )
    owner = {"project_id": "vision", "user_id": "u", "consumer_type": "JOB", "consumer_generation": None}
    jobs = ((0, 8, (0, 1)), (0, 12, (2,)), (1, 32, (0, 1, 2, 3)), (0, 4, ()))
    for number, (node, cores, gpus) in enumerate(jobs):
        given = {api.uuid(f"{MACHINE}_NUMA{node}"): {"resources": {"PCPU": cores, "MEMORY_MB": cores * 4096}}}
        given |= {api.uuid(f"{MACHINE}_NUMA{node}_GPU{gpu}"): {"resources": {"PGPU": 1}} for gpu in gpus}
        uuid = f"{number + 3}ad0ffee-0000-4000-8000-000000000000"
        api.send("PUT", f"/allocations/{uuid}", {"allocations": given, **owner})


def parts_of_machine() -> Iterator[dict[str, Any]]:
    """The providers of the machine, parents first."""
    features = ("AVX2", "AVX512F", "AVX512VNNI", "AVX512BW", "AVX512CD", "SSE42", "AESNI")
    traits = [f"HW_CPU_X86_{feature}" for feature in features]
    yield {"name": MACHINE, "traits": ["COMPUTE_NODE", "CUSTOM_RACK_7", *traits]}
    for node in range(2):
        name = f"{MACHINE}_NUMA{node}"
        inventories = {"PCPU": {"total": 48}, "MEMORY_MB": {"total": 524_288}}
        yield {"name": name, "parent_provider_uuid": f"name:{MACHINE}", "inventories": inventories}
        for gpu in range(4):
            device = {"name": f"{name}_GPU{gpu}", "inventories": {"PGPU": {"total": 1}}}
            yield device | {"parent_provider_uuid": f"name:{name}", "traits": ["CUSTOM_GPU_H100"]}


def holding(api: Api, name: str, amount: int) -> dict[str, Any]:
    """A body with which a consumer holds VCPU, memory and disk of a host."""
    resources = {"VCPU": amount, "MEMORY_MB": amount * 3072, "DISK_GB": amount * 15}
    return {**api.holding(name, amount), "allocations": {api.uuid(name): {"resources": resources}}}


def claim(api: Api, name: str, amount: int) -> None:
    """Make the consumer on a host hold another amount of all classes."""
    path = f"/allocations/{api.consumer(name)}"
    generation = api.send("GET", path).get("consumer_generation")
    api.send("PUT", path, {**holding(api, name, amount), "consumer_generation": generation})


def tree(number: int, name: str) -> list[dict[str, Any]]:
    """The providers of one host."""
    rack = f"7f1f0d5e-0000-4000-8000-{number // RACK:012}"
    inventories = {key: {"total": total} for key, total in CLASSES.items()}
    host = {"name": name, "inventories": inventories, "traits": ["HW_CPU_X86_AVX2"], "aggregates": [rack]}
    if number % 4:
        return [host]
    gpu = {"name": f"{name}-gpu", "parent_provider_uuid": f"name:{name}", "inventories": {"PGPU": {"total": 2}}}
    return [host, gpu]


def site(window: Window, scheme: str) -> Page:
    """The Site page with the hosts of each rack together."""
    page = window.open("/ui/", **SIZE, scheme=scheme)
    page.get_by_label("Group by").select_option("prefix")
    wait_for(page, "grid.layout.groups.length > 1")
    page.mouse.move(400, 640)  # the card of a host
    page.wait_for_timeout(600)
    return page


if __name__ == "__main__":
    main()
