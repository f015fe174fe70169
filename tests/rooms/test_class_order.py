"""The resource classes of a site, in one order wherever people read them, whatever the order of the writes."""

from __future__ import annotations

import html
import io
import random
import re
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

import stead
from stead.cli.app import run
from stead.printing import class_order, class_words, short_amount, unit_of
from tests.servers.placements import stead_itself
from tests.system.api.client import NEWEST, Api, Provider, fresh_uuid, holding, http_door

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.one_database, pytest.mark.timeout(120)]  # starts a server

CLASSES = ["VCPU", "PCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_LATE", "CUSTOM_MAGIC", "SRIOV_NET_VF", "VGPU"]
"""In the order of readers. Every provider and consumer has all of them."""

QUERY = "resources=" + ",".join(f"{name}:1" for name in reversed(CLASSES))


class Site:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        api = Api(http_door(url)).at(f"{NEWEST}, stead 1.1")
        for name in ("CUSTOM_MAGIC", "CUSTOM_LATE"):
            api.put(f"/resource_classes/{name}").expect(201)
        shuffled = random.Random(17)
        self.hosts: list[Provider] = []
        for number in range(3):
            order = shuffled.sample(CLASSES, len(CLASSES))
            self.hosts.append(api.create_provider(f"host-{number}", inventories=dict.fromkeys(order, 8)))
        for host in self.hosts:
            order = shuffled.sample(CLASSES, len(CLASSES))
            self.consumer = fresh_uuid()
            body = holding((host, dict.fromkeys(order, 1)), project="p", user="u")
            api.put(f"/allocations/{self.consumer}", body).expect(204)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with stead_itself(tmp_path_factory.mktemp("classes")) as (url, token):
        yield Site(url, token)


def in_order(text: str) -> bool:
    """Whether *text* has at least one list of all classes, and only such lists, each in order."""
    found = re.findall(rf"\b({'|'.join(CLASSES)})\b", text)
    lists = [name for name, before in zip(found, ["", *found], strict=False) if name != before]
    assert lists, text
    return lists == CLASSES * (len(lists) // len(CLASSES))


def test_the_order_is_that_of_nova_then_by_name() -> None:
    shuffled = random.Random(1)
    for _ in range(20):
        assert sorted(shuffled.sample(CLASSES, len(CLASSES)), key=class_order) == CLASSES


@pytest.mark.parametrize("path", ["/ui/", "/ui/providers/{host}", "/ui/consumers", f"/ui/ask?{QUERY}"])
def test_pages(site: Site, path: str) -> None:
    with httpx2.Client(base_url=site.url) as client:
        client.post("/ui/sign-in", data={"token": site.token}, headers={"Origin": site.url})
        page = client.get(path.format(host=site.hosts[0].uuid))
    assert page.status_code == 200
    text = page.text.partition("<main")[2] or page.text
    # Not what people see there: attributes, the table of some classes, the form with the query as typed.
    text = re.sub(r"<form.*?</form>|<section id=\"trees\".*?</section>", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", text)
    if "/ask" in path:
        text = text.partition("host-")[2]
    if path == "/ui/":
        text = text.partition("Out of use")[2]  # before it is the class that is fullest
    for name in CLASSES:  # drawings and sentences have the usual names
        words = class_words(name)
        text = re.sub(
            rf"\b(?:{re.escape(words)}|{re.escape(words.removesuffix('s'))}|of {words.lower()})\b", name, text
        )
    assert in_order(html.unescape(text))


def test_the_columns_that_scripts_of_pages_show(site: Site) -> None:
    api = Api(http_door(site.url)).at(f"{NEWEST}, stead 1.1")
    document = api.get("/provider_trees?columns=true&totals=true&fields=name,inventories,usages").expect(200).json
    assert list(document["trees"]["totals"]) == CLASSES
    assert list(document["providers"]["inventories"]) == CLASSES
    assert list(document["providers"]["usages"]) == CLASSES


COMMANDS = [
    ["tree"],
    ["tree", "--json"],
    ["tree", "host-1", "--depth", "0"],
    ["provider", "show", "host-1"],
    ["who", "host-1"],
    ["who", "host-1", "--json"],
    ["consumers", "--json"],
    ["usage", "--by", "project"],
    ["usage", "--by", "project", "--json"],
    ["consumer", "show", "{consumer}"],
    ["top", "--once"],
    ["top", "--json"],
    ["candidates", QUERY],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands(
    site: Site, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a narrow terminal leaves classes out
    given = [word.format(consumer=site.consumer) for word in words]
    assert run(["--url", site.url, "--token", site.token, *given]) == 0
    assert in_order(capsys.readouterr().out)


def test_representations_of_the_library(site: Site) -> None:
    with stead.connect(site.url, token=site.token) as connected:
        shown: list[Any] = [connected.candidates(stead.Request.parse(QUERY)), connected.tree("host-0")]
    for each in [*shown, *shown[1]]:
        assert in_order(displayed(each))


def displayed(value: Any) -> str:
    from rich.console import Console

    console = Console(width=400, file=io.StringIO())
    with console.capture() as capture:
        console.print(value)
    return capture.get()


@pytest.mark.parametrize(
    ("resource_class", "amount", "shown"),
    [
        ("MEMORY_MB", 0, ("0", "")),
        ("MEMORY_MB", 512, ("512", "MiB")),
        ("MEMORY_MB", 1024, ("1", "GiB")),
        ("MEMORY_MB", 1100, ("1.07", "GiB")),
        ("MEMORY_MB", 262_144, ("256", "GiB")),
        ("MEMORY_MB", -1536, ("-1.5", "GiB")),
        ("DISK_GB", 2000, ("1.95", "TiB")),
        ("DISK_GB", 20_480, ("20", "TiB")),
        ("DISK_GB", 2**31 - 1, ("2,048", "PiB")),
        ("CUSTOM_CACHE_MB", 2048, ("2", "GiB")),
        ("VCPU", 128_000, ("128,000", "")),
    ],
)
def test_memory_and_disk_have_units(resource_class: str, amount: int, shown: tuple[str, str]) -> None:
    value, unit = unit_of(resource_class, amount)
    assert (short_amount(value), unit) == shown
