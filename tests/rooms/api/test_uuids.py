"""The spellings of a UUID."""

import pytest

from stead.api import request

STORED = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
HEX = STORED.replace("-", "")


@pytest.mark.parametrize(
    "spelling", [STORED, STORED.upper(), HEX, f"{{{STORED}}}", f"urn:uuid:{STORED}", f"URN:UUID:{HEX}", "-".join(HEX)]
)
def test_every_spelling_has_one_stored_form(spelling):
    assert request.normalised_uuid(spelling) == STORED


@pytest.mark.parametrize(
    "text", ["", "nonsense", HEX[:-1], HEX + "0", "0x" + HEX[2:], f" {STORED}", f"{STORED}\n", "٠" * 32, HEX[:-1] + "_"]
)
def test_anything_else_is_no_uuid(text):
    assert request.normalised_uuid(text) is None


@pytest.mark.parametrize(
    ("text", "strict"), [(STORED, True), (STORED.upper(), True), (HEX, False), (STORED + "\n", False)]
)
def test_the_strict_form_has_its_hyphens_in_their_places(text, strict):
    assert request.is_strict(text) is strict
