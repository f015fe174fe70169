"""Stead and the released service, side by side on the same random histories, give the same answers."""

import os
from collections.abc import Iterator

import pytest

from tests.servers.environment import ROOT, Unavailable
from tests.system.differential import known
from tests.system.differential.pair import Pair, pair
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
