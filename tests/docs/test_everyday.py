"""The commands of docs/everyday.md, in its blocks and its tables, on a site of a thousand hosts."""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import stead
from stead import Group, Node, Request
from stead.testing.serving import placement
from tests.docs.console import Command, commands_of
from tests.docs.test_worked_examples import DOCS, TOKEN, outputs
from tests.servers.stead import STEAD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(300)  # runs what the page shows

PAGE = DOCS / "everyday.md"
MEMORY_MB = 256 * 1024
TIME = re.compile(r"\d\d:\d\d:\d\d")
IN_A_TABLE = re.compile(r"^\| `(stead (?!completion)[^`]+)` \|", re.MULTILINE)
AGGREGATE = "5ead0000-0000-4000-8000-000000000001"


def hosts() -> Iterator[Node]:
    """960 hosts with processors and memory, and 40 with eight GPUs each."""
    capacity = {"VCPU": 64, "MEMORY_MB": MEMORY_MB}
    for number in range(1, 961):
        yield Node(f"compute-{number:04}", capacity, traits=[f"CUSTOM_ROW_{number % 2}"])
    for number in range(1, 41):
        gpus = [Node(f"gpu-{number:02}-gpu{place}", PGPU=1) for place in range(8)]
        yield Node(f"gpu-{number:02}", capacity, traits=["HW_CPU_X86_AVX2"], aggregates=[AGGREGATE], children=gpus)


@contextmanager
def site_of_the_page() -> Iterator[str]:
    """The site that the first block of the page makes, in less time.

    Every second host without GPUs is half full, and each of the others has one free pair of GPUs.
    """
    with placement() as url:
        with stead.connect(url, token=TOKEN, project="lab") as site:
            site.apply(list(hosts()), create_names=True)
            half = {"VCPU": 32, "MEMORY_MB": MEMORY_MB // 2}
            full = [Request(Group("", half, in_tree=f"compute-{number:04}")) for number in range(2, 961, 2)]
            most = {"VCPU": 48, "MEMORY_MB": MEMORY_MB * 3 // 4, "PGPU": 6}
            full += [Request(Group("", most, split=["PGPU"], in_tree=f"gpu-{number:02}")) for number in range(1, 41)]
            site.claim_all(full)
        yield url


def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    commands = commands_of(DOCS / "everyday.md")
    (watch,) = [command for command in commands if command.text == "stead watch\n"]
    commands.remove(watch)
    with placement() as url:
        printed = outputs(
            commands, tmp_path, STEAD_URL=url, STEAD_TOKEN=TOKEN, STEAD_ALIASES=str(tmp_path / "aliases.json")
        )
        for command, output in zip(commands, printed, strict=True):
            assert command.prints(output), f"$ {command.text}{output}"
        assert_that_it_follows(watch, url)


def assert_that_it_follows(watch: Command, url: str) -> None:
    """It prints the lines of the page while a consumer claims and releases; the page has other times."""
    lines = [TIME.sub("TIME", line.strip()) for line in watch.printed]
    assert len(lines) == 4
    with stead.connect(url, token=TOKEN, project="demo") as site:
        site.release_all(project="demo")
        token = site.request("GET", "/changes", timeout=0, stead="1.0")["token"]
        environment = {"STEAD_URL": url, "STEAD_TOKEN": TOKEN, "COLUMNS": "200"}
        following = [*STEAD, "watch", "--since", token]
        with subprocess.Popen(following, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            place = Request(Group(VCPU=4, in_tree="compute-0017"))
            claim = site.claim(place, "11111111-1111-4111-8111-111111111111", type="JOB")
            followed = [TIME.sub("TIME", process.stdout.readline().strip()) for _ in range(2)]
            claim.release()
            followed += [TIME.sub("TIME", process.stdout.readline().strip()) for _ in range(2)]
            process.terminate()
    assert followed == lines


def test_every_command_in_a_table_works(tmp_path: Path) -> None:
    """In the order of the page, with its first claim. The commands that ask are told yes."""
    (first, _) = [command for command in commands_of(DOCS / "everyday.md") if "--consumer-name" in command.text]
    texts = IN_A_TABLE.findall((DOCS / "everyday.md").read_text())
    assert len(texts) > 18
    place = next(number for number, text in enumerate(texts) if text.startswith("stead consumer list"))
    texts.insert(place, first.text.rstrip())
    yes = [f"{text} --yes" if text.startswith("stead release") else text for text in texts]
    commands = [Command(f"{text.replace(' UUID', f' {AGGREGATE}')} || echo FAILED") for text in yes]
    with site_of_the_page() as url:
        printed = outputs(
            commands, tmp_path, STEAD_URL=url, STEAD_TOKEN=TOKEN, STEAD_ALIASES=str(tmp_path / "aliases.json")
        )
    for command, output in zip(commands, printed, strict=True):
        assert "FAILED" not in output, f"$ {command.text}\n{output}"
        if command.text.startswith("stead tree"):
            assert "no resource providers" not in output, command.text
