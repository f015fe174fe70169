"""No picture has a line longer than the terminal, and what it shows can be read at any usual width."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text as RichText

from stead.cli.candidates import Candidate, Row, draw_candidates, draw_explanation
from stead.cli.forest import draw_forest, plant, walk
from stead.cli.local.audit import _lines as draw_findings
from stead.cli.terminal import PIPE_WIDTH, draw_list, number, shorten, wrapped
from stead.cli.text import Text
from stead.printing import printable
from stead.store.audit.checks import Fault, Finding
from tests.rooms.cli.test_explain_command import explanation
from tests.rooms.cli.test_tree_command import UNLIMITED, can_site, lines, listing, record, site

WIDTHS = [40, 80, 120, 200]
TERMINALS = [80, 120, 200]

FQDN = "compute-0017.rack-12.cell-b.availability-zone-3.region-one.cloud.example.org"
NAMES = [
    "compute1",
    FQDN,
    "計算ノード０１" * 12,
    "🚀🛰️ rocket",
    "é" * 90 + "e\u0301" * 30,
    "x" * 200,
    "evil\x1b[2J\nname",
]
LONG_CLASS = "CUSTOM_" + "ACCELERATOR_" * 20
ALL_OF_IT = 2147483647


def awkward_forest():
    """Every awkward name as a root, below the first a chain of 30, and at the last of all what is longest."""
    records = [record(name) for name in NAMES]
    chain = [NAMES[0], *(f"{NAMES[0]}_level{depth}_{'n' * depth}" for depth in range(30))]
    records += [record(name, above) for above, name in pairwise(chain)]
    tops = plant(records)
    for place, provider in enumerate(walk(tops)):
        provider.inventories = {
            "MEMORY_MB": {**UNLIMITED, "total": 786432, "reserved": 65536 if place % 2 else 0},
            "VCPU": {**UNLIMITED, "total": 128, "allocation_ratio": 16.0},
        }
        provider.usages = {"MEMORY_MB": 524288}
        provider.traits = [f"COMPUTE_TRAIT_{number}" for number in range(70)]
        provider.aggregates = [f"{number:032x}" for number in range(place)]
    provider.inventories[LONG_CLASS] = {**UNLIMITED, "total": ALL_OF_IT, "reserved": ALL_OF_IT - 1}
    provider.inventories["VCPU"] = {**UNLIMITED, "total": ALL_OF_IT, "allocation_ratio": 3.4e38}
    provider.traits.append("CUSTOM_" + "T" * 248)
    provider.hidden, provider.is_gone = 12345, True
    return tops


def awkward_candidates():
    rows = [
        Row(name, NAMES[0], f"_{place}" * (32 if place == 2 else 1), "MEMORY_MB", 262144, 786432, 393216, 262144)
        for place, name in enumerate(NAMES)
    ]
    rows += [Row("pool", "pool", "", LONG_CLASS, ALL_OF_IT, ALL_OF_IT, 0, ALL_OF_IT), Row("pool", "pool", "_X")]
    return [Candidate({}, tuple(rows)), Candidate({}, (rows[0],))] * 6


def awkward_explanation():
    told = explanation()
    (choice,) = told["groups"][0]["choices"]
    choice["steps"] += [
        {"parameter": "member_of_A", "value": "in:" + ",".join(["5ead" * 8] * 9), "left": 0, "removed": 12}
    ]
    choice["nearest"][0]["examples"] = [{"uuid": name, "name": name} for name in NAMES]
    told["groups"][0]["suffix"] = "_" + "g" * 63
    return told


def findings():
    return [
        Finding(Fault.OVERCOMMITTED, f"inventory of VCPU of provider {name}", f"{place} used, capacity 8", place)
        for place, name in enumerate(NAMES * 4)
    ]


TOKENS = [("nova", "0" * 32, "1" * 32, "service, admin", "2131-01-01 00:00:00 UTC"), (*NAMES[:4], "never")]
PICTURES = {
    "tree": lambda width: draw_forest(awkward_forest(), width, traits=True),
    "tree of an ordinary site": lambda width: draw_forest(site(), width),
    "candidates": lambda width: draw_candidates(awkward_candidates(), {}, width),
    "explain": lambda width: draw_explanation(awkward_explanation(), width),
    "token list": lambda width: draw_list(("name", "user", "project", "roles", "expires"), TOKENS, width),
    "audit": lambda width: draw_findings(Fault.OVERCOMMITTED, findings(), 20, width),
}


def drawn(picture, width):
    return [line.plain for line in PICTURES[picture](width)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("picture", PICTURES)
def test_no_line_is_longer_than_the_terminal(picture, width):
    too_long = [line for line in drawn(picture, width) if cell_len(line) > width]
    assert too_long == []


@pytest.mark.parametrize("width", TERMINALS)
@pytest.mark.parametrize("picture", ["tree", "candidates"])
def test_a_name_is_whole_or_keeps_both_its_ends_and_candidates_shorten_none_that_fits_a_line(picture, width):
    text = "\n".join(drawn(picture, width))
    for name in NAMES:
        shown = printable(name)
        if picture == "candidates" and cell_len(shown) <= width - len("1    "):
            assert shown in text
        elif shown not in text:
            ends = re.findall("([^\n│─ ]+)…([^\n ]+)", text)
            assert any(shown.startswith(head) and shown.endswith(tail) for head, tail in ends), shown


@pytest.mark.parametrize("width", TERMINALS)
def test_a_deep_tree_leaves_room_for_its_names(width):
    shown = re.findall("[^\n│├─└ ]+", "\n".join(drawn("tree", width)))
    for provider in walk(awkward_forest()):
        if "_level" in provider.name:
            head, tail = provider.name[:8], provider.name[-7:]
            assert any(word == provider.name or (word.startswith(head) and word.endswith(tail)) for word in shown)


@pytest.mark.parametrize("width", TERMINALS)
def test_amounts_stay_on_the_line_of_their_class(width):
    of_memory = [line for line in drawn("tree", width) if "MEMORY_MB" in line]
    assert len(of_memory) == len(list(walk(awkward_forest()))) + 1
    assert all(re.search(r"MEMORY_MB .*512 GiB / 7\d\d GiB .* % *(64 GiB reserved)?$", line) for line in of_memory[:-1])


@pytest.mark.parametrize("width", TERMINALS)
def test_traits_are_all_there_and_whole(width):
    words = " ".join(drawn("tree", width)).split()
    assert words.count("COMPUTE_TRAIT_69") == len(list(walk(awkward_forest())))


def test_bars_are_the_first_to_go_and_grow_where_there_is_room():
    bars = {width: max(map(len, re.findall("[█░]+", "\n".join(lines(site(), width)))), default=0) for width in WIDTHS}
    assert bars[40] == 0
    assert 0 < bars[80] < bars[120] < bars[200]


def test_a_wide_terminal_is_used():
    assert max(map(cell_len, drawn("tree", 200))) > 180
    (named,) = [line for line in drawn("tree", 200) if FQDN in line]
    assert "VCPU" in named


def test_a_narrow_list_is_a_paragraph_for_each_row_and_cuts_nothing():
    assert drawn("token list", 80)[:5] == [
        "nova",
        "  user     00000000000000000000000000000000",
        "  project  11111111111111111111111111111111",
        "  roles    service, admin",
        "  expires  2131-01-01 00:00:00 UTC",
    ]


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(printable)


@given(texts, st.integers(1, 40))
def test_a_shortened_name_fits_and_keeps_its_ends(name, width):
    short = shorten(name, width)
    assert cell_len(short) <= width
    if short != name:
        head, _, tail = short.partition("…") if "…" not in name else (short[:0], "", short[len(short) :])
        assert name.startswith(head)
        assert name.endswith(tail)
        assert width < 3 or cell_len(short) >= width - 2  # a wide character may not fit into what is left


@given(texts, st.integers(2, 40), st.integers(0, 1))
def test_wrapping_loses_nothing_but_blanks(text, width, indent):
    broken = [line.plain for line in wrapped(Text(text), width, indent)]
    assert "".join("".join(broken).split(" ")) == "".join(text.split(" "))
    if width - indent >= 2:
        assert all(cell_len(line) <= width for line in broken)


AMOUNTS = "released vm-1: 1,024 DISK_GB, 65,536 MEMORY_MB, 3 / 1,024 VCPU, 7 CUSTOM_GPU_1"


@pytest.mark.parametrize("width", range(20, 81))
def test_an_amount_and_its_class_stay_on_one_line(width):
    lines = [line.plain.strip() for line in wrapped(Text(AMOUNTS), width, 2)]
    assert all(cell_len(line) <= width for line in lines)
    assert not [line for line in lines if line[-1].isdigit() and not line.endswith("GPU_1")]
    assert not [line for line in lines if line.startswith(("/", "DISK", "MEMORY", "VCPU", "CUSTOM"))]


def test_an_amount_that_is_wider_than_the_terminal_is_broken_at_its_blanks():
    assert [line.plain for line in wrapped(Text("65,536 MEMORY_MB"), 10)] == ["65,536", "MEMORY_MB"]


def test_numbers_of_any_size_stay_short():
    assert number(131072) == "131,072"
    assert max(len(number(10**digits)) for digits in range(60)) == len("100,000,000,000,000")


def test_a_pipe_gets_names_whole_and_an_exported_width_is_kept(server, stead, monkeypatch):
    name = "x" * 200
    server.can("GET /resource_providers", {"resource_providers": [listing(record(name), record(name))]})
    path = f"GET /resource_providers/uuid-of-{name}"
    server.can(f"{path}/inventories", {"inventories": {}, "resource_provider_generation": 0})
    server.can(f"{path}/traits", {"traits": [], "resource_provider_generation": 0})
    server.can(f"{path}/aggregates", {"aggregates": [], "resource_provider_generation": 0})
    monkeypatch.delenv("COLUMNS", raising=False)
    assert stead("tree").out == f"{name}\n"
    monkeypatch.setenv("COLUMNS", "80")
    assert len(stead("tree").out) == 80 // 2 - 2 + 1
    for nonsense in ("", "0", "-1", "wide", "9" * 30):
        monkeypatch.setenv("COLUMNS", nonsense)
        assert stead("tree").out == f"{name}\n"
    monkeypatch.undo()  # before pytest -v reports the test as wide as COLUMNS says


@pytest.mark.parametrize("columns", TERMINALS)
def test_a_terminal_gets_lines_of_its_own_width(server, columns, tmp_path):
    can_site(server)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    usual = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-c", "from stead.cli import main; main()", "--url", server.url, "tree"]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**usual, "TERM": "xterm-256color"},
    ) as running:
        os.close(theirs)
        written = _all_of(ours)
        assert running.stderr.read() == b""
    assert RichText.from_ansi(written).plain.splitlines() == lines(site(), columns)


def _all_of(terminal):
    """What the terminal shows until its other side is closed, which Linux tells by an error."""
    pieces = []
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece)
    except OSError:
        pass
    os.close(terminal)
    return b"".join(pieces).decode().replace("\r\n", "\n")


def test_a_pipe_is_wider_than_any_name():
    assert all(cell_len(printable(name)) < PIPE_WIDTH for name in NAMES)


@pytest.mark.parametrize(
    ("pager", "rows", "is_paged"),
    [
        ("sed s/^/paged:/", 10, True),
        ("sed s/^/paged:/", 50, False),
        ("cat", 10, False),
        ("", 10, False),
        ("x", 10, False),
    ],
)
def test_a_terminal_gets_what_is_longer_than_the_screen_through_the_pager(server, pager, rows, is_paged):
    can_site(server)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
    usual = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-c", "from stead.cli import main; main()", "--url", server.url, "tree"]
    environment = {**usual, "TERM": "xterm-256color", "PAGER": pager}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environment) as running:
        os.close(theirs)
        written = _all_of(ours)
        assert running.stderr.read() == b""
    assert running.returncode == 0
    expected = [f"paged:{line}" if is_paged else line for line in lines(site(), 100)]
    assert RichText.from_ansi(written).plain.splitlines() == expected
