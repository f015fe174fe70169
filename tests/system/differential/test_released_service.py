"""Stead and the released service, side by side on the same random histories, give the same answers."""

import os
from collections.abc import Iterator

import pytest

from tests.servers.environment import ROOT, Unavailable
from tests.system.differential import known
from tests.system.differential.comparison import compare
from tests.system.differential.machine import empty
from tests.system.differential.pair import Pair, pair
from tests.system.differential.refusals import SITE, VERSIONS, refusals
from tests.system.differential.released import RELEASED
from tests.system.differential.runs import Tally, run
from tests.system.differential.wordings import WORDINGS

HISTORIES = 40


@pytest.fixture(scope="module")
def both() -> Iterator[Pair]:
    try:
        with pair() as made:
            yield made
    except Unavailable as unavailable:
        text = (
            f"NOT COMPARED WITH THE RELEASED SERVICE: {unavailable} (or give a virtual environment in {RELEASED.given})"
        )
        if os.environ.get("CI"):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


@pytest.mark.timeout(900)  # the released service may have to be installed first
def test_both_answer_alike(both: Pair) -> None:
    tally = Tally()
    run(both, HISTORIES, tally)
    met = {route for route, status in tally.answers if status < 300}
    for route in (
        "POST /resource_providers", "PUT /resource_providers/*", "DELETE /resource_providers/*",
        "PUT /resource_providers/*/inventories", "POST /resource_providers/*/inventories",
        "PUT /resource_providers/*/traits", "PUT /resource_providers/*/aggregates", "PUT /allocations/*",
        "POST /allocations", "DELETE /allocations/*", "POST /reshaper", "GET /allocation_candidates", "GET /usages",
    ):  # fmt: skip
        assert route in met, f"no {route} succeeded in {both.steps} steps: the histories lead nowhere"


def test_every_refusal_has_the_same_words(both: Pair) -> None:
    """A difference that a row of `KNOWN` or `WORDINGS` does not explain is one a client can meet."""
    both.uuids()  # so that no uuid of the histories before is replaced
    for asked in SITE:
        for side in (both.stead, both.released):
            assert side.ask(asked).status < 300
    refused = 0
    try:
        for version in VERSIONS:
            for asked in refusals(version):
                exchange = compare(asked, both.stead.ask(asked), both.released.ask(asked))
                refused += exchange.stead.status >= 400
                assert not exchange.facets or known.names_of(exchange, both), str(exchange)
    finally:
        for side in (both.stead, both.released):
            empty(side.ask)
    assert refused > 300, "the requests meet what they should not"


NOT_FOR_CLIENTS = {
    "The sentence of a 406",
    "Words of Python's",
    "Words of the parser",
    "Words of the database",
    "The schema",
    "The schema of a name in the path",
    "A generation with a decimal point",
    "One of several unknown traits",
    "In no order",
}
"""Rows whose text in the released service comes from a library, or is another one each time."""


def test_a_wording_says_all_that_the_released_service_says() -> None:
    """So a client that searches the text for the words of the released service finds them."""
    for row in WORDINGS:
        if row.name not in NOT_FOR_CLIENTS:
            assert row.released in row.stead, f"{row.name}: Stead lacks words of the released service"
    assert {row.name for row in WORDINGS} > NOT_FOR_CLIENTS


def test_every_wording_is_documented() -> None:
    """Each has a row of the table in its section."""
    _, _, section = (ROOT / "docs/differences.md").read_text().partition("### Words of a refusal\n")
    table = [line.split("|") for line in section.partition("\n### ")[0].splitlines() if line.startswith("| ")]
    assert [cells[1].strip() for cells in table[2:]] == list(dict.fromkeys(row.name for row in WORDINGS))


def test_every_known_difference_is_documented() -> None:
    sections = [
        line.removeprefix("### ") for line in (ROOT / "docs/differences.md").read_text().splitlines()
        if line.startswith("### ")
    ]  # fmt: skip
    assert sorted(sections) == sorted([*(row.name for row in known.KNOWN), "Consumers that hold nothing"])
