"""The docs are written in plain English: short sentences in the usual words (`python -m scripts.language`)."""

from pathlib import Path

import pytest

from scripts import language

NOT_YET: set[str] = set()
"""Pages that are not rewritten yet. The list only shrinks."""


def pages() -> list[Path]:
    return [page for page in language.pages() if str(page.relative_to(language.ROOT)) not in NOT_YET]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_page_uses_the_usual_words(page: Path) -> None:
    assert language.hits(page.read_text()) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_sentences_of_a_page_are_short(page: Path) -> None:
    lengths = language.lengths(page.read_text())
    assert language.quantile(lengths, 0.5) <= language.MEDIAN
    assert language.quantile(lengths, 0.9) <= language.NINETIETH


def test_a_page_that_waits_exists() -> None:
    assert {name for name in NOT_YET if not (language.ROOT / name).exists()} == set()


def test_a_sentence_ends_where_a_reader_sees_its_end() -> None:
    text = """# A heading of words

A first `a.b. C` sentence, with [a link](a.b.md). A second
one: over two lines. 3 more words

* an item. Another
| cell | A whole sentence. |

```
Not. A. Sentence.
```
"""
    assert language.sentences(text) == [
        "A first Code sentence, with a link.", "A second one: over two lines.", "3 more words", "an item.", "Another",
        "A whole sentence.",
    ]  # fmt: skip
    assert language.lengths(text) == [1, 2, 3, 3, 6, 7]


def test_words_that_a_reader_must_translate_are_found() -> None:
    assert language.hits("It can\nnot be. `nobody` has it anew. What is it? In others of `Who x`.") == [
        "can not",
        "anew",
    ]
    assert language.hits("Who asks gets it. Others do. It says: What it takes counts.") == ["Who", "Others", "What"]
