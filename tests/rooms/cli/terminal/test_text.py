"""Styled text behaves as Rich's, which draws it in what moves."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len as cells_of_rich
from rich.console import Console

from stead.cli.text import Text, cell_len, has_colors

pieces = st.lists(st.tuples(st.text(max_size=5), st.sampled_from(["", "bold", "red", "bold green", "dim"])), max_size=4)


@given(pieces, st.integers(-25, 25), st.integers(-25, 25))
def test_a_slice_has_the_characters_of_a_slice(parts, start, stop):
    text = Text.assemble(*parts)
    assert text[start:stop].plain == text.plain[start:stop]
    assert len(text) == len(text.plain)
    assert bool(text) == bool(text.plain)


@given(pieces, pieces)
def test_a_sum_keeps_its_parts_as_they_were(one, other):
    left, right = Text.assemble(*one), Text.assemble(*other)
    both = left + right
    assert both.plain == left.plain + right.plain
    assert both.colored() == left.colored() + right.colored()
    both.rstrip()
    assert both.plain == (left.plain + right.plain).rstrip()


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs", "Mn"])))
def test_cells_are_counted_as_rich_counts_them(text):
    assert cell_len(text) == cells_of_rich(text)


def test_colors_are_those_of_rich():
    title = Text("gpu", style="bold")
    title.append(" 1", style="red")
    title += Text(" dim", style="not bold")
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    console.print(title, end="")
    assert console.file.getvalue() == title.colored() == "\x1b[1mgpu\x1b[0m\x1b[1;31m 1\x1b[0m dim"


@pytest.mark.parametrize(
    ("environ", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False),
    ],
)
def test_the_environment_says_whether_there_are_colors(environ, colored, monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert has_colors(io.StringIO()) == colored
