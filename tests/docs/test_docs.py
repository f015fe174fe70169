"""The documentation says what the code does, as far as a test can see."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from scripts import docs, reference
from tests.checkout import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "bench/results").glob("*.md"))]
SOURCES = [
    file
    for room in ("src", "distributions/wsgi-lanes", "tests", "bench", "scripts")
    for file in sorted((ROOT / room).rglob("*.py"))
]

# As docstrings cite: "Group values" and "Cross checks" of allocation candidates, docs/api.md
SECTIONS = r'"[^"]+"(?:(?:,| and) "[^"]+")*'
CITATION = re.compile(rf"({SECTIONS})(?: of [a-z ]+)?, (docs/[\w/.-]+\.md)")


def words_of(file: Path) -> str:
    """The text without its line breaks, and without the comment signs at their starts."""
    return re.sub(r"\s*\n\s*(?:# )?", " ", file.read_text())


def citations() -> list[tuple[str, str, str]]:
    """Where, which page, which section."""
    return [
        (str(file.relative_to(ROOT)), match[2], section)
        for file in SOURCES
        if file != Path(__file__)
        for match in CITATION.finditer(words_of(file))
        for section in re.findall('"([^"]+)"', match[1])
    ]


def headings(page: Path) -> list[str]:
    """What the page's sections are called."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [heading.replace("`", "") for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)]


def anchors(page: Path) -> set[str]:
    """What a link to a section of the page ends with."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings(page)}


@pytest.mark.parametrize("file", docs.files(), ids=lambda file: file.name)
def test_what_is_made_of_the_code_is_as_the_code_makes_it(file: Path) -> None:
    read = json.loads if file.suffix == ".json" else str  # where its keys stand means nothing
    assert read(file.read_text()) == read(docs.files()[file]()), "run `make docs`"


def test_every_part_that_can_be_made_is_somewhere() -> None:
    parts = {
        name for page in PAGES for name in re.findall(r"<!-- ([a-z ]+): made by `make docs` -->", page.read_text())
    }
    assert parts == set(docs.PARTS)


@pytest.mark.parametrize(("place", "page", "section"), citations())
def test_a_section_that_is_cited_exists(place: str, page: str, section: str) -> None:
    assert (ROOT / page).exists(), place
    assert section in headings(ROOT / page), place


def test_citations_are_found_where_they_are() -> None:
    cited = {(page, section) for _, page, section in citations()}
    assert cited >= {
        ("docs/api.md", "The capacity check"),  # alone
        ("docs/api.md", "Cross checks"),  # the second of two
        ("docs/api.md", "Query grammar"),  # with what it is of
        ("docs/protocol.md", "The write and refresh protocol"),  # over a line break
    }


def test_a_source_is_named_that_a_reader_can_find() -> None:
    """A page of ours, or a document that others publish; not notes that nobody has."""
    named = [
        (file.name, source) for file in SOURCES for source in re.findall(r"Source: ([^\n]{3,40})", file.read_text())
    ]
    assert named
    assert [(name, source) for name, source in named if source.startswith("contract")] == []


@cache
def texts() -> str:
    """All fixed parts of the strings of the program, one a line, in small letters: names of headers may be either."""
    parts = {
        part.casefold()
        for folder in ("src", "distributions/wsgi-lanes/src")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for part in re.split(r"%[sdr]|{[^{}]*}", node.value)
    }
    return "\n".join(sorted(parts))


UNCLEAR = (
    "  have any",
    "have any {",
    "in such units",
    " in play",
    "room for none in",
    "have room for all",
    "four groups of one",
)
"""Words of explanations and errors that nobody understood: on pages, and in the strings of the program."""


@pytest.mark.parametrize("words", UNCLEAR)
def test_unclear_words_do_not_come_back(words: str) -> None:
    files = [
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "src/stead/ui").rglob("*.html")),
        ROOT / "README.md",
    ]
    files += [path for path in sorted((ROOT / "src/stead/ui/static").rglob("*.js")) if "vendor" not in path.parts]
    assert [file.name for file in files if words in file.read_text().casefold()] == []
    assert words not in texts()


COMMANDS = ("stead ", "placement-manage ")


def quoted_messages() -> list[str]:
    """What an operator may see when something is wrong, as two pages quote it; not the commands."""
    table = (ROOT / "docs/operations.md").read_text().partition("## When something is wrong")[2].partition("\n## ")[0]
    tables = table + (ROOT / "docs/troubleshooting.md").read_text()
    firsts = [line.split(" | ")[0] for line in tables.splitlines() if line.startswith("| ")]
    quotes = [quote for first in firsts for quote in re.findall(r"`([^`]+)`", first)]
    return [quote for quote in quotes if not quote.startswith(COMMANDS)]


@pytest.mark.parametrize("quote", quoted_messages())
def test_a_message_that_is_quoted_is_one_of_the_program(quote: str) -> None:
    """Each part of it, if ``…`` stands for what differs from time to time."""
    parts = [part.strip(" .,:;()") for part in quote.casefold().split("…")]
    assert [part for part in parts if part not in texts()] == []


def test_messages_are_quoted() -> None:
    assert {"port … is in use", "No resource provider with uuid … found"} <= set(quoted_messages())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            other = (page.parent / file) if file else page
            assert other.exists(), target
            assert not anchor or anchor in anchors(other), target


VERBS = {"Check", "Claim", "Create", "Delete", "Explain", "List", "Move", "Replace", "Show", "Update"}


def test_each_summary_is_a_verb_and_a_noun() -> None:
    """As "List resource providers": no sentence, and no pronoun in place of the noun."""
    described = json.loads((ROOT / "docs" / "openapi.json").read_text())
    summaries = [
        operation["summary"]
        for item in described["paths"].values()
        for method, operation in item.items()
        if method in reference.METHODS
    ]
    assert len(summaries) > 30
    for summary in summaries:
        verb, *noun = summary.split()
        assert verb in VERBS, summary
        assert len(noun) > 0, summary
        assert noun[0] not in {"it", "them", "one", "all"}, summary
        assert not summary.endswith("."), summary
