"""Templates filled as rows of a matrix, and one by one where uuids differ in length, are the same text."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, strategies

from stead.candidates.render import GAP, Template, TreeUuids
from stead.catalog.blocks import Texts

LONG = [str(UUID(int=number * 2**64 + 7)) for number in range(12)]
FORMS = {
    "usual": LONG,
    "without hyphens": [uuid.replace("-", "") for uuid in LONG],
    "mixed": [uuid.replace("-", "") if number % 5 == 0 else uuid for number, uuid in enumerate(LONG)],
    # As long as usual ones together, but none of the two is.
    "one longer, one shorter": [LONG[0] + "00", LONG[1][:-2], *LONG[2:]],
}


def uuids_of(texts: list[str], trees: int) -> TreeUuids:
    return TreeUuids(Texts.of(texts), np.arange(len(texts)).reshape(trees, -1))


def plainly(pieces: list[str], gaps: list[int], trees: list[list[str]]) -> bytes:
    rows = []
    for own in trees:
        row = pieces[0]
        for gap, piece in zip(gaps, pieces[1:], strict=True):
            row += own[gap] + piece
        rows.append("," + row)
    return "".join(rows).encode()


@pytest.mark.parametrize("form", FORMS)
@given(
    pieces=strategies.lists(strategies.text(strategies.characters(exclude_characters=GAP, codec="utf-8")), min_size=1),
    trees=strategies.sampled_from((2, 3, 6, 12)),
    part=strategies.tuples(strategies.integers(0, 11), strategies.integers(1, 12)),
    data=strategies.data(),
)
def test_every_gap_gets_the_uuid_of_its_position(
    form: str, pieces: list[str], trees: int, part: tuple[int, int], data: strategies.DataObject
) -> None:
    uuids = uuids_of(FORMS[form], trees)
    positions = strategies.integers(0, len(LONG) // trees - 1)
    gaps = data.draw(strategies.lists(positions, min_size=len(pieces) - 1, max_size=len(pieces) - 1))
    which = slice(part[0], part[0] + part[1])
    template = Template(GAP.join(pieces), gaps)
    assert template.filled(uuids, which) == plainly(pieces, gaps, uuids.texts(which))


@pytest.mark.parametrize("form", FORMS)
def test_only_usual_uuids_are_rows_of_a_matrix(form: str) -> None:
    assert (uuids_of(FORMS[form], 4).bytes is not None) == (form == "usual")


def test_one_tree_has_its_uuids_and_several_have_gaps() -> None:
    assert uuids_of(LONG, 1).own == LONG
    assert uuids_of(LONG, 4).own == [GAP] * 3
