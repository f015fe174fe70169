"""The docs are written in plain English: short sentences in the usual words (`python -m scripts.language`)."""

import json
import re
from pathlib import Path

import pytest

from scripts import language, reference


@pytest.mark.parametrize("page", language.pages(), ids=lambda page: page.name)
def test_a_page_uses_the_usual_words(page: Path) -> None:
    assert language.hits(page.read_text()) == []


@pytest.mark.parametrize("page", language.pages(), ids=lambda page: page.name)
def test_the_sentences_of_a_page_are_short(page: Path) -> None:
    text = page.read_text()
    assert language.quantile(language.lengths(text), 0.5) <= language.MEDIAN
    assert [each for each in language.sentences(text) if language.word_count(each) > language.LONGEST] == []


VERBS = {"Check", "Claim", "Create", "Delete", "Explain", "List", "Move", "Replace", "Show", "Update"}


def test_each_summary_is_a_verb_and_a_noun() -> None:
    """As "List resource providers": no sentence, and no pronoun in place of the noun."""
    described = json.loads((language.ROOT / "docs" / "openapi.json").read_text())
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
        assert language.hits(summary) == []


def test_messages_and_help_use_the_usual_words() -> None:
    """Every text of the program but docstrings: errors, log lines, help of options and commands."""
    unusual = {
        f"{file}:{line}": language.hits(text)
        for file in sorted((language.ROOT / "src").rglob("*.py"))
        for line, text in language.messages(file)
        if text not in language.MATCHED and language.hits(text)
    }
    assert unusual == {}


def test_docstrings_and_comments_use_the_usual_words() -> None:
    source = language.ROOT / "src" / "stead"
    unusual = {
        f"{file}:{line}": language.unusual_words(text)
        for file in sorted(source.rglob("*.py"))
        for line, text in language.remarks(file)
        if language.unusual_words(text)
    }
    assert unusual == {}


def test_benchmarks_use_the_usual_words() -> None:
    """Their help and messages, docstrings and comments."""
    words_by_place = {}
    for file in sorted((language.ROOT / "bench").rglob("*.py")):
        words_by_place |= {f"{file}:{line}": language.hits(text) for line, text in language.messages(file)}
        words_by_place |= {
            f"{file}:{line} remark": language.unusual_words(text) for line, text in language.remarks(file)
        }
    assert len(words_by_place) > 500
    assert {place: words for place, words in words_by_place.items() if words} == {}


def test_samples_use_the_usual_words() -> None:
    words_by_place = {
        f"{file}:{line}": language.unusual_words(text)
        for file in language.samples()
        for line, text in language.paragraphs(file.read_text())
    }
    assert len(words_by_place) > 50
    assert {place: words for place, words in words_by_place.items() if words} == {}


def test_the_targets_of_make_use_the_usual_words() -> None:
    described = language.targets((language.ROOT / "Makefile").read_text())
    assert len(described) > 20
    for line, text in described:
        assert language.hits(text) == [], line


@pytest.mark.parametrize("file", ["pyproject.toml", "bench/pyproject.toml"])
def test_the_names_of_contracts_use_the_usual_words(file: str) -> None:
    names = language.contracts((language.ROOT / file).read_text())
    assert len(names) > 1
    for name in names:
        assert language.hits(name) == []
        assert not re.search(r"\bknows?\b", name), name


def test_texts_of_targets_contracts_and_samples_are_found() -> None:
    assert language.targets(".PHONY: all\n# x: ## no\nall: .venv/x  ## Make anew\n\techo ## no\n") == [(3, "Make anew")]
    project = """
[[tool.importlinter.contracts]]
name = "Who watches knows nobody"
[[tool.importlinter.contracts]]
name = "Imports go down the house"
"""
    assert [language.hits(name) for name in language.contracts(project)] == [["nobody", "Who"], ["house"]]
    sample = "port = 1\n\n# It is kept for so\n# many seconds.\nuser = x\n  ; Nobody's\n"
    assert language.paragraphs(sample) == [
        (1, "port = 1"),
        (3, "It is kept for so many seconds. user = x Nobody's"),
    ]
    assert [language.unusual_words(text) for _, text in language.paragraphs(sample)] == [[], ["so many", "Nobody"]]


def test_docstrings_and_comments_are_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""nobody"""\nx = "once more"  # it can\n# not\ny = 1\n"""anew"""\n# some\n')
    assert sorted(language.remarks(module)) == [(1, "nobody"), (2, "it can not"), (5, "anew"), (6, "some")]


def test_messages_are_found_and_docstrings_are_not(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('"""nobody"""\nraise ValueError(f"{name} can not\\nbe")\nhelp = "once more"\n')
    assert sorted(language.messages(module)) == [(2, "… can not\nbe"), (3, "once more")]


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
    assert language.hits("Others\nwere faster. It is not able to. It is faster.") == [
        "were faster",
        "is not able to",
        "Others",
    ]
