"""What an Accept header admits. Source: "Accept" and "Errors", docs/api.md."""

import pytest

from stead.api.request import quality

JSON, HTML = "application/json", "text/html"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("application/json", 1.0),
        ("APPLICATION/JSON", 1.0),
        ("application/*", 1.0),
        ("*/*", 1.0),
        ("application/json;q=0.3", 0.3),
        ("application/json; q=0.3", 0.3),
        ("application/json;q=0", 0.0),
        ("application/json;q=0, */*", 0.0),
        ("*/*;q=0.8, application/*;q=0.1", 0.1),
        ("text/html", 0.0),
        ("application/json; charset=utf8", 0.0),
        ("application/json; charset=utf8, */*;q=0.5", 0.5),
        ('application/json; a="x, y"', 0.0),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 0.8),
        ("text/html,application/xhtml+xml,application/xml;q=0.9", 0.0),
        ("application/json;q=0.5;level=1", 0.5),
        ("text/html,", 0.0),
        (", ,application/json , ,", 1.0),
        (",", 0.0),
    ],
)
def test_the_most_specific_range_decides(header, expected):
    assert quality(JSON, header) == expected


@pytest.mark.parametrize("header", ["json", "application/", "/json", "application/json;q=2", "a b", ";", "a/b;c"])
def test_a_malformed_header_admits_everything(header):
    assert (quality(JSON, header), quality(HTML, header)) == (1.0, 1.0)
